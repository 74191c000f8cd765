"""Accuracy and loss of every seed of a crowd, per split and length.

Example:
    >>> import torch
    >>> from ctlpp.models.lstm import BiLSTM
    >>> from ctlpp.training.crowd import init_crowd
    >>> crowd = init_crowd(lambda v, c: BiLSTM(v, c, width=8), 41, 8, seeds=[3, 4])
    >>> split = {2: (torch.zeros(10, 4, dtype=torch.int64), torch.arange(10) % 8)}
    >>> [(score.seed, score.split, score.length) for score in evaluate(crowd, {"iid": split})]
    [(3, 'iid', 0), (4, 'iid', 0), (3, 'iid', 2), (4, 'iid', 2)]
    >>> accuracy(crowd.member(3), {"train": split, "iid": split})["iid"].keys()
    dict_keys([0, 2])
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ctlpp.files import UserError
from ctlpp.runs.history import Score
from ctlpp.training.batches import Split, read_data
from ctlpp.training.crowd import Crowd, Streams
from ctlpp.training.engine import Replays
from ctlpp.training.step import Loss


class _Count(nn.Module):
    """Right answers and summed loss of one seed on one batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.loss = Loss(model)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:  # (B, T), (B,) -> (2,)
        logits = self.loss.model(tokens)
        known = logits.amax(-1).isfinite()  # what is no number is no answer
        right = ((logits.argmax(-1) == targets) & known).sum()
        return torch.stack([right.double(), self.loss.of_logits(logits, targets).double() * len(targets)])


@dataclass
class Tally:
    """Adds up right answers and losses over batches of examples; on CUDA by replaying graphs."""

    crowd: Crowd
    group: int  # seeds at a time
    bf16: bool
    total: Tensor  # right answers and summed losses, (S, 2) float64
    replays: Replays | None

    @staticmethod
    def of(crowd: Crowd, group: int = 0, bf16: bool = False) -> "Tally":
        """group: seeds at a time, 0 for all."""
        group = (group or len(crowd.seeds)) if crowd.vectorised else 1
        total = torch.zeros(len(crowd.seeds), 2, dtype=torch.float64, device=crowd.device)
        return Tally(crowd, group, bf16, total, Replays() if crowd.device.type == "cuda" else None)

    def over(self, tokens: Tensor, targets: Tensor, batch: int) -> Tensor:
        """The sums over some examples of one length, (S, 2)."""
        self.total.zero_()
        for part in zip(torch.split(tokens, batch), torch.split(targets, batch), strict=True):
            on_device = [tensor.to(self.crowd.device) for tensor in part]
            if self.replays is None or not self.replays.run(self._add, *on_device):
                self._add(*on_device)
        return self.total.clone()

    def _add(self, tokens: Tensor, targets: Tensor) -> None:
        for first in range(0, len(self.crowd.seeds), self.group):
            some = slice(first, first + self.group)
            with torch.autocast(self.crowd.device.type, torch.bfloat16, enabled=self.bf16):
                self.total[some] += _counts(self.crowd, some, tokens, targets)


@torch.no_grad()
def evaluate(
    crowd: Crowd, splits: Mapping[str, Split], *, batch: int = 1024, tally: Tally | None = None
) -> list[Score]:
    """Scores of all seeds: for each split all lengths together (length 0), then each length.

    batch: examples at a time; tally: to be kept by whoever evaluates often. No dropout, no gradient.
    """
    crowd.module.eval()
    tally = tally or Tally.of(crowd)
    scores = []
    for name, split in splits.items():
        lengths = [length for length in sorted(split) if len(split[length][1])]
        if not lengths:
            raise UserError(f"split {name!r} is empty: nothing to evaluate")
        sums = torch.stack([tally.over(*split[length], batch) for length in lengths])  # (lengths, S, 2)
        sizes = torch.tensor([len(split[length][1]) for length in lengths], dtype=torch.float64)
        sums = torch.cat([sums.sum(0, keepdim=True), sums]).cpu()
        means = sums / torch.cat([sizes.sum()[None], sizes])[:, None, None]
        for length, of_length in zip([0, *lengths], means.tolist(), strict=True):
            for seed, (accuracy, loss) in zip(crowd.seeds, of_length, strict=True):
                scores.append(Score(seed, name, length, accuracy, loss))
    return scores


def _counts(crowd: Crowd, group: slice, tokens: Tensor, targets: Tensor) -> Tensor:
    count = _Count(crowd.module)
    no_key = torch.zeros((), dtype=torch.int64, device=crowd.device)  # nothing is drawn in evaluation mode

    def of_one(state: dict[str, Tensor]) -> Tensor:
        with Streams(no_key):
            counts: Tensor = functional_call(count, state, (tokens, targets))
        return counts

    state = {f"loss.model.{name}": tensor for name, tensor in crowd.state(group).items()}
    if crowd.vectorised and len(crowd.seeds[group]) > 1:
        return vmap(of_one, randomness="error")(state)
    return torch.stack([of_one({n: t[i] for n, t in state.items()}) for i in range(len(crowd.seeds[group]))])


@torch.no_grad()
def accuracy(
    model: Callable[[Tensor], Tensor], data: Any, splits: Sequence[str] | None = None, *, batch: int = 1024
) -> dict[str, dict[int, float]]:
    """The share of right answers on each split, by length; length 0 stands for the whole split.

    model: any callable, tokens (B, T) int64 -> logits (B, C); a module is put into evaluation mode meanwhile.
    data: a dataset, or {name: {length: (tokens, targets)}}. splits: by default iid and ood.
    """
    known = read_data(data, splits)
    training = isinstance(model, nn.Module) and model.training
    if isinstance(model, nn.Module):
        model.eval()
    try:
        splits = known.held_out
        return {name: _by_length(model, known.splits[name], known.n_classes, batch) for name in splits}
    finally:
        if isinstance(model, nn.Module):
            model.train(training)


def _by_length(
    model: Callable[[Tensor], Tensor], split: Split, n_classes: int, batch: int
) -> dict[int, float]:
    right: dict[int, Tensor] = {}
    for length, (tokens, targets) in split.items():
        if len(targets):
            batches = zip(torch.split(tokens, batch), torch.split(targets, batch), strict=True)
            right[length] = torch.cat([_right(model, *part, n_classes) for part in batches])
    whole = torch.cat(list(right.values())).mean().item()
    return {0: whole} | {length: answers.mean().item() for length, answers in right.items()}


def _right(model: Callable[[Tensor], Tensor], tokens: Tensor, targets: Tensor, n_classes: int) -> Tensor:
    """1.0 for each right answer, (B,)"""
    logits, shape = model(tokens), (len(tokens), n_classes)
    if not isinstance(logits, Tensor) or logits.shape != shape:
        found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        wrong = f"the model returns {found} for tokens of shape {tuple(tokens.shape)}"
        raise UserError(f"{wrong}; it should return logits of shape {shape}")
    return (logits.argmax(-1).cpu() == targets).double()
