"""Accuracy of anything that turns tokens into logits.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    >>> always_the_first = lambda tokens: torch.tensor([1.0, 0, 0, 0]).expand(len(tokens), 4)
    >>> sorted(accuracy(always_the_first, data, ["ood"])["ood"])  # 0 stands for all lengths together
    [0, 2, 3]
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ctlpp.files import UserError
from ctlpp.training.inputs import read_data


@torch.no_grad()
def accuracy(
    model: Callable[[Tensor], Tensor], data: Any, splits: Sequence[str] | None = None, *, batch: int = 1024
) -> dict[str, dict[int, float]]:
    """The share of right answers on each split, by length; length 0 stands for the whole split.

    model: any callable, tokens (B, T) int64 -> logits (B, C); a module is put into evaluation mode meanwhile.
    data: a dataset, or {name: {length: (tokens, targets)}}. splits: by default iid and ood. batch: examples at a time.
    """
    known = read_data(data, splits)
    training = isinstance(model, nn.Module) and model.training
    if isinstance(model, nn.Module):
        model.eval()
    try:
        return {
            name: _by_length(model, known.splits[name], known.n_classes, batch) for name in known.held_out
        }
    finally:
        if isinstance(model, nn.Module):
            model.train(training)


def _by_length(
    model: Callable[[Tensor], Tensor], split: dict[int, tuple[Tensor, Tensor]], n_classes: int, batch: int
) -> dict[int, float]:
    right: dict[int, Tensor] = {}
    for length, (tokens, targets) in split.items():
        parts = []
        for start in range(0, len(targets), batch):
            some = tokens[start : start + batch]
            logits = model(some)
            if not isinstance(logits, Tensor) or logits.shape != (len(some), n_classes):
                found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
                raise UserError(
                    f"the model returns {found} for tokens of shape {tuple(some.shape)};"
                    f" it should return logits of shape {(len(some), n_classes)}"
                )
            parts.append(logits.argmax(-1).cpu() == targets[start : start + batch])
        if parts:
            right[length] = torch.cat(parts)
    whole = torch.cat(list(right.values())).double().mean().item()
    return {0: whole} | {length: answers.double().mean().item() for length, answers in right.items()}
