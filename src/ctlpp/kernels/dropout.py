"""Dropout masks inside kernels: the random bits of `ctlpp.training.crowd`, recomputed, not stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

LANES = 4  # 16-bit numbers in a 64-bit word
GOLDEN: constexpr = constexpr(-7046029254386353131)  # what a step in a stream adds to its key


@triton.jit
def mix(z):
    """The finaliser of splitmix64 on int64 numbers; shifts are made logical by masking."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def word(key, position):
    """The random 64-bit word at a position of a seed's stream."""
    return mix(position * GOLDEN + key)


@triton.jit
def _least(drop):
    """The smallest number that is kept, in the upper half of a signed word; the lower half is no matter."""
    return (drop - 0x8000) * 0x10000


@triton.jit
def keep_tile(key, position, drop, R: constexpr, W: constexpr):
    """Which elements of a tile are kept, (R, W) bool. position: first word of each row, (R,) int64."""
    step = tl.arange(0, W // 4).to(tl.int64) * GOLDEN
    random = mix((position * GOLDEN + key)[:, None] + step[None, :])  # (R, W / 4), of four elements
    two = tl.join(random.to(tl.int32), (random >> 32).to(tl.int32))
    return tl.reshape(tl.join(two << 16, two) >= _least(drop), (R, W))


@triton.jit
def keep_rows(dropout, key, row, R: constexpr, W: constexpr):
    """Which elements of some rows of width W are kept. dropout: a `Dropout.stream`; row: (R,) int64"""
    return keep_tile(key, dropout[1] + row * dropout[2] * (W // 4), dropout[3], R, W)


@triton.jit
def keep_bits(key, first, drop, K: constexpr, BITS: constexpr):
    """Which elements of a tile are kept, a bit each, lowest first, (R, K / BITS). first: words, (R,)."""
    random = word(key, (first[:, None] + tl.arange(0, K // 4)[None, :]).to(tl.int64))  # of four elements
    bits = tl.zeros(random.shape, tl.int32)
    for half in tl.static_range(2):
        two = (random >> (32 * half)).to(tl.int32)
        bits |= ((two << 16) >= _least(drop)).to(tl.int32) << (2 * half)
        bits |= (two >= _least(drop)).to(tl.int32) << (2 * half + 1)
    bits = tl.reshape(bits, (first.shape[0], K // BITS, BITS // 4))
    return tl.sum(bits << (4 * tl.arange(0, BITS // 4))[None, None, :], axis=2)


@triton.jit
def by_bit(words, K: constexpr, BITS: constexpr):
    """Bits as booleans. (R, K / BITS) -> (R, K)"""
    bits = (words[:, :, None] >> tl.arange(0, BITS)[None, None, :]) & 1
    return tl.reshape(bits, (words.shape[0], K)) != 0


@triton.jit
def keep_column(key, position, element, drop):
    """Which single elements are kept. element: index into the stream's elements behind `position`."""
    lane = (word(key, position + element // 4) >> (16 * (element % 4))) & 0xFFFF
    return (lane ^ 0x8000) >= drop


def mask_words(heads: int, head_width: int) -> int:
    """How many int32 words the bits of a row's keys take."""
    return heads * -(-head_width // 32)


@dataclass(frozen=True)
class Dropout:
    """One dropout of a step: the seeds' keys, where in their streams it begins, and its rate."""

    keys: Tensor  # (S,) int64
    position: int  # in words
    rate: float
    every: int = 1  # the rows at hand are every so manieth row of what it was drawn for

    @property
    def some(self) -> bool:
        return self.rate > 0

    @property
    def drop(self) -> int:
        """The rate in 1/65536, as the streams round it."""
        return min(65535, round(self.rate * 65536))

    @property
    def factor(self) -> float:
        """What makes up for the dropped."""
        return 65536 / (65536 - self.drop)

    @property
    def stream(self) -> tuple[Tensor, int, int, int, float] | None:
        """As kernels take it: keys, position, every, drop, factor; None if nothing is dropped."""
        return (self.keys, self.position, self.every, self.drop, self.factor) if self.some else None


@dataclass(frozen=True)
class Layers:
    """Rows of all layers of a batch, one layer after the other: N each, B examples of T columns.

    The classifier reads column 0 alone, so the last layer goes on with B rows instead of N behind its
    attention: (S, (depth − 1) · N + B, …).
    """

    keys: Tensor  # (S,) int64
    N: int
    T: int
    depth: int
    dtype: torch.dtype
    dropouts: dict[str, tuple[float, int]]  # rate and elements of a seed, in the order of a layer's calls

    def room(self, width: int, *several: int, last: int | None = None, dtype: Any = None) -> Tensor:
        """Room for rows of all layers, `last` in the last one (None: B)."""
        rows = (self.depth - 1) * self.N + (self.N // self.T if last is None else last)
        shape = *several, len(self.keys), rows, width
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.keys.device)

    def of(self, rows: Tensor, n: int) -> Tensor:
        """The rows of layer n."""
        return rows[..., n * self.N : (n + 1) * self.N, :]

    def first(self, rows: Tensor) -> Tensor:
        """Column 0 of every example. (S, N, W) -> (S, B, W)"""
        return rows.unflatten(1, (-1, self.T))[:, :, 0]

    def last(self, n: int) -> bool:
        return n == self.depth - 1

    def dropout(self, name: str, n: int) -> Dropout:
        """A dropout of layer n; behind the last layer's attention it falls on column 0 alone."""
        words = [-(-size // LANES) if rate > 0 else 0 for rate, size in self.dropouts.values()]
        position = n * sum(words) + sum(words[: list(self.dropouts).index(name)])
        every = self.T if self.last(n) and name not in ("key", "position") else 1
        return Dropout(self.keys, position, self.dropouts[name][0], every)
