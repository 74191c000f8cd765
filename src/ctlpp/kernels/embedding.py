"""Both ends of a model: a table's entries for the tokens of a batch, and the classifier with its loss.

Shapes: S seeds, V vocabulary, D width, B batch, N = B · T rows, W width of the read-out (a power of two), C
classes. One batch for all seeds or one a seed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.launch import Block, Views, add_up, at_seed, blocks, by_row, by_seed

ROWS, COLUMNS, WARPS = 16, 256, 4  # rows and columns of a program of the look-up
BACK, BACK_WARPS = Block(rows=32, loops=32), 4  # of a program of the gradient, …
TOKENS, WIDTH = 64, 128  # … its ids and columns
EXAMPLES, CLASSIFY_WARPS = 32, 4  # of a program of the classifier


@triton.jit
def embedding_look_up(table, ids, out, N, ROWS: constexpr, W: constexpr, D: constexpr):
    """Grid (blocks of W columns, row blocks, seeds)."""
    seed, column = tl.program_id(2).to(tl.int64), tl.program_id(0) * W + tl.arange(0, W)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < N)[:, None] & (column < D)[None, :]
    ids = tl.load(at_seed(ids, seed) + row, mask=row < N, other=0).to(tl.int32)
    entries = at_seed(table, seed) + (ids[:, None] * table[2] + column[None, :])
    to = at_seed(out, seed) + (row[:, None] * out[2] + column[None, :])
    found = tl.load(entries, mask=inside, other=0.0)
    tl.store(to, found.to(out[0].dtype.element_ty), mask=inside)


@triton.jit
def embedding_gradient(ids, dy, more, part, N, V, s: constexpr, IDS: constexpr, W: constexpr, D: constexpr):
    """Σ over a block's rows with an id of dy (+ more), a product with ones and zeros.

    Grid (row blocks, blocks of IDS ids by W columns, seeds).
    """
    seed, across = tl.program_id(2).to(tl.int64), tl.cdiv(D, W)
    token = tl.program_id(1) // across * IDS + tl.arange(0, IDS)
    column = tl.program_id(1) % across * W + tl.arange(0, W)
    total = tl.zeros((IDS, W), tl.float32)
    for loop in range(s.loops):
        row = (tl.program_id(0) * s.loops + loop) * s.rows + tl.arange(0, s.rows)
        inside = (row < N)[:, None] & (column < D)[None, :]
        of_rows = tl.load(at_seed(ids, seed) + row, mask=row < N, other=-1).to(tl.int32)
        at = row[:, None] * dy[2] + column[None, :]
        g = tl.load(at_seed(dy, seed) + at, mask=inside, other=0.0)
        if more is not None:
            g += tl.load(at_seed(more, seed) + at, mask=inside, other=0.0)
        hot = tl.where(token[:, None] == of_rows[None, :], 1.0, 0.0).to(dy[0].dtype.element_ty)
        total += tl.dot(hot, g, input_precision="ieee")
    to = at_seed(part, seed) + tl.program_id(0) * V * D + (token[:, None] * D + column[None, :])
    tl.store(to, total, mask=(token < V)[:, None] & (column < D)[None, :])


def look_up(table: Tensor, ids: Tensor, out: Tensor) -> None:
    """The entries of a batch's tokens. table: (S, V, D), ids: (B, T) or (S, B, T) -> out: (S, B · T, D)"""
    (S, N, D), ids = out.shape, ids.contiguous()
    W = min(triton.next_power_of_2(D), COLUMNS)
    (of_table, of_out), of_ids = by_row(table, out), (ids, _step(ids, 3))
    meta = {"ROWS": ROWS, "W": W, "D": D, "num_warps": WARPS}
    embedding_look_up[blocks(D, W), blocks(N, ROWS), S](of_table, of_ids, of_out, N, **meta)


def gradient(ids: Tensor, dy: Tensor, more: Tensor | None, out: Tensor) -> None:
    """The table's gradient, if that of the rows is dy (+ more), (S, B · T, D) -> out: (S, V, D) float32"""
    (S, N, D), V, ids = dy.shape, out.shape[1], ids.contiguous()
    assert more is None or more.stride(1) == dy.stride(1)
    part = torch.empty(S, BACK.parts(N), V, D, device=dy.device)
    W = min(triton.next_power_of_2(D), WIDTH)
    grid = part.shape[1], blocks(V, TOKENS) * blocks(D, W), S
    meta = {"s": BACK, "IDS": TOKENS, "W": W, "D": D, "num_warps": BACK_WARPS}
    embedding_gradient[grid]((ids, _step(ids, 3)), *by_row(dy), *by_seed(more, part), N, V, **meta)
    add_up(part, [out])


def _step(x: Tensor, ndim: int) -> int:
    """Elements from one seed's part of a batch to the next one's: 0 if there is one batch for all."""
    return x.stride(0) if x.ndim == ndim else 0


@triton.jit
def classify(x, parameters, targets, dx, parts, B, C, share, ROWS: constexpr, W: constexpr, CP: constexpr):
    """Grid (blocks of examples, seeds): the gradient of x, and parts of losses and other gradients."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column, label = tl.arange(0, W), tl.arange(0, CP)
    inside, real = row < B, label < C
    at = seed * B * W + row[:, None] * W + column[None, :]
    at_weight = label[:, None] * W + column[None, :]
    x = tl.load(x + at, mask=inside[:, None], other=0.0)
    p = seed * parameters[2]
    weight = tl.load(parameters[0] + p + at_weight, mask=real[:, None], other=0.0).to(x.dtype)
    bias = tl.load(parameters[1] + p + label, mask=real, other=-float("inf"))
    logits = tl.dot(x, tl.trans(weight), input_precision="ieee") + bias[None, :]
    wanted = label[None, :] == tl.load(at_seed(targets, seed) + row, mask=inside, other=0)[:, None]
    top = tl.max(logits, axis=1)
    odds = tl.exp(logits - top[:, None])
    total = tl.sum(odds, axis=1)
    loss = tl.log(total) + top - tl.sum(tl.where(wanted, logits, 0.0), axis=1)
    d = odds / total[:, None] - tl.where(wanted, 1.0, 0.0)
    d = tl.where(inside[:, None], d, 0.0)
    block = seed * tl.num_programs(0) + tl.program_id(0)
    tl.store(parts[0] + block, tl.sum(tl.where(inside, loss, 0.0)) * share)
    tl.store(parts[2] + block * C + label, tl.sum(d, axis=0) * share, mask=real)
    d = d.to(x.dtype)
    dweight = tl.dot(tl.trans(d), x, input_precision="ieee") * share
    tl.store(parts[1] + block * C * W + at_weight, dweight, mask=real[:, None])
    gradient_of_x = tl.dot(d, weight, input_precision="ieee") * share
    tl.store(dx + at, gradient_of_x.to(dx.dtype.element_ty), mask=inside[:, None])


def read_out(x: Tensor, w: Views, g: Views, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (S,) and the gradient of the read-out x, (S, B, W); the classifier's gradients go to `g`."""
    (S, B, W), (C,), n = x.shape, w["classify.bias"].shape[1:], blocks(x.shape[1], EXAMPLES)
    assert x.is_contiguous()
    assert targets.stride(-1) == 1
    dx, sizes = torch.empty_like(x), ((), (C, W), (C,))
    parts = tuple(x.new_empty(S, n, *size, dtype=torch.float32) for size in sizes)
    parameters = w["classify.weight"], w["classify.bias"], w["classify.bias"].stride(0)
    tensors = x, parameters, (targets, _step(targets, 2)), dx, parts
    meta = {"ROWS": EXAMPLES, "W": W, "CP": max(16, triton.next_power_of_2(C)), "num_warps": CLASSIFY_WARPS}
    classify[n, S](*tensors, B, C, 1 / B, **meta)
    losses, dweight, dbias = parts
    torch.sum(dweight, dim=1, out=g["classify.weight"])
    torch.sum(dbias, dim=1, out=g["classify.bias"])
    return losses.sum(1), dx
