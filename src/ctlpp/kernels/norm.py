"""y = LN(x + dropout(o + b)): residual, dropout and norm in one pass, forward and backward.

The forward leaves n, what is normalised before γ and β, in o's place and 1 / its deviation beside it, so that the
backward needs neither x nor o. Rows belong to a seed: x and o are (S, N, W) with a stride between seeds, γ, β and b are
(S, W) in float32. A program is one warp that takes a few rows at a time: sums over a row stay within the warp, sums
over rows within a thread.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import Dropout, keep_tile
from ctlpp.kernels.order import from_last
from ctlpp.kernels.products import blocks

ROWS = 4  # of a program of the forward
BACK = 2  # rows that the backward takes at a time …
LOOPS = 16  # … so many times a program
EPS = 1e-5


@triton.jit
def norm_forward(
    x_ptr,
    o_ptr,
    b_ptr,
    gamma_ptr,
    beta_ptr,
    y_ptr,
    scale_ptr,
    keys_ptr,
    position,
    every,
    N,
    x_step,
    o_step,
    y_step,
    scale_step,
    p_step,
    drop,
    factor,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    W: tl.constexpr,
    BIAS: tl.constexpr,
    DROP: tl.constexpr,
):
    """Grid (row blocks, seeds). `…_step`: elements from one seed to the next."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, W)
    inside = row < N
    at = row[:, None] * W + column[None, :]
    x = tl.load(x_ptr + seed * x_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
    o = tl.load(o_ptr + seed * o_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
    if BIAS:
        o += tl.load(b_ptr + seed * p_step + column)[None, :]
    if DROP:
        first = position + row * every * (W // 4)
        o = tl.where(keep_tile(tl.load(keys_ptr + seed), first, drop, ROWS, W), o * factor, 0.0)
    z = x + o
    centred = z - tl.sum(z, axis=1)[:, None] / W
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / W + EPS)
    n = centred * scale[:, None]
    gamma = tl.load(gamma_ptr + seed * p_step + column)
    beta = tl.load(beta_ptr + seed * p_step + column)
    y = n * gamma[None, :] + beta[None, :]
    tl.store(y_ptr + seed * y_step + at, y.to(y_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(o_ptr + seed * o_step + at, n.to(o_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(scale_ptr + seed * scale_step + row, scale, mask=inside)


@triton.jit
def norm_backward(
    dy_ptr,
    more_ptr,
    n_ptr,
    scale_ptr,
    gamma_ptr,
    dx_ptr,
    part_ptr,
    keys_ptr,
    position,
    every,
    N,
    dy_step,
    more_step,
    n_step,
    scale_step,
    dx_step,
    p_step,
    part_step,
    part_row,
    drop,
    factor,
    ROWS: tl.constexpr,
    LOOPS: tl.constexpr,
    W: tl.constexpr,
    BIAS: tl.constexpr,
    DROP: tl.constexpr,
    MORE: tl.constexpr,
    ADD: tl.constexpr,
):
    """dy (+ more) -> dx (added to what is there if ADD) and, in n's place, do; sums for γ, β and b go to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = tl.load(keys_ptr + seed)
    gamma = tl.load(gamma_ptr + seed * p_step + column)
    sum_gamma, sum_beta = tl.zeros((W,), tl.float32), tl.zeros((W,), tl.float32)
    sum_b = tl.zeros((W,), tl.float32)
    for loop in range(LOOPS):
        row = (tl.program_id(0).to(tl.int64) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        inside = row < N
        at = row[:, None] * W + column[None, :]
        n_at, dx_at = n_ptr + seed * n_step + at, dx_ptr + seed * dx_step + at
        dx = tl.load(dx_at, mask=inside[:, None], other=0.0).to(tl.float32) if ADD else 0.0
        n = tl.load(n_at, mask=inside[:, None], other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + seed * scale_step + row, mask=inside, other=0.0)
        dy = tl.load(dy_ptr + seed * dy_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
        if MORE:
            dy += tl.load(more_ptr + seed * more_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
        dn = dy * gamma[None, :]
        along = tl.sum(dn * n, axis=1)[:, None] / W
        dz = (dn - tl.sum(dn, axis=1)[:, None] / W - n * along) * scale[:, None]
        tl.store(dx_at, (dx + dz).to(dx_ptr.dtype.element_ty), mask=inside[:, None])
        do = dz
        if DROP:
            do = tl.where(keep_tile(key, position + row * every * (W // 4), drop, ROWS, W), dz * factor, 0.0)
        tl.store(n_at, do.to(n_ptr.dtype.element_ty), mask=inside[:, None])
        sum_gamma += tl.sum(dy * n, axis=0)
        sum_beta += tl.sum(dy, axis=0)
        if BIAS:
            sum_b += tl.sum(do, axis=0)
    part = part_ptr + seed * part_step + tl.program_id(0) * part_row + column
    tl.store(part, sum_gamma)
    tl.store(part + W, sum_beta)
    if BIAS:
        tl.store(part + 2 * W, sum_b)


def forward(
    x: Tensor,
    o: Tensor,
    bias: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    y: Tensor,
    scale: Tensor,
    dropout: Dropout,
) -> None:
    """y = LN(x + dropout(o + bias)), n in o's place, 1 / deviation to scale.

    x, o, y: (S, N, W); bias, gamma, beta: (S, W); scale: (S, N, 1) in float32.
    """
    S, N, W = x.shape
    norm_forward[blocks(N, ROWS), S](
        x,
        o,
        beta if bias is None else bias,
        gamma,
        beta,
        y,
        scale,
        dropout.keys,
        dropout.position,
        dropout.every,
        N,
        x.stride(0),
        o.stride(0),
        y.stride(0),
        scale.stride(0),
        gamma.stride(0),
        dropout.drop,
        dropout.factor,
        EPS=EPS,
        ROWS=ROWS,
        W=W,
        BIAS=bias is not None,
        DROP=dropout.some,
        num_warps=1,
    )


def parts(N: int) -> int:
    """How many partial sums a backward over N rows leaves."""
    return blocks(N, BACK * LOOPS)


def backward(
    dy: Tensor,
    more: Tensor | None,
    n: Tensor,
    scale: Tensor,
    gamma: Tensor,
    dx: Tensor,
    part: Tensor,
    dropout: Dropout,
    *,
    add: bool,
    bias: bool = False,
) -> None:
    """The gradients: of x to dx (or added to it), of o in the place of n; n and scale are what the forward left.

    part: (S, parts(N), 3W), sums for γ, β and the bias; without one 2W will do.
    """
    S, N, W = n.shape
    also = dy if more is None else more
    norm_backward[parts(N), S](
        dy,
        also,
        n,
        scale,
        gamma,
        dx,
        part,
        dropout.keys,
        dropout.position,
        dropout.every,
        N,
        dy.stride(0),
        also.stride(0),
        n.stride(0),
        scale.stride(0),
        dx.stride(0),
        gamma.stride(0),
        *part.stride()[:2],
        dropout.drop,
        dropout.factor,
        ROWS=BACK,
        LOOPS=LOOPS,
        W=W,
        BIAS=bias,
        DROP=dropout.some,
        MORE=more is not None,
        ADD=add,
        num_warps=1,
    )
