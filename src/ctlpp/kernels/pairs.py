"""Products between the columns of an example, for attention over at most 16 columns: tiles for the tensor cores.

A row of `x` holds q, k, v (H · K numbers each) and 2H more, all without their biases `b`. A tile has 16 rows: as many
examples as fit, each beginning at a multiple of P, the power of two that holds T columns.

What there is for each pair of columns (i, j) of an example lies in one of two orders. What a tile writes and a thread
for each row i reads has the row's columns side by side, (S, H, N, TJ), TJ = T or T + 1, even. What such a thread writes
and a tile reads is (S, H, T, N): first (j − i) mod T, then the row, so that threads write next to each other.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import GOLDEN, Dropout, by_bit, keep_bits
from ctlpp.kernels.order import from_last
from ctlpp.kernels.products import blocks

TILE = 16  # rows of a tile
TILES = 4  # that a program works on
SCORE_REGISTERS = 80  # at most, a thread of the scores: more of them run at once


@triton.jit
def rows_of_tile(T: tl.constexpr, TP: tl.constexpr, P: tl.constexpr):
    """The rows of a tile, from its first on (TP for a row that is not used), their example and their column."""
    i = tl.arange(0, TP)
    example, c = i // P, i % P
    return tl.where(c < T, example * T + c, TP), example, c


@triton.jit
def tiles_left(N, FULL: tl.constexpr, TILES: tl.constexpr):
    """How many tiles this program works on."""
    return tl.minimum(TILES, tl.cdiv(N, FULL) - tl.program_id(1) * TILES)


@triton.jit
def place_of(i, j, row, N, T: tl.constexpr):
    """Where (i, j) is in (T, N), from the first row of the tile on."""
    return (j - i + tl.where(j < i, T, 0)) * N + row


@triton.jit
def load_rows(ptr, r, rows, column, WIDTH: tl.constexpr):
    """The numbers of some columns of rows WIDTH apart; 0 in rows that are not used. (TP, columns)"""
    return tl.load(ptr + (r[:, None] * WIDTH + column[None, :]), mask=(r < rows)[:, None], other=0.0)


@triton.jit
def pairs_score(
    x_ptr,
    b_ptr,
    score_ptr,
    bits_ptr,
    keys_ptr,
    position,
    N,
    x_step,
    b_step,
    score_step,
    bits_step,
    drop,
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
    """q_i · k_j with dropped elements of k as 0. Grid (heads, blocks of TILES tiles, seeds)."""
    FULL: tl.constexpr = TP // P * T  # rows of a tile that are used
    BITS: tl.constexpr = K if K < 32 else 32  # of a word of the mask
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = rows_of_tile(T, TP, P)
    column = head * K + tl.arange(0, K)
    word_at = head * (K // BITS) + tl.arange(0, K // BITS)
    pair = (example[:, None] == example[None, :]) & (c[None, :] < TJ)
    b_q = tl.load(b_ptr + seed * b_step + column).to(dtype)[None, :]
    b_k = tl.load(b_ptr + seed * b_step + H * K + column).to(dtype)[None, :]
    key = tl.load(keys_ptr + seed)
    for n in range(tiles_left(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n) * FULL  # row
        rows = tl.minimum(N - first, FULL)
        inside = (r < rows)[:, None]
        q = load_rows(x_ptr + seed * x_step + first * WIDTH, r, rows, column, WIDTH) + b_q
        k = load_rows(x_ptr + seed * x_step + first * WIDTH + H * K, r, rows, column, WIDTH) + b_k
        if DROP:
            start = key + (position + first.to(tl.int64) * (H * K // 4)) * GOLDEN
            bits = keep_bits(start, r * (H * K // 4) + head * (K // 4), drop, K, BITS)
            bits_at = first * (H * K // BITS) + (r[:, None] * (H * K // BITS) + word_at[None, :])
            tl.store(bits_ptr + seed * bits_step + bits_at, bits, mask=inside)
            k = tl.where(by_bit(bits, K, BITS), k, 0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee")
        to = score_ptr + seed * score_step + (head * N + first) * TJ + (r[:, None] * TJ + c[None, :])
        tl.store(to, score, mask=pair & inside)


@triton.jit
def pairs_read(
    A_ptr,
    x_ptr,
    b_ptr,
    out_ptr,
    N,
    A_step,
    x_step,
    b_step,
    out_step,
    TILES: tl.constexpr,
    T: tl.constexpr,
    TP: tl.constexpr,
    P: tl.constexpr,
    TJ: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """What column i reads, Σ_j A_ij v_j."""
    FULL: tl.constexpr = TP // P * T
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = rows_of_tile(T, TP, P)
    column = head * K + tl.arange(0, K)
    place = place_of(c[:, None], c[None, :], r[:, None], N, T)
    pair = (example[:, None] == example[None, :]) & (c[:, None] != c[None, :]) & (c[None, :] < T)
    b_v = tl.load(b_ptr + seed * b_step + 2 * H * K + column).to(dtype)[None, :]
    for n in range(tiles_left(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n) * FULL
        rows = tl.minimum(N - first, FULL)
        inside = (r < rows)[:, None]
        A = tl.load(A_ptr + seed * A_step + head * T * N + first + place, mask=pair & inside, other=0.0)
        v = load_rows(x_ptr + seed * x_step + first * WIDTH + 2 * H * K, r, rows, column, WIDTH) + b_v
        read = tl.dot(A, v, input_precision="ieee")
        to = out_ptr + seed * out_step + first * (H * K) + (r[:, None] * (H * K) + column[None, :])
        tl.store(to, read.to(dtype), mask=inside)


def words(heads: int, head_width: int) -> int:
    """How many int32 words the mask of a row's keys takes."""
    return heads * blocks(head_width, 32)


def score(x: Tensor, b: Tensor, scores: Tensor, bits: Tensor, T: int, dropout: Dropout) -> None:
    """x: (S, N, 3D + 2H), b: (S, 3D + 2H) -> scores: (S, H, N, TJ), and which keys were kept: (S, N, words(H, K))."""
    shape = shape_of(x, scores.shape[1], T)
    pairs_score[grid(x, shape, TILES)](
        x,
        b,
        scores,
        bits,
        dropout.keys,
        dropout.position,
        x.shape[1],
        x.stride(0),
        b.stride(0),
        scores.stride(0),
        bits.stride(0),
        dropout.drop,
        TILES=TILES,
        **shape,
        DROP=dropout.some,
        num_warps=1,
        num_stages=1,
        maxnreg=SCORE_REGISTERS,
    )


def read(A: Tensor, x: Tensor, b: Tensor, out: Tensor) -> None:
    """A: (S, H, T, N) -> out: (S, N, D)."""
    shape = shape_of(x, *A.shape[1:3])
    pairs_read[grid(x, shape, TILES)](
        A,
        x,
        b,
        out,
        x.shape[1],
        A.stride(0),
        x.stride(0),
        b.stride(0),
        out.stride(0),
        TILES=TILES,
        **shape,
        num_warps=1,
        num_stages=1,
    )


def shape_of(x: Tensor, H: int, T: int) -> dict[str, int]:
    """The sizes that kernels are compiled for."""
    return {
        "T": T,
        "TP": TILE,
        "P": triton.next_power_of_2(T),
        "TJ": T + T % 2,
        "H": H,
        "K": (x.shape[2] // H - 2) // 3,
        "WIDTH": x.stride(1),  # from one row to the next
    }


def grid(x: Tensor, shape: dict[str, int], tiles: int) -> tuple[int, int, int]:
    """Heads, blocks of so many tiles, seeds."""
    return shape["H"], parts(x.shape[1], shape["T"], tiles), x.shape[0]


def parts(N: int, T: int, tiles: int) -> int:
    """How many blocks of so many tiles N rows, T an example, make."""
    return blocks(N, TILE // triton.next_power_of_2(T) * T * tiles)
