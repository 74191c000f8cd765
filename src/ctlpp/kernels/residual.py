"""The end of an attention: y = read · outᵀ, a = LN(h + dropout(y)), and what `norm.backward` needs of it.

On sm_90 (H100, H200) in bf16 this is one kernel: a program makes all columns of some rows, so that y never leaves it.
Elsewhere cuBLAS makes the product and `norm` the rest.

The tensor cores leave a thread two neighbouring columns of every eight. The rows of `out` therefore come in an order in
which these are eight neighbours of every 32: then a thread draws whole words of dropout, each for four elements, and
moves 16 bytes at a time. What follows the product goes by chunks of columns where it would need too many registers.

Shapes: S seeds, N rows, W width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels import norm
from ctlpp.kernels.descriptors import described, made_for
from ctlpp.kernels.dropout import Dropout, keep_tile
from ctlpp.kernels.products import blocks, times


class Tile(NamedTuple):
    """How a program makes its rows."""

    rows: int
    step: int  # of the sum that an element is
    warps: int
    stages: int  # steps under way at a time
    registers: int | None  # at most, of a thread
    chunk: int  # columns that dropout and norm take at a time; all, if more than four warps share 64 rows
    ahead: bool = True  # rows are asked for before they are needed


TILE = Tile(rows=64, step=32, warps=4, stages=3, registers=168, chunk=64)


@triton.jit
def _ask_for(ptr, rows, W: tl.constexpr):
    """Send for bf16 rows that lie one after the other: to the L2 cache, by one thread."""
    ask: tl.constexpr = """{
        .reg .pred first;
        .reg .u32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 first, thread, 0;
        @first cp.async.bulk.prefetch.L2.global [$1], $2;
        mov.u32 $0, 0;
    }"""
    size = (rows * (2 * W)).to(tl.int32)
    tl.inline_asm_elementwise(ask, "=r,l,r", [ptr.to(tl.int64), size], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _halves(x):
    """The left and the right columns."""
    return tl.split(tl.permute(tl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1)))


@triton.jit
def _joined(left, right):
    return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (left.shape[0], 2 * left.shape[1]))


@triton.jit
def _dropped(y, key, first, drop, W: tl.constexpr, CHUNK: tl.constexpr):
    """y, and 0 for what is dropped. first: word of each row's first column."""
    if W > CHUNK:
        left, right = _halves(y)
        left = _dropped(left, key, first, drop, W // 2, CHUNK)
        y = _joined(left, _dropped(right, key, first + W // 8, drop, W // 2, CHUNK))
    else:
        y = tl.where(keep_tile(key, first, drop, y.shape[0], W), y, 0.0)
    return y


@triton.jit
def _stretched(n, gamma_ptr, beta_ptr, TYPE: tl.constexpr, W: tl.constexpr, CHUNK: tl.constexpr):
    """n · γ + β"""
    if W > CHUNK:
        left, right = _halves(n)
        left = _stretched(left, gamma_ptr, beta_ptr, TYPE, W // 2, CHUNK)
        a = _joined(left, _stretched(right, gamma_ptr + W // 2, beta_ptr + W // 2, TYPE, W // 2, CHUNK))
    else:
        column = tl.arange(0, W)
        a = (n * tl.load(gamma_ptr + column)[None, :] + tl.load(beta_ptr + column)[None, :]).to(TYPE)
    return a


@triton.jit
def residual_forward(read, out, h, n, a, read_ptr, h_ptr, gamma_ptr, beta_ptr, scale_ptr, keys_ptr, position, every, N,
                     read_step, h_step, scale_step, p_step, drop, factor, EPS: tl.constexpr, W: tl.constexpr,
                     ROWS: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr, DROP: tl.constexpr,
                     AHEAD: tl.constexpr):  # fmt: skip
    """Grid (row blocks, seeds); read, out, h, n and a are descriptors, `…_step`: elements from one seed to the next."""
    row, seed = tl.program_id(0) * ROWS, tl.program_id(1)
    far = seed.to(tl.int64)
    if AHEAD:
        rows = tl.minimum(N - row, ROWS)
        _ask_for(read_ptr + far * read_step + row * W, rows, W)
        _ask_for(h_ptr + far * h_step + row * W, rows, W)
    y = tl.zeros((ROWS, W), tl.float32)
    for k in range(0, W, STEP):
        x = tl.reshape(read.load([seed, row, k]), (ROWS, STEP))
        w = tl.reshape(out.load([seed * (W // 32), 0, 0, 0, k]), (W, STEP))
        y = tl.dot(x, w.T, y, input_precision="ieee")
    y = tl.reshape(tl.permute(tl.reshape(y, (ROWS, W // 32, 4, 4, 2)), (0, 1, 3, 2, 4)), (ROWS, W))
    i = row + tl.arange(0, ROWS)
    if DROP:
        first = position + i.to(tl.int64) * every * (W // 4)
        y = _dropped(y, tl.load(keys_ptr + seed), first, drop, W, CHUNK) * factor
    z = y + tl.reshape(h.load([seed, row, 0]), (ROWS, W)).to(tl.float32)
    centred = z - tl.sum(z, axis=1)[:, None] / W
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / W + EPS)
    z = centred * scale[:, None]
    n.store([seed, row, 0], tl.reshape(z.to(n.dtype), (1, ROWS, W)))
    z = _stretched(z, gamma_ptr + far * p_step, beta_ptr + far * p_step, a.dtype, W, CHUNK)
    a.store([seed, row, 0], tl.reshape(z, (1, ROWS, W)))
    tl.store(scale_ptr + far * scale_step + i, scale, mask=i < N)


def fits(n: Tensor) -> bool:
    """Whether product and norm can be one kernel: bf16 on sm_90, and the width that the tile is made for."""
    return n.shape[2] == 256 and n.dtype == torch.bfloat16 and made_for(n.device)


def forward(read: Tensor, out: Tensor, h: Tensor, gamma: Tensor, beta: Tensor, n: Tensor, a: Tensor, scale: Tensor,
            dropout: Dropout) -> None:  # fmt: skip
    """a = LN(h + dropout(read · outᵀ)), what is normalised before γ and β to n, 1 / its deviation to scale.

    read, h, n, a: (S, N, W); out: (S, W, W); gamma, beta: (S, W); scale: (S, N) in float32.
    """
    (S, N, W), tile = n.shape, TILE
    if not fits(n):
        times(read, out, out=n)
        norm.forward(h, n, None, gamma, beta, a, scale, dropout)
        return
    residual_forward[blocks(N, tile.rows), S](
        described(read, tile.rows, tile.step), _by_eights(out.contiguous(), tile.step),
        *(described(rows, tile.rows, W) for rows in (h, n, a)), read, h, gamma, beta, scale, dropout.keys,
        dropout.position, dropout.every, N, read.stride(0), h.stride(0), scale.stride(0), gamma.stride(0), dropout.drop,
        dropout.factor, EPS=norm.EPS, W=W, ROWS=tile.rows, STEP=tile.step, CHUNK=tile.chunk, DROP=dropout.some,
        AHEAD=tile.ahead, num_warps=tile.warps, num_stages=tile.stages, maxnreg=tile.registers,
    )  # fmt: skip


def _by_eights(out: Tensor, step: int) -> Any:
    """A descriptor of weights, (S, W, W), whose rows 32 g + 8 t + 2 b + s come in the order of g, b, t, s."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    S, W, _ = out.shape
    shape, strides = [S * (W // 32), 4, 4, 2, W], [32 * W, 2 * W, 8 * W, W, 1]
    return TensorDescriptor(out, shape, strides, [W // 32, 4, 4, 2, step])
