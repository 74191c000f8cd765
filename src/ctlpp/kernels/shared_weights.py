"""The gradients of NDR's matrices, each a product over the rows of all layers: dyᵀ · x, straight into their places.

On sm_90 (H100, H200) in bf16 all of them are one kernel. A program makes one tile of one of the gradients, from its
first row to its last; tiles of all products and seeds together fill the card evenly, where a product at a time leaves
parts of it idle. Elsewhere, and where they would not fill it, cuBLAS makes them.

Shapes: S seeds, R rows of all layers, D width and hidden units of the gate net.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.descriptors import made_for
from ctlpp.kernels.products import blocks, of_transposed
from ctlpp.kernels.sums import add_up


class Tile(NamedTuple):
    """What a program makes, and how."""

    rows: int  # of the gradient
    columns: int
    step: int  # rows of all layers that it adds at a time
    warps: int
    stages: int  # steps under way at a time


TILE = Tile(rows=128, columns=256, step=64, warps=8, stages=3)
FILLED = 0.78  # the share of the card that the tiles must fill; multiples of five seeds fill 0.795 or more of an H200


class Rows(NamedTuple):
    """What the products are made of, (S, R, …): of each pair the gradient of the output, and the input.

    The rows of a seed lie one after the other; of x and h they may begin later than the buffer does.
    """

    x: Tensor  # q, k, v and direction preferences: 3D + 2H
    h: Tensor
    o: Tensor
    read: Tensor
    pre: Tensor  # hidden units of both nets
    a: Tensor
    de: Tensor  # outputs of both nets, (2, S, R, D)
    act: Tensor


@triton.jit
def gradient_tiles(
    dx_ptr,
    h_ptr,
    do_ptr,
    read_ptr,
    dpre_ptr,
    a_ptr,
    dd_ptr,
    de_ptr,
    act_ptr,
    g_ptr,
    qkv,
    direction,
    out,
    up,
    up_gate,
    down,
    down_gate,
    g_step,
    long,
    apart,
    short,
    dx_row,
    D: tl.constexpr,
    HIDDEN: tl.constexpr,
    SIDES: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Grid (tiles of a seed, seeds), tiles in the order of q, k, v | direction | out | up of both nets | down of both.

    `qkv` … `down_gate`: where in a seed's gradients the matrices begin. dx and h have `long` rows, and `apart` from one
    seed to the next; the others have `short` rows. Rows of dx are `dx_row` elements apart, others as many as they have.
    """
    tile, seed = tl.program_id(0), tl.program_id(1).to(tl.int64)
    ACROSS: tl.constexpr = D // COLUMNS
    row, column = tile // ACROSS * ROWS, tile % ACROSS * COLUMNS
    dy_ptr, dy_columns, dy_row, x_ptr, x_row = dx_ptr, 3 * D + SIDES, dx_row, h_ptr, D
    rows, step, to, to_row, left = long, apart, qkv + row * D, D, ROWS
    if row >= 5 * D + HIDDEN + ROWS:
        tile -= (5 * D + HIDDEN + ROWS) // ROWS * ACROSS
        row, column = tile % (D // ROWS) * ROWS, tile // (D // ROWS) * COLUMNS
        dy_columns, dy_row, x_ptr, x_row, rows, step = D, D, act_ptr, HIDDEN + D, short, short
        if column < HIDDEN:
            dy_ptr, to, to_row = dd_ptr, down + row * HIDDEN, HIDDEN
        else:
            dy_ptr, to = de_ptr, down_gate - HIDDEN + row * D
    elif row >= 4 * D + ROWS:
        row -= 4 * D + ROWS
        dy_ptr, dy_columns, dy_row, x_ptr, rows, step = dpre_ptr, HIDDEN + D, HIDDEN + D, a_ptr, short, short
        to = tl.where(row < HIDDEN, up, up_gate - HIDDEN * D) + row * D
    elif row >= 3 * D + ROWS:
        row -= 3 * D + ROWS
        dy_ptr, dy_columns, dy_row, x_ptr, rows, step = do_ptr, D, D, read_ptr, short, short
        to = out + row * D
    elif row >= 3 * D:  # the direction preferences have a block of rows of their own
        to, left = direction, SIDES
    dy = tl.make_tensor_descriptor(
        dy_ptr + seed * step * dy_row, [rows, dy_columns], [dy_row, 1], [STEP, ROWS]
    )
    x = tl.make_tensor_descriptor(x_ptr + seed * step * x_row, [rows, x_row], [x_row, 1], [STEP, COLUMNS])
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, rows, STEP):
        total = tl.dot(dy.load([k, row]).T, x.load([k, column]), total, input_precision="ieee")
    i, j = tl.arange(0, ROWS), column + tl.arange(0, COLUMNS)
    to_ptr = g_ptr + seed * g_step + to
    tl.store(to_ptr + (i[:, None] * to_row + j[None, :]), total, mask=(i < left)[:, None])


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def fits(rows: Rows) -> bool:
    """Whether one kernel makes all products: bf16 on sm_90, sizes in whole tiles, and enough tiles for the card."""
    (S, _, D), hidden = rows.h.shape, rows.act.shape[2] - rows.h.shape[2]
    whole = all(size % edge == 0 for size in (D, hidden) for edge in (TILE.rows, TILE.columns))
    whole = whole and rows.x.shape[2] - 3 * D <= TILE.rows
    if not (whole and rows.h.dtype == torch.bfloat16 and made_for(rows.h.device)):
        return False
    rounds = tiles(D, hidden) * S / _processors(rows.h.device)
    return rounds / ceil(rounds) > FILLED


def tiles(D: int, hidden: int) -> int:
    """How many tiles the gradients of a seed have."""
    across = D // TILE.columns
    return blocks(5 * D + hidden + TILE.rows, TILE.rows) * across + D // TILE.rows * (
        (hidden + D) // TILE.columns
    )


def gradients(rows: Rows, places: Sequence[Tensor]) -> None:
    """places: of q, k, v; direction; out; up of the data net and the gate net; down of both. (S, …), in one matrix."""
    qkv, direction, out, up, up_gate, down, down_gate = places
    if fits(rows):
        _at_once(rows, places)
        return
    hidden = down.shape[2]
    add_up(of_transposed(rows.x, rows.h)[:, None], [qkv, direction])
    add_up(of_transposed(rows.o, rows.read)[:, None], [out])
    add_up(of_transposed(rows.pre, rows.a)[:, None], [up, up_gate])
    add_up(of_transposed(rows.de[0], rows.act[..., :hidden])[:, None], [down])
    add_up(of_transposed(rows.de[1], rows.act[..., hidden:])[:, None], [down_gate])


def _at_once(rows: Rows, places: Sequence[Tensor]) -> None:
    (S, R, D), hidden, t = rows.h.shape, rows.act.shape[2] - rows.h.shape[2], TILE
    x, h, o, read, pre, a, (d, e), act = rows
    assert x.stride(0) // x.stride(1) == h.stride(0) // D
    assert all(part.is_contiguous() for part in (o, read, pre, a, d, e, act))
    first = places[0]
    at = [place.storage_offset() - first.storage_offset() for place in places]
    triton.set_allocator(_scratch)
    gradient_tiles[tiles(D, hidden), S](
        x,
        h,
        o,
        read,
        pre,
        a,
        d,
        e,
        act,
        first,
        *at,
        first.stride(0),
        R,
        h.stride(0) // D,
        a.shape[1],
        x.stride(1),
        D=D,
        HIDDEN=hidden,
        SIDES=places[1].shape[1],
        ROWS=t.rows,
        COLUMNS=t.columns,
        STEP=t.step,
        num_warps=t.warps,
        num_stages=t.stages,
    )


def _scratch(size: int, alignment: int, stream: int | None) -> Tensor:
    """Room for the descriptors that a kernel makes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
