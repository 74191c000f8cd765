"""Transformer-XL attention over at most 16 columns, forward and backward: nothing but q, k, v and the gradient is read.

A row of `x` holds q, k, v (H · K numbers each); r is (2T − 1, H · K), the key of offset 1 − T first, its dropout done.
A_ij = softmax over j of scale · ((q_i + u) · dropout(k_j) + (q_i + v) · r_{j−i}).

A tile is as many whole examples as fit into TP rows; a column sees the columns of its own example only. Rows past the
last example are zeros that see each other.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import GOLDEN, Dropout, by_bit, keep_bits, keep_column
from ctlpp.kernels.order import from_last
from ctlpp.kernels.products import blocks

TILE = 16  # rows of a tile: 16, or 32 for three examples of 9 columns in 27 rows
FORWARD, BACKWARD = 4, 16  # tiles a program works on
WARPS, STAGES = 1, 1
REGISTERS: int | None = None  # at most, a thread of the backward


class Vectors(NamedTuple):
    """The learned numbers beside the matrices, views of rows of one matrix."""

    u: Tensor  # (S, H, K)
    v: Tensor  # (S, H, K)
    scale: Tensor  # (S,)


@triton.jit
def _shift(by_offset, i, j, T: tl.constexpr, RP: tl.constexpr):
    """From (i, offset) to (i, j); of a column of another example, anything. (TP, RP) -> (TP, TP)"""
    return tl.gather(by_offset, (j[None, :] - i[:, None] + (T - 1)) & (RP - 1), 1)


@triton.jit
def _shift_back(by_column, i, offset, T: tl.constexpr, TP: tl.constexpr):
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
def halves(x, R: tl.constexpr, W: tl.constexpr):
    """The upper half of the rows plus the lower one: the same thread holds both."""
    return tl.sum(tl.reshape(x, (2, R // 2, W)), axis=0)


@triton.jit
def _position(r, v, i, j, T: tl.constexpr, RP: tl.constexpr):
    """v · r_{j−i}, what the scores have of positions whatever q is. (TP, TP)"""
    TP: tl.constexpr = i.shape[0]
    by_offset = tl.sum(r.to(tl.float32) * v, axis=1)  # (RP,)
    return _shift(tl.broadcast_to(by_offset[None, :], (TP, RP)), i, j, T, RP)


@triton.jit
def _attention(q, qu, k, r, position, scale, factor, i, j, T: tl.constexpr, RP: tl.constexpr):
    """Scores before `scale`, and their softmax within each example."""
    score = _shift(tl.dot(q, tl.trans(r), input_precision="ieee"), i, j, T, RP) + position
    score += tl.dot(qu, tl.trans(k), input_precision="ieee") * factor
    logit = tl.where(i[:, None] // T == j[None, :] // T, score * (scale * 1.4426950408889634), -1e30)
    A = tl.exp2(logit - tl.max(logit, axis=1)[:, None])
    return score, A * (1.0 / tl.sum(A, axis=1))[:, None]


@triton.jit
def relative_forward(
    x_ptr,
    r_ptr,
    u_ptr,
    v_ptr,
    scale_ptr,
    out_ptr,
    bits_ptr,
    keys_ptr,
    position,
    N,
    x_step,
    r_step,
    p_step,
    out_step,
    bits_step,
    drop,
    factor,
    TILES: tl.constexpr,
    T: tl.constexpr,
    TP: tl.constexpr,
    RP: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    DROP: tl.constexpr,
):
    """Grid (heads, blocks of TILES tiles, seeds). `…_step`: elements from one seed to the next."""
    FULL: tl.constexpr = TP // T * T  # rows of a tile that are used
    BITS: tl.constexpr = K if K < 32 else 32  # of a word of the mask
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    i, j, offset, column = tl.arange(0, TP), tl.arange(0, TP), tl.arange(0, RP), head * K + tl.arange(0, K)
    word_at = head * (K // BITS) + tl.arange(0, K // BITS)
    r_at = r_ptr + seed * r_step + offset[:, None] * (H * K) + column[None, :]
    r = tl.load(r_at, mask=offset[:, None] < 2 * T - 1, other=0.0)
    u = tl.load(u_ptr + seed * p_step + column).to(dtype)[None, :]
    positions = _position(r, tl.load(v_ptr + seed * p_step + column)[None, :], i, j, T, RP)
    scale, key = tl.load(scale_ptr + seed * p_step), tl.load(keys_ptr + seed)
    for n in range(tl.minimum(TILES, tl.cdiv(N, FULL) - tl.program_id(1) * TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * FULL  # row
        inside = (i < tl.minimum(N - first, FULL).to(tl.int32))[:, None]
        x_at = x_ptr + seed * x_step + first * (3 * H * K) + (i[:, None] * (3 * H * K) + column[None, :])
        q = tl.load(x_at, mask=inside, other=0.0)
        k = tl.load(x_at + H * K, mask=inside, other=0.0)
        value = tl.load(x_at + 2 * H * K, mask=inside, other=0.0)
        if DROP:
            start = key + (position + first * (H * K // 4)) * GOLDEN
            bits = keep_bits(start, i * (H * K // 4) + head * (K // 4), drop, K, BITS)
            bits_at = first * (H * K // BITS) + (i[:, None] * (H * K // BITS) + word_at[None, :])
            tl.store(bits_ptr + seed * bits_step + bits_at, bits, mask=inside)
            k = tl.where(by_bit(bits, K, BITS), k, 0.0)
        _, A = _attention(q, q + u, k, r, positions, scale, factor, i, j, T, RP)
        read = tl.dot(A.to(dtype), value, input_precision="ieee")
        to = out_ptr + seed * out_step + first * (H * K) + (i[:, None] * (H * K) + column[None, :])
        tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def relative_backward(
    dread_ptr,
    x_ptr,
    r_ptr,
    u_ptr,
    v_ptr,
    scale_ptr,
    part_ptr,
    scalar_ptr,
    bits_ptr,
    N,
    dread_step,
    x_step,
    r_step,
    p_step,
    part_step,
    scalar_step,
    bits_step,
    factor,
    TILES: tl.constexpr,
    T: tl.constexpr,
    TP: tl.constexpr,
    RP: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    DROP: tl.constexpr,
):
    """In the place of x comes its gradient. Sums of a block go to `part` (2T − 1 rows for r, u, v) and `scalar`."""
    FULL: tl.constexpr = TP // T * T
    BITS: tl.constexpr = K if K < 32 else 32
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    i, j, offset, column = tl.arange(0, TP), tl.arange(0, TP), tl.arange(0, RP), head * K + tl.arange(0, K)
    word_at = head * (K // BITS) + tl.arange(0, K // BITS)
    r_at = offset[:, None] * (H * K) + column[None, :]
    r = tl.load(r_ptr + seed * r_step + r_at, mask=offset[:, None] < 2 * T - 1, other=0.0)
    u = tl.load(u_ptr + seed * p_step + column).to(dtype)[None, :]
    v = tl.load(v_ptr + seed * p_step + column)[None, :]
    positions = _position(r, v, i, j, T, RP)
    scale = tl.load(scale_ptr + seed * p_step)
    dr, du = tl.zeros((RP, K), tl.float32), tl.zeros((TP // 2, K), tl.float32)
    dpositions, dscale = tl.zeros((TP, TP), tl.float32), tl.zeros((TP // 2, TP), tl.float32)
    for n in range(tl.minimum(TILES, tl.cdiv(N, FULL) - tl.program_id(1) * TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * FULL  # row
        inside = (i < tl.minimum(N - first, FULL).to(tl.int32))[:, None]
        x_at = x_ptr + seed * x_step + first * (3 * H * K) + (i[:, None] * (3 * H * K) + column[None, :])
        q = tl.load(x_at, mask=inside, other=0.0)
        k = tl.load(x_at + H * K, mask=inside, other=0.0)
        value = tl.load(x_at + 2 * H * K, mask=inside, other=0.0)
        dread_at = dread_ptr + seed * dread_step + first * (H * K) + (i[:, None] * (H * K) + column[None, :])
        dread = tl.load(dread_at, mask=inside, other=0.0).to(dtype)
        keep = tl.full((TP, K), True, tl.int1)
        if DROP:
            bits_at = first * (H * K // BITS) + (i[:, None] * (H * K // BITS) + word_at[None, :])
            keep = by_bit(tl.load(bits_ptr + seed * bits_step + bits_at, mask=inside, other=0), K, BITS)
            k = tl.where(keep, k, 0.0)
        qu = q + u
        score, A = _attention(q, qu, k, r, positions, scale, factor, i, j, T, RP)

        dvalue = tl.dot(tl.trans(A.to(dtype)), dread, input_precision="ieee")
        dA = tl.dot(dread, tl.trans(value), input_precision="ieee")
        dlogit = A * (dA - tl.sum(A * dA, axis=1)[:, None])
        dscale += halves(dlogit * score, TP, TP)
        dscore = dlogit * scale
        dpositions += dscore
        shifted = _shift_back(dscore, i, offset, T, TP).to(dtype)
        dr += tl.dot(tl.trans(shifted), q, input_precision="ieee")
        dcontent = (dscore * factor).to(dtype)
        dk = tl.dot(tl.trans(dcontent), qu, input_precision="ieee")
        dk = tl.where(keep, dk, 0.0) if DROP else dk
        dq = tl.dot(dcontent, k, input_precision="ieee")
        du += halves(dq, TP, K)
        dq += tl.dot(shifted, r, input_precision="ieee")
        tl.store(x_at, dq.to(dtype), mask=inside)
        tl.store(x_at + H * K, dk.to(dtype), mask=inside)
        tl.store(x_at + 2 * H * K, dvalue.to(dtype), mask=inside)
    by_offset = tl.sum(_shift_back(dpositions, i, offset, T, TP), axis=0)[:, None]  # (RP, 1)
    part = part_ptr + seed * part_step + tl.program_id(1) * ((2 * T + 1) * H * K)
    tl.store(part + r_at, dr + by_offset * v, mask=offset[:, None] < 2 * T - 1)
    tl.store(part + (2 * T - 1) * H * K + column, tl.sum(du, axis=0))
    tl.store(part + 2 * T * H * K + column, tl.sum(by_offset * r.to(tl.float32), axis=0))
    tl.store(scalar_ptr + seed * scalar_step + tl.program_id(1) * H + head, tl.sum(dscale))


@triton.jit
def relative_mask(mask_ptr, keys_ptr, first, stride, size, drop, factor, BLOCK: tl.constexpr):
    """The dropout of the position keys of all layers. Grid (blocks, layers, seeds)."""
    layer, seed = tl.program_id(1), tl.program_id(2).to(tl.int64)
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    position = (first + layer * stride).to(tl.int64)
    keep = keep_column(tl.load(keys_ptr + seed), position, element, drop)
    to = mask_ptr + (seed * tl.num_programs(1) + layer) * size + element
    tl.store(to, tl.where(keep, factor, 0.0), mask=element < size)


def forward(x: Tensor, r: Tensor, vectors: Vectors, read: Tensor, bits: Tensor, dropout: Dropout) -> None:
    """x: (S, N, 3D), r: (S, 2T − 1, D) -> read: (S, N, D), and which keys were kept: (S, N, words(H, K))."""
    shape = _shape(r, vectors)
    relative_forward[_grid(x, shape, FORWARD)](
        x,
        r,
        *vectors,
        read,
        bits,
        dropout.keys,
        dropout.position,
        x.shape[1],
        x.stride(0),
        r.stride(0),
        vectors.u.stride(0),
        read.stride(0),
        bits.stride(0),
        dropout.drop,
        dropout.factor,
        TILES=FORWARD,
        **shape,
        DROP=dropout.some,
        num_warps=WARPS,
        num_stages=STAGES,
    )


def parts(N: int, T: int) -> int:
    """How many partial sums a backward over N rows, T an example, leaves."""
    return blocks(N, TILE // T * T * BACKWARD)


def backward(
    dread: Tensor,
    x: Tensor,
    r: Tensor,
    vectors: Vectors,
    bits: Tensor,
    part: Tensor,
    scalar: Tensor,
    dropout: Dropout,
) -> None:
    """The gradient of x, in its place; sums for r, u and v: (S, parts, 2T + 1, D), and for scale: (S, parts, H)."""
    shape = _shape(r, vectors)
    relative_backward[_grid(x, shape, BACKWARD)](
        dread,
        x,
        r,
        *vectors,
        part,
        scalar,
        bits,
        x.shape[1],
        dread.stride(0),
        x.stride(0),
        r.stride(0),
        vectors.u.stride(0),
        part.stride(0),
        scalar.stride(0),
        bits.stride(0),
        dropout.factor,
        TILES=BACKWARD,
        **shape,
        DROP=dropout.some,
        num_warps=WARPS,
        num_stages=STAGES,
        maxnreg=REGISTERS,
    )


def words(heads: int, head_width: int) -> int:
    """How many int32 words the mask of a row's keys takes."""
    return heads * blocks(head_width, 32)


def fill_mask(mask: Tensor, first: Dropout, second: Dropout) -> None:
    """The dropout of the position keys, the factor or 0, (S, depth, 2T − 1, D), from that of the first two layers."""
    (S, depth), size, stride = mask.shape[:2], mask[0, 0].numel(), second.position - first.position
    relative_mask[blocks(size, 512), depth, S](
        mask, first.keys, first.position, stride, size, first.drop, first.factor, BLOCK=512
    )


def _shape(r: Tensor, vectors: Vectors) -> dict[str, int]:
    T, (H, K) = (r.shape[1] + 1) // 2, vectors.u.shape[1:]
    return {"T": T, "TP": TILE, "RP": max(16, triton.next_power_of_2(2 * T - 1)), "H": H, "K": K}


def _grid(x: Tensor, shape: dict[str, int], tiles: int) -> tuple[int, int, int]:
    rows = shape["TP"] // shape["T"] * shape["T"] * tiles
    return shape["H"], blocks(x.shape[1], rows), x.shape[0]
