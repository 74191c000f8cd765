"""Optimisers of your own: whatever is called like those of `torch.optim`, for each seed by itself.

Where an update treats every weight by itself (SGD, RMSprop, Adagrad, …), one optimiser moves the stacked
weights of all seeds; otherwise there is one per seed. A trial decides which.

Example:
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> crowd = init_crowd(lambda *shape: build("gru", *shape, preset="quick"), 5, 3, seeds=[0, 1])
    >>> OwnOptimizer(crowd, torch.optim.SGD, lr=0.1), OwnOptimizer(crowd, torch.optim.Adafactor, lr=0.1)
    (<SGD, together>, <Adafactor, seed by seed>)
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ctlpp.files import UserError
from ctlpp.models.zoo import error_line
from ctlpp.training.crowd import Crowd

Make = Callable[..., torch.optim.Optimizer]  # (parameters, lr=…) -> optimiser
_TRIED = 3  # steps


class OwnOptimizer:
    """Moves the weights of a crowd along `gradient`, (S, P)."""

    def __init__(self, crowd: Crowd, make: Make, lr: float) -> None:
        self.weights, self.gradient, self.lr = crowd.weights, torch.zeros_like(crowd.weights), lr
        self.before = torch.empty_like(crowd.weights)
        self.together = _treats_every_weight_by_itself(crowd, make, lr)
        self.optimizers = _connect(crowd, self.weights, self.gradient, make, lr, self.together)
        for group in self._groups():
            group["initial_lr"] = group["lr"]

    def __repr__(self) -> str:
        return f"<{type(self.optimizers[0]).__name__}, {'together' if self.together else 'seed by seed'}>"

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.optimizers:
            yield from optimizer.param_groups

    @torch.no_grad()
    def step(self, rate: float, diverged: Tensor) -> None:
        """One step of all seeds but those that have diverged, (S,): not -1. rate: of the recipe."""
        self.before.copy_(self.weights)
        for group in self._groups():
            group["lr"] = group["initial_lr"] * rate / self.lr
        for optimizer in self.optimizers:
            optimizer.step()
        self.weights.copy_(torch.where((diverged >= 0)[:, None], self.before, self.weights))

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything that the optimisers remember, for a checkpoint."""
        found = {}
        for i, optimizer in enumerate(self.optimizers):
            about = optimizer.state_dict()
            for j, memory in about["state"].items():
                for key, value in memory.items():
                    if isinstance(value, Tensor):
                        found[f"optimizer.state.{i}.{j}.{key}"] = value
                    elif isinstance(value, int | float):
                        found[f"optimizer.numbers.{i}.{j}.{key}"] = _number_tensor(value)
                    elif value is not None:
                        kind = type(value).__name__
                        raise UserError(f"the optimiser {self} keeps a {kind}, which no checkpoint can hold")
            for j, group in enumerate(about["param_groups"]):
                numbers = {key: value for key, value in group.items() if type(value) in (int, float)}
                found |= {f"optimizer.groups.{i}.{j}.{key}": _number_tensor(n) for key, n in numbers.items()}
        return found

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what the optimisers of a checkpoint remembered."""
        every = [optimizer.state_dict() | {"state": {}} for optimizer in self.optimizers]
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, kind, i, j, key = name.split(".", 4)
                if kind == "groups":
                    every[int(i)]["param_groups"][int(j)][key] = tensor.item()
                else:
                    memory = every[int(i)]["state"].setdefault(int(j), {})
                    memory[key] = tensor if kind == "state" else tensor.item()
        for optimizer, about in zip(self.optimizers, every, strict=True):
            optimizer.load_state_dict(about)


def _number_tensor(number: float) -> Tensor:
    """A Python number with all its digits."""
    return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else torch.int64)


def _connect(
    crowd: Crowd, weights: Tensor, gradient: Tensor, make: Make, lr: float, together: bool
) -> list[torch.optim.Optimizer]:
    """Optimisers of weights and gradients, (S, P) each: one for all seeds stacked, or one for each seed."""
    optimizers = []
    for row in [slice(None)] if together else [slice(i, i + 1) for i in range(len(weights))]:
        parameters = []
        for views in zip(*(crowd.views(matrix[row]).values() for matrix in (weights, gradient)), strict=True):
            own, slope = views if together else (view[0] for view in views)
            parameters.append(nn.Parameter(own))
            parameters[-1].grad = slope
        optimizers.append(make(parameters, lr=lr))
        if not isinstance(optimizers[-1], torch.optim.Optimizer):
            raise TypeError(f"it gives a {type(optimizers[-1]).__name__}, not a torch.optim.Optimizer")
    return optimizers


@torch.no_grad()
def _treats_every_weight_by_itself(crowd: Crowd, make: Make, lr: float) -> bool:
    """Whether stacked seeds move like single ones: some steps of two seeds whose gradients differ in size."""
    drawn = torch.Generator().manual_seed(0)
    shape = 2, crowd.weights.shape[1]
    begin, size = torch.randn(shape, generator=drawn), torch.tensor([[1.0], [100.0]])
    slopes = [torch.randn(shape, generator=drawn) * size for _ in range(_TRIED)]
    ends = []
    for together in (False, True):
        weights, gradient = begin.to(crowd.device, copy=True), torch.zeros(shape, device=crowd.device)
        try:
            optimizers = _connect(crowd, weights, gradient, make, lr, together)
            for slope in slopes:
                gradient.copy_(slope)
                for optimizer in optimizers:
                    optimizer.step()
        except Exception as error:
            if together:
                return False
            raise UserError(f"the optimiser failed in a first step: {error_line(error)}") from error
        ends.append(weights)
    return torch.allclose(ends[0], ends[1], rtol=1e-5, atol=1e-7)
