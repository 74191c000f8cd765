"""A crowd: the weights of many seeds of one module, stacked along a leading axis S.

All parameters of a seed lie in one row of one matrix, `weights` (S, P). Each parameter is a view of some
columns, so that clipping and the optimiser are a handful of operations on (S, P), whatever the module is.

Example:
    >>> class Bag(nn.Module):
    ...     def __init__(self, vocab_size, n_classes):
    ...         super().__init__()
    ...         self.embed = nn.Embedding(vocab_size, n_classes)
    ...     def forward(self, tokens):
    ...         return self.embed(tokens).sum(1)
    >>> crowd = init_crowd(Bag, vocab_size=5, n_classes=3, seeds=[0, 7])
    >>> crowd.weights.shape, crowd.parameters()["embed.weight"].shape
    (torch.Size([2, 16]), torch.Size([2, 5, 3]))
    >>> bool((crowd.member(7).embed.weight == crowd.parameters()["embed.weight"][1]).all())
    True
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from ctlpp.files import UserError
from ctlpp.models.zoo import Factory, make_model
from ctlpp.training.streams import seed_keys

_ALIGN = 16  # columns: every parameter starts at a multiple of 64 bytes
_WEIGHTS, DROPOUT, BATCHES = range(3)  # what a seed's streams are for


@dataclass(frozen=True)
class ParamSlice:
    """The columns of a parameter."""

    start: int
    shape: torch.Size

    @property
    def end(self) -> int:
        return self.start + prod(self.shape)


@dataclass
class Crowd:
    """Seeds of one module, trained or to be trained together."""

    module: nn.Module  # one seed's module; its own parameters are not used
    seeds: tuple[int, ...]
    slices: dict[str, ParamSlice]  # by parameter name
    weights: Tensor  # (S, P)
    seed_buffers: dict[str, Tensor]  # what belongs to a seed but is not trained: (S, …) by name
    vectorised: bool = True  # False: the module runs for one seed at a time
    kernels: bool = True  # False: the fast paths of `ctlpp.kernels` are left alone

    @property
    def n_parameters(self) -> int:
        """Trainable parameters of one seed."""
        return sum(prod(at.shape) for at in self.slices.values())

    @property
    def device(self) -> torch.device:
        return self.weights.device

    def parameters(self, group: slice = slice(None)) -> dict[str, Tensor]:
        """Views of the stacked parameters of some seeds, by name: (S, …) each."""
        return self.views(self.weights[group])

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """The parameters' columns of weights, gradients or the like, (S, P), by name: (S, …) each."""
        slices = self.slices.items()
        return {name: rows[:, at.start : at.end].view(len(rows), *at.shape) for name, at in slices}

    def state(self, group: slice = slice(None)) -> dict[str, Tensor]:
        """Parameters and buffers of some seeds, stacked: all that tells one seed from another."""
        return self.parameters(group) | {name: buffer[group] for name, buffer in self.seed_buffers.items()}

    def member(self, seed: int) -> nn.Module:
        """An ordinary module with the weights of one seed, in evaluation mode."""
        if seed not in self.seeds:
            raise UserError(f"no seed {seed} in this crowd: choose from {', '.join(map(str, self.seeds))}")
        i = self.seeds.index(seed)
        module = deepcopy(self.module).eval()
        own = {name: tensor[0] for name, tensor in self.state(slice(i, i + 1)).items()}
        with torch.no_grad():
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                if name in own:
                    tensor.copy_(own[name])
        return module

    def to_tensors(self) -> dict[str, Tensor]:
        """For a checkpoint, which calls the seeds' buffers `extras`."""
        buffers = {f"extras.{name}": buffer for name, buffer in self.seed_buffers.items()}
        return {"weights": self.weights, **buffers}

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the weights and buffers of a checkpoint of the same seeds and module."""
        if tensors["weights"].shape != self.weights.shape:
            raise UserError("the checkpoint is of another model: its weights have another shape")
        self.weights.copy_(tensors["weights"])
        for name, tensor in tensors.items():
            if name.startswith("extras."):
                self.seed_buffers[name.removeprefix("extras.")] = tensor.to(self.device)

    def set_progress(self, progress: float) -> None:
        """Tell the module how much of the training is over, if it has a buffer called `progress`."""
        for name, buffer in self.module.named_buffers():
            if name.rpartition(".")[2] == "progress":
                buffer.fill_(progress)


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Seed every generator a module's constructor may use, and leave them as they were."""
    key = int(seed_keys([seed], purpose=_WEIGHTS)[0])
    python = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key)
        random.seed(key)
        try:
            yield
        finally:
            random.setstate(python)


def init_crowd(
    factory: Factory,
    vocab_size: int,
    n_classes: int,
    seeds: Sequence[int],
    device: torch.device | str = "cpu",
    name: str | None = None,
) -> Crowd:
    """A fresh crowd: the factory is called once per seed, each time with that seed's random numbers."""
    check_seeds(seeds)
    modules: list[nn.Module] = []
    for seed in seeds:
        with drawn_from(seed):  # one trial stands for all
            modules.append(make_model(factory, vocab_size, n_classes, name, trial=not modules))
    slices, columns = {}, 0
    for parameter_name, parameter in modules[0].named_parameters():
        if parameter.requires_grad:
            slices[parameter_name] = ParamSlice(columns, parameter.shape)
            columns += -(-parameter.numel() // _ALIGN) * _ALIGN
    if not slices:
        raise UserError(f"model {name or type(modules[0]).__name__}: it has no trainable parameters")
    weights = torch.zeros(len(seeds), columns)
    for row, module in zip(weights, modules, strict=True):
        parameters = dict(module.named_parameters())
        for parameter_name, at in slices.items():
            row[at.start : at.end] = parameters[parameter_name].detach().float().flatten()
    buffers = {key: stack.to(device) for key, stack in _differing(modules, set(slices)).items()}
    module = modules[0].to(device).requires_grad_(False)
    return Crowd(module, tuple(seeds), slices, weights.to(device), buffers)


def _differing(modules: list[nn.Module], trained: set[str]) -> dict[str, Tensor]:
    """Frozen parameters and buffers that are not the same for all seeds, stacked."""
    others = [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in modules]
    names = [name for name in others[0] if name not in trained]
    stacks = {name: torch.stack([other[name].detach() for other in others]) for name in names}
    return {name: stack for name, stack in stacks.items() if not bool((stack == stack[:1]).all())}


def check_seeds(seeds: Sequence[int]) -> None:
    """Seeds are distinct whole numbers, at least one of them."""
    if len(seeds) == 0:
        raise UserError("no seeds: give at least one")
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise UserError(f"seed {seed!r}: must be a whole number from 0 to {2**32 - 1}")
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise UserError(f"seed {twice} is given twice: every seed once")
