"""The matrices of an NDR layer in the type and the order that its products want, in one pass over them.

    q k v direction | out | up of the data net, of the gate net | down of both nets, side by side

Shapes: S seeds, D width and hidden units of the gate net, F hidden units of both nets, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.products import blocks

CHUNKS, WARPS = 8, 4  # that a program takes at a time


class Matrices(NamedTuple):
    """What is multiplied with; all lie in one buffer."""

    x: Tensor  # (S, 3D + 2H, D)
    out: Tensor  # (S, D, D)
    up: Tensor  # (S, F, D)
    down: Tensor  # (S, D, F)


@triton.jit
def layer_weights(
    w_ptr,
    to_ptr,
    qkv,
    direction,
    out,
    up,
    up_gate,
    down,
    down_gate,
    w_step,
    to_step,
    total,
    D: tl.constexpr,
    HIDDEN: tl.constexpr,
    SIDES: tl.constexpr,
    SIZE: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Grid (blocks of chunks, seeds). A chunk is SIZE numbers that stay together; `qkv` …: where they are in w."""
    seed = tl.program_id(1).to(tl.int64)
    to = (tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)) * SIZE
    SQUARE: tl.constexpr = D * D
    X: tl.constexpr = (3 * D + SIDES) * D
    UP: tl.constexpr = X + SQUARE
    DOWN: tl.constexpr = UP + (HIDDEN + D) * D
    row, column = (to - DOWN) // (HIDDEN + D), (to - DOWN) % (HIDDEN + D)
    at = tl.where(column < HIDDEN, down + row * HIDDEN + column, down_gate + row * D + column - HIDDEN)
    at = tl.where(to < DOWN, up_gate + to - UP - HIDDEN * D, at)
    at = tl.where(to < UP + HIDDEN * D, up + to - UP, at)
    at = tl.where(to < UP, out + to - X, at)
    at = tl.where(to < X, direction + to - 3 * SQUARE, at)
    at = tl.where(to < 3 * SQUARE, qkv + to, at)
    inside, i = (to < total)[:, None], tl.arange(0, SIZE)[None, :]
    w = tl.load(w_ptr + seed * w_step + (at[:, None] + i), mask=inside)
    tl.store(to_ptr + seed * to_step + (to[:, None] + i), w.to(to_ptr.dtype.element_ty), mask=inside)


def matrices(parts: Sequence[Tensor], dtype: torch.dtype) -> Matrices:
    """parts, views of one matrix of parameters: q, k, v; direction; out; up of the data and the gate net; down."""
    first, direction, _, up, *_ = parts
    (S, sides, D), hidden = direction.shape, up.shape[1]
    shapes = (3 * D + sides, D), (D, D), (hidden + D, D), (D, hidden + D)
    sizes = [rows * columns for rows, columns in shapes]
    whole = torch.empty(S, sum(sizes), dtype=dtype, device=first.device)
    at = [part.storage_offset() - first.storage_offset() for part in parts]
    size = min(D, hidden)
    layer_weights[blocks(sum(sizes), CHUNKS * size), S](
        first,
        whole,
        *at,
        first.stride(0),
        whole.stride(0),
        sum(sizes),
        D=D,
        HIDDEN=hidden,
        SIDES=sides,
        SIZE=size,
        CHUNKS=CHUNKS,
        num_warps=WARPS,
    )
    return Matrices(
        *(m.unflatten(1, shape) for m, shape in zip(whole.split(sizes, dim=1), shapes, strict=True))
    )
