"""Geometric attention over at most 16 columns, one program a head and a few examples: nothing but q, k, v is read.

A row of `x` holds q, k, v (H · K numbers each) and the direction preferences (H to the right, H to the left), all
without their biases `b`. With match m_ij = scale · q_i · dropout(k_j) + preference and P = σ(m):
A_ij = P_ij · ∏_{n nearer to i than j} (1 − P_in). Of two columns at the same distance the right one is nearer.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import Dropout, keep_tile
from ctlpp.kernels.products import blocks

TILE = 16  # columns in a tile: of as many whole examples as fit
WARPS = 1
TILES = 4  # that a program of the backward works on


@triton.jit
def _load(x_ptr, b_ptr, start, row, column, inside, WIDTH: tl.constexpr):
    """A (columns, head width) piece of the rows with its bias, rounded as the products need it."""
    piece = tl.load(x_ptr + row[:, None] * WIDTH + start + column[None, :], mask=inside[:, None], other=0.0)
    return (piece.to(tl.float32) + tl.load(b_ptr + start + column)[None, :]).to(x_ptr.dtype.element_ty)


@triton.jit
def _prefer(x_ptr, b_ptr, start, row, inside, WIDTH: tl.constexpr):
    """The output of the direction map for one head and one side, (columns,)."""
    value = tl.load(x_ptr + row * WIDTH + start, mask=inside, other=0.0).to(tl.float32)
    return value + tl.load(b_ptr + start)


@triton.jit
def _mirrored(sums, i, j, TP: tl.constexpr):
    """For j the value at the column as far from i on the other side; running sums are 0 before the first column."""
    mirror = 2 * i[:, None] - j[None, :]
    there = tl.gather(sums, tl.minimum(tl.maximum(mirror, 0), TP - 1), axis=1)
    return tl.where(mirror < 0, 0.0, there)


@triton.jit
def _attention(match, valid, i, j, TP: tl.constexpr):
    """A (columns, columns). Nearer than j, or j itself, are the columns between j and its mirror image."""
    miss = -(tl.maximum(match, 0.0) + tl.log(1 + tl.exp(-tl.abs(match))))  # log (1 − P)
    miss = tl.where(valid, miss, 0.0)
    sums = tl.cumsum(miss, axis=1)
    mirrored = _mirrored(sums, i, j, TP)
    total = tl.where(j[None, :] > i[:, None], sums - mirrored, mirrored - sums + miss)
    return tl.where(valid, tl.exp(match + total), 0.0)


@triton.jit
def _hidden_by(G, i, j, TP: tl.constexpr):
    """The sum of G over j itself and all columns farther away."""
    sums = tl.cumsum(G, axis=1)
    all_of_them = tl.sum(G, axis=1)[:, None]
    mirrored = _mirrored(sums, i, j, TP)
    return all_of_them + tl.where(j[None, :] > i[:, None], G - sums + mirrored, sums - mirrored)


@triton.jit
def geometric_forward(x_ptr, b_ptr, scale_ptr, stretch_ptr, shift_ptr, out_ptr, keys_ptr, position, N, x_step, b_step,
            p_step, out_step, drop, factor, TILES: tl.constexpr, T: tl.constexpr, TP: tl.constexpr, H: tl.constexpr,
            K: tl.constexpr, DROP: tl.constexpr):  # fmt: skip
    """Grid (blocks of tiles, heads, seeds). `scale`, `stretch`, `shift`: the three learned scalars."""
    WIDTH: tl.constexpr = 3 * H * K + 2 * H
    head, seed = tl.program_id(1), tl.program_id(2).to(tl.int64)
    PACK: tl.constexpr = TP // T  # examples in a tile
    i, j, column = tl.arange(0, TP), tl.arange(0, TP), tl.arange(0, K)
    together = (i[:, None] // T == j[None, :] // T) & (i[:, None] != j[None, :]) & (j[None, :] < PACK * T)
    scale = tl.load(scale_ptr + seed * p_step)
    stretch = tl.load(stretch_ptr + seed * p_step)
    shift = tl.load(shift_ptr + seed * p_step)
    key = tl.load(keys_ptr + seed)
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    for n in range(TILES):
        first = (tl.program_id(0).to(tl.int64) * TILES + n) * (PACK * T)
        if first < N:
            row = first + i
            inside = (i < PACK * T) & (row < N)
            valid = together & inside[:, None]
            q = _load(x, b, head * K, row, column, inside, WIDTH)
            k = _load(x, b, H * K + head * K, row, column, inside, WIDTH)
            v = _load(x, b, 2 * H * K + head * K, row, column, inside, WIDTH)
            if DROP:
                keep = keep_tile(key, position + row * (H * K // 4) + head * (K // 4), drop, TP, K)
                k = tl.where(keep, k.to(tl.float32) * factor, 0.0).to(k.dtype)
            right = _prefer(x, b, 3 * H * K + head, row, inside, WIDTH) * stretch + shift
            left = _prefer(x, b, 3 * H * K + H + head, row, inside, WIDTH) * stretch + shift
            content = tl.dot(q, tl.trans(k), input_precision="ieee")
            match = tl.where(j[None, :] > i[:, None], right[:, None], left[:, None]) + content * scale
            A = _attention(match, valid, i, j, TP)
            read = tl.dot(A.to(v.dtype), v, input_precision="ieee")
            to = out_ptr + seed * out_step + row[:, None] * (H * K) + head * K + column[None, :]
            tl.store(to, read.to(out_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def geometric_backward(dread_ptr, x_ptr, b_ptr, scale_ptr, stretch_ptr, shift_ptr, part_ptr, scalars_ptr, keys_ptr,
                       position, N, dread_step, x_step, b_step, p_step, part_step, scalars_step, drop, factor,
                       TILES: tl.constexpr, T: tl.constexpr, TP: tl.constexpr, H: tl.constexpr, K: tl.constexpr,
                       DROP: tl.constexpr):  # fmt: skip
    """In x's place comes its gradient. Sums over rows go to `part` (for b) and `scalars` (scale, stretch, shift)."""
    WIDTH: tl.constexpr = 3 * H * K + 2 * H
    head, seed = tl.program_id(1), tl.program_id(2).to(tl.int64)
    PACK: tl.constexpr = TP // T  # examples in a tile
    i, j, column = tl.arange(0, TP), tl.arange(0, TP), tl.arange(0, K)
    together = (i[:, None] // T == j[None, :] // T) & (i[:, None] != j[None, :]) & (j[None, :] < PACK * T)
    on_right = j[None, :] > i[:, None]
    scale = tl.load(scale_ptr + seed * p_step)
    stretch = tl.load(stretch_ptr + seed * p_step)
    shift = tl.load(shift_ptr + seed * p_step)
    key = tl.load(keys_ptr + seed)
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    sum_q, sum_k, sum_v = tl.zeros((K,), tl.float32), tl.zeros((K,), tl.float32), tl.zeros((K,), tl.float32)
    sum_right, sum_left, sum_scale, sum_stretch, sum_shift = 0.0, 0.0, 0.0, 0.0, 0.0
    for n in range(TILES):
        first = (tl.program_id(0).to(tl.int64) * TILES + n) * (PACK * T)
        if first < N:
            row = first + i
            inside = (i < PACK * T) & (row < N)
            valid = together & inside[:, None]
            q = _load(x, b, head * K, row, column, inside, WIDTH)
            k = _load(x, b, H * K + head * K, row, column, inside, WIDTH)
            v = _load(x, b, 2 * H * K + head * K, row, column, inside, WIDTH)
            keep = tl.full((TP, K), True, tl.int1)
            if DROP:
                keep = keep_tile(key, position + row * (H * K // 4) + head * (K // 4), drop, TP, K)
                k = tl.where(keep, k.to(tl.float32) * factor, 0.0).to(k.dtype)
            right = _prefer(x, b, 3 * H * K + head, row, inside, WIDTH)
            left = _prefer(x, b, 3 * H * K + H + head, row, inside, WIDTH)
            content = tl.dot(q, tl.trans(k), input_precision="ieee")
            match = tl.where(on_right, right[:, None], left[:, None]) * stretch + shift + content * scale
            A = _attention(match, valid, i, j, TP)

            at = dread_ptr + seed * dread_step + row[:, None] * (H * K) + head * K + column[None, :]
            dread = tl.load(at, mask=inside[:, None], other=0.0).to(v.dtype)
            dA = tl.dot(dread, tl.trans(v), input_precision="ieee")
            dv = tl.dot(tl.trans(A.to(v.dtype)), dread, input_precision="ieee")
            G = dA * A  # of log A
            dmatch = tl.where(valid, G - tl.sigmoid(match) * _hidden_by(G, i, j, TP), 0.0)
            dcontent = (dmatch * scale).to(v.dtype)
            dq = tl.dot(dcontent, k, input_precision="ieee")
            dk = tl.dot(tl.trans(dcontent), q, input_precision="ieee")
            dk = tl.where(keep, dk * factor, 0.0) if DROP else dk
            dright = tl.sum(tl.where(on_right, dmatch, 0.0), axis=1)
            dleft = tl.sum(tl.where(on_right, 0.0, dmatch), axis=1)

            to = x + row[:, None] * WIDTH + head * K + column[None, :]
            tl.store(to, dq.to(x_ptr.dtype.element_ty), mask=inside[:, None])
            tl.store(to + H * K, dk.to(x_ptr.dtype.element_ty), mask=inside[:, None])
            tl.store(to + 2 * H * K, dv.to(x_ptr.dtype.element_ty), mask=inside[:, None])
            side = x + row * WIDTH + 3 * H * K + head
            tl.store(side, (dright * stretch).to(x_ptr.dtype.element_ty), mask=inside)
            tl.store(side + H, (dleft * stretch).to(x_ptr.dtype.element_ty), mask=inside)
            sum_q += tl.sum(dq, axis=0)
            sum_k += tl.sum(dk, axis=0)
            sum_v += tl.sum(dv, axis=0)
            sum_right += tl.sum(dright) * stretch
            sum_left += tl.sum(dleft) * stretch
            sum_scale += tl.sum(tl.where(valid, dmatch * content, 0.0))
            sum_stretch += tl.sum(dright * right) + tl.sum(dleft * left)
            sum_shift += tl.sum(dright) + tl.sum(dleft)
    part = part_ptr + seed * part_step + tl.program_id(0) * WIDTH + head * K + column
    tl.store(part, sum_q)
    tl.store(part + H * K, sum_k)
    tl.store(part + 2 * H * K, sum_v)
    sides = part_ptr + seed * part_step + tl.program_id(0) * WIDTH + 3 * H * K + head
    tl.store(sides, sum_right)
    tl.store(sides + H, sum_left)
    scalars = scalars_ptr + seed * scalars_step + (tl.program_id(0) * H + head) * 3
    tl.store(scalars, sum_scale)
    tl.store(scalars + 1, sum_stretch)
    tl.store(scalars + 2, sum_shift)


@dataclass(frozen=True)
class Scalars:
    """The learned scalars, (S,) each: of the content, of the direction preference, and the bias."""

    scale: Tensor
    stretch: Tensor
    shift: Tensor


def parts(B: int, T: int) -> int:
    """How many partial sums a backward over B examples of T columns leaves."""
    return blocks(B, TILE // T * TILES)


def forward(x: Tensor, bias: Tensor, s: Scalars, read: Tensor, dropout: Dropout, *, T: int, heads: int) -> None:
    """What each column reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H), read: (S, B · T, D)."""
    S, N, D = read.shape
    geometric_forward[blocks(N // T, TILE // T), heads, S](
        x, bias, s.scale, s.stretch, s.shift, read, dropout.keys, dropout.position, N, x.stride(0), bias.stride(0),
        s.scale.stride(0), read.stride(0), dropout.drop, dropout.factor, TILES=1, T=T, TP=TILE, H=heads, K=D // heads,
        DROP=dropout.some, num_warps=WARPS,
    )  # fmt: skip


def backward(dread: Tensor, x: Tensor, bias: Tensor, s: Scalars, part: Tensor, scalars: Tensor, dropout: Dropout, *,
             T: int, heads: int) -> None:  # fmt: skip
    """The gradient of x, in its place; part: (S, parts, 3D + 2H) for the bias, scalars: (S, parts · H, 3)."""
    S, N, D = dread.shape
    geometric_backward[parts(N // T, T), heads, S](
        dread, x, bias, s.scale, s.stretch, s.shift, part, scalars, dropout.keys, dropout.position, N,
        dread.stride(0), x.stride(0), bias.stride(0), s.scale.stride(0), part.stride(0), scalars.stride(0),
        dropout.drop, dropout.factor, TILES=TILES, T=T, TP=TILE, H=heads, K=D // heads, DROP=dropout.some,
        num_warps=WARPS,
    )  # fmt: skip
