"""The hidden units of NDR's feed-forward nets, data net and gate net side by side, forward and backward:

    pre = a · upᵀ,  act = GELU(pre + b)        dpre = (dd · down_data, de · down_gate) * GELU′(pre + b)

On sm_90 (H100, H200) in bf16 the product and what follows it are one kernel: a program makes one tile of hidden units,
its operands come and go by descriptors that know where a layer's rows end, and the programs of the same rows run
side by side, so that rows are read from memory once. Elsewhere cuBLAS makes the product and `activation` the rest.

Shapes: S seeds, N rows, D width and hidden units of the gate net, F hidden units of both.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels import activation
from ctlpp.kernels.activation import gelu, gelu_slope
from ctlpp.kernels.descriptors import described, made_for
from ctlpp.kernels.products import blocks, times


class Tile(NamedTuple):
    """What a program makes, and how."""

    rows: int
    columns: int
    step: int  # of the sum that an element is
    warps: int
    stages: int  # steps under way at a time
    registers: int | None = None  # at most, of a thread


FORWARD = Tile(rows=128, columns=128, step=64, warps=4, stages=2, registers=168)
BACKWARD = Tile(rows=128, columns=64, step=64, warps=4, stages=2)


@triton.jit
def hidden_forward(
    a,
    up,
    pre,
    act,
    b_ptr,
    b_step,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Grid (column blocks, row blocks, seeds); a, up, pre and act are descriptors."""
    column, row, seed = tl.program_id(0) * COLUMNS, tl.program_id(1) * ROWS, tl.program_id(2)
    y = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, D, STEP):
        x = tl.reshape(a.load([seed, row, k]), (ROWS, STEP))
        w = tl.reshape(up.load([seed, column, k]), (COLUMNS, STEP))
        y = tl.dot(x, w.T, y, input_precision="ieee")
    pre.store([seed, row, column], tl.reshape(y.to(pre.dtype), (1, ROWS, COLUMNS)))
    b = tl.load(b_ptr + seed * b_step + column + tl.arange(0, COLUMNS))
    y = gelu(y + b[None, :])
    act.store([seed, row, column], tl.reshape(y.to(act.dtype), (1, ROWS, COLUMNS)))


@triton.jit
def hidden_backward(
    de,
    down,
    pre,
    b_ptr,
    part_ptr,
    b_step,
    part_step,
    part_row,
    DATA: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """In the place of pre comes its gradient; its sum over a block's rows, for b, goes to `part`. DATA: units of d."""
    column, row, seed = tl.program_id(0) * COLUMNS, tl.program_id(1) * ROWS, tl.program_id(2)
    at = column + tl.arange(0, COLUMNS)
    net = tl.where(column < DATA, 0, tl.num_programs(2))
    dact = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, D, STEP):
        dy = tl.reshape(de.load([net + seed, row, k]), (ROWS, STEP))
        w = tl.reshape(down.load([seed, k, column]), (STEP, COLUMNS))
        dact = tl.dot(dy, w, dact, input_precision="ieee")
    x = tl.reshape(pre.load([seed, row, column]), (ROWS, COLUMNS))
    dx = dact * gelu_slope(x.to(tl.float32) + tl.load(b_ptr + seed * b_step + at)[None, :])
    pre.store([seed, row, column], tl.reshape(dx.to(pre.dtype), (1, ROWS, COLUMNS)))
    tl.store(part_ptr + seed * part_step + tl.program_id(1) * part_row + at, tl.sum(dx, axis=0))


def fits(pre: Tensor, width: int) -> bool:
    """Whether product and GELU can be one kernel: bf16 on sm_90, width and hidden units in whole tiles."""
    whole = all(size % tile.columns == 0 for size in (width, pre.shape[2]) for tile in (FORWARD, BACKWARD))
    return whole and pre.dtype == torch.bfloat16 and made_for(pre.device)


def forward(a: Tensor, up: Tensor, bias: Tensor, pre: Tensor, act: Tensor) -> None:
    """pre = a · upᵀ and act = GELU(pre + bias). a: (S, N, D); up: (S, F, D); bias: (S, F); pre, act: (S, N, F)."""
    (S, N, F), D, tile = pre.shape, a.shape[2], FORWARD
    if not fits(pre, D):
        times(a, up, out=pre)
        for net in _nets(F, D):
            activation.forward(pre[..., net], bias[:, net], act[..., net], None, gelu=True)
        return
    hidden_forward[_grid(tile, F, N, S)](
        described(a, tile.rows, tile.step),
        described(up, tile.columns, tile.step),
        described(pre, tile.rows, tile.columns),
        described(act, tile.rows, tile.columns),
        bias,
        bias.stride(0),
        D=D,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        STEP=tile.step,
        num_warps=tile.warps,
        num_stages=tile.stages,
        maxnreg=tile.registers,
    )


def parts(pre: Tensor, width: int) -> int:
    """How many partial sums a backward leaves."""
    return blocks(pre.shape[1], BACKWARD.rows) if fits(pre, width) else activation.parts(pre.shape[1])


def backward(de: Tensor, down: Tensor, pre: Tensor, bias: Tensor, part: Tensor) -> None:
    """The gradient of pre, in its place; part: (S, parts, F) sums for the bias.

    de: (2, S, N, D), the gradients of the data net's and of the gate net's output; down: (S, D, F).
    """
    (S, N, F), D, tile = pre.shape, down.shape[1], BACKWARD
    if not fits(pre, D):
        for net, output in zip(_nets(F, D), de, strict=True):
            dact = torch.bmm(output, down[..., net])
            activation.backward(dact, pre[..., net], bias[:, net], part[..., net], None, gelu=True)
        return
    hidden_backward[_grid(tile, F, N, S)](
        described(de.flatten(0, 1), tile.rows, tile.step),
        described(down, tile.step, tile.columns),
        described(pre, tile.rows, tile.columns),
        bias,
        part,
        bias.stride(0),
        *part.stride()[:2],
        DATA=F - D,
        D=D,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        STEP=tile.step,
        num_warps=tile.warps,
        num_stages=tile.stages,
        maxnreg=tile.registers,
    )


def _grid(tile: Tile, F: int, N: int, S: int) -> tuple[int, int, int]:
    """A program for each tile of a seed."""
    return F // tile.columns, blocks(N, tile.rows), S


def _nets(F: int, D: int) -> tuple[slice, slice]:
    """The hidden units of the data net and of the gate net."""
    return slice(0, F - D), slice(F - D, F)
