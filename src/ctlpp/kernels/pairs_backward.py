"""The backward of `pairs`: gradients take the places of q, k and v, and sums over rows are left per program."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import Dropout, by_bit
from ctlpp.kernels.order import from_last
from ctlpp.kernels.pairs import grid, load_rows, place_of, rows_of_tile, shape_of, tiles_left
from ctlpp.kernels.relative import halves

READ, SCORE = 4, 8  # tiles a program works on
REGISTERS = 112  # at most, a thread of the backward of `read`: more of them run at once
SCORE_REGISTERS: int | None = None  # … of the backward of `score`


@triton.jit
def pairs_read_backward(
    dread_ptr,
    A_ptr,
    x_ptr,
    b_ptr,
    dA_ptr,
    part_ptr,
    N,
    dread_step,
    A_step,
    x_step,
    b_step,
    dA_step,
    part_step,
    TILES: tl.constexpr,
    T: tl.constexpr,
    TP: tl.constexpr,
    P: tl.constexpr,
    TJ: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """The gradients of A, and of v in v's place; its sums over rows go to `part`."""
    FULL: tl.constexpr = TP // P * T
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = rows_of_tile(T, TP, P)
    column = head * K + tl.arange(0, K)
    same = example[:, None] == example[None, :]
    pair, pair_T = same & (c[None, :] < TJ), same & (c[:, None] != c[None, :]) & (c[:, None] < T)
    place_T = place_of(c[None, :], c[:, None], r[None, :], N, T)
    b_v = tl.load(b_ptr + seed * b_step + 2 * H * K + column).to(dtype)[None, :]
    total = tl.zeros((TP // 2, K), tl.float32)
    for n in range(tiles_left(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n) * FULL
        rows = tl.minimum(N - first, FULL)
        inside, across = (r < rows)[:, None], (r < rows)[None, :]
        A_T = tl.load(A_ptr + seed * A_step + head * T * N + first + place_T, mask=pair_T & across, other=0.0)
        v = load_rows(x_ptr + seed * x_step + first * WIDTH + 2 * H * K, r, rows, column, WIDTH) + b_v
        dread = load_rows(dread_ptr + seed * dread_step + first * (H * K), r, rows, column, H * K)
        dv = tl.dot(A_T, dread, input_precision="ieee")
        dA = tl.dot(dread, tl.trans(v), input_precision="ieee")
        to = dA_ptr + seed * dA_step + (head * N + first) * TJ + (r[:, None] * TJ + c[None, :])
        tl.store(to, dA, mask=pair & inside)
        total += halves(dv, TP, K)
        to = x_ptr + seed * x_step + first * WIDTH + 2 * H * K + (r[:, None] * WIDTH + column[None, :])
        tl.store(to, dv.to(dtype), mask=inside)
    part = part_ptr + seed * part_step + tl.program_id(1) * (H * K) + column
    tl.store(part, tl.sum(total, axis=0))


@triton.jit
def _of_tile(
    dscore_ptr,
    x_ptr,
    bits_ptr,
    first,
    place,
    pair,
    r,
    N,
    column,
    word_at,
    WIDTH: tl.constexpr,
    D: tl.constexpr,
    BITS: tl.constexpr,
    FULL: tl.constexpr,
    DROP: tl.constexpr,
):
    """What the backward of the scores needs of the tile from row `first` on: the gradient, q, k and the mask."""
    rows = tl.minimum(N - first, FULL)
    dscore = tl.load(dscore_ptr + first + place, mask=pair & (r < rows)[:, None], other=0.0)
    q = load_rows(x_ptr + first * WIDTH, r, rows, column, WIDTH)
    k = load_rows(x_ptr + first * WIDTH + D, r, rows, column, WIDTH)
    bits = tl.zeros((r.shape[0], word_at.shape[0]), tl.int32)
    if DROP:
        at = first * (D // BITS) + (r[:, None] * (D // BITS) + word_at[None, :])
        bits = tl.load(bits_ptr + at, mask=(r < rows)[:, None], other=0)
    return dscore, q, k, bits


@triton.jit
def pairs_score_backward(
    dscore_ptr,
    x_ptr,
    b_ptr,
    part_ptr,
    bits_ptr,
    N,
    dscore_step,
    x_step,
    b_step,
    part_step,
    bits_step,
    TILES: tl.constexpr,
    T: tl.constexpr,
    TP: tl.constexpr,
    P: tl.constexpr,
    TJ: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    DROP: tl.constexpr,
):
    """The gradients of q and k in their places; their sums over rows go to `part`. Reads a tile ahead."""
    FULL: tl.constexpr = TP // P * T
    BITS: tl.constexpr = K if K < 32 else 32
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = rows_of_tile(T, TP, P)
    column = head * K + tl.arange(0, K)
    word_at = head * (K // BITS) + tl.arange(0, K // BITS)
    place = place_of(c[:, None], c[None, :], r[:, None], N, T)
    pair = (example[:, None] == example[None, :]) & (c[:, None] != c[None, :]) & (c[None, :] < T)
    b_q = tl.load(b_ptr + seed * b_step + column).to(dtype)[None, :]
    b_k = tl.load(b_ptr + seed * b_step + H * K + column).to(dtype)[None, :]
    dscore_ptr += seed * dscore_step + head * T * N
    x_ptr += seed * x_step
    bits_ptr += seed * bits_step
    total_q, total_k = tl.zeros((TP // 2, K), tl.float32), tl.zeros((TP // 2, K), tl.float32)
    first = tl.program_id(1) * TILES * FULL
    dscore, q, k, bits = _of_tile(
        dscore_ptr, x_ptr, bits_ptr, first, place, pair, r, N, column, word_at, WIDTH, H * K, BITS, FULL, DROP
    )
    for _ in range(tiles_left(N, FULL, TILES)):
        next_dscore, next_q, next_k, next_bits = _of_tile(
            dscore_ptr,
            x_ptr,
            bits_ptr,
            first + FULL,
            place,
            pair,
            r,
            N,
            column,
            word_at,
            WIDTH,
            H * K,
            BITS,
            FULL,
            DROP,
        )
        inside = r[:, None] < tl.minimum(N - first, FULL)
        keep = by_bit(bits, K, BITS)
        k = tl.where(keep, k + b_k, 0.0) if DROP else k + b_k
        dq = tl.dot(dscore, k, input_precision="ieee")
        dk = tl.dot(tl.trans(dscore), q + b_q, input_precision="ieee")
        dk = tl.where(keep, dk, 0.0) if DROP else dk
        total_q += halves(dq, TP, K)
        total_k += halves(dk, TP, K)
        to = x_ptr + first * WIDTH + (r[:, None] * WIDTH + column[None, :])
        tl.store(to, dq.to(dtype), mask=inside)
        tl.store(to + H * K, dk.to(dtype), mask=inside)
        dscore, q, k, bits = next_dscore, next_q, next_k, next_bits
        first += FULL
    part = part_ptr + seed * part_step + tl.program_id(1) * (2 * H * K) + column
    tl.store(part, tl.sum(total_q, axis=0))
    tl.store(part + H * K, tl.sum(total_k, axis=0))


def read_backward(dread: Tensor, A: Tensor, x: Tensor, b: Tensor, dA: Tensor, part: Tensor) -> None:
    """dA: (S, H, N, TJ); the gradient of v, in its place; part: (S, parts(N, T, READ), D)."""
    shape = shape_of(x, *A.shape[1:3])
    pairs_read_backward[grid(x, shape, READ)](
        dread,
        A,
        x,
        b,
        dA,
        part,
        x.shape[1],
        dread.stride(0),
        A.stride(0),
        x.stride(0),
        b.stride(0),
        dA.stride(0),
        part.stride(0),
        TILES=READ,
        **shape,
        num_warps=1,
        num_stages=1,
        maxnreg=REGISTERS,
    )


def score_backward(
    dscores: Tensor, x: Tensor, b: Tensor, part: Tensor, bits: Tensor, dropout: Dropout
) -> None:
    """dscores: (S, H, T, N); the gradients of q and k, in their places; part: (S, parts(N, T, SCORE), 2D)."""
    shape = shape_of(x, *dscores.shape[1:3])
    pairs_score_backward[grid(x, shape, SCORE)](
        dscores,
        x,
        b,
        part,
        bits,
        x.shape[1],
        dscores.stride(0),
        x.stride(0),
        b.stride(0),
        part.stride(0),
        bits.stride(0),
        TILES=SCORE,
        **shape,
        DROP=dropout.some,
        num_warps=1,
        num_stages=1,
        maxnreg=SCORE_REGISTERS,
    )
