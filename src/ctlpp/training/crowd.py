"""A crowd: the weights of many seeds of one module, stacked along a leading axis S, and their random numbers.

All parameters of a seed lie in one row of one matrix, `weights` (S, P). Each parameter is a view of some
columns, so that clipping and the optimiser are a handful of operations on (S, P), whatever the module is.

Each seed has streams of random numbers of its own. A number is a hash of (seed, step, position): nothing is
drawn "next", so seed 7 sees the same masks alone, among 25, on a second try and after a resume, on the CPU
and on a GPU. `Streams` hands these numbers to an ordinary module by standing in for `F.dropout` and a few
relatives while it runs, plainly or under `vmap`.

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
    >>> key = step_keys(seed_keys([7]), torch.tensor(3))[0]
    >>> with Streams(key):
    ...     first = F.dropout(torch.ones(1000), 0.25)
    >>> with Streams(key):
    ...     again = F.dropout(torch.ones(1000), 0.25)
    >>> bool((first == again).all()), round(float(first.mean()), 1)
    (True, 1.0)
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.overrides import TorchFunctionMode

from ctlpp.files import UserError
from ctlpp.kernels import fast
from ctlpp.models.zoo import Factory, make_model
from ctlpp.words import read_seeds

_ALIGN = 16  # columns: every parameter starts at a multiple of 64 bytes
_WEIGHTS, DROPOUT, BATCHES = range(3)  # what a seed's streams are for
_GOLDEN = -7046029254386353131  # odd, so that counter * _GOLDEN visits every 64-bit number once
_ROUNDS = (30, -4658895280553007687), (27, -7723592293110705685)  # splitmix64's shifts and multipliers
_LANES = 4  # 16-bit numbers in a 64-bit one


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


# The random numbers.


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


def mix(z: Tensor) -> Tensor:
    """Scramble 64-bit numbers in place: one changed bit of the input changes half the bits of the output."""
    for shift, multiplier in _ROUNDS:
        z.bitwise_xor_((z >> shift).bitwise_and_((1 << 64 - shift) - 1)).mul_(multiplier)
    return z.bitwise_xor_((z >> 31).bitwise_and_((1 << 33) - 1))


def seed_keys(seeds: Sequence[int], purpose: int = 0) -> Tensor:
    """The key of each seed's stream, (S,) int64; another `purpose` gives unrelated streams."""
    numbers = torch.tensor(list(seeds), dtype=torch.int64)
    return mix(mix(numbers * _GOLDEN + 1) + torch.tensor(purpose) * _GOLDEN)


def step_keys(keys: Tensor, step: Tensor) -> Tensor:
    """The keys of one training step. keys: (S,), step: () int64. Returns (S,)."""
    return mix(keys + (step + 1) * _GOLDEN)


@lru_cache(maxsize=8)
def _counters(size: int, device: torch.device) -> Tensor:
    return torch.arange(size, device=device) * _GOLDEN


class Streams(TorchFunctionMode):
    """Inside `with Streams(key):` dropout and its like draw from the stream of `key`, a () int64 tensor."""

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self.key = key
        self.position = 0  # 64-bit numbers used so far

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        stand_in = _STAND_INS.get(func)
        if stand_in is not None:
            return stand_in(self, *args, **(kwargs or {}))
        if func in _REFUSED:
            raise UserError(
                f"the model calls {func.__name__}, whose random numbers cannot be drawn per seed:"
                " use F.dropout, torch.rand_like, torch.randn_like or torch.bernoulli"
            )
        return func(*args, **kwargs) if kwargs else func(*args)

    def words(self, count: int) -> Tensor:
        """The next `count` 64-bit numbers of the stream, (count,)."""
        end = self.position + count
        counters = _counters(1 << max(16, (end - 1).bit_length()), self.key.device)
        counters, self.position = counters[self.position : end], end
        return mix(counters + self.key)

    def keep(self, shape: torch.Size, p: float) -> tuple[Tensor, float]:
        """Which elements a dropout of rate `p` keeps, and the factor that makes up for those it drops."""
        size, drop = prod(shape), min(65535, round(p * 65536))  # 16 random bits an element
        words = self.words(-(-size // _LANES))
        lanes = _Lanes.apply(words)[:size].view(shape)  # type: ignore[no-untyped-call]
        return lanes >= drop - 32768, 65536 / (65536 - drop)

    def uniform(self, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Two independent uniform numbers in (0, 1) for every element."""
        words = self.words(prod(shape)).view(shape)
        high, low = (words >> 40).bitwise_and_(0xFFFFFF), words & 0xFFFFFF
        return (high + 0.5) / (1 << 24), (low + 0.5) / (1 << 24)


class _Lanes(torch.autograd.Function):
    """64-bit numbers seen as four 16-bit ones each; written out because older `vmap`s cannot."""

    @staticmethod
    def forward(words: Tensor) -> Tensor:
        return words.view(torch.int16)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], words: Tensor) -> tuple[Tensor, int]:
        return _Lanes.apply(words.movedim(in_dims[0], 0)), 0  # type: ignore[no-untyped-call]


def _dropout(
    streams: Streams, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if not training or p == 0:
        return input
    if p >= 1:
        return input * 0
    keep, scale = streams.keep(input.shape, p)
    mask = keep.to(input.dtype)
    mask = mask.mul_(scale) if input.dtype == torch.float32 else mask
    dropped = input.mul_(mask) if inplace else input * mask
    return dropped if input.dtype == torch.float32 else dropped * scale  # a bf16 scale would be off by 0.2 %


def _rand_like(streams: Streams, input: Tensor, **options: Any) -> Tensor:
    return streams.uniform(input.shape)[0].to(options.get("dtype") or input.dtype)


def _randn_like(streams: Streams, input: Tensor, **options: Any) -> Tensor:
    u, v = streams.uniform(input.shape)
    return ((-2 * u.log()).sqrt() * (2 * torch.pi * v).cos()).to(options.get("dtype") or input.dtype)


def _bernoulli(streams: Streams, input: Tensor, p: float | None = None) -> Tensor:
    u = streams.uniform(input.shape)[0]
    return (u < (input if p is None else p)).to(input.dtype)


def _attention(
    streams: Streams,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Scaled dot-product attention, written out: the fused one has no vectorised form and its own dropout."""
    logits = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        logits = logits.masked_fill(torch.ones_like(logits, dtype=torch.bool).triu(1), -torch.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        logits = logits.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        logits = logits + attn_mask
    logits = logits - logits.detach().amax(-1, keepdim=True)
    weights = logits.exp()  # on a CPU six times as fast as a short softmax
    return _dropout(streams, weights / weights.sum(-1, keepdim=True), dropout_p) @ value


def _multi_head_attention(streams: Streams, *args: Any, **kwargs: Any) -> Any:
    """The library's function runs without us; give it our dropout and attention by name."""
    with (
        patch.object(F, "dropout", lambda *a, **k: _dropout(streams, *a, **k)),
        patch.object(F, "scaled_dot_product_attention", lambda *a, **k: _attention(streams, *a, **k)),
    ):
        return F.multi_head_attention_forward(*args, **kwargs)


_STAND_INS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.dropout: _dropout,
    torch.rand_like: _rand_like,
    torch.randn_like: _randn_like,
    torch.bernoulli: _bernoulli,
    F.scaled_dot_product_attention: _attention,
    F.multi_head_attention_forward: _multi_head_attention,
}
_REFUSED = {
    getattr(home, name)
    for home, names in (
        (F, "dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout gumbel_softmax rrelu"),
        (torch, "dropout rand randn randint randint_like randperm normal poisson multinomial"),
        (Tensor, "bernoulli_ uniform_ normal_ exponential_ random_"),
    )
    for name in names.split()
}
