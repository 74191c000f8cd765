"""Norms with what lies around them in one pass, forward and backward.

y = LN(x + dropout(o + b)): residual, dropout and norm. The forward leaves n, what is normalised before γ
and β, in o's place and 1 / its deviation beside it, so that the backward needs neither x nor o. Rows belong
to a seed: x and o are (S, N, W) with a stride between seeds, γ, β and b are (S, W) in float32. A program is
one warp that takes a few rows at a time: sums over a row stay within the warp, sums over rows within a
thread.

And the end of an NDR layer: u = LN(d + b + a), g = σ(e + c) or 0, h′ = h + g · (u − h). d is the data net's
output, e the gate net's, both without their biases b and c. All rows are (S, N, W).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import Dropout, keep_column, keep_rows
from ctlpp.kernels.launch import Block, at_seed, blocks, by_row, by_seed, from_last, load_rows, store_rows

ROWS, BACK = 4, Block(rows=2, loops=16)  # of a program of the forward and of the backward
UPDATE_ROWS, UPDATE_BACK = 4, Block(rows=4, loops=4)  # … of the end of a layer
EPS = constexpr(1e-5)

Summands = tuple[Tensor, Tensor | None]  # of a gradient
Update = tuple[Any, ...]  # γ, β, b, c, `together`


class Vectors(NamedTuple):
    """Views of one matrix of parameters, (S, W) each."""

    gamma: Tensor
    beta: Tensor
    bias: Tensor | None = None  # of o


@triton.jit
def normalise(z, W: constexpr):
    """z of mean 0 and deviation 1, and 1 / its deviation. (rows, W) -> (rows, W), (rows,)"""
    centred = z - tl.sum(z, axis=1)[:, None] / W
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / W + EPS)
    return centred * scale[:, None], scale


@triton.jit
def normalise_backward(dn, n, scale, W: constexpr):
    """The gradient of z from that of n."""
    along = tl.sum(dn * n, axis=1)[:, None] / W
    return (dn - tl.sum(dn, axis=1)[:, None] / W - n * along) * scale[:, None]


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
    dropout,
    N,
    s: constexpr,
    W: constexpr,
    BIAS: constexpr,
    ADD: constexpr,
):
    """dy (+ more) -> dx (added to it if ADD) and, in n's place, do; sums for γ, β and b go to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    gamma = tl.load(at_seed(gamma, seed) + column)
    sum_gamma, sum_beta = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    sum_b = tl.zeros((W,), tl.float32)
    for loop in range(s.loops):
        row = (tl.program_id(0).to(tl.int64) * s.loops + loop) * s.rows + tl.arange(0, s.rows)
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
            do = tl.where(keep_rows(dropout, key, row, s.rows, W), do * dropout[4], 0.0)
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

    dy: one or two summands of the gradient of y; part: (S, BACK.parts(N), 3W), sums for γ, β and the bias;
    without one 2W will do.
    """
    S, N, W = n.shape
    tensors = *by_seed(*dy, n, scale, dx), *by_row(part), *by_seed(v.gamma), dropout.stream
    meta = {"s": BACK, "W": W, "BIAS": v.bias is not None, "ADD": add, "num_warps": 1}
    norm_backward[BACK.parts(N), S](*tensors, N, **meta)


@triton.jit
def _proposal(a, d, e, vectors, dropout, key, seed, row, inside, W: constexpr):
    """n, 1 / deviation, γ, u and g."""
    column = tl.arange(0, W)
    at, p = row[:, None] * W + column[None, :], seed * vectors[4]
    z = load_rows(at_seed(a, seed), at, inside)
    z += load_rows(at_seed(d, seed), at, inside) + tl.load(vectors[2] + p + column)[None, :]
    n, scale = normalise(z, W)
    gamma = tl.load(vectors[0] + p + column)
    u = n * gamma[None, :] + tl.load(vectors[1] + p + column)[None, :]
    g = tl.sigmoid(load_rows(at_seed(e, seed), at, inside) + tl.load(vectors[3] + p + column)[None, :])
    if dropout is not None:
        g = tl.where(keep_column(key, dropout[1], row * dropout[2], dropout[3])[:, None], g, 0.0)
    return n, scale, gamma, u, g


@triton.jit
def gate_forward(h, a, d, e, new, vectors, dropout, N, ROWS: constexpr, W: constexpr):
    """Grid (row blocks, seeds). vectors: γ, β, b, c, and the elements from one seed to the next."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < N
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    _, _, _, u, g = _proposal(a, d, e, vectors, dropout, key, seed, row, inside, W)
    at = row[:, None] * W + tl.arange(0, W)[None, :]
    h = load_rows(at_seed(h, seed), at, inside)
    store_rows(at_seed(new, seed), at, h + g * (u - h), inside)


@triton.jit
def gate_backward(dnew, more, h, a, d, e, part, vectors, dropout, N, s: constexpr, W: constexpr):
    """The gradients of h, d (which is a's too) and e in the places of dnew, d and e; sums to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    sum_gamma, sum_beta = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    sum_b, sum_c = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    for loop in range(s.loops):
        row = (tl.program_id(0).to(tl.int64) * s.loops + loop) * s.rows + tl.arange(0, s.rows)
        inside = row < N
        at = row[:, None] * W + column[None, :]
        n, scale, gamma, u, g = _proposal(a, d, e, vectors, dropout, key, seed, row, inside, W)
        dy = load_rows(at_seed(dnew, seed), at, inside)
        if more is not None:
            dy += load_rows(at_seed(more, seed), at, inside)
        before = load_rows(at_seed(h, seed), at, inside)
        du = dy * g
        de = dy * (u - before) * g * (1 - g)
        dz = normalise_backward(du * gamma[None, :], n, scale, W)
        store_rows(at_seed(dnew, seed), at, dy - du, inside)
        store_rows(at_seed(d, seed), at, dz, inside)
        store_rows(at_seed(e, seed), at, de, inside)
        sum_gamma += tl.sum(du * n, axis=0)
        sum_beta += tl.sum(du, axis=0)
        sum_b += tl.sum(dz, axis=0)
        sum_c += tl.sum(de, axis=0)
    to = at_seed(part, seed) + tl.program_id(0) * (4 * W) + column
    tl.store(to, sum_gamma)
    tl.store(to + W, sum_beta)
    tl.store(to + 2 * W, sum_b)
    tl.store(to + 3 * W, sum_c)


def update(h: Tensor, a: Tensor, d: Tensor, e: Tensor, v: Update, new: Tensor, dropout: Dropout) -> None:
    """The new state, (S, N, W) like the other rows."""
    S, N, W = h.shape
    tensors = *by_seed(h, a, d, e, new), v, dropout.stream
    gate_forward[blocks(N, UPDATE_ROWS), S](*tensors, N, ROWS=UPDATE_ROWS, W=W, num_warps=2)


def update_backward(
    dnew: Summands, h: Tensor, a: Tensor, de: Tensor, v: Update, part: Tensor, dropout: Dropout
) -> None:
    """Gradients in the places of the first summand of dnew (that of h) and of d and e, de: (2, S, N, W).

    part: (S, UPDATE_BACK.parts(N), 4W) sums for γ, β, b and c.
    """
    S, N, W = h.shape
    tensors = *by_seed(*dnew, h, a, *de, part), v, dropout.stream
    gate_backward[UPDATE_BACK.parts(N), S](*tensors, N, s=UPDATE_BACK, W=W, num_warps=1)
