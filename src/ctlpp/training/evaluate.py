"""Accuracy and loss of every seed of a crowd, per split and length.

Example:
    >>> import torch
    >>> from ctlpp.models.lstm import BiLSTM
    >>> from ctlpp.training.crowd import gather
    >>> crowd = gather(lambda v, c: BiLSTM(v, c, width=8), 41, 8, seeds=[3, 4])
    >>> split = {2: (torch.zeros(10, 4, dtype=torch.int64), torch.zeros(10, dtype=torch.int64))}
    >>> [(score.seed, score.split, score.length) for score in evaluate(crowd, {"iid": split})]
    [(3, 'iid', 0), (4, 'iid', 0), (3, 'iid', 2), (4, 'iid', 2)]
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ctlpp.training.batches import Split
from ctlpp.training.crowd import Crowd
from ctlpp.training.step import Loss
from ctlpp.training.streams import Streams


@dataclass(frozen=True)
class Score:
    """What one seed reaches on the examples of one length, or on all of a split (length 0)."""

    seed: int
    split: str
    length: int
    accuracy: float
    loss: float


class _Count(nn.Module):
    """Right answers and summed loss of one seed on one batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.loss = Loss(model)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:  # (B, T), (B,) -> (2,)
        logits = self.loss.model(tokens)
        right = (logits.argmax(-1) == targets).sum()
        return torch.stack([right.double(), self.loss.of_logits(logits, targets).double() * len(targets)])


@torch.no_grad()
def evaluate(
    crowd: Crowd, splits: Mapping[str, Split], *, group: int = 0, batch: int = 1024, bf16: bool = False
) -> list[Score]:
    """Scores of all seeds: for each split all lengths together (length 0), then each length.

    group: seeds at a time (0 for all); batch: examples at a time. No dropout, no gradient.
    """
    crowd.module.eval()
    scores = []
    for name, split in splits.items():
        lengths = [length for length in sorted(split) if len(split[length][1])]
        if not lengths:
            raise ValueError(f"split {name!r} is empty: nothing to evaluate")
        sums = torch.stack([_sums(crowd, *split[length], group, batch, bf16) for length in lengths])  # (lengths, S, 2)
        sizes = torch.tensor([len(split[length][1]) for length in lengths], dtype=torch.float64)
        sums = torch.cat([sums.sum(0, keepdim=True), sums]).cpu()
        means = sums / torch.cat([sizes.sum()[None], sizes])[:, None, None]
        for length, of_length in zip([0, *lengths], means.tolist(), strict=True):
            scores += [Score(seed, name, length, *pair) for seed, pair in zip(crowd.seeds, of_length, strict=True)]
    return scores


def _sums(crowd: Crowd, tokens: Tensor, targets: Tensor, group: int, batch: int, bf16: bool) -> Tensor:
    """Right answers and summed loss of every seed on a split's examples of one length, (S, 2) float64."""
    group = (group or len(crowd.seeds)) if crowd.vectorised else 1
    total = torch.zeros(len(crowd.seeds), 2, dtype=torch.float64, device=crowd.device)
    for start in range(0, len(targets), batch):
        part = tokens[start : start + batch].to(crowd.device), targets[start : start + batch].to(crowd.device)
        for first in range(0, len(crowd.seeds), group):
            some = slice(first, first + group)
            with torch.autocast(crowd.device.type, torch.bfloat16, enabled=bf16):
                total[some] += _counts(crowd, some, *part)
    return total


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
