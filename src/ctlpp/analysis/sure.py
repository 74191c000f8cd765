"""Logits from a cheap draft, made sure where the draft may name a wrong class.

A draft errs by a little in every logit, so its class can be wrong only where the best one leads by little. Rows with a
small lead are computed in full, which also tells how much the draft errs; the others are left as drafted. This is no
proof: an error larger than any seen before can go unnoticed where the lead is large.

Example:
    >>> import torch
    >>> true = torch.tensor([[5.0, 0.0], [0.5, 0.4], [9.0, 0.0]])
    >>> draft = true + torch.tensor([-0.1, 0.1])
    >>> draft.argmax(-1), Sure().logits(draft, in_full=lambda rows: true[rows]).argmax(-1)
    (tensor([0, 1, 0]), tensor([0, 0, 0]))
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

from torch import Tensor

FIRST = 16  # the least sure rows of the first batch: they tell how large errors are
SAFE = 2  # a lead more than so many times as large as any error seen so far is taken to be right


class Sure:
    """Logits of a model by way of its drafts, batch after batch. finer: what made the logits sure that count as full"""

    def __init__(self, finer: Sure | None = None) -> None:
        self.seen: float | None = None  # the most by which a lead was wrong so far
        self.rows = self.in_full = 0  # how many there were, and how many of them were computed in full
        self.finer = finer

    @property
    def error(self) -> float:
        """The most by which a lead is wrong, as far as is known."""
        return (self.seen or 0.0) + (self.finer.error if self.finer is not None else 0.0)

    def pays(self, share: float) -> bool:
        """Whether at most this share of the rows had to be computed in full, as far as is known."""
        return self.rows < FIRST or self.in_full <= share * self.rows

    def logits(self, draft: Tensor, in_full: Callable[[Tensor], Tensor]) -> Tensor:
        """The draft, (B, C), with rows in full where its class is not sure. in_full: some rows, (R,) -> (R, C)"""
        best = draft.topk(2).values
        lead, order = (best[:, 0] - best[:, 1]).nan_to_num(nan=-inf).sort()
        logits, checked = draft.clone(), 0
        while unsure := self.unsure(lead[checked:]):
            rows = order[checked : checked + unsure]
            logits[rows] = in_full(rows)
            wrong = logits[rows] - draft[rows]
            error = (wrong.amax(-1) - wrong.amin(-1)).max().item()
            self.seen = max(self.seen or 0.0, error if isfinite(error) else inf)
            checked += unsure
        self.rows, self.in_full = self.rows + len(draft), self.in_full + checked
        return logits

    def unsure(self, lead: Tensor) -> int:
        """How many of these leads, smallest first, are not safe."""
        if self.seen is None:
            return min(FIRST, len(lead))
        return len(lead) - int((lead > SAFE * self.error).sum())
