"""act = dropout(f(pre + b)) in one pass, with f = GELU or ReLU, forward and backward.

Rows belong to a seed: pre and act are (S, N, W), b is (S, W) in float32. `…_row` and `…_step` are the elements from one
row, and from one seed, to the next. A program takes a few rows at a time.
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


@triton.jit
def gelu(x):
    """x · Φ(x) to 1e-7 and rounding, with Φ, the normal distribution function: a logistic function of a polynomial."""
    u = x * x
    z = 1.5938604e-4 + u * (-1.14519277e-5 + u * (3.85010963e-7 + u * -5.2090709e-9))
    z = -2.3022072 + u * (-0.104838595 + u * (9.5603408e-5 + u * z))
    root = tl.rsqrt(
        1.0 + tl.exp2(x * z)
    )  # its square is the reciprocal, without what a division takes care of
    return (x * root) * root


@triton.jit
def gelu_slope(x):
    """GELU′ = Φ(x) + x · φ(x), to 1e-7 (Abramowitz and Stegun 7.1.26)."""
    root = tl.rsqrt(1.0 + 0.2316418882 * tl.abs(x))
    t = root * root
    poly = 0.127414796 + t * (-0.142248368 + t * (0.710706871 + t * (-0.7265760135 + t * 0.5307027145)))
    left = tl.exp2((-0.7213475204444817 * x) * x) * (t * poly - 0.3989422804014327 * tl.abs(x))  # at −|x|
    return tl.where(x < 0, left, 1.0 - left)


@triton.jit
def activation_forward(
    pre_ptr,
    b_ptr,
    act_ptr,
    keys_ptr,
    position,
    every,
    N,
    pre_row,
    act_row,
    pre_step,
    act_step,
    b_step,
    drop,
    factor,
    ROWS: tl.constexpr,
    W: tl.constexpr,
    GELU: tl.constexpr,
    DROP: tl.constexpr,
):
    """Grid (row blocks, seeds)."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, W)
    inside = row < N
    x = tl.load(
        pre_ptr + seed * pre_step + row[:, None] * pre_row + column[None, :], mask=inside[:, None], other=0.0
    )
    x = x.to(tl.float32) + tl.load(b_ptr + seed * b_step + column)[None, :]
    y = gelu(x) if GELU else tl.maximum(x, 0.0)
    if DROP:
        keep = keep_tile(tl.load(keys_ptr + seed), position + row * every * (W // 4), drop, ROWS, W)
        y = tl.where(keep, y * factor, 0.0)
    to = act_ptr + seed * act_step + row[:, None] * act_row + column[None, :]
    tl.store(to, y.to(act_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def activation_backward(
    dact_ptr,
    pre_ptr,
    b_ptr,
    part_ptr,
    keys_ptr,
    position,
    every,
    N,
    dact_row,
    pre_row,
    dact_step,
    pre_step,
    b_step,
    part_step,
    part_row,
    drop,
    factor,
    ROWS: tl.constexpr,
    LOOPS: tl.constexpr,
    W: tl.constexpr,
    GELU: tl.constexpr,
    DROP: tl.constexpr,
):
    """In the place of pre comes its gradient; its sum over rows, for b, goes to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = tl.load(keys_ptr + seed)
    b = tl.load(b_ptr + seed * b_step + column)
    total = tl.zeros((W,), tl.float32)
    for loop in range(LOOPS):
        row = (tl.program_id(0).to(tl.int64) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        inside = row < N
        dy_at = dact_ptr + seed * dact_step + row[:, None] * dact_row + column[None, :]
        dy = tl.load(dy_at, mask=inside[:, None], other=0.0).to(tl.float32)
        at = pre_ptr + seed * pre_step + row[:, None] * pre_row + column[None, :]
        x = tl.load(at, mask=inside[:, None], other=0.0).to(tl.float32) + b[None, :]
        if DROP:
            dy = tl.where(keep_tile(key, position + row * every * (W // 4), drop, ROWS, W), dy * factor, 0.0)
        dx = dy * gelu_slope(x) if GELU else tl.where(x > 0, dy, 0.0)
        tl.store(at, dx.to(pre_ptr.dtype.element_ty), mask=inside[:, None])
        total += tl.sum(dx, axis=0)
    tl.store(part_ptr + seed * part_step + tl.program_id(0) * part_row + column, total)


def forward(pre: Tensor, bias: Tensor, act: Tensor, dropout: Dropout | None, *, gelu: bool) -> None:
    """act = dropout(f(pre + bias)). pre, act: (S, N, W); bias: (S, W)."""
    (S, N, W), dropout = pre.shape, dropout or _none(bias)
    activation_forward[blocks(N, ROWS), S](
        pre,
        bias,
        act,
        dropout.keys,
        dropout.position,
        dropout.every,
        N,
        pre.stride(1),
        act.stride(1),
        pre.stride(0),
        act.stride(0),
        bias.stride(0),
        dropout.drop,
        dropout.factor,
        ROWS=ROWS,
        W=W,
        GELU=gelu,
        DROP=dropout.some,
        num_warps=2,
    )


def parts(N: int) -> int:
    """How many partial sums a backward over N rows leaves."""
    return blocks(N, BACK * LOOPS)


def backward(
    dact: Tensor, pre: Tensor, bias: Tensor, part: Tensor, dropout: Dropout | None, *, gelu: bool
) -> None:
    """The gradient of pre, in its place; part: (S, parts(N), W) sums for the bias."""
    (S, N, W), dropout = pre.shape, dropout or _none(bias)
    activation_backward[parts(N), S](
        dact,
        pre,
        bias,
        part,
        dropout.keys,
        dropout.position,
        dropout.every,
        N,
        dact.stride(1),
        pre.stride(1),
        dact.stride(0),
        pre.stride(0),
        bias.stride(0),
        part.stride(0),
        part.stride(1),
        dropout.drop,
        dropout.factor,
        ROWS=BACK,
        LOOPS=LOOPS,
        W=W,
        GELU=gelu,
        DROP=dropout.some,
        num_warps=1,
    )


def _none(keys: Tensor) -> Dropout:
    """No dropout; the keys are not looked at."""
    return Dropout(keys, 0, 0.0)
