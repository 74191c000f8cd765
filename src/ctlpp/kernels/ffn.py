"""Hidden units, forward and backward: act = dropout(f(pre + b)) in one pass, with f = GELU or ReLU.

And the hidden units of NDR's nets, data net and gate net side by side, product included:

    pre = a · upᵀ,  act = GELU(pre + b)        dpre = (dd · down_data, de · down_gate) * GELU′(pre + b)

On sm_90 (H100, H200) in bf16 the product and what follows it are one kernel: a program makes one tile of
hidden units, its operands come and go by descriptors that know where a layer's rows end, and the programs of
the same rows run side by side, so that rows are read from memory once. Elsewhere cuBLAS makes the product
and `activate` the rest.

Rows belong to a seed: pre and act are (S, N, F), b is (S, F) in float32. A program takes a few rows at a
time.

Shapes: S seeds, N rows, D width and hidden units of the gate net, F hidden units of both.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import Dropout, keep_rows
from ctlpp.kernels.launch import (
    Block,
    Tile,
    at_seed,
    blocks,
    by_row,
    by_seed,
    described,
    from_last,
    made_for,
    times,
)

FORWARD = Tile(rows=128, columns=128, step=64, warps=4, stages=2, registers=168)
BACKWARD = Tile(rows=128, columns=64, step=64, warps=4, stages=2)
ROWS, BACK = 4, Block(rows=2, loops=16)  # of a program of `activate` and of its backward


@triton.jit
def gelu(x):
    """x · Φ(x) to 1e-7 and rounding, with the normal Φ as a logistic function of a polynomial."""
    u = x * x
    z = 1.5938604e-4 + u * (-1.14519277e-5 + u * (3.85010963e-7 + u * -5.2090709e-9))
    z = -2.3022072 + u * (-0.104838595 + u * (9.5603408e-5 + u * z))
    root = tl.rsqrt(1.0 + tl.exp2(x * z))  # its square is the reciprocal, without a division's special cases
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
def activation_forward(pre, b, act, dropout, N, ROWS: constexpr, W: constexpr, GELU: constexpr):
    """Grid (row blocks, seeds)."""
    seed = from_last(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, W)
    inside = (row < N)[:, None]
    x = tl.load(at_seed(pre, seed) + row[:, None] * pre[2] + column[None, :], mask=inside, other=0.0)
    x = x.to(tl.float32) + tl.load(at_seed(b, seed) + column)[None, :]
    y = gelu(x) if GELU else tl.maximum(x, 0.0)
    if dropout is not None:
        keep = keep_rows(dropout, tl.load(dropout[0] + seed), row, ROWS, W)
        y = tl.where(keep, y * dropout[4], 0.0)
    to = at_seed(act, seed) + row[:, None] * act[2] + column[None, :]
    tl.store(to, y.to(act[0].dtype.element_ty), mask=inside)


@triton.jit
def activation_backward(dact, pre, b, part, dropout, N, s: constexpr, W: constexpr, GELU: constexpr):
    """In the place of pre comes its gradient; its sum over rows, for b, goes to `part`."""
    seed = from_last(1).to(tl.int64)
    column = tl.arange(0, W)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    b = tl.load(at_seed(b, seed) + column)
    total = tl.zeros((W,), tl.float32)
    for loop in range(s.loops):
        row = (tl.program_id(0).to(tl.int64) * s.loops + loop) * s.rows + tl.arange(0, s.rows)
        inside = (row < N)[:, None]
        dy_at = at_seed(dact, seed) + row[:, None] * dact[2] + column[None, :]
        dy = tl.load(dy_at, mask=inside, other=0.0).to(tl.float32)
        at = at_seed(pre, seed) + row[:, None] * pre[2] + column[None, :]
        x = tl.load(at, mask=inside, other=0.0).to(tl.float32) + b[None, :]
        if dropout is not None:
            dy = tl.where(keep_rows(dropout, key, row, s.rows, W), dy * dropout[4], 0.0)
        dx = dy * gelu_slope(x) if GELU else tl.where(x > 0, dy, 0.0)
        tl.store(at, dx.to(pre[0].dtype.element_ty), mask=inside)
        total += tl.sum(dx, axis=0)
    tl.store(at_seed(part, seed) + tl.program_id(0) * part[2] + column, total)


def activate(pre: Tensor, bias: Tensor, act: Tensor, dropout: Dropout | None, *, gelu: bool) -> None:
    """act = dropout(f(pre + bias)). pre, act: (S, N, W); bias: (S, W)."""
    S, N, W = pre.shape
    tensors = *by_row(pre), *by_seed(bias), *by_row(act), dropout and dropout.stream
    activation_forward[blocks(N, ROWS), S](*tensors, N, ROWS=ROWS, W=W, GELU=gelu, num_warps=2)


def activate_backward(
    dact: Tensor, pre: Tensor, bias: Tensor, part: Tensor, dropout: Dropout | None, *, gelu: bool
) -> None:
    """The gradient of pre, in its place; part: (S, BACK.parts(N), W) sums for the bias."""
    S, N, W = pre.shape
    tensors = *by_row(dact, pre), *by_seed(bias), *by_row(part), dropout and dropout.stream
    activation_backward[BACK.parts(N), S](*tensors, N, s=BACK, W=W, GELU=gelu, num_warps=1)


@triton.jit
def hidden_forward(a, up, pre, act, b, D: constexpr, s: constexpr):
    """Grid (column blocks, row blocks, seeds); a, up, pre and act are descriptors; s: a `Tile`."""
    ROWS: constexpr = s.rows
    COLUMNS: constexpr = s.columns
    STEP: constexpr = s.step
    column, row, seed = tl.program_id(0) * COLUMNS, tl.program_id(1) * ROWS, tl.program_id(2)
    y = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, D, STEP):
        x = tl.reshape(a.load([seed, row, k]), (ROWS, STEP))
        w = tl.reshape(up.load([seed, column, k]), (COLUMNS, STEP))
        y = tl.dot(x, w.T, y, input_precision="ieee")
    pre.store([seed, row, column], tl.reshape(y.to(pre.dtype), (1, ROWS, COLUMNS)))
    b = tl.load(at_seed(b, seed) + column + tl.arange(0, COLUMNS))
    y = gelu(y + b[None, :])
    act.store([seed, row, column], tl.reshape(y.to(act.dtype), (1, ROWS, COLUMNS)))


@triton.jit
def hidden_backward(de, down, pre, b, part, DATA: constexpr, D: constexpr, s: constexpr):
    """The gradient of pre in its place; its sums over rows, for b, go to `part`. DATA: units of d."""
    ROWS: constexpr = s.rows
    COLUMNS: constexpr = s.columns
    STEP: constexpr = s.step
    column, row, seed = tl.program_id(0) * COLUMNS, tl.program_id(1) * ROWS, tl.program_id(2)
    at = column + tl.arange(0, COLUMNS)
    net = tl.where(column < DATA, 0, tl.num_programs(2))
    dact = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, D, STEP):
        dy = tl.reshape(de.load([net + seed, row, k]), (ROWS, STEP))
        w = tl.reshape(down.load([seed, k, column]), (STEP, COLUMNS))
        dact = tl.dot(dy, w, dact, input_precision="ieee")
    x = tl.reshape(pre.load([seed, row, column]), (ROWS, COLUMNS))
    dx = dact * gelu_slope(x.to(tl.float32) + tl.load(at_seed(b, seed) + at)[None, :])
    pre.store([seed, row, column], tl.reshape(dx.to(pre.dtype), (1, ROWS, COLUMNS)))
    tl.store(at_seed(part, seed) + tl.program_id(1) * part[2] + at, tl.sum(dx, axis=0))


def fits(pre: Tensor, width: int) -> bool:
    """Whether product and GELU can be one kernel: bf16 on sm_90, width and hidden units in whole tiles."""
    whole = all(size % tile.columns == 0 for size in (width, pre.shape[2]) for tile in (FORWARD, BACKWARD))
    return whole and pre.dtype == torch.bfloat16 and made_for(pre.device)


def forward(a: Tensor, up: Tensor, bias: Tensor, pre: Tensor, act: Tensor) -> None:
    """pre = a · upᵀ, act = GELU(pre + bias). a: (S, N, D), up: (S, F, D), bias: (S, F); both (S, N, F)."""
    D, tile = a.shape[2], FORWARD
    if fits(pre, D):
        inputs = described(a, tile.rows, tile.step), described(up, tile.columns, tile.step)
        outputs = (described(x, tile.rows, tile.columns) for x in (pre, act))
        hidden_forward[_grid(tile, pre)](*inputs, *outputs, *by_seed(bias), D=D, s=tile, **tile.options)
        return
    times(a, up, out=pre)
    for net in _nets(pre, D):
        activate(pre[..., net], bias[:, net], act[..., net], None, gelu=True)


def parts(pre: Tensor, width: int) -> int:
    """How many partial sums a backward leaves."""
    return blocks(pre.shape[1], BACKWARD.rows) if fits(pre, width) else BACK.parts(pre.shape[1])


def backward(de: Tensor, down: Tensor, pre: Tensor, bias: Tensor, part: Tensor) -> None:
    """The gradient of pre, in its place; part: (S, parts, F) sums for the bias.

    de: (2, S, N, D), the gradients of the data net's and of the gate net's output; down: (S, D, F).
    """
    F, D, tile = pre.shape[2], down.shape[1], BACKWARD
    if fits(pre, D):
        inputs = described(de.flatten(0, 1), tile.rows, tile.step), described(down, tile.step, tile.columns)
        tensors = *inputs, described(pre, tile.rows, tile.columns), *by_seed(bias), *by_row(part)
        hidden_backward[_grid(tile, pre)](*tensors, DATA=F - D, D=D, s=tile, **tile.options)
        return
    for net, output in zip(_nets(pre, D), de, strict=True):
        dact = torch.bmm(output, down[..., net])
        activate_backward(dact, pre[..., net], bias[:, net], part[..., net], None, gelu=True)


def _grid(tile: Tile, pre: Tensor) -> tuple[int, int, int]:
    """A program for each tile of a seed."""
    S, N, F = pre.shape
    return F // tile.columns, blocks(N, tile.rows), S


def _nets(pre: Tensor, D: int) -> tuple[slice, slice]:
    """The hidden units of the data net and of the gate net."""
    F = pre.shape[2]
    return slice(0, F - D), slice(F - D, F)
