"""Geometric attention of column 0 alone, all that the last layer needs, forward and backward.

A row of `x` and the scalars are those of `geometric`. All other columns lie to the right of column 0, column
j at distance j, so that A_j = P_j · ∏_{n<j} (1 − P_n), one column after the other. A program has a few
examples of a head; it keeps nothing for the backward, which does it again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import Dropout, keep_tile
from ctlpp.kernels.geometric import Scalars, load_scalars, prefer, sigmoids
from ctlpp.kernels.launch import at_seed, blocks, by_seed, from_last
from ctlpp.kernels.pairs import Shape

EXAMPLES, WARPS = 16, 4  # of a program of the forward …
BACK, BACK_WARPS = 16, 4  # … and of the backward
REGISTERS: int | None = 128  # at most, a thread of the backward


class Sums(NamedTuple):
    """Sums over the rows of a block: for q, k and v, (S, blocks, 3D), and a match, (S, blocks, H, 4)."""

    qkv: Tensor
    match: Tensor


@triton.jit
def _keys_and_values(x, inside, j, D: constexpr, WIDTH: constexpr):
    """k and v of column j, without their biases. (examples, K) each"""
    k = tl.load(x + (j * WIDTH + D), mask=inside, other=0.0)
    return k, tl.load(x + (j * WIDTH + 2 * D), mask=inside, other=0.0)


@triton.jit
def first_forward(x, b, out, scalars, dropout, factor, B, s: constexpr, EXAMPLES: constexpr):
    """What column 0 reads, Σ_j A_j v_j. Grid (heads, blocks of examples, seeds)."""
    K: constexpr = s.K
    T: constexpr = s.T
    D: constexpr = s.H * K
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    example, column = tl.program_id(1) * EXAMPLES + tl.arange(0, EXAMPLES), head * K + tl.arange(0, K)
    inside = (example < B)[:, None]
    x, b = at_seed(x, seed), at_seed(b, seed)
    x_at = x + (example[:, None] * (T * s.WIDTH) + column[None, :])
    found = _keys_and_values(x_at, inside, 1, D, s.WIDTH)
    for j in tl.static_range(2, T):
        found += _keys_and_values(x_at, inside, j, D, s.WIDTH)
    b_q, b_k = tl.load(b + column).to(dtype)[None, :], tl.load(b + D + column).to(dtype)[None, :]
    b_v = tl.load(b + 2 * D + column).to(dtype)[None, :]
    q = (tl.load(x_at, mask=inside, other=0.0) + b_q).to(tl.float32)
    scale, stretch, shift = load_scalars(scalars, seed, factor)
    right = prefer(x, b, example * T, 3 * D + head, B * T, s.WIDTH) * stretch + shift
    free, read = tl.full((EXAMPLES,), 1.0, tl.float32), tl.zeros((EXAMPLES, K), tl.float32)
    for j in tl.static_range(1, T):
        k, v = (found[2 * j - 2] + b_k).to(tl.float32), (found[2 * j - 1] + b_v).to(tl.float32)
        if dropout is not None:
            word = dropout[1] + example.to(tl.int64) * (T * D // 4) + head * (K // 4) + j * (D // 4)
            k = tl.where(keep_tile(tl.load(dropout[0] + seed), word, dropout[3], EXAMPLES, K), k, 0.0)
        P, miss = sigmoids(tl.sum(q * k, axis=1) * scale + right)
        read += (free * P)[:, None] * v
        free *= miss
    to = at_seed(out, seed) + (example[:, None] * D + column[None, :])
    tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def _column(q, k, dread, v, dropout, key, word, scale, right, free):
    """Of a column: k, what of it is kept, content, P, A, the gradient of log A, and what it leaves."""
    keep = tl.full(k.shape, True, tl.int1)
    if dropout is not None:
        keep = keep_tile(key, word, dropout[3], k.shape[0], k.shape[1])
        k = tl.where(keep, k, 0.0)
    content = tl.sum(q * k.to(tl.float32), axis=1)
    P, miss = sigmoids(content * scale + right)
    return k, keep, content, P, free * P, free * P * tl.sum(dread * v.to(tl.float32), axis=1), free * miss


@triton.jit
def first_backward(dread, x, b, part, sums, scalars, dropout, factor, B, s: constexpr, EXAMPLES: constexpr):
    """The gradient of x in its place; sums over rows go to `part` (q, k, v) and `sums` (of a match)."""
    K: constexpr = s.K
    T: constexpr = s.T
    D: constexpr = s.H * K
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    example, column = tl.program_id(1) * EXAMPLES + tl.arange(0, EXAMPLES), head * K + tl.arange(0, K)
    inside = (example < B)[:, None]
    x, b = at_seed(x, seed), at_seed(b, seed)
    x_at = x + (example[:, None] * (T * s.WIDTH) + column[None, :])
    found = _keys_and_values(x_at, inside, 1, D, s.WIDTH)
    for j in tl.static_range(2, T):
        found += _keys_and_values(x_at, inside, j, D, s.WIDTH)
    q = (tl.load(x_at, mask=inside, other=0.0) + tl.load(b + column).to(dtype)[None, :]).to(tl.float32)
    b_k, b_v = tl.load(b + D + column).to(dtype)[None, :], tl.load(b + 2 * D + column).to(dtype)[None, :]
    at = at_seed(dread, seed) + (example[:, None] * D + column[None, :])
    dy = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    key, word = 0, example.to(tl.int64)
    if dropout is not None:
        key, word = tl.load(dropout[0] + seed), dropout[1] + word * (T * D // 4) + head * (K // 4)
    scale, stretch, shift = load_scalars(scalars, seed, factor)
    preference = prefer(x, b, example * T, 3 * D + head, B * T, s.WIDTH)
    right = preference * stretch + shift
    free = tl.full((EXAMPLES,), 1.0, tl.float32)
    k, v = found[0] + b_k, found[1] + b_v
    of = _column(q, k, dy, v, dropout, key, word + D // 4, scale, right, free)
    for j in tl.static_range(2, T):
        k, v = found[2 * j - 2] + b_k, found[2 * j - 1] + b_v
        of += _column(q, k, dy, v, dropout, key, word + j * (D // 4), scale, right, of[7 * j - 8])

    hidden, dscale, dright = free * 0.0, free * 0.0, free * 0.0
    dq, sum_k, sum_v = q * 0.0, q * 0.0, q * 0.0
    nothing = tl.zeros((EXAMPLES, K), dtype)
    side = tl.arange(0, 2 * s.H)[None, :]
    side_at, of_head = x + (example[:, None] * (T * s.WIDTH) + 3 * D + side), inside & (side % s.H == head)
    for j in tl.static_range(T - 1, 0, -1):
        hidden += of[7 * j - 2]
        dmatch = of[7 * j - 2] - of[7 * j - 4] * hidden
        dright += dmatch
        dscale += dmatch * of[7 * j - 5]
        dcontent = (dmatch * scale)[:, None]
        dq += dcontent * of[7 * j - 7].to(tl.float32)
        dk, dv = tl.where(of[7 * j - 6], dcontent * q, 0.0), of[7 * j - 3][:, None] * dy
        sum_k += dk
        sum_v += dv
        tl.store(x_at + j * s.WIDTH, nothing, mask=inside)
        tl.store(x_at + (j * s.WIDTH + D), dk.to(dtype), mask=inside)
        tl.store(x_at + (j * s.WIDTH + 2 * D), dv.to(dtype), mask=inside)
        tl.store(side_at + j * s.WIDTH, tl.zeros((EXAMPLES, 2 * s.H), dtype), mask=of_head)
    tl.store(x_at, dq.to(dtype), mask=inside)
    tl.store(x_at + D, nothing, mask=inside)
    tl.store(x_at + 2 * D, nothing, mask=inside)
    of_sides = tl.where(side == head, (dright * stretch)[:, None], 0.0)
    tl.store(side_at, of_sides.to(dtype), mask=of_head)
    to = at_seed(part, seed) + tl.program_id(1) * (3 * D) + column
    tl.store(to, tl.sum(dq, axis=0))
    tl.store(to + D, tl.sum(sum_k, axis=0))
    tl.store(to + 2 * D, tl.sum(sum_v, axis=0))
    to = at_seed(sums, seed) + (tl.program_id(1) * s.H + head) * 4
    tl.store(to, tl.sum(dscale) * factor)
    tl.store(to + 1, tl.sum(dright * preference))
    tl.store(to + 2, tl.sum(dright))
    tl.store(to + 3, 0.0)


def forward(x: Tensor, bias: Tensor, scalars: Scalars, read: Tensor, dropout: Dropout, *, heads: int) -> None:
    """What column 0 reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H) -> read: (S, B, D)."""
    B = read.shape[1]
    s, grid = Shape.of(x, heads, x.shape[1] // B), (heads, blocks(B, EXAMPLES), len(x))
    inputs = *by_seed(x, bias, read), scalars.views, dropout.stream, dropout.factor
    first_forward[grid](*inputs, B, s, EXAMPLES=EXAMPLES, num_warps=WARPS)


def backward(
    dread: Tensor, x: Tensor, bias: Tensor, scalars: Scalars, dropout: Dropout, *, heads: int
) -> Sums:
    """The gradient of x, in its place, from that of what column 0 reads, (S, B, D)."""
    S, B, D = dread.shape
    s, grid = Shape.of(x, heads, x.shape[1] // B), (heads, blocks(B, BACK), S)
    sums = Sums(*(torch.empty(*grid[:0:-1], *shape, device=x.device) for shape in ((3 * D,), (heads, 4))))
    inputs = *by_seed(dread, x, bias, *sums), scalars.views, dropout.stream, dropout.factor
    meta = {"EXAMPLES": BACK, "num_warps": BACK_WARPS, "maxnreg": REGISTERS}
    first_backward[grid](*inputs, B, s, **meta)
    return sums
