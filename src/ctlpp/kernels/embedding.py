"""A table's entries for the tokens of a batch, straight into the rows of the first layer, and the table's gradient.

Shapes: S seeds, V vocabulary, D width, N = B · T rows. One batch for all seeds or one a seed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.products import blocks
from ctlpp.kernels.sums import add_up

ROWS, COLUMNS, WARPS = 16, 256, 4  # rows and columns of a program of the look-up
BACK, LOOPS, BACK_WARPS = 32, 32, 4  # rows that the gradient takes at a time, how often, warps of a program
TOKENS, WIDTH = 64, 128  # ids and columns of a program of the gradient


@triton.jit
def embedding_look_up(
    table_ptr,
    ids_ptr,
    out_ptr,
    N,
    table_step,
    ids_step,
    out_step,
    table_row,
    out_row,
    ROWS: tl.constexpr,
    W: tl.constexpr,
    D: tl.constexpr,
):
    """Grid (blocks of W columns, row blocks, seeds). `…_step`, `…_row`: elements from one seed, one row to the next."""
    seed, column = tl.program_id(2).to(tl.int64), tl.program_id(0) * W + tl.arange(0, W)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < N)[:, None] & (column < D)[None, :]
    ids = tl.load(ids_ptr + seed * ids_step + row, mask=row < N, other=0).to(tl.int32)
    table = table_ptr + seed * table_step
    found = tl.load(table + (ids[:, None] * table_row + column[None, :]), mask=inside, other=0.0)
    to = out_ptr + seed * out_step + (row[:, None] * out_row + column[None, :])
    tl.store(to, found.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def embedding_gradient(
    ids_ptr,
    dy_ptr,
    more_ptr,
    part_ptr,
    N,
    V,
    ids_step,
    dy_step,
    more_step,
    part_step,
    dy_row,
    ROWS: tl.constexpr,
    LOOPS: tl.constexpr,
    TOKENS: tl.constexpr,
    W: tl.constexpr,
    D: tl.constexpr,
    MORE: tl.constexpr,
):
    """Σ over a block's rows with an id of dy (+ more), a product with ones and zeros.

    Grid (row blocks, blocks of TOKENS ids by W columns, seeds).
    """
    seed, across = tl.program_id(2).to(tl.int64), tl.cdiv(D, W)
    token = tl.program_id(1) // across * TOKENS + tl.arange(0, TOKENS)
    column = tl.program_id(1) % across * W + tl.arange(0, W)
    total = tl.zeros((TOKENS, W), tl.float32)
    for loop in range(LOOPS):
        row = (tl.program_id(0) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        inside = (row < N)[:, None] & (column < D)[None, :]
        ids = tl.load(ids_ptr + seed * ids_step + row, mask=row < N, other=-1).to(tl.int32)
        at = row[:, None] * dy_row + column[None, :]
        dy = tl.load(dy_ptr + seed * dy_step + at, mask=inside, other=0.0)
        if MORE:
            dy += tl.load(more_ptr + seed * more_step + at, mask=inside, other=0.0)
        hot = tl.where(token[:, None] == ids[None, :], 1.0, 0.0).to(dy_ptr.dtype.element_ty)
        total += tl.dot(hot, dy, input_precision="ieee")
    to = part_ptr + seed * part_step + tl.program_id(0) * V * D + (token[:, None] * D + column[None, :])
    tl.store(to, total, mask=(token < V)[:, None] & (column < D)[None, :])


def look_up(table: Tensor, ids: Tensor, out: Tensor) -> None:
    """The entries of a batch's tokens. table: (S, V, D), ids: (B, T) or (S, B, T) -> out: (S, B · T, D)"""
    (S, N, D), ids = out.shape, ids.contiguous()
    W = min(triton.next_power_of_2(D), COLUMNS)
    embedding_look_up[blocks(D, W), blocks(N, ROWS), S](
        table,
        ids,
        out,
        N,
        table.stride(0),
        _step(ids),
        out.stride(0),
        table.stride(1),
        out.stride(1),
        ROWS=ROWS,
        W=W,
        D=D,
        num_warps=WARPS,
    )


def gradient(ids: Tensor, dy: Tensor, more: Tensor | None, out: Tensor) -> None:
    """The table's gradient, if that of the rows is dy (+ more), (S, B · T, D) -> out: (S, V, D) float32"""
    (S, N, D), V, ids = dy.shape, out.shape[1], ids.contiguous()
    also = dy if more is None else more
    assert also.stride(1) == dy.stride(1)
    part = torch.empty(S, blocks(N, BACK * LOOPS), V, D, device=dy.device)
    W = min(triton.next_power_of_2(D), WIDTH)
    embedding_gradient[part.shape[1], blocks(V, TOKENS) * blocks(D, W), S](
        ids,
        dy,
        also,
        part,
        N,
        V,
        _step(ids),
        dy.stride(0),
        also.stride(0),
        part.stride(0),
        dy.stride(1),
        ROWS=BACK,
        LOOPS=LOOPS,
        TOKENS=TOKENS,
        W=W,
        D=D,
        MORE=more is not None,
        num_warps=BACK_WARPS,
    )
    add_up(part, [out])


def _step(ids: Tensor) -> int:
    """Elements from one seed's ids to the next one's."""
    return ids.stride(0) if ids.ndim == 3 else 0
