"""Transformer-XL attention over at most 16 columns, forward and backward, on the chip.

A row of `x` holds q, k, v (H · K numbers each); r is (2T − 1, H · K), the key of offset 1 − T first, its
dropout done. A_ij = softmax over j of scale · ((q_i + u) · dropout(k_j) + (q_i + v) · r_{j−i}).

A tile is as many whole examples as fit into TP rows; a column sees the columns of its own example only. Rows
past the last example are zeros that see each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import GOLDEN, Dropout, by_bit, keep_bits, keep_column
from ctlpp.kernels.launch import at_seed, blocks, by_seed, from_last, halves

TILE = 16  # rows of a tile: 16, or 32 for three examples of 9 columns in 27 rows
FORWARD, BACKWARD = 4, 16  # tiles a program works on
WARPS, STAGES = 1, 1
REGISTERS: int | None = None  # at most, a thread of the backward


Sums = tuple[Tensor, Tensor]
Vectors = tuple[Any, ...]  # `together`: u and v, (S, H, K), and scale, (S,)


class Shape(NamedTuple):
    """The sizes that kernels are compiled for."""

    T: int  # columns of an example
    TP: int  # rows of a tile
    FULL: int  # … that are used
    RP: int  # offsets, in a power of two
    H: int
    K: int
    D: int
    BITS: int  # of a word of the mask

    @staticmethod
    def of(r: Tensor, vectors: Vectors) -> Shape:
        T, (H, K) = (r.shape[1] + 1) // 2, vectors[0].shape[1:]
        RP = max(16, triton.next_power_of_2(2 * T - 1))
        return Shape(T, TILE, TILE // T * T, RP, H, K, H * K, min(K, 32))

    def grid(self, x: Tensor, tiles: int) -> tuple[int, int, int]:
        """Heads, blocks of so many tiles, seeds."""
        return self.H, blocks(x.shape[1], self.FULL * tiles), x.shape[0]


@triton.jit
def _shift(by_offset, i, j, T: constexpr, RP: constexpr):
    """From (i, offset) to (i, j); of a column of another example, anything. (TP, RP) -> (TP, TP)"""
    return tl.gather(by_offset, (j[None, :] - i[:, None] + (T - 1)) & (RP - 1), 1)


@triton.jit
def _shift_back(by_column, i, offset, T: constexpr, TP: constexpr):
    """From (i, j) to (i, offset); `by_column` is 0 where j is of another example. (TP, TP) -> (TP, RP)"""
    j = i[:, None] + offset[None, :] - (T - 1)
    outside = (j < 0) | (j >= TP)
    at = j & (TP - 1)  # what comes round is a column of another example
    if 2 * T > TP + 1:
        at = tl.where(outside, TP - 1, j)  # the last column is nobody's, if T < TP
    shifted = tl.gather(by_column, at, 1)
    if T == TP:
        shifted = tl.where(outside, 0.0, shifted)
    return shifted


@triton.jit
def _position(r, v, i, j, T: constexpr, RP: constexpr):
    """v · r_{j−i}, what the scores have of positions whatever q is. (TP, TP)"""
    TP: constexpr = i.shape[0]
    by_offset = tl.sum(r.to(tl.float32) * v, axis=1)  # (RP,)
    return _shift(tl.broadcast_to(by_offset[None, :], (TP, RP)), i, j, T, RP)


@triton.jit
def _attention(q, qu, k, r, position, scale, factor, i, j, T: constexpr, RP: constexpr):
    """Scores before `scale`, and their softmax within each example."""
    score = _shift(tl.dot(q, tl.trans(r), input_precision="ieee"), i, j, T, RP) + position
    score += tl.dot(qu, tl.trans(k), input_precision="ieee") * factor
    logit = tl.where(i[:, None] // T == j[None, :] // T, score * (scale * 1.4426950408889634), -1e30)
    A = tl.exp2(logit - tl.max(logit, axis=1)[:, None])
    return score, A * (1.0 / tl.sum(A, axis=1))[:, None]


@triton.jit
def relative_forward(x, r, out, bits, vectors, dropout, factor, N, s: constexpr, TILES: constexpr):
    """Grid (heads, blocks of TILES tiles, seeds)."""
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    i, j, offset = tl.arange(0, s.TP), tl.arange(0, s.TP), tl.arange(0, s.RP)
    column, p = head * s.K + tl.arange(0, s.K), seed * vectors[3]
    r_at = at_seed(r, seed) + offset[:, None] * s.D + column[None, :]
    r = tl.load(r_at, mask=offset[:, None] < 2 * s.T - 1, other=0.0)
    u = tl.load(vectors[0] + p + column).to(dtype)[None, :]
    positions = _position(r, tl.load(vectors[1] + p + column)[None, :], i, j, s.T, s.RP)
    scale = tl.load(vectors[2] + p)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    for n in range(tl.minimum(TILES, tl.cdiv(N, s.FULL) - tl.program_id(1) * TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * s.FULL  # row
        inside = (i < tl.minimum(N - first, s.FULL).to(tl.int32))[:, None]
        x_at = at_seed(x, seed) + first * (3 * s.D) + (i[:, None] * (3 * s.D) + column[None, :])
        q = tl.load(x_at, mask=inside, other=0.0)
        k = tl.load(x_at + s.D, mask=inside, other=0.0)
        value = tl.load(x_at + 2 * s.D, mask=inside, other=0.0)
        if dropout is not None:
            start = key + (dropout[1] + first * (s.D // 4)) * GOLDEN
            kept = keep_bits(start, i * (s.D // 4) + head * (s.K // 4), dropout[3], s.K, s.BITS)
            word_at = head * (s.K // s.BITS) + tl.arange(0, s.K // s.BITS)
            bits_at = first * (s.D // s.BITS) + (i[:, None] * (s.D // s.BITS) + word_at[None, :])
            tl.store(at_seed(bits, seed) + bits_at, kept, mask=inside)
            k = tl.where(by_bit(kept, s.K, s.BITS), k, 0.0)
        _, A = _attention(q, q + u, k, r, positions, scale, factor, i, j, s.T, s.RP)
        read = tl.dot(A.to(dtype), value, input_precision="ieee")
        to = at_seed(out, seed) + first * s.D + (i[:, None] * s.D + column[None, :])
        tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def relative_backward(dread, x, r, part, scalar, bits, vectors, factor, N, s: constexpr, TILES: constexpr):
    """The gradient of x in its place. Sums of a block go to `part` (2T − 1 rows for r, u, v) and `scalar`.

    bits: which keys were kept; None if all were.
    """
    K: constexpr = s.K
    TP: constexpr = s.TP
    RP: constexpr = s.RP
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    i, j, offset = tl.arange(0, TP), tl.arange(0, TP), tl.arange(0, RP)
    column, p = head * K + tl.arange(0, K), seed * vectors[3]
    r_at = offset[:, None] * s.D + column[None, :]
    r = tl.load(at_seed(r, seed) + r_at, mask=offset[:, None] < 2 * s.T - 1, other=0.0)
    u = tl.load(vectors[0] + p + column).to(dtype)[None, :]
    v = tl.load(vectors[1] + p + column)[None, :]
    positions = _position(r, v, i, j, s.T, RP)
    scale = tl.load(vectors[2] + p)
    dr, du = tl.zeros((RP, K), tl.float32), tl.zeros((TP // 2, K), tl.float32)
    dpositions, dscale = tl.zeros((TP, TP), tl.float32), tl.zeros((TP // 2, TP), tl.float32)
    for n in range(tl.minimum(TILES, tl.cdiv(N, s.FULL) - tl.program_id(1) * TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * s.FULL  # row
        inside = (i < tl.minimum(N - first, s.FULL).to(tl.int32))[:, None]
        x_at = at_seed(x, seed) + first * (3 * s.D) + (i[:, None] * (3 * s.D) + column[None, :])
        q = tl.load(x_at, mask=inside, other=0.0)
        k = tl.load(x_at + s.D, mask=inside, other=0.0)
        value = tl.load(x_at + 2 * s.D, mask=inside, other=0.0)
        dy_at = at_seed(dread, seed) + first * s.D + (i[:, None] * s.D + column[None, :])
        dy = tl.load(dy_at, mask=inside, other=0.0).to(dtype)
        keep = tl.full((TP, K), True, tl.int1)
        if bits is not None:
            word_at = head * (K // s.BITS) + tl.arange(0, K // s.BITS)
            bits_at = first * (s.D // s.BITS) + (i[:, None] * (s.D // s.BITS) + word_at[None, :])
            keep = by_bit(tl.load(at_seed(bits, seed) + bits_at, mask=inside, other=0), K, s.BITS)
            k = tl.where(keep, k, 0.0)
        qu = q + u
        score, A = _attention(q, qu, k, r, positions, scale, factor, i, j, s.T, RP)

        dvalue = tl.dot(tl.trans(A.to(dtype)), dy, input_precision="ieee")
        dA = tl.dot(dy, tl.trans(value), input_precision="ieee")
        dlogit = A * (dA - tl.sum(A * dA, axis=1)[:, None])
        dscale += halves(dlogit * score, TP, TP)
        dscore = dlogit * scale
        dpositions += dscore
        shifted = _shift_back(dscore, i, offset, s.T, TP).to(dtype)
        dr += tl.dot(tl.trans(shifted), q, input_precision="ieee")
        dcontent = (dscore * factor).to(dtype)
        dk = tl.dot(tl.trans(dcontent), qu, input_precision="ieee")
        dk = tl.where(keep, dk, 0.0) if bits is not None else dk
        dq = tl.dot(dcontent, k, input_precision="ieee")
        du += halves(dq, TP, K)
        dq += tl.dot(shifted, r, input_precision="ieee")
        tl.store(x_at, dq.to(dtype), mask=inside)
        tl.store(x_at + s.D, dk.to(dtype), mask=inside)
        tl.store(x_at + 2 * s.D, dvalue.to(dtype), mask=inside)
    by_offset = tl.sum(_shift_back(dpositions, i, offset, s.T, TP), axis=0)[:, None]  # (RP, 1)
    to = at_seed(part, seed) + tl.program_id(1) * ((2 * s.T + 1) * s.D)
    tl.store(to + r_at, dr + by_offset * v, mask=offset[:, None] < 2 * s.T - 1)
    tl.store(to + (2 * s.T - 1) * s.D + column, tl.sum(du, axis=0))
    tl.store(to + 2 * s.T * s.D + column, tl.sum(by_offset * r.to(tl.float32), axis=0))
    tl.store(at_seed(scalar, seed) + tl.program_id(1) * s.H + head, tl.sum(dscale))


@triton.jit
def relative_mask(mask, dropout, stride, size, BLOCK: constexpr):
    """The dropout of the position keys of all layers. Grid (blocks, layers, seeds)."""
    layer, seed = tl.program_id(1), tl.program_id(2).to(tl.int64)
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    position = (dropout[1] + layer * stride).to(tl.int64)
    keep = keep_column(tl.load(dropout[0] + seed), position, element, dropout[3])
    to = mask + (seed * tl.num_programs(1) + layer) * size + element
    tl.store(to, tl.where(keep, dropout[4], 0.0), mask=element < size)


def forward(x: Tensor, r: Tensor, vectors: Vectors, read: Tensor, bits: Tensor, dropout: Dropout) -> None:
    """x: (S, N, 3D), r: (S, 2T − 1, D) -> read: (S, N, D), and bits of the kept keys: (S, N, …)."""
    s, tensors = Shape.of(r, vectors), by_seed(x, r, read, bits)
    inputs = *tensors, vectors, dropout.stream, dropout.factor, x.shape[1]
    meta = {"TILES": FORWARD, "num_warps": WARPS, "num_stages": STAGES}
    relative_forward[s.grid(x, FORWARD)](*inputs, s, **meta)


def parts(N: int, T: int) -> int:
    """How many partial sums a backward over N rows, T an example, leaves."""
    return blocks(N, TILE // T * T * BACKWARD)


def backward(
    dread: Tensor, x: Tensor, r: Tensor, vectors: Vectors, bits: Tensor, sums: Sums, dropout: Dropout
) -> None:
    """The gradient of x, in its place.

    sums: partial ones for r, u, v, (S, parts, 2T + 1, D), and for scale, (S, parts, H).
    """
    s, tensors = Shape.of(r, vectors), by_seed(dread, x, r, *sums, bits if dropout.some else None)
    meta = {"TILES": BACKWARD, "num_warps": WARPS, "num_stages": STAGES, "maxnreg": REGISTERS}
    inputs = *tensors, vectors, dropout.factor, x.shape[1]
    relative_backward[s.grid(x, BACKWARD)](*inputs, s, **meta)


def fill_mask(mask: Tensor, first: Dropout, second: Dropout) -> None:
    """The dropout of the position keys of all layers, the factor or 0, (S, depth, 2T − 1, D)."""
    (S, depth), size, stride = mask.shape[:2], mask[0, 0].numel(), second.position - first.position
    relative_mask[blocks(size, 512), depth, S](mask, first.stream, stride, size, BLOCK=512)
