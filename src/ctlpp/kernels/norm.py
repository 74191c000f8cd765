"""y = LN(x + dropout(o + b)): residual, dropout and norm in one pass, forward and backward.

The forward leaves n, what is normalised before γ and β, in o's place and 1 / its deviation beside it, so
that the backward needs neither x nor o. Rows belong to a seed: x and o are (S, N, W) with a stride between
seeds, γ, β and b are (S, W) in float32. A program is one warp that takes a few rows at a time: sums over a
row stay within the warp, sums over rows within a thread.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import Dropout, keep_rows
from ctlpp.kernels.launch import at_seed, blocks, by_row, by_seed, from_last

ROWS = 4  # of a program of the forward
BACK = 2  # rows that the backward takes at a time …
LOOPS = 16  # … so many times a program
EPS = 1e-5
_EPS = constexpr(EPS)


Summands = tuple[Tensor, Tensor | None]  # of a gradient


class Vectors(NamedTuple):
    """Views of one matrix of parameters, (S, W) each."""

    gamma: Tensor
    beta: Tensor
    bias: Tensor | None = None  # of o


@triton.jit
def normalise(z, W: constexpr):
    """z of mean 0 and deviation 1, and 1 / its deviation. (rows, W) -> (rows, W), (rows,)"""
    centred = z - tl.sum(z, axis=1)[:, None] / W
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / W + _EPS)
    return centred * scale[:, None], scale


@triton.jit
def normalise_backward(dn, n, scale, W: constexpr):
    """The gradient of z from that of n."""
    along = tl.sum(dn * n, axis=1)[:, None] / W
    return (dn - tl.sum(dn, axis=1)[:, None] / W - n * along) * scale[:, None]


@triton.jit
def load_rows(x, at, inside):
    """(rows, W) in float32, 0 outside."""
    return tl.load(x + at, mask=inside[:, None], other=0.0).to(tl.float32)


@triton.jit
def store_rows(x, at, values, inside):
    tl.store(x + at, values.to(x.dtype.element_ty), mask=inside[:, None])


@triton.jit
def norm_forward(x, o, y, scales, gamma, beta, bias, p_step, dropout, N, ROWS: constexpr, W: constexpr):
    """Grid (row blocks, seeds)."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, W)
    inside = row < N
    at = row[:, None] * W + column[None, :]
    o_at = at_seed(o, seed)
    x, o = load_rows(at_seed(x, seed), at, inside), load_rows(o_at, at, inside)
    if bias is not None:
        o += tl.load(bias + seed * p_step + column)[None, :]
    if dropout is not None:
        keep = keep_rows(dropout, tl.load(dropout[0] + seed), row, ROWS, W)
        o = tl.where(keep, o * dropout[4], 0.0)
    n, scale = normalise(x + o, W)
    gamma, beta = tl.load(gamma + seed * p_step + column), tl.load(beta + seed * p_step + column)
    store_rows(at_seed(y, seed), at, n * gamma[None, :] + beta[None, :], inside)
    store_rows(o_at, at, n, inside)
    tl.store(at_seed(scales, seed) + row, scale, mask=inside)


@triton.jit
def norm_backward(
    dy,
    more,
    n,
    scale,
    dx,
    part,
    gamma,
    p_step,
    dropout,
    N,
    ROWS: constexpr,
    LOOPS: constexpr,
    W: constexpr,
    BIAS: constexpr,
    ADD: constexpr,
):
    """dy (+ more) -> dx (added to it if ADD) and, in n's place, do; sums for γ, β and b go to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    gamma = tl.load(gamma + seed * p_step + column)
    sum_gamma, sum_beta = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    sum_b = tl.zeros((W,), tl.float32)
    for loop in range(LOOPS):
        row = (tl.program_id(0).to(tl.int64) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        inside = row < N
        at = row[:, None] * W + column[None, :]
        n_at, dx_at = at_seed(n, seed), at_seed(dx, seed)
        before = load_rows(dx_at, at, inside) if ADD else 0.0
        n_of_rows = load_rows(n_at, at, inside)
        scale_of_rows = tl.load(at_seed(scale, seed) + row, mask=inside, other=0.0)
        g = load_rows(at_seed(dy, seed), at, inside)
        if more is not None:
            g += load_rows(at_seed(more, seed), at, inside)
        do = normalise_backward(g * gamma[None, :], n_of_rows, scale_of_rows, W)
        store_rows(dx_at, at, before + do, inside)
        if dropout is not None:
            do = tl.where(keep_rows(dropout, key, row, ROWS, W), do * dropout[4], 0.0)
        store_rows(n_at, at, do, inside)
        sum_gamma += tl.sum(g * n_of_rows, axis=0)
        sum_beta += tl.sum(g, axis=0)
        if BIAS:
            sum_b += tl.sum(do, axis=0)
    to = at_seed(part, seed) + tl.program_id(0) * part[2] + column
    tl.store(to, sum_gamma)
    tl.store(to + W, sum_beta)
    if BIAS:
        tl.store(to + 2 * W, sum_b)


def forward(x: Tensor, o: Tensor, v: Vectors, y: Tensor, scale: Tensor, dropout: Dropout) -> None:
    """y = LN(x + dropout(o + bias)), n in o's place, 1 / deviation to scale.

    x, o, y: (S, N, W); scale: (S, N, 1) in float32.
    """
    S, N, W = x.shape
    meta = {"ROWS": ROWS, "W": W, "num_warps": 1}
    vectors = *v, v.gamma.stride(0)
    norm_forward[blocks(N, ROWS), S](*by_seed(x, o, y, scale), *vectors, dropout.stream, N, **meta)


def parts(N: int) -> int:
    """How many partial sums a backward over N rows leaves."""
    return blocks(N, BACK * LOOPS)


def backward(
    dy: Summands,
    n: Tensor,
    scale: Tensor,
    v: Vectors,
    dx: Tensor,
    part: Tensor,
    dropout: Dropout,
    *,
    add: bool,
) -> None:
    """The gradient of x to dx (or added to it), of o in the place of n; n and scale as the forward left them.

    dy: one or two summands of the gradient of y; part: (S, parts(N), 3W), sums for γ, β and the bias;
    without one 2W will do.
    """
    S, N, W = n.shape
    meta = {"ROWS": BACK, "LOOPS": LOOPS, "W": W, "BIAS": v.bias is not None, "ADD": add, "num_warps": 1}
    gamma = v.gamma, v.gamma.stride(0)
    norm_backward[parts(N), S](*by_seed(*dy, n, scale, dx), *by_row(part), *gamma, dropout.stream, N, **meta)
