"""The matrices of an NDR layer as its products want them, and their gradients.

    q k v direction | out | up of the data net, of the gate net | down of both nets, side by side

One pass over the parameters makes them. Each gradient is a product over the rows of all layers, dyᵀ · x,
straight into its place. On sm_90 (H100, H200) in bf16 all of these are one kernel: a program makes one tile
of one of the gradients, from its first row to its last; tiles of all products and seeds together fill the
card evenly, where a product at a time leaves parts of it idle. Elsewhere, and where they would not fill it,
cuBLAS makes them.

Shapes: S seeds, R rows of all layers, D width and hidden units of the gate net, F hidden units of both nets,
H heads.
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
from triton.language import constexpr

from ctlpp.kernels.launch import Tile, add_up, at_seed, blocks, by_seed, made_for, of_transposed, offsets

CHUNKS, WARPS = 8, 4  # that a program of `matrices` takes at a time
TILE = Tile(rows=128, columns=256, step=64, warps=8, stages=3)
FILLED = 0.78  # share of the card that tiles must fill; multiples of five seeds fill 0.795 of an H200


@triton.jit
def layer_weights(
    w, to, places, end, D: constexpr, HIDDEN: constexpr, SIDES: constexpr, SIZE: constexpr, CHUNKS: constexpr
):
    """Grid (blocks of chunks of SIZE numbers, seeds). places: where the matrices are in w."""
    seed = tl.program_id(1).to(tl.int64)
    qkv, direction, out, up, up_gate, down, down_gate = places
    chunk = (tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)) * SIZE
    SQUARE: constexpr = D * D
    X: constexpr = (3 * D + SIDES) * D
    UP: constexpr = X + SQUARE
    DOWN: constexpr = UP + (HIDDEN + D) * D
    row, column = (chunk - DOWN) // (HIDDEN + D), (chunk - DOWN) % (HIDDEN + D)
    at = tl.where(column < HIDDEN, down + row * HIDDEN + column, down_gate + row * D + column - HIDDEN)
    at = tl.where(chunk < DOWN, up_gate + chunk - UP - HIDDEN * D, at)
    at = tl.where(chunk < UP + HIDDEN * D, up + chunk - UP, at)
    at = tl.where(chunk < UP, out + chunk - X, at)
    at = tl.where(chunk < X, direction + chunk - 3 * SQUARE, at)
    at = tl.where(chunk < 3 * SQUARE, qkv + chunk, at)
    inside, i = (chunk < end)[:, None], tl.arange(0, SIZE)[None, :]
    numbers = tl.load(at_seed(w, seed) + (at[:, None] + i), mask=inside)
    tl.store(at_seed(to, seed) + (chunk[:, None] + i), numbers.to(to[0].dtype.element_ty), mask=inside)


def matrices(parts: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """x: (S, 3D + 2H, D), out: (S, D, D), up: (S, F, D), down: (S, D, F), all in one buffer.

    parts, views of one matrix of parameters: q, k, v; direction; out; up of both nets; down of both.
    """
    (S, sides, D), hidden = parts[1].shape, parts[3].shape[1]
    shapes = (3 * D + sides, D), (D, D), (hidden + D, D), (D, hidden + D)
    sizes = [rows * columns for rows, columns in shapes]
    total, size = sum(sizes), min(D, hidden)
    whole = torch.empty(S, total, dtype=dtype, device=parts[0].device)
    meta = {"D": D, "HIDDEN": hidden, "SIDES": sides, "SIZE": size, "CHUNKS": CHUNKS, "num_warps": WARPS}
    tensors = *by_seed(parts[0], whole), tuple(offsets(parts))
    layer_weights[blocks(total, CHUNKS * size), S](*tensors, total, **meta)
    pieces = whole.split(sizes, dim=1)
    return [m.unflatten(1, shape) for m, shape in zip(pieces, shapes, strict=True)]


class Rows(NamedTuple):
    """What the gradients are made of, (S, R, …): of each pair the gradient of the output, and the input.

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
def gradient_tiles(rows, g, places, sizes, D: constexpr, HIDDEN: constexpr, SIDES: constexpr, s: constexpr):
    """Grid (tiles of a seed, seeds), in the order q, k, v | direction | out | up of both | down of both.

    places: where in a seed's gradients the matrices begin. sizes: dx and h have `long` rows, and `apart`
    from one seed to the next; the others have `short` rows. Rows of dx are `dx_row` elements apart, others
    as many as they have. s: a `Tile`.
    """
    ROWS: constexpr = s.rows
    COLUMNS: constexpr = s.columns
    STEP: constexpr = s.step
    tile, seed = tl.program_id(0), tl.program_id(1).to(tl.int64)
    dx, h, do, read, dpre, a, dd, de, act = rows
    qkv, direction, out, up, up_gate, down, down_gate = places
    long, apart, short, dx_row = sizes
    ACROSS: constexpr = D // COLUMNS
    row, column = tile // ACROSS * ROWS, tile % ACROSS * COLUMNS
    dy_ptr, dy_columns, dy_row, x_ptr, x_row = dx, 3 * D + SIDES, dx_row, h, D
    n_rows, step, to, to_row, left = long, apart, qkv + row * D, D, ROWS
    if row >= 5 * D + HIDDEN + ROWS:
        tile -= (5 * D + HIDDEN + ROWS) // ROWS * ACROSS
        row, column = tile % (D // ROWS) * ROWS, tile // (D // ROWS) * COLUMNS
        dy_columns, dy_row, x_ptr, x_row, n_rows, step = D, D, act, HIDDEN + D, short, short
        if column < HIDDEN:
            dy_ptr, to, to_row = dd, down + row * HIDDEN, HIDDEN
        else:
            dy_ptr, to = de, down_gate - HIDDEN + row * D
    elif row >= 4 * D + ROWS:
        row -= 4 * D + ROWS
        dy_ptr, dy_columns, dy_row, x_ptr, n_rows, step = dpre, HIDDEN + D, HIDDEN + D, a, short, short
        to = tl.where(row < HIDDEN, up, up_gate - HIDDEN * D) + row * D
    elif row >= 3 * D + ROWS:
        row -= 3 * D + ROWS
        dy_ptr, dy_columns, dy_row, x_ptr, n_rows, step = do, D, D, read, short, short
        to = out + row * D
    elif row >= 3 * D:  # the direction preferences have a block of rows of their own
        to, left = direction, SIDES
    dy_ptr, x_ptr = dy_ptr + seed * step * dy_row, x_ptr + seed * step * x_row
    dy = tl.make_tensor_descriptor(dy_ptr, [n_rows, dy_columns], [dy_row, 1], [STEP, ROWS])
    x = tl.make_tensor_descriptor(x_ptr, [n_rows, x_row], [x_row, 1], [STEP, COLUMNS])
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, n_rows, STEP):
        total = tl.dot(dy.load([k, row]).T, x.load([k, column]), total, input_precision="ieee")
    i, j = tl.arange(0, ROWS), column + tl.arange(0, COLUMNS)
    tl.store(at_seed(g, seed) + to + (i[:, None] * to_row + j[None, :]), total, mask=(i < left)[:, None])


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def fits(rows: Rows) -> bool:
    """Whether one kernel makes all products: bf16 on sm_90, whole tiles, and enough of them for the card."""
    (S, _, D), hidden = rows.h.shape, rows.act.shape[2] - rows.h.shape[2]
    whole = all(size % edge == 0 for size in (D, hidden) for edge in (TILE.rows, TILE.columns))
    whole = whole and rows.x.shape[2] - 3 * D <= TILE.rows
    if not (whole and rows.h.dtype == torch.bfloat16 and made_for(rows.h.device)):
        return False
    rounds = tiles(D, hidden) * S / _processors(rows.h.device)
    return rounds / ceil(rounds) > FILLED


def tiles(D: int, hidden: int) -> int:
    """How many tiles the gradients of a seed have."""
    tall = blocks(5 * D + hidden + TILE.rows, TILE.rows) * (D // TILE.columns)
    return tall + D // TILE.rows * ((hidden + D) // TILE.columns)


def gradients(rows: Rows, places: Sequence[Tensor]) -> None:
    """places: views of one matrix of gradients, in the order of the parts of `matrices`."""
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
    (S, R, D), hidden = rows.h.shape, rows.act.shape[2] - rows.h.shape[2]
    x, h, *short, (d, e), act = rows
    assert x.stride(0) // x.stride(1) == h.stride(0) // D
    assert all(part.is_contiguous() for part in (*short, d, e, act))
    triton.set_allocator(_scratch)
    sizes = R, h.stride(0) // D, act.shape[1], x.stride(1)
    tensors = (x, h, *short, d, e, act), *by_seed(places[0]), tuple(offsets(places)), sizes
    meta = {"D": D, "HIDDEN": hidden, "SIDES": places[1].shape[1], "s": TILE} | TILE.options
    gradient_tiles[tiles(D, hidden), S](*tensors, **meta)


def _scratch(size: int, alignment: int, stream: int | None) -> Tensor:
    """Room for the descriptors that a kernel makes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
