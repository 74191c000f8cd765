"""Dropout masks inside kernels: the same random bits as `ctlpp.training.streams`, recomputed instead of stored."""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

LANES = 4  # 16-bit numbers in a 64-bit word


@triton.jit
def mix(z):
    """The finaliser of splitmix64 on int64 numbers; shifts are made logical by masking."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def word(key, position):
    """The random 64-bit word at a position of a seed's stream."""
    return mix(position * -7046029254386353131 + key)


@triton.jit
def keep_tile(key, position, drop, R: tl.constexpr, W: tl.constexpr):
    """Which elements of a tile are kept. position: first word of each row, (R,) int64. Returns (R, W) bool."""
    words = word(key, position[:, None] + tl.arange(0, W // 4)[None, :])  # (R, W / 4)
    lanes = (words[:, :, None] >> (16 * tl.arange(0, 4))[None, None, :]) & 0xFFFF
    return (tl.reshape(lanes, (R, W)) ^ 0x8000) >= drop


@triton.jit
def keep_column(key, position, element, drop):
    """Which single elements are kept. element: index into the stream's elements behind `position`."""
    lane = (word(key, position + element // 4) >> (16 * (element % 4))) & 0xFFFF
    return (lane ^ 0x8000) >= drop


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
        return round(self.rate * 65536)

    @property
    def factor(self) -> float:
        """What makes up for the dropped."""
        return 65536 / (65536 - self.drop)


@dataclass(frozen=True)
class Layout:
    """Where in a stream the dropouts of a forward begin: a layer's, one after the other, then the next layer's."""

    rates: dict[str, float]
    sizes: dict[str, int]  # elements of a seed

    def at(self, name: str, layer: int, keys: Tensor, every: int = 1) -> Dropout:
        """A dropout of a layer."""
        words = {site: -(-self.sizes[site] // LANES) if rate > 0 else 0 for site, rate in self.rates.items()}
        before = list(words).index(name)
        position = layer * sum(words.values()) + sum(list(words.values())[:before])
        return Dropout(keys, position, self.rates[name], every)
