"""Products between the columns of an example, at most 16, in tiles for the tensor cores.

A row of `x` holds q, k, v (H · K numbers each) and 2H more, all without their biases `b`. A tile has 16
rows: as many examples as fit, each beginning at a multiple of P, the power of two that holds T columns. In
the backward, gradients take the places of q, k and v, and sums over rows are left per program.

What there is for each pair of columns (i, j) of an example lies in one of two orders. What a tile writes and
a thread for each row i reads has the row's columns side by side, (S, H, N, TJ), TJ = T or T + 1, even. What
such a thread writes and a tile reads is (S, H, T, N): first (j − i) mod T, then the row, so that threads
write next to each other.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import GOLDEN, Dropout, by_bit, keep_bits
from ctlpp.kernels.launch import at_seed, blocks, by_seed, from_last, halves

TILE = 16  # rows of a tile
TILES = 4  # that a program works on
READ_BACK, SCORE_BACK = 4, 8  # … in the backward
SCORE_REGISTERS = 80  # at most, a thread of the scores: more of them run at once
READ_BACK_REGISTERS = 112  # … of the backward of `read`
SCORE_BACK_REGISTERS: int | None = None  # … of the backward of `score`
ALONE = {"num_warps": 1, "num_stages": 1}


class Shape(NamedTuple):
    """The sizes that kernels are compiled for."""

    T: int  # columns of an example
    TP: int  # rows of a tile
    P: int  # … from one example to the next
    FULL: int  # … that are used
    TJ: int  # columns of a row of scores
    H: int
    K: int
    D: int
    BITS: int  # of a word of the mask
    WIDTH: int  # of x, from one row to the next

    @staticmethod
    def of(x: Tensor, H: int, T: int) -> Shape:
        K, P = (x.shape[2] // H - 2) // 3, triton.next_power_of_2(T)
        return Shape(T, TILE, P, TILE // P * T, T + T % 2, H, K, H * K, min(K, 32), x.stride(1))

    def grid(self, x: Tensor, tiles: int) -> tuple[int, int, int]:
        """Heads, blocks of so many tiles, seeds."""
        return self.H, parts(x.shape[1], self.T, tiles), x.shape[0]


def parts(N: int, T: int, tiles: int) -> int:
    """How many blocks of so many tiles N rows, T an example, make."""
    return blocks(N, TILE // triton.next_power_of_2(T) * T * tiles)


@triton.jit
def _rows_of_tile(T: constexpr, TP: constexpr, P: constexpr):
    """The rows of a tile from its first on (TP: not used), their example and their column."""
    i = tl.arange(0, TP)
    example, c = i // P, i % P
    return tl.where(c < T, example * T + c, TP), example, c


@triton.jit
def _tiles_left(N, FULL: constexpr, TILES: constexpr):
    """How many tiles this program works on."""
    return tl.minimum(TILES, tl.cdiv(N, FULL) - tl.program_id(1) * TILES)


@triton.jit
def _place_of(i, j, row, N, T: constexpr):
    """Where (i, j) is in (T, N), from the first row of the tile on."""
    return (j - i + tl.where(j < i, T, 0)) * N + row


@triton.jit
def _load_rows(ptr, r, rows, column, WIDTH: constexpr):
    """The numbers of some columns of rows WIDTH apart; 0 in rows that are not used. (TP, columns)"""
    return tl.load(ptr + (r[:, None] * WIDTH + column[None, :]), mask=(r < rows)[:, None], other=0.0)


@triton.jit
def pairs_score(x, b, score, bits, dropout, N, s: constexpr, TILES: constexpr):
    """q_i · k_j with dropped elements of k as 0. Grid (heads, blocks of TILES tiles, seeds)."""
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = _rows_of_tile(s.T, s.TP, s.P)
    column = head * s.K + tl.arange(0, s.K)
    pair = (example[:, None] == example[None, :]) & (c[None, :] < s.TJ)
    b_q = tl.load(at_seed(b, seed) + column).to(dtype)[None, :]
    b_k = tl.load(at_seed(b, seed) + s.D + column).to(dtype)[None, :]
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    for n in range(_tiles_left(N, s.FULL, TILES)):
        first = (tl.program_id(1) * TILES + n) * s.FULL  # row
        rows = tl.minimum(N - first, s.FULL)
        inside = (r < rows)[:, None]
        q = _load_rows(at_seed(x, seed) + first * s.WIDTH, r, rows, column, s.WIDTH) + b_q
        k = _load_rows(at_seed(x, seed) + first * s.WIDTH + s.D, r, rows, column, s.WIDTH) + b_k
        if dropout is not None:
            start = key + (dropout[1] + first.to(tl.int64) * (s.D // 4)) * GOLDEN
            kept = keep_bits(start, r * (s.D // 4) + head * (s.K // 4), dropout[3], s.K, s.BITS)
            word_at = head * (s.K // s.BITS) + tl.arange(0, s.K // s.BITS)
            bits_at = first * (s.D // s.BITS) + (r[:, None] * (s.D // s.BITS) + word_at[None, :])
            tl.store(at_seed(bits, seed) + bits_at, kept, mask=inside)
            k = tl.where(by_bit(kept, s.K, s.BITS), k, 0.0)
        product = tl.dot(q, tl.trans(k), input_precision="ieee")
        to = at_seed(score, seed) + (head * N + first) * s.TJ + (r[:, None] * s.TJ + c[None, :])
        tl.store(to, product, mask=pair & inside)


@triton.jit
def pairs_read(A, x, b, out, N, s: constexpr, TILES: constexpr):
    """What column i reads, Σ_j A_ij v_j."""
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = _rows_of_tile(s.T, s.TP, s.P)
    column = head * s.K + tl.arange(0, s.K)
    place = _place_of(c[:, None], c[None, :], r[:, None], N, s.T)
    pair = (example[:, None] == example[None, :]) & (c[:, None] != c[None, :]) & (c[None, :] < s.T)
    b_v = tl.load(at_seed(b, seed) + 2 * s.D + column).to(dtype)[None, :]
    for n in range(_tiles_left(N, s.FULL, TILES)):
        first = (tl.program_id(1) * TILES + n) * s.FULL
        rows = tl.minimum(N - first, s.FULL)
        inside = (r < rows)[:, None]
        weights = tl.load(at_seed(A, seed) + head * s.T * N + first + place, mask=pair & inside, other=0.0)
        v = _load_rows(at_seed(x, seed) + first * s.WIDTH + 2 * s.D, r, rows, column, s.WIDTH) + b_v
        read = tl.dot(weights, v, input_precision="ieee")
        to = at_seed(out, seed) + first * s.D + (r[:, None] * s.D + column[None, :])
        tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def pairs_read_backward(dread, A, x, b, dA, part, N, s: constexpr, TILES: constexpr):
    """The gradients of A, and of v in v's place; its sums over rows go to `part`."""
    K: constexpr = s.K
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = _rows_of_tile(s.T, s.TP, s.P)
    column = head * K + tl.arange(0, K)
    same = example[:, None] == example[None, :]
    pair, pair_T = same & (c[None, :] < s.TJ), same & (c[:, None] != c[None, :]) & (c[:, None] < s.T)
    place_T = _place_of(c[None, :], c[:, None], r[None, :], N, s.T)
    b_v = tl.load(at_seed(b, seed) + 2 * s.D + column).to(dtype)[None, :]
    total = tl.zeros((s.TP // 2, K), tl.float32)
    for n in range(_tiles_left(N, s.FULL, TILES)):
        first = (tl.program_id(1) * TILES + n) * s.FULL
        rows = tl.minimum(N - first, s.FULL)
        inside, across = (r < rows)[:, None], (r < rows)[None, :]
        A_T = tl.load(at_seed(A, seed) + head * s.T * N + first + place_T, mask=pair_T & across, other=0.0)
        v = _load_rows(at_seed(x, seed) + first * s.WIDTH + 2 * s.D, r, rows, column, s.WIDTH) + b_v
        dy = _load_rows(at_seed(dread, seed) + first * s.D, r, rows, column, s.D)
        dv = tl.dot(A_T, dy, input_precision="ieee")
        product = tl.dot(dy, tl.trans(v), input_precision="ieee")
        to = at_seed(dA, seed) + (head * N + first) * s.TJ + (r[:, None] * s.TJ + c[None, :])
        tl.store(to, product, mask=pair & inside)
        total += halves(dv, s.TP, K)
        to = at_seed(x, seed) + first * s.WIDTH + 2 * s.D + (r[:, None] * s.WIDTH + column[None, :])
        tl.store(to, dv.to(dtype), mask=inside)
    tl.store(at_seed(part, seed) + tl.program_id(1) * s.D + column, tl.sum(total, axis=0))


@triton.jit
def _of_tile(dscore, x, bits, first, place, pair, r, N, column, head, s: constexpr):
    """What the backward of the scores needs of the tile from row `first` on: gradient, q, k, mask."""
    K: constexpr = s.K
    rows = tl.minimum(N - first, s.FULL)
    g = tl.load(dscore + first + place, mask=pair & (r < rows)[:, None], other=0.0)
    q = _load_rows(x + first * s.WIDTH, r, rows, column, s.WIDTH)
    k = _load_rows(x + first * s.WIDTH + s.D, r, rows, column, s.WIDTH)
    kept = tl.zeros((r.shape[0], K // s.BITS), tl.int32)
    if bits is not None:
        word_at = head * (K // s.BITS) + tl.arange(0, K // s.BITS)
        at = first * (s.D // s.BITS) + (r[:, None] * (s.D // s.BITS) + word_at[None, :])
        kept = tl.load(bits + at, mask=(r < rows)[:, None], other=0)
    return g, q, k, kept


@triton.jit
def pairs_score_backward(dscore, x, b, part, bits, N, s: constexpr, TILES: constexpr):
    """The gradients of q and k in their places; their sums over rows go to `part`. Reads a tile ahead.

    bits: which keys were kept; None if all were.
    """
    K: constexpr = s.K
    DROP: constexpr = bits is not None
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    r, example, c = _rows_of_tile(s.T, s.TP, s.P)
    column = head * K + tl.arange(0, K)
    place = _place_of(c[:, None], c[None, :], r[:, None], N, s.T)
    pair = (example[:, None] == example[None, :]) & (c[:, None] != c[None, :]) & (c[None, :] < s.T)
    b_q = tl.load(at_seed(b, seed) + column).to(dtype)[None, :]
    b_k = tl.load(at_seed(b, seed) + s.D + column).to(dtype)[None, :]
    dscore, x = at_seed(dscore, seed) + head * s.T * N, at_seed(x, seed)
    if DROP:
        bits = at_seed(bits, seed)
    total_q, total_k = tl.zeros((s.TP // 2, K), tl.float32), tl.zeros((s.TP // 2, K), tl.float32)
    first = tl.program_id(1) * TILES * s.FULL
    g, q, k, kept = _of_tile(dscore, x, bits, first, place, pair, r, N, column, head, s)
    for _ in range(_tiles_left(N, s.FULL, TILES)):
        following = _of_tile(dscore, x, bits, first + s.FULL, place, pair, r, N, column, head, s)
        inside = r[:, None] < tl.minimum(N - first, s.FULL)
        keep = by_bit(kept, K, s.BITS)
        k = tl.where(keep, k + b_k, 0.0) if DROP else k + b_k
        dq = tl.dot(g, k, input_precision="ieee")
        dk = tl.dot(tl.trans(g), q + b_q, input_precision="ieee")
        dk = tl.where(keep, dk, 0.0) if DROP else dk
        total_q += halves(dq, s.TP, K)
        total_k += halves(dk, s.TP, K)
        to = x + first * s.WIDTH + (r[:, None] * s.WIDTH + column[None, :])
        tl.store(to, dq.to(dtype), mask=inside)
        tl.store(to + s.D, dk.to(dtype), mask=inside)
        g, q, k, kept = following
        first += s.FULL
    to = at_seed(part, seed) + tl.program_id(1) * (2 * s.D) + column
    tl.store(to, tl.sum(total_q, axis=0))
    tl.store(to + s.D, tl.sum(total_k, axis=0))


def score(x: Tensor, b: Tensor, scores: Tensor, bits: Tensor, s: Shape, dropout: Dropout) -> None:
    """x: (S, N, 3D + 2H), b: (S, 3D + 2H) -> scores: (S, H, N, TJ), and bits of the kept keys: (S, N, …)."""
    tensors, meta = by_seed(x, b, scores, bits), {"TILES": TILES, "maxnreg": SCORE_REGISTERS} | ALONE
    pairs_score[s.grid(x, TILES)](*tensors, dropout.stream, x.shape[1], s, **meta)


def read(A: Tensor, x: Tensor, b: Tensor, out: Tensor, s: Shape) -> None:
    """A: (S, H, T, N) -> out: (S, N, D)."""
    pairs_read[s.grid(x, TILES)](*by_seed(A, x, b, out), x.shape[1], s, TILES=TILES, **ALONE)


def read_backward(dread: Tensor, A: Tensor, x: Tensor, b: Tensor, dA: Tensor, part: Tensor, s: Shape) -> None:
    """dA: (S, H, N, TJ); the gradient of v, in its place; part: (S, parts(N, T, READ_BACK), D)."""
    meta = {"TILES": READ_BACK, "maxnreg": READ_BACK_REGISTERS} | ALONE
    pairs_read_backward[s.grid(x, READ_BACK)](*by_seed(dread, A, x, b, dA, part), x.shape[1], s, **meta)


def score_backward(
    dscores: Tensor, x: Tensor, b: Tensor, part: Tensor, bits: Tensor | None, s: Shape
) -> None:
    """dscores: (S, H, T, N); the gradients of q and k in their places; part: (S, …, 2D).

    bits: as `score` left them, None without dropout.
    """
    meta = {"TILES": SCORE_BACK, "maxnreg": SCORE_BACK_REGISTERS} | ALONE
    pairs_score_backward[s.grid(x, SCORE_BACK)](*by_seed(dscores, x, b, part, bits), x.shape[1], s, **meta)
