"""The end of an NDR layer in one pass: u = LN(d + b + a), g = σ(e + c) or 0 for a shut column, h′ = h + g · (u − h).

d is the data net's output, e the gate net's, both without their biases b and c. All rows are (S, N, W). A program
takes a few rows at a time; of the backward it is one warp.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import Dropout, keep_column
from ctlpp.kernels.norm import EPS
from ctlpp.kernels.order import from_last
from ctlpp.kernels.products import blocks

ROWS = 4  # of a program of the forward
BACK = 4  # rows that the backward takes at a time …
LOOPS = 4  # … so many times a program


@triton.jit
def _parts(
    a_ptr,
    d_ptr,
    e_ptr,
    b_ptr,
    c_ptr,
    gamma_ptr,
    beta_ptr,
    key,
    position,
    every,
    row,
    column,
    inside,
    drop,
    EPS: tl.constexpr,
    W: tl.constexpr,
    DROP: tl.constexpr,
):
    """n, 1 / deviation, γ, u and g."""
    at = row[:, None] * W + column[None, :]
    z = tl.load(a_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
    z += (
        tl.load(d_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32) + tl.load(b_ptr + column)[None, :]
    )
    centred = z - tl.sum(z, axis=1)[:, None] / W
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / W + EPS)
    n = centred * scale[:, None]
    gamma = tl.load(gamma_ptr + column)
    u = n * gamma[None, :] + tl.load(beta_ptr + column)[None, :]
    e = tl.load(e_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32) + tl.load(c_ptr + column)[None, :]
    g = tl.sigmoid(e)
    if DROP:
        g = tl.where(keep_column(key, position, row * every, drop)[:, None], g, 0.0)
    return n, scale, gamma, u, g


@triton.jit
def gate_forward(
    h_ptr,
    a_ptr,
    d_ptr,
    e_ptr,
    b_ptr,
    c_ptr,
    gamma_ptr,
    beta_ptr,
    new_ptr,
    keys_ptr,
    position,
    every,
    N,
    h_step,
    a_step,
    d_step,
    e_step,
    new_step,
    p_step,
    drop,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    W: tl.constexpr,
    DROP: tl.constexpr,
):
    """Grid (row blocks, seeds)."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, W)
    inside = row < N
    _, _, _, u, g = _parts(
        a_ptr + seed * a_step,
        d_ptr + seed * d_step,
        e_ptr + seed * e_step,
        b_ptr + seed * p_step,
        c_ptr + seed * p_step,
        gamma_ptr + seed * p_step,
        beta_ptr + seed * p_step,
        tl.load(keys_ptr + seed),
        position,
        every,
        row,
        column,
        inside,
        drop,
        EPS,
        W,
        DROP,
    )
    at = row[:, None] * W + column[None, :]
    h = tl.load(h_ptr + seed * h_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
    new = (h + g * (u - h)).to(new_ptr.dtype.element_ty)
    tl.store(new_ptr + seed * new_step + at, new, mask=inside[:, None])


@triton.jit
def gate_backward(
    dnew_ptr,
    more_ptr,
    h_ptr,
    a_ptr,
    d_ptr,
    e_ptr,
    b_ptr,
    c_ptr,
    gamma_ptr,
    beta_ptr,
    dh_ptr,
    part_ptr,
    keys_ptr,
    position,
    every,
    N,
    dnew_step,
    more_step,
    h_step,
    a_step,
    d_step,
    e_step,
    dh_step,
    p_step,
    part_step,
    drop,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    LOOPS: tl.constexpr,
    W: tl.constexpr,
    DROP: tl.constexpr,
    MORE: tl.constexpr,
):
    """dnew (+ more) -> dh, and in the places of d and e their gradients (d's is a's too); sums go to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = tl.load(keys_ptr + seed)
    sum_gamma, sum_beta = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    sum_b, sum_c = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    for loop in range(LOOPS):
        row = (tl.program_id(0).to(tl.int64) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        inside = row < N
        at = row[:, None] * W + column[None, :]
        n, scale, gamma, u, g = _parts(
            a_ptr + seed * a_step,
            d_ptr + seed * d_step,
            e_ptr + seed * e_step,
            b_ptr + seed * p_step,
            c_ptr + seed * p_step,
            gamma_ptr + seed * p_step,
            beta_ptr + seed * p_step,
            key,
            position,
            every,
            row,
            column,
            inside,
            drop,
            EPS,
            W,
            DROP,
        )
        dnew = tl.load(dnew_ptr + seed * dnew_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
        if MORE:
            dnew += tl.load(more_ptr + seed * more_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
        h = tl.load(h_ptr + seed * h_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
        du = dnew * g
        de = dnew * (u - h) * g * (1 - g)
        dn = du * gamma[None, :]
        along = tl.sum(dn * n, axis=1)[:, None] / W
        dz = (dn - tl.sum(dn, axis=1)[:, None] / W - n * along) * scale[:, None]
        tl.store(dh_ptr + seed * dh_step + at, (dnew - du).to(dh_ptr.dtype.element_ty), mask=inside[:, None])
        tl.store(d_ptr + seed * d_step + at, dz.to(d_ptr.dtype.element_ty), mask=inside[:, None])
        tl.store(e_ptr + seed * e_step + at, de.to(e_ptr.dtype.element_ty), mask=inside[:, None])
        sum_gamma += tl.sum(du * n, axis=0)
        sum_beta += tl.sum(du, axis=0)
        sum_b += tl.sum(dz, axis=0)
        sum_c += tl.sum(de, axis=0)
    part = part_ptr + seed * part_step + tl.program_id(0) * (4 * W) + column
    tl.store(part, sum_gamma)
    tl.store(part + W, sum_beta)
    tl.store(part + 2 * W, sum_b)
    tl.store(part + 3 * W, sum_c)


@dataclass(frozen=True)
class Vectors:
    """The layer's vectors, (S, W) each: biases of the data and the gate net, γ and β of the norm."""

    b: Tensor
    c: Tensor
    gamma: Tensor
    beta: Tensor


def forward(h: Tensor, a: Tensor, d: Tensor, e: Tensor, v: Vectors, new: Tensor, dropout: Dropout) -> None:
    """The new state, (S, N, W) like the other rows."""
    S, N, W = h.shape
    gate_forward[blocks(N, ROWS), S](
        h,
        a,
        d,
        e,
        v.b,
        v.c,
        v.gamma,
        v.beta,
        new,
        dropout.keys,
        dropout.position,
        dropout.every,
        N,
        h.stride(0),
        a.stride(0),
        d.stride(0),
        e.stride(0),
        new.stride(0),
        v.b.stride(0),
        dropout.drop,
        EPS=EPS,
        ROWS=ROWS,
        W=W,
        DROP=dropout.some,
        num_warps=2,
    )


def parts(N: int) -> int:
    """How many partial sums a backward over N rows leaves."""
    return blocks(N, BACK * LOOPS)


def backward(
    dnew: Tensor,
    more: Tensor | None,
    h: Tensor,
    a: Tensor,
    d: Tensor,
    e: Tensor,
    v: Vectors,
    part: Tensor,
    dropout: Dropout,
) -> None:
    """Gradients in the places of dnew (that of h), d and e; part: (S, parts(N), 4W) sums for γ, β, b and c."""
    S, N, W = h.shape
    also = dnew if more is None else more
    gate_backward[parts(N), S](
        dnew,
        also,
        h,
        a,
        d,
        e,
        v.b,
        v.c,
        v.gamma,
        v.beta,
        dnew,
        part,
        dropout.keys,
        dropout.position,
        dropout.every,
        N,
        dnew.stride(0),
        also.stride(0),
        h.stride(0),
        a.stride(0),
        d.stride(0),
        e.stride(0),
        dnew.stride(0),
        v.b.stride(0),
        part.stride(0),
        dropout.drop,
        EPS=EPS,
        ROWS=BACK,
        LOOPS=LOOPS,
        W=W,
        DROP=dropout.some,
        MORE=more is not None,
        num_warps=1,
    )
