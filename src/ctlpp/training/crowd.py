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

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ctlpp.files import UserError
from ctlpp.kernels import fast
from ctlpp.models.zoo import Factory, make_model
from ctlpp.training.streams import Streams, drawn_from
from ctlpp.words import GREATEST_SEED, plain

_ALIGN = 16  # columns: every parameter starts at a multiple of 64 bytes


@dataclass
class Crowd:
    """Seeds of one module, trained or to be trained together."""

    module: nn.Module  # one seed's module; its own parameters are not used
    seeds: tuple[int, ...]
    slices: dict[str, tuple[int, torch.Size]]  # first column and shape of each parameter
    weights: Tensor  # (S, P)
    seed_buffers: dict[str, Tensor]  # what belongs to a seed but is not trained: (S, …) by name
    vectorised: bool = True  # False: the module runs for one seed at a time
    kernels: bool = False  # whether the fast paths of `ctlpp.kernels` may be taken

    @property
    def device(self) -> torch.device:
        return self.weights.device

    @property
    def sum_dtype(self) -> torch.dtype:
        """Of sums over many examples or steps: what has the most digits on the device."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    def parameters(self, group: slice = slice(None)) -> dict[str, Tensor]:
        """Views of the stacked parameters of some seeds, by name: (S, …) each."""
        return self.views(self.weights[group])

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """The parameters' columns of weights, gradients or the like, (S, P), by name: (S, …) each."""
        return {
            name: rows[:, start : start + shape.numel()].view(len(rows), *shape)
            for name, (start, shape) in self.slices.items()
        }

    def state(self, group: slice = slice(None)) -> dict[str, Tensor]:
        """Parameters and buffers of some seeds, stacked: all that tells one seed from another."""
        return self.parameters(group) | {name: buffer[group] for name, buffer in self.seed_buffers.items()}

    def call(self, module: nn.Module, state: dict[str, Tensor], keys: Tensor, *inputs: Tensor) -> Tensor:
        """Run a module that has ours as its `model` for some seeds; returns (S, …).

        state: (S, …) each; keys: of the streams, (S,); inputs: tokens and targets for all seeds, (B, T) and
        (B,), or with a seed axis. If our module cannot be vectorised, one seed after the other.
        """

        def of_one(state: dict[str, Tensor], key: Tensor, *inputs: Tensor) -> Tensor:
            with Streams(key):
                outcome: Tensor = functional_call(module, state, inputs)
            return outcome

        state = {f"model.{name}": tensor for name, tensor in state.items()}
        per_seed = inputs[-1].ndim == 2
        if self.vectorised and len(keys) > 1:
            axes = (0, 0, *[0 if per_seed else None] * len(inputs))
            return vmap(of_one, in_dims=axes, randomness="error")(state, keys, *inputs)
        outcomes = []
        for i, key in enumerate(keys.unbind()):
            own = [tensor[i] if per_seed else tensor for tensor in inputs]
            outcomes.append(of_one({name: tensor[i] for name, tensor in state.items()}, key, *own))
        return torch.stack(outcomes)

    def member(self, seed: int) -> nn.Module:
        """An ordinary module with the weights of one seed, in evaluation mode; it can be trained on."""
        if seed not in self.seeds:
            raise UserError(f"no seed {seed} in this crowd: choose from {', '.join(map(str, self.seeds))}")
        i = self.seeds.index(seed)
        module = deepcopy(self.module).eval()
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in self.slices)
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

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the weights and buffers of a checkpoint of the same seeds and module."""
        if tensors["weights"].shape != self.weights.shape:
            raise UserError("the checkpoint is of another model: its weights have another shape")
        self.weights.copy_(tensors["weights"])
        for name, tensor in tensors.items():
            if name.startswith("extras."):
                self.seed_buffers[name.removeprefix("extras.")] = tensor.to(self.device)

    def set_progress(self, progress: float) -> None:
        """Tell the module how much of the training is over, if it has a buffer called `progress`."""
        for buffer in self.progress_buffers():
            buffer.fill_(progress)

    def progress_buffers(self) -> list[Tensor]:
        """The module's buffers that are called `progress`."""
        return [own for name, own in self.module.named_buffers() if name.rpartition(".")[2] == "progress"]


def init_crowd(
    factory: Factory,
    vocab_size: int,
    n_classes: int,
    seeds: Iterable[int],
    device: torch.device | str = "cpu",
    name: str | None = None,
    begin: Callable[[int], Mapping[str, Tensor]] | None = None,
) -> Crowd:
    """A fresh crowd: the factory is called once per seed, each time with that seed's random numbers.

    begin: the state that a seed's module begins with, in place of random numbers.
    """
    seeds = read_seeds(seeds)
    modules: list[nn.Module] = []
    for seed in seeds:
        with drawn_from(seed):  # one trial stands for all
            modules.append(make_model(factory, vocab_size, n_classes, name, trial=not modules))
        if begin is not None:
            _fill(modules[-1], begin(seed))
    slices, columns = {}, 0
    for parameter_name, parameter in modules[0].named_parameters():
        if parameter.requires_grad:
            slices[parameter_name] = columns, parameter.shape
            columns += -(-parameter.numel() // _ALIGN) * _ALIGN
    if not slices:
        raise UserError(f"model {name or type(modules[0]).__name__}: it has no trainable parameters")
    weights = torch.zeros(len(seeds), columns)
    for row, module in zip(weights, modules, strict=True):
        parameters = dict(module.named_parameters())
        for parameter_name, (start, shape) in slices.items():
            row[start : start + shape.numel()] = parameters[parameter_name].detach().float().flatten()
    buffers = {key: stack.to(device) for key, stack in _differing(modules, set(slices)).items()}
    module = modules[0].to(device).requires_grad_(False)
    kernels = torch.device(device).type == "cuda" and fast.available("cuda")
    return Crowd(module, tuple(seeds), slices, weights.to(device), buffers, kernels=kernels)


def _fill(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a module the parameters and buffers of another one like it."""
    ours = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            there, here = theirs.get(name, "missing"), ours.get(name, "there is none")
            shapes = f"{name} is {there}, in the model {here}"
            raise UserError(f"‹start›: these weights are of another model: {shapes}")
    module.load_state_dict(state)


def _differing(modules: list[nn.Module], trained: set[str]) -> dict[str, Tensor]:
    """Frozen parameters and buffers that are not the same for all seeds, stacked."""
    others = [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in modules]
    names = [name for name in others[0] if name not in trained]
    stacks = {name: torch.stack([other[name].detach() for other in others]) for name in names}
    return {name: stack for name, stack in stacks.items() if not bool((stack == stack[:1]).all())}


def read_seeds(given: Iterable[int]) -> list[int]:
    """Seeds are distinct whole numbers, at least one of them."""
    if not isinstance(given, Iterable):
        raise UserError(f"‹seeds› {given}: give several numbers, such as range(5)")
    seeds = [plain(seed) for seed in given]
    if not seeds:
        raise UserError("no seeds: give at least one")
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= GREATEST_SEED:
            raise UserError(f"seed {seed!r}: must be a whole number from 0 to {GREATEST_SEED}")
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise UserError(f"seed {twice} is given twice: every seed once")
    return seeds
