"""The random numbers of seeds.

Each seed has streams of its own. A number is a hash of (seed, step, position): nothing is
drawn "next", so seed 7 sees the same masks alone, among 25, on a second try and after a resume, on the CPU
and on a GPU. `Streams` hands these numbers to an ordinary module by standing in for `F.dropout` and a few
relatives while it runs, plainly or under `vmap`.

Example:
    >>> key = step_keys(seed_keys([7]), torch.tensor(3))[0]
    >>> with Streams(key):
    ...     first = F.dropout(torch.ones(1000), 0.25)
    >>> with Streams(key):
    ...     again = F.dropout(torch.ones(1000), 0.25)
    >>> bool((first == again).all()), round(float(first.mean()), 1)
    (True, 1.0)
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ctlpp.files import UserError

_WEIGHTS, DROPOUT, BATCHES = range(3)  # what a seed's streams are for
_GOLDEN = -7046029254386353131  # odd, so that counter * _GOLDEN visits every 64-bit number once
_ROUNDS = (30, -4658895280553007687), (27, -7723592293110705685)  # splitmix64's shifts and multipliers
_LANES = 4  # 16-bit numbers in a 64-bit one


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
