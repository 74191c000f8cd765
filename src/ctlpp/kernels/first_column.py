"""Geometric attention of column 0 alone, all that the last layer needs, forward and backward.

A row of `x` and the scalars are those of `geometric`. All other columns lie to the right of column 0, column j at
distance j, so that A_j = P_j · ∏_{n<j} (1 − P_n), one column after the other. A program has a few
examples of a head; it keeps nothing for the backward, which does it again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import Dropout, keep_tile
from ctlpp.kernels.geometric import Scalars, prefer, sigmoids
from ctlpp.kernels.order import from_last
from ctlpp.kernels.products import blocks

EXAMPLES, WARPS = 16, 4  # of a program of the forward …
BACK, BACK_WARPS = 16, 4  # … and of the backward
REGISTERS: int | None = 128  # at most, a thread of the backward


class Sums(NamedTuple):
    """Sums over rows of a block: of the gradients of q, k and v, (S, blocks, 3D), for a match, (S, blocks, H, 4)."""

    qkv: Tensor
    match: Tensor


@triton.jit
def _keys_and_values(x_ptr, inside, j, D: tl.constexpr, WIDTH: tl.constexpr):
    """k and v of column j, without their biases. (examples, K) each"""
    k = tl.load(x_ptr + (j * WIDTH + D), mask=inside, other=0.0)
    return k, tl.load(x_ptr + (j * WIDTH + 2 * D), mask=inside, other=0.0)


@triton.jit
def first_forward(
    x_ptr,
    b_ptr,
    scale_ptr,
    stretch_ptr,
    shift_ptr,
    out_ptr,
    keys_ptr,
    position,
    B,
    x_step,
    b_step,
    p_step,
    out_step,
    drop,
    factor,
    T: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    EXAMPLES: tl.constexpr,
    DROP: tl.constexpr,
):
    """What column 0 reads, Σ_j A_j v_j. Grid (heads, blocks of examples, seeds)."""
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    example, column = tl.program_id(1) * EXAMPLES + tl.arange(0, EXAMPLES), head * K + tl.arange(0, K)
    inside = (example < B)[:, None]
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    x_at = x + (example[:, None] * (T * WIDTH) + column[None, :])
    found = _keys_and_values(x_at, inside, 1, H * K, WIDTH)
    for j in tl.static_range(2, T):
        found += _keys_and_values(x_at, inside, j, H * K, WIDTH)
    b_q, b_k, b_v = (
        tl.load(b + column).to(dtype)[None, :],
        tl.load(b + H * K + column).to(dtype)[None, :],
        tl.load(b + 2 * H * K + column).to(dtype)[None, :],
    )
    q = (tl.load(x_at, mask=inside, other=0.0) + b_q).to(tl.float32)
    scale, key = tl.load(scale_ptr + seed * p_step) * factor, tl.load(keys_ptr + seed)
    right = prefer(x, b, example * T, 3 * H * K + head, B * T, WIDTH) * tl.load(stretch_ptr + seed * p_step)
    right += tl.load(shift_ptr + seed * p_step)
    word = position + example.to(tl.int64) * (T * H * K // 4) + head * (K // 4)
    free, read = tl.full((EXAMPLES,), 1.0, tl.float32), tl.zeros((EXAMPLES, K), tl.float32)
    for j in tl.static_range(1, T):
        k, v = (found[2 * j - 2] + b_k).to(tl.float32), (found[2 * j - 1] + b_v).to(tl.float32)
        if DROP:
            k = tl.where(keep_tile(key, word + j * (H * K // 4), drop, EXAMPLES, K), k, 0.0)
        P, miss = sigmoids(tl.sum(q * k, axis=1) * scale + right)
        read += (free * P)[:, None] * v
        free *= miss
    to = out_ptr + seed * out_step + (example[:, None] * (H * K) + column[None, :])
    tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def _column(q, k, dread, v, key, word, drop, scale, right, free, DROP: tl.constexpr):
    """Of a column: k and which of it is kept, content, P, A, the gradient of log A, and what it leaves for others."""
    keep = tl.full(k.shape, True, tl.int1)
    if DROP:
        keep = keep_tile(key, word, drop, k.shape[0], k.shape[1])
        k = tl.where(keep, k, 0.0)
    content = tl.sum(q * k.to(tl.float32), axis=1)
    P, miss = sigmoids(content * scale + right)
    return k, keep, content, P, free * P, free * P * tl.sum(dread * v.to(tl.float32), axis=1), free * miss


@triton.jit
def first_backward(
    dread_ptr,
    x_ptr,
    b_ptr,
    scale_ptr,
    stretch_ptr,
    shift_ptr,
    part_ptr,
    sums_ptr,
    keys_ptr,
    position,
    B,
    dread_step,
    x_step,
    b_step,
    p_step,
    part_step,
    sums_step,
    drop,
    factor,
    T: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    EXAMPLES: tl.constexpr,
    DROP: tl.constexpr,
):
    """In the place of x comes its gradient; sums over rows go to `part` (q, k, v) and `sums` (as in `geometric`)."""
    D: tl.constexpr = H * K
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    example, column = tl.program_id(1) * EXAMPLES + tl.arange(0, EXAMPLES), head * K + tl.arange(0, K)
    inside = (example < B)[:, None]
    x, b = x_ptr + seed * x_step, b_ptr + seed * b_step
    x_at = x + (example[:, None] * (T * WIDTH) + column[None, :])
    found = _keys_and_values(x_at, inside, 1, D, WIDTH)
    for j in tl.static_range(2, T):
        found += _keys_and_values(x_at, inside, j, D, WIDTH)
    q = (tl.load(x_at, mask=inside, other=0.0) + tl.load(b + column).to(dtype)[None, :]).to(tl.float32)
    b_k, b_v = tl.load(b + D + column).to(dtype)[None, :], tl.load(b + 2 * D + column).to(dtype)[None, :]
    at = dread_ptr + seed * dread_step + (example[:, None] * D + column[None, :])
    dread = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    scale, key = tl.load(scale_ptr + seed * p_step) * factor, tl.load(keys_ptr + seed)
    stretch, preference = (
        tl.load(stretch_ptr + seed * p_step),
        prefer(x, b, example * T, 3 * D + head, B * T, WIDTH),
    )
    right = preference * stretch + tl.load(shift_ptr + seed * p_step)
    word = position + example.to(tl.int64) * (T * D // 4) + head * (K // 4)
    free = tl.full((EXAMPLES,), 1.0, tl.float32)
    of = _column(q, found[0] + b_k, dread, found[1] + b_v, key, word + D // 4, drop, scale, right, free, DROP)
    for j in tl.static_range(2, T):
        of += _column(
            q,
            found[2 * j - 2] + b_k,
            dread,
            found[2 * j - 1] + b_v,
            key,
            word + j * (D // 4),
            drop,
            scale,
            right,
            of[7 * j - 8],
            DROP,
        )

    hidden, dscale, dright = free * 0.0, free * 0.0, free * 0.0
    dq, sum_k, sum_v = q * 0.0, q * 0.0, q * 0.0
    nothing = tl.zeros((EXAMPLES, K), dtype)
    side = tl.arange(0, 2 * H)[None, :]
    side_at = x + (example[:, None] * (T * WIDTH) + 3 * D + side)
    for j in tl.static_range(T - 1, 0, -1):
        hidden += of[7 * j - 2]
        dmatch = of[7 * j - 2] - of[7 * j - 4] * hidden
        dright += dmatch
        dscale += dmatch * of[7 * j - 5]
        dcontent = (dmatch * scale)[:, None]
        dq += dcontent * of[7 * j - 7].to(tl.float32)
        dk, dv = tl.where(of[7 * j - 6], dcontent * q, 0.0), of[7 * j - 3][:, None] * dread
        sum_k += dk
        sum_v += dv
        tl.store(x_at + j * WIDTH, nothing, mask=inside)
        tl.store(x_at + (j * WIDTH + D), dk.to(dtype), mask=inside)
        tl.store(x_at + (j * WIDTH + 2 * D), dv.to(dtype), mask=inside)
        tl.store(side_at + j * WIDTH, tl.zeros((EXAMPLES, 2 * H), dtype), mask=inside & (side % H == head))
    tl.store(x_at, dq.to(dtype), mask=inside)
    tl.store(x_at + D, nothing, mask=inside)
    tl.store(x_at + 2 * D, nothing, mask=inside)
    of_sides = tl.where(side == head, (dright * stretch)[:, None], 0.0)
    tl.store(side_at, of_sides.to(dtype), mask=inside & (side % H == head))
    part = part_ptr + seed * part_step + tl.program_id(1) * (3 * D) + column
    tl.store(part, tl.sum(dq, axis=0))
    tl.store(part + D, tl.sum(sum_k, axis=0))
    tl.store(part + 2 * D, tl.sum(sum_v, axis=0))
    sums = sums_ptr + seed * sums_step + (tl.program_id(1) * H + head) * 4
    tl.store(sums, tl.sum(dscale) * factor)
    tl.store(sums + 1, tl.sum(dright * preference))
    tl.store(sums + 2, tl.sum(dright))
    tl.store(sums + 3, 0.0)


def forward(x: Tensor, bias: Tensor, s: Scalars, read: Tensor, dropout: Dropout, *, heads: int) -> None:
    """What column 0 reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H) -> read: (S, B, D)."""
    shape, B = _shape(x, read, heads), read.shape[1]
    first_forward[heads, blocks(B, EXAMPLES), len(x)](
        x,
        bias,
        *s,
        read,
        dropout.keys,
        dropout.position,
        B,
        x.stride(0),
        bias.stride(0),
        s.scale.stride(0),
        read.stride(0),
        dropout.drop,
        dropout.factor,
        **shape,
        EXAMPLES=EXAMPLES,
        DROP=dropout.some,
        num_warps=WARPS,
    )


def backward(dread: Tensor, x: Tensor, bias: Tensor, s: Scalars, dropout: Dropout, *, heads: int) -> Sums:
    """The gradient of x, in its place, from that of what column 0 reads, (S, B, D)."""
    S, B, D = dread.shape
    part = torch.empty(S, blocks(B, BACK), 3 * D, device=x.device)
    sums = torch.empty(S, blocks(B, BACK), heads, 4, device=x.device)
    first_backward[heads, blocks(B, BACK), S](
        dread,
        x,
        bias,
        *s,
        part,
        sums,
        dropout.keys,
        dropout.position,
        B,
        dread.stride(0),
        x.stride(0),
        bias.stride(0),
        s.scale.stride(0),
        part.stride(0),
        sums.stride(0),
        dropout.drop,
        dropout.factor,
        **_shape(x, dread, heads),
        EXAMPLES=BACK,
        DROP=dropout.some,
        num_warps=BACK_WARPS,
        maxnreg=REGISTERS,
    )
    return Sums(part, sums)


def _shape(x: Tensor, read: Tensor, heads: int) -> dict[str, int]:
    return {"T": x.shape[1] // read.shape[1], "H": heads, "K": read.shape[2] // heads, "WIDTH": x.stride(1)}
