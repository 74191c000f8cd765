"""Geometric attention, forward and backward: `pairs` has the products; here is the rest, a thread for a row.

A row of `x` holds q, k, v (H · K numbers each) and the direction preferences (H to the right, H to the left), all
without their biases `b`. With match m_ij = scale · q_i · dropout(k_j) + stretch · preference + shift and P = σ(m):
A_ij = P_ij · ∏_{n nearer to i than j} (1 − P_in). Of two columns at the same distance the right one is nearer.

In (S, H, T, N) (see `pairs`) the column at distance d to the right of i is in place d, to the left in place T − d. A
thread first reads all that it needs, so that it waits once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels import pairs, pairs_backward
from ctlpp.kernels.dropout import Dropout
from ctlpp.kernels.products import blocks

BLOCK, WARPS = 128, 4  # rows and warps of a program of the forward …
BACK, BACK_WARPS = 64, 1  # … and of the backward
SUMS, SUMS_WARPS = 64, 4  # sums that are added at a time for a match


class Scalars(NamedTuple):
    """The learned scalars, (S,) each: of the content, of the direction preference, and the bias."""

    scale: Tensor
    stretch: Tensor
    shift: Tensor


class Room(NamedTuple):
    """What a forward keeps for the backward."""

    content: Tensor  # q · k of the kept elements, (S, H, N, TJ) float32
    A: Tensor  # (S, H, T, N)
    bits: Tensor  # which elements of the keys were kept, (S, N, words)

    @staticmethod
    def of(x: Tensor, B: int, *, heads: int, head_width: int) -> Room:
        """Room for a batch of B examples whose rows are x: (S, B · T, …)."""
        S, N, T = *x.shape[:2], x.shape[1] // B
        return Room(
            content=x.new_empty(S, heads, N, T + T % 2, dtype=torch.float32),
            A=x.new_empty(S, heads, T, N),
            bits=x.new_empty(S, N, pairs.words(heads, head_width), dtype=torch.int32),
        )


class Sums(NamedTuple):
    """Sums over the rows of a program, for the biases of q and k, of v, and for what makes up a match."""

    qk: Tensor  # (S, programs, 2D)
    v: Tensor  # (S, programs, D)
    match: (
        Tensor  # dmatch · content, dmatch · preference, dmatch to the right, to the left, (S, programs, H, 4)
    )

    @staticmethod
    def of(keys: Tensor, layers: int, N: int, T: int, *, heads: int, width: int) -> Sums:
        """Room for so many layers of N rows, T an example: (S, layers, programs, …)."""
        qk, v = (pairs.parts(N, T, tiles) for tiles in (pairs_backward.SCORE, pairs_backward.READ))
        shapes = (qk, 2 * width), (v, width), (blocks(N, BACK), heads, 4)
        return Sums(*(torch.empty(len(keys), layers, *shape, device=keys.device) for shape in shapes))

    def at(self, layer: int) -> Sums:
        """Those of a layer."""
        return Sums(*(sums[:, layer] for sums in self))


@triton.jit
def prefer(x_ptr, b_ptr, row, start, N, WIDTH: tl.constexpr):
    """The output of the direction map, (rows,)."""
    value = tl.load(x_ptr + row.to(tl.int64) * WIDTH + start, mask=row < N, other=0.0)
    return value.to(tl.float32) + tl.load(b_ptr + start)


@triton.jit
def sigmoids(match):
    """P and 1 − P, both to full relative precision."""
    e = tl.exp2(tl.abs(match) * -1.4426950408889634)
    large = 1.0 / (1.0 + e)
    return tl.where(match > 0, large, e * large), tl.where(match > 0, e * large, large)


@triton.jit
def _seen(i, d: tl.constexpr, side: tl.constexpr, T: tl.constexpr):
    """Whether column i has a column at distance d to its right (side 0) or left (side 1)."""
    return i >= d if side else (i >= 0) & (i < T - d)


@triton.jit
def _both(ptr, i, d: tl.constexpr, right, left, T: tl.constexpr):
    """What there is of the columns at distance d to the right and to the left, which is so far from `ptr`."""
    return (
        tl.load(ptr + right, mask=_seen(i, d, 0, T), other=0.0),
        tl.load(ptr + left, mask=_seen(i, d, 1, T), other=0.0),
    )


@triton.jit
def geometric_forward(
    content_ptr,
    x_ptr,
    b_ptr,
    scale_ptr,
    stretch_ptr,
    shift_ptr,
    A_ptr,
    N,
    content_step,
    x_step,
    b_step,
    p_step,
    A_step,
    factor,
    T: tl.constexpr,
    TJ: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A from the content, nearest column first. Grid (heads, blocks of rows, seeds)."""
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = tl.where(row < N, row % T, -T)
    scale = tl.load(scale_ptr + seed * p_step) * factor
    stretch, shift = tl.load(stretch_ptr + seed * p_step), tl.load(shift_ptr + seed * p_step)
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    right = prefer(x, b, row, 3 * D + head, N, WIDTH) * stretch + shift
    left = prefer(x, b, row, 3 * D + H + head, N, WIDTH) * stretch + shift
    content_at = content_ptr + seed * content_step + (head * N + row) * TJ + i
    A_at = A_ptr + seed * A_step + head * T * N + row
    contents = _both(content_at, i, 1, 1, -1, T)
    for d in tl.static_range(2, T):
        contents += _both(content_at, i, d, d, -d, T)
    free = tl.full((BLOCK,), 1.0, tl.float32)  # the part of the attention that no nearer column took
    for d in tl.static_range(1, T):
        for side in tl.static_range(2):
            seen = _seen(i, d, side, T)
            match = contents[2 * (d - 1) + side] * scale + (left if side else right)
            P, miss = sigmoids(tl.where(seen, match, -1e30))
            tl.store(A_at + (T - d if side else d) * N, (free * P).to(A_ptr.dtype.element_ty), mask=seen)
            free *= miss


@triton.jit
def geometric_backward(
    dA_ptr,
    content_ptr,
    x_ptr,
    b_ptr,
    scale_ptr,
    stretch_ptr,
    shift_ptr,
    A_ptr,
    sums_ptr,
    N,
    content_step,
    x_step,
    b_step,
    p_step,
    A_step,
    sums_step,
    factor,
    T: tl.constexpr,
    TJ: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """In the place of A comes the gradient of q · k, in that of the preferences theirs; farthest column first.

    Sums over rows go to `sums`: of dmatch · content, dmatch · preference, dmatch to the right and to the left.
    """
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = tl.where(row < N, row % T, -T)
    scale = tl.load(scale_ptr + seed * p_step) * factor
    stretch, shift = tl.load(stretch_ptr + seed * p_step), tl.load(shift_ptr + seed * p_step)
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    right = prefer(x, b, row, 3 * D + head, N, WIDTH)
    left = prefer(x, b, row, 3 * D + H + head, N, WIDTH)
    at = seed * content_step + (head * N + row) * TJ + i
    A_at = A_ptr + seed * A_step + head * T * N + row
    contents, dAs = _both(content_ptr + at, i, 1, 1, -1, T), _both(dA_ptr + at, i, 1, 1, -1, T)
    As = _both(A_at, i, 1, N, (T - 1) * N, T)
    for d in tl.static_range(2, T):
        contents += _both(content_ptr + at, i, d, d, -d, T)
        dAs += _both(dA_ptr + at, i, d, d, -d, T)
        As += _both(A_at, i, d, d * N, (T - d) * N, T)
    hidden, dscale = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    dright, dleft = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for d in tl.static_range(T - 1, 0, -1):
        for side in tl.static_range(1, -1, -1):
            seen, content = _seen(i, d, side, T), contents[2 * (d - 1) + side]
            P, _ = sigmoids(
                tl.where(seen, content * scale + (left if side else right) * stretch + shift, -1e30)
            )
            G = As[2 * (d - 1) + side].to(tl.float32) * dAs[2 * (d - 1) + side]  # of log A
            hidden += G  # of this column and all behind it
            dmatch = G - P * hidden
            to = A_at + (T - d if side else d) * N
            tl.store(to, (dmatch * scale).to(A_ptr.dtype.element_ty), mask=seen)
            dscale += dmatch * content
            if side:
                dleft += dmatch
            else:
                dright += dmatch
    to = x + row.to(tl.int64) * WIDTH + 3 * D + head
    tl.store(to, (dright * stretch).to(x_ptr.dtype.element_ty), mask=row < N)
    tl.store(to + H, (dleft * stretch).to(x_ptr.dtype.element_ty), mask=row < N)
    sums = sums_ptr + seed * sums_step + (tl.program_id(1) * H + head) * 4
    tl.store(sums, tl.sum(dscale) * factor)
    tl.store(sums + 1, tl.sum(dright * right + dleft * left))
    tl.store(sums + 2, tl.sum(dright))
    tl.store(sums + 3, tl.sum(dleft))


@triton.jit
def match_sums(
    part_ptr,
    last_ptr,
    stretch_ptr,
    g_ptr,
    to_stretch,
    to_shift,
    to_sides,
    R,
    LAST,
    part_step,
    last_step,
    p_step,
    g_step,
    H: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (seeds). `to_…`: how far behind the gradient of the content's scale the others lie."""
    seed = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, ROWS), tl.arange(0, 4 * H)
    total = tl.zeros((ROWS, 4 * H), tl.float32)
    for first in range(0, R, ROWS):
        at = (first + row)[:, None] * (4 * H) + column[None, :]
        total += tl.load(part_ptr + seed * part_step + at, mask=(first + row < R)[:, None], other=0.0)
    for first in range(0, LAST, ROWS):
        at = (first + row)[:, None] * (4 * H) + column[None, :]
        total += tl.load(last_ptr + seed * last_step + at, mask=(first + row < LAST)[:, None], other=0.0)
    sums, head, which = tl.sum(total, axis=0), column // 4, column % 4
    g = g_ptr + seed * g_step
    tl.store(g, tl.sum(tl.where(which == 0, sums, 0.0)))
    tl.store(g + to_stretch, tl.sum(tl.where(which == 1, sums, 0.0)))
    tl.store(g + to_shift, tl.sum(tl.where(which >= 2, sums, 0.0)))
    sides = sums * tl.load(stretch_ptr + seed * p_step)
    tl.store(g + to_sides + (which - 2) * H + head, sides, mask=which >= 2)


def match_gradients(part: Tensor, last: Tensor, stretch: Tensor, places: Sequence[Tensor]) -> None:
    """From two tables of sums, (S, …, H, 4): gradients of the three scalars and of the direction's bias, (S, 2H)."""
    first, *others = places
    match_sums[len(part),](
        part,
        last,
        stretch,
        first,
        *(place.storage_offset() - first.storage_offset() for place in others),
        part.shape[1],
        last.shape[1],
        part.stride(0),
        last.stride(0),
        stretch.stride(0),
        first.stride(0),
        H=part.shape[2],
        ROWS=SUMS,
        num_warps=SUMS_WARPS,
    )


def forward(x: Tensor, bias: Tensor, s: Scalars, room: Room, read: Tensor, dropout: Dropout) -> None:
    """What each column reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H), read: (S, B · T, D)."""
    shape = _shape(room, x)
    pairs.score(x, bias, room.content, room.bits, shape["T"], dropout)
    geometric_forward[shape["H"], blocks(x.shape[1], BLOCK), len(x)](
        room.content,
        x,
        bias,
        *s,
        room.A,
        x.shape[1],
        room.content.stride(0),
        x.stride(0),
        bias.stride(0),
        s.scale.stride(0),
        room.A.stride(0),
        dropout.factor,
        **shape,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
    pairs.read(room.A, x, bias, read)


def backward(
    dread: Tensor, x: Tensor, bias: Tensor, s: Scalars, room: Room, sums: Sums, dropout: Dropout
) -> None:
    """The gradient of x, in its place; what it leaves for the biases and scalars goes to `sums`."""
    shape, dA = _shape(room, x), torch.empty_like(room.content)
    pairs_backward.read_backward(dread, room.A, x, bias, dA, sums.v)
    geometric_backward[shape["H"], blocks(x.shape[1], BACK), len(x)](
        dA,
        room.content,
        x,
        bias,
        *s,
        room.A,
        sums.match,
        x.shape[1],
        dA.stride(0),
        x.stride(0),
        bias.stride(0),
        s.scale.stride(0),
        room.A.stride(0),
        sums.match.stride(0),
        dropout.factor,
        **shape,
        BLOCK=BACK,
        num_warps=BACK_WARPS,
    )
    pairs_backward.score_backward(room.A, x, bias, sums.qk, room.bits, dropout)


def _shape(room: Room, x: Tensor) -> dict[str, int]:
    H, T = room.A.shape[1:3]
    return {"T": T, "TJ": room.content.shape[3], "H": H, "D": (x.shape[2] - 2 * H) // 3, "WIDTH": x.stride(1)}
