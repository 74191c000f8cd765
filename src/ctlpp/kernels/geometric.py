"""Geometric attention, forward and backward: `pairs` has the products; here is the rest, a thread for a row.

A row of `x` holds q, k, v (H · K numbers each) and the direction preferences (H to the right, H to the left), all
without their biases `b`. With match m_ij = scale · q_i · dropout(k_j) + stretch · preference + shift and P = σ(m):
A_ij = P_ij · ∏_{n nearer to i than j} (1 − P_in). Of two columns at the same distance the right one is nearer.

In a buffer of pairs (see `pairs`) the column at distance d to the right of i is in place d, to the left in place T − d.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels import pairs
from ctlpp.kernels.dropout import Dropout
from ctlpp.kernels.products import blocks

BLOCK = 128  # rows of a program
WARPS = 4


class Scalars(NamedTuple):
    """The learned scalars, (S,) each: of the content, of the direction preference, and the bias."""

    scale: Tensor
    stretch: Tensor
    shift: Tensor


class Room(NamedTuple):
    """What a forward keeps for the backward."""

    content: Tensor  # q · k of the kept elements, (S, B, H, T, T) float32
    A: Tensor  # (S, B, H, T, T)
    bits: Tensor  # which elements of the keys were kept, (S, N, words)

    @staticmethod
    def of(x: Tensor, B: int, *, heads: int, head_width: int) -> Room:
        """Room for a batch of B examples whose rows are x: (S, B · T, …)."""
        S, N = x.shape[:2]
        content = x.new_empty(S, B, heads, N // B, N // B, dtype=torch.float32)
        bits = x.new_empty(S, N, pairs.words(heads, head_width), dtype=torch.int32)
        return Room(content, torch.empty_like(content, dtype=x.dtype), bits)


@triton.jit
def _row(N, T: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr):
    """The rows of this program, their columns, and where their place 0 is in a buffer of pairs."""
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = row % T
    return row, tl.where(row < N, i, -T), (row // T * H + tl.program_id(0)) * (T * T) + i


@triton.jit
def _prefer(x_ptr, b_ptr, row, start, N, WIDTH: tl.constexpr):
    """The output of the direction map, (rows,)."""
    value = tl.load(x_ptr + row.to(tl.int64) * WIDTH + start, mask=row < N, other=0.0)
    return value.to(tl.float32) + tl.load(b_ptr + start)


@triton.jit
def _sigmoids(match):
    """P and 1 − P, both to full relative precision."""
    e = tl.exp2(tl.abs(match) * -1.4426950408889634)
    large = 1.0 / (1.0 + e)
    return tl.where(match > 0, large, e * large), tl.where(match > 0, e * large, large)


@triton.jit
def _look(content_ptr, seen, scale, preference):
    """Content and match of a column, where one is seen; P = 0 elsewhere."""
    content = tl.load(content_ptr, mask=seen, other=0.0)
    return content, tl.where(seen, content * scale + preference, -1e30)


@triton.jit
def geometric_forward(content_ptr, x_ptr, b_ptr, scale_ptr, stretch_ptr, shift_ptr, A_ptr, N, pairs_step, x_step,
                      b_step, p_step, A_step, factor, T: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
                      BLOCK: tl.constexpr):  # fmt: skip
    """A from the content, nearest column first. Grid (heads, blocks of rows, seeds)."""
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row, i, at = _row(N, T, H, BLOCK)
    scale = tl.load(scale_ptr + seed * p_step) * factor
    stretch, shift = tl.load(stretch_ptr + seed * p_step), tl.load(shift_ptr + seed * p_step)
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    right = _prefer(x, b, row, 3 * D + head, N, 3 * D + 2 * H) * stretch + shift
    left = _prefer(x, b, row, 3 * D + H + head, N, 3 * D + 2 * H) * stretch + shift
    content_at, A_at = content_ptr + seed * pairs_step + at, A_ptr + seed * A_step + at
    free = tl.full((BLOCK,), 1.0, tl.float32)  # the part of the attention that no nearer column took
    for d in tl.static_range(1, T):
        for side in tl.static_range(2):
            place = T - d if side else d
            seen = i >= d if side else (i >= 0) & (i < T - d)
            _, match = _look(content_at + place * T, seen, scale, left if side else right)
            P, miss = _sigmoids(match)
            tl.store(A_at + place * T, (free * P).to(A_ptr.dtype.element_ty), mask=seen)
            free *= miss


@triton.jit
def geometric_backward(dA_ptr, content_ptr, x_ptr, b_ptr, scale_ptr, stretch_ptr, shift_ptr, A_ptr, sums_ptr, N,
                       dA_step, pairs_step, x_step, b_step, p_step, A_step, sums_step, factor, T: tl.constexpr,
                       H: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """In the place of A comes the gradient of q · k, in that of the preferences theirs; farthest column first.

    Sums over rows go to `sums`: of dmatch · content, dmatch · preference, dmatch to the right and to the left.
    """
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row, i, at = _row(N, T, H, BLOCK)
    scale = tl.load(scale_ptr + seed * p_step) * factor
    stretch, shift = tl.load(stretch_ptr + seed * p_step), tl.load(shift_ptr + seed * p_step)
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    right = _prefer(x, b, row, 3 * D + head, N, 3 * D + 2 * H)
    left = _prefer(x, b, row, 3 * D + H + head, N, 3 * D + 2 * H)
    content_at, dA_at = content_ptr + seed * pairs_step + at, dA_ptr + seed * dA_step + at
    A_at = A_ptr + seed * A_step + at
    hidden, dscale = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    dright, dleft = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for n in tl.static_range(1, T):
        for side in tl.static_range(2):
            place = T - n if side else n
            seen = (i >= 0) & (i < n) if side else i >= T - n
            content, match = _look(content_at + place * T, seen, scale, (right if side else left) * stretch + shift)
            P, _ = _sigmoids(match)
            A = tl.load(A_at + place * T, mask=seen, other=0.0).to(tl.float32)
            G = A * tl.load(dA_at + place * T, mask=seen, other=0.0)  # of log A
            hidden += G  # of this column and all behind it
            dmatch = G - P * hidden
            tl.store(A_at + place * T, (dmatch * scale).to(A_ptr.dtype.element_ty), mask=seen)
            dscale += dmatch * content
            if side:
                dright += dmatch
            else:
                dleft += dmatch
    to = x + row.to(tl.int64) * (3 * D + 2 * H) + 3 * D + head
    tl.store(to, (dright * stretch).to(x_ptr.dtype.element_ty), mask=row < N)
    tl.store(to + H, (dleft * stretch).to(x_ptr.dtype.element_ty), mask=row < N)
    sums = sums_ptr + seed * sums_step + (tl.program_id(1) * H + head) * 4
    tl.store(sums, tl.sum(dscale) * factor)
    tl.store(sums + 1, tl.sum(dright * right + dleft * left))
    tl.store(sums + 2, tl.sum(dright))
    tl.store(sums + 3, tl.sum(dleft))


def forward(x: Tensor, bias: Tensor, s: Scalars, room: Room, read: Tensor, dropout: Dropout) -> None:
    """What each column reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H), read: (S, B · T, D)."""
    pairs.score(x, bias, room.content, room.bits, dropout)
    geometric_forward[_grid(room)](
        room.content, x, bias, *s, room.A, x.shape[1], room.content.stride(0), x.stride(0), bias.stride(0),
        s.scale.stride(0), room.A.stride(0), dropout.factor, **_shape(room, read), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    pairs.read(room.A, x, bias, read)


def parts(N: int) -> int:
    """How many partial sums of the scalars' gradients a backward over N rows leaves."""
    return blocks(N, BLOCK)


def backward(dread: Tensor, x: Tensor, bias: Tensor, s: Scalars, room: Room, part: Tensor, sums: Tensor,
             dropout: Dropout) -> None:  # fmt: skip
    """The gradient of x, in its place; part: (S, pairs.parts, 3D) for the bias of q, k, v, sums: (S, parts, 4H)."""
    dA = torch.empty_like(room.content)
    pairs.read_backward(dread, room.A, x, bias, dA, part)
    geometric_backward[_grid(room)](
        dA, room.content, x, bias, *s, room.A, sums, x.shape[1], dA.stride(0), room.content.stride(0), x.stride(0),
        bias.stride(0), s.scale.stride(0), room.A.stride(0), sums.stride(0), dropout.factor, **_shape(room, dread),
        BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    pairs.score_backward(room.A, x, bias, part, room.bits, dropout)


def _shape(room: Room, read: Tensor) -> dict[str, int]:
    return {"T": room.A.shape[-1], "H": room.A.shape[2], "D": read.shape[2]}


def _grid(room: Room) -> tuple[int, int, int]:
    S, B, H, T = room.A.shape[:4]
    return H, blocks(B * T, BLOCK), S
