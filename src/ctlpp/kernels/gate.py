"""The end of an NDR layer in one pass: u = LN(d + b + a), g = σ(e + c) or 0, h′ = h + g · (u − h).

d is the data net's output, e the gate net's, both without their biases b and c. All rows are (S, N, W). A
program takes a few rows at a time; of the backward it is one warp.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import Dropout, keep_column
from ctlpp.kernels.launch import at_seed, blocks, by_seed, from_last
from ctlpp.kernels.norm import Summands, load_rows, normalise, normalise_backward, store_rows

ROWS = 4  # of a program of the forward
BACK = 4  # rows that the backward takes at a time …
LOOPS = 4  # … so many times a program


class Vectors(NamedTuple):
    """The layer's vectors, (S, W) each: biases of the data and the gate net, γ and β of the norm."""

    b: Tensor
    c: Tensor
    gamma: Tensor
    beta: Tensor


@triton.jit
def _update(a, d, e, vectors, dropout, key, seed, row, inside, W: constexpr):
    """n, 1 / deviation, γ, u and g."""
    column = tl.arange(0, W)
    at, p = row[:, None] * W + column[None, :], seed * vectors[4]
    z = load_rows(at_seed(a, seed), at, inside)
    z += load_rows(at_seed(d, seed), at, inside) + tl.load(vectors[0] + p + column)[None, :]
    n, scale = normalise(z, W)
    gamma = tl.load(vectors[2] + p + column)
    u = n * gamma[None, :] + tl.load(vectors[3] + p + column)[None, :]
    g = tl.sigmoid(load_rows(at_seed(e, seed), at, inside) + tl.load(vectors[1] + p + column)[None, :])
    if dropout is not None:
        g = tl.where(keep_column(key, dropout[1], row * dropout[2], dropout[3])[:, None], g, 0.0)
    return n, scale, gamma, u, g


@triton.jit
def gate_forward(h, a, d, e, new, vectors, dropout, N, ROWS: constexpr, W: constexpr):
    """Grid (row blocks, seeds). vectors: b, c, γ, β, and the elements from one seed to the next."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < N
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    _, _, _, u, g = _update(a, d, e, vectors, dropout, key, seed, row, inside, W)
    at = row[:, None] * W + tl.arange(0, W)[None, :]
    h = load_rows(at_seed(h, seed), at, inside)
    store_rows(at_seed(new, seed), at, h + g * (u - h), inside)


@triton.jit
def gate_backward(
    dnew, more, h, a, d, e, part, vectors, dropout, N, ROWS: constexpr, LOOPS: constexpr, W: constexpr
):
    """The gradients of h, d (which is a's too) and e in the places of dnew, d and e; sums to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    sum_gamma, sum_beta = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    sum_b, sum_c = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    for loop in range(LOOPS):
        row = (tl.program_id(0).to(tl.int64) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        inside = row < N
        at = row[:, None] * W + column[None, :]
        n, scale, gamma, u, g = _update(a, d, e, vectors, dropout, key, seed, row, inside, W)
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


def forward(h: Tensor, a: Tensor, d: Tensor, e: Tensor, v: Vectors, new: Tensor, dropout: Dropout) -> None:
    """The new state, (S, N, W) like the other rows."""
    S, N, W = h.shape
    tensors = *by_seed(h, a, d, e, new), (*v, v.b.stride(0)), dropout.stream
    gate_forward[blocks(N, ROWS), S](*tensors, N, ROWS=ROWS, W=W, num_warps=2)


def parts(N: int) -> int:
    """How many partial sums a backward over N rows leaves."""
    return blocks(N, BACK * LOOPS)


def backward(
    dnew: Summands, h: Tensor, a: Tensor, de: Tensor, v: Vectors, part: Tensor, dropout: Dropout
) -> None:
    """Gradients in the places of the first summand of dnew (that of h) and of d and e, de: (2, S, N, W).

    part: (S, parts(N), 4W) sums for γ, β, b and c.
    """
    S, N, W = h.shape
    tensors = *by_seed(*dnew, h, a, *de, part), (*v, v.b.stride(0)), dropout.stream
    meta = {"ROWS": BACK, "LOOPS": LOOPS, "W": W, "num_warps": 1}
    gate_backward[parts(N), S](*tensors, N, **meta)
