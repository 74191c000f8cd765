"""What all kernels and their launches share: arguments, the order of the seeds, products, descriptors, sums.

A kernel gets a tensor as a tuple: the tensor and the elements from one seed to the next (`by_seed`), and
where rows are not next to each other also from one row to the next (`by_row`). Inside, `at_seed` is where a
seed's part begins.

Shapes: S seeds, R partial sums, W columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

Views = dict[str, Tensor]  # parameters or their gradients by name, (S, …) each, float32

NUMBERS, WARPS = 2048, 4  # that a program of `add_up` reads at a time


class Tile(NamedTuple):
    """What a program that makes a tile of a product does at a time."""

    rows: int
    columns: int
    step: int  # of the sum that an element is
    warps: int
    stages: int  # steps under way at a time
    registers: int | None = None  # at most, of a thread

    @property
    def options(self) -> dict[str, Any]:
        """What a kernel is compiled with."""
        return {"num_warps": self.warps, "num_stages": self.stages, "maxnreg": self.registers}


class Block(NamedTuple):
    """What a program that adds up rows takes: rows at a time, so many times."""

    rows: int
    loops: int

    def parts(self, N: int) -> int:
        """How many programs, and partial sums, N rows make."""
        return blocks(N, self.rows * self.loops)


def blocks(n: int, size: int) -> int:
    """How many blocks of a size cover n."""
    return -(-n // size)


def by_seed(*tensors: Tensor | None) -> list[tuple[Tensor, int] | None]:
    """Tensors as kernels take them: (tensor, elements from one seed to the next); None stays None."""
    return [None if x is None else (x, x.stride(0)) for x in tensors]


def by_row(*tensors: Tensor) -> list[tuple[Tensor, int, int]]:
    """(tensor, elements from one seed to the next, elements from one row to the next)"""
    return [(x, x.stride(0), x.stride(1)) for x in tensors]


def together(*views: Tensor) -> tuple[Any, ...]:
    """Views of one matrix as kernels take them: (view, …, elements from one seed to the next)."""
    return *views, views[0].stride(0)


def are_powers(*sizes: int) -> bool:
    """Whether kernels can cut these sizes: powers of two, and enough for the tensor cores."""
    return all(n >= 16 and n & (n - 1) == 0 for n in sizes)


def offsets(places: Sequence[Tensor]) -> list[int]:
    """How many elements behind the first of several views of one matrix the others begin."""
    return [int(place.storage_offset() - places[0].storage_offset()) for place in places]


@triton.jit
def at_seed(x, seed):
    """Where a seed's part of a tensor begins."""
    return x[0] + seed * x[1]


@triton.jit
def from_last(axis: constexpr):
    """The seed of a program, if the last seed comes first; seeds are the outermost axis of the grid.

    What was written last is still in the card's cache. Matrix products take the first seed first; a kernel
    between two of them that takes the last seed first begins with what the one left in the cache, and leaves
    there what the other begins with. Of two kernels in a row, one goes each way.
    """
    return tl.num_programs(axis) - 1 - tl.program_id(axis)


@triton.jit
def load_rows(x, at, inside):
    """(rows, W) in float32, 0 outside."""
    return tl.load(x + at, mask=inside[:, None], other=0.0).to(tl.float32)


@triton.jit
def store_rows(x, at, values, inside):
    tl.store(x + at, values.to(x.dtype.element_ty), mask=inside[:, None])


@triton.jit
def halves(x, R: constexpr, W: constexpr):
    """The upper half of the rows plus the lower one: the same thread holds both."""
    return tl.sum(tl.reshape(x, (2, R // 2, W)), axis=0)


def times(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """x · weightᵀ, a linear map. (S, N, in), (S, out, in) -> (S, N, out)"""
    return torch.bmm(x, weight.mT, out=out)


def of_transposed(dy: Tensor, x: Tensor) -> Tensor:
    """dyᵀ · x, the gradient of a linear map's weight, in float32. (S, N, out), (S, N, in) -> (S, out, in)"""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.bmm(dy.mT, x, out_dtype=torch.float32)
    return torch.bmm(dy.mT, x)


@cache
def made_for(device: torch.device) -> bool:
    """Whether kernels with descriptors are made for a card: sm_90 (H100, H200), from Triton 3.4 on."""
    known = find_spec("triton.tools.tensor_descriptor") is not None
    return known and device.type == "cuda" and torch.cuda.get_device_capability(device) == (9, 0)


def described(x: Tensor, rows: int, columns: int) -> Any:
    """A descriptor for tiles of x, (S, …, …); beyond its rows it reads zeros and writes nothing."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(x, [1, rows, columns])


@triton.jit
def add_up_parts(part, out, R, W, ends, shifts, ROWS: constexpr, COLUMNS: constexpr, ADD: constexpr):
    """Grid (column blocks, seeds). Columns from ends[n] on go shifts[n] elements farther."""
    seed = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < W
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, R, ROWS):
        row = first + tl.arange(0, ROWS)
        at = at_seed(part, seed) + (row[:, None] * W + column[None, :])
        total += tl.load(at, mask=(row < R)[:, None] & inside[None, :], other=0.0)
    shift = tl.where(column >= ends[0], shifts[0], 0)
    shift = tl.where(column >= ends[1], shifts[1], shift)
    shift = tl.where(column >= ends[2], shifts[2], shift)
    to = at_seed(out, seed) + (column + shift)
    whole = tl.sum(total, axis=0)
    if ADD:
        whole += tl.load(to, mask=inside, other=0.0)
    tl.store(to, whole, mask=inside)


def add_up(part: Tensor, places: Sequence[Tensor], *, add: bool = False) -> None:
    """Σ over R of part, (S, R, …), divided over at most four places, (S, …); `add`: to what is there.

    The places are views of one matrix of gradients, (S, P). The sum is taken in a fixed order.
    """
    part, flat = part.flatten(2), [place.flatten(1) for place in places]
    assert part.is_contiguous()
    S, R, W = part.shape
    ends = [sum(place.shape[1] for place in flat[:n]) for n in range(1, len(flat))]
    shifts = [offset - end for offset, end in zip(offsets(flat)[1:], ends, strict=True)]
    none = [0] * (4 - len(flat))
    jumps = (*ends, *(W + n for n in none)), (*shifts, *none)
    rows = min(triton.next_power_of_2(max(R, 1)), 64)
    meta = {"ROWS": rows, "COLUMNS": NUMBERS // rows, "ADD": add, "num_warps": WARPS}
    add_up_parts[blocks(W, NUMBERS // rows), S](*by_seed(part, flat[0]), R, W, *jumps, **meta)
