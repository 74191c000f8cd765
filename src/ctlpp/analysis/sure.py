"""Answers from a cheap draft of the logits, made sure where the draft may be wrong.

A draft errs by a little in every logit, so its answer can be wrong only where the best class leads by little. Answers
with a small lead are computed in full, which also tells how much the draft errs; the others are left as drafted. This
is no proof: an error larger than any seen before can go unnoticed where the lead is large.

Example:
    >>> import torch
    >>> true = torch.tensor([[5.0, 0.0], [0.5, 0.4], [9.0, 0.0]])
    >>> draft = true + torch.tensor([-0.1, 0.1])
    >>> draft.argmax(-1), Sure().answers(draft, in_full=lambda rows: true[rows])
    (tensor([0, 1, 0]), tensor([0, 0, 0]))
"""

from collections.abc import Callable
from math import inf, isfinite

from torch import Tensor

FIRST = 16  # the least sure rows of the first batch: they tell how large errors are
SAFE = 2  # a lead more than so many times as large as any error seen so far is taken to be right


class Sure:
    """Answers of a model by way of its drafts, batch after batch."""

    def __init__(self) -> None:
        self.error: float | None = None  # the most by which a lead was wrong so far

    def answers(self, draft: Tensor, in_full: Callable[[Tensor], Tensor]) -> Tensor:
        """The class of every row. draft: logits, (B, C); in_full: those of some rows, (R,) -> (R, C). Returns (B,)"""
        best = draft.topk(2).values
        lead, order = (best[:, 0] - best[:, 1]).nan_to_num(nan=-inf).sort()
        answers, checked = draft.argmax(-1), 0
        while unsure := self.unsure(lead[checked:]):
            rows = order[checked : checked + unsure]
            logits = in_full(rows)
            wrong = logits - draft[rows]
            error = (wrong.amax(-1) - wrong.amin(-1)).max().item()
            self.error = max(self.error or 0.0, error if isfinite(error) else inf)
            answers[rows] = logits.argmax(-1)
            checked += unsure
        return answers

    def unsure(self, lead: Tensor) -> int:
        """How many of these leads, smallest first, are not safe."""
        if self.error is None:
            return min(FIRST, len(lead))
        return len(lead) - int((lead > SAFE * self.error).sum())
