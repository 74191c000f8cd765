"""Linear classifier and cross-entropy in one kernel: losses and all gradients from one look at the read-out.

Shapes: S seeds, B batch, W width of the read-out (a power of two), C classes.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.products import blocks

ROWS, WARPS = 32, 4  # examples of a program


@triton.jit
def classify(
    x_ptr,
    weight_ptr,
    bias_ptr,
    targets_ptr,
    dx_ptr,
    loss_ptr,
    dweight_ptr,
    dbias_ptr,
    B,
    C,
    p_step,
    targets_step,
    share,
    ROWS: tl.constexpr,
    W: tl.constexpr,
    CP: tl.constexpr,
):
    """Grid (blocks of examples, seeds): the gradient of x, and a part a block of the losses and other gradients."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column, label = tl.arange(0, W), tl.arange(0, CP)
    inside, real = row < B, label < C
    at = seed * B * W + row[:, None] * W + column[None, :]
    at_weight = label[:, None] * W + column[None, :]
    x = tl.load(x_ptr + at, mask=inside[:, None], other=0.0)
    weight = tl.load(weight_ptr + seed * p_step + at_weight, mask=real[:, None], other=0.0).to(x.dtype)
    bias = tl.load(bias_ptr + seed * p_step + label, mask=real, other=-float("inf"))
    logits = tl.dot(x, tl.trans(weight), input_precision="ieee") + bias[None, :]
    wanted = label[None, :] == tl.load(targets_ptr + seed * targets_step + row, mask=inside, other=0)[:, None]
    top = tl.max(logits, axis=1)
    odds = tl.exp(logits - top[:, None])
    total = tl.sum(odds, axis=1)
    loss = tl.log(total) + top - tl.sum(tl.where(wanted, logits, 0.0), axis=1)
    d = odds / total[:, None] - tl.where(wanted, 1.0, 0.0)
    d = tl.where(inside[:, None], d, 0.0)
    block = seed * tl.num_programs(0) + tl.program_id(0)
    tl.store(loss_ptr + block, tl.sum(tl.where(inside, loss, 0.0)) * share)
    tl.store(dbias_ptr + block * C + label, tl.sum(d, axis=0) * share, mask=real)
    d = d.to(x.dtype)
    dweight = tl.dot(tl.trans(d), x, input_precision="ieee") * share
    tl.store(dweight_ptr + block * C * W + at_weight, dweight, mask=real[:, None])
    dx = tl.dot(d, weight, input_precision="ieee") * share
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=inside[:, None])


def read_out(x: Tensor, w: dict[str, Tensor], g: dict[str, Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (S,) and the gradient of the read-out x, (S, B, W); the classifier's gradients go to `g`."""
    (S, B, W), C, n = x.shape, w["classify.bias"].shape[1], blocks(x.shape[1], ROWS)
    assert x.is_contiguous()
    assert targets.stride(-1) == 1
    dx, loss = torch.empty_like(x), torch.empty(S, n, device=x.device)
    dweight, dbias = torch.empty(S, n, C, W, device=x.device), torch.empty(S, n, C, device=x.device)
    classify[n, S](
        x,
        w["classify.weight"],
        w["classify.bias"],
        targets,
        dx,
        loss,
        dweight,
        dbias,
        B,
        C,
        w["classify.bias"].stride(0),
        targets.stride(0) if targets.ndim == 2 else 0,
        1 / B,
        ROWS=ROWS,
        W=W,
        CP=max(16, triton.next_power_of_2(C)),
        num_warps=WARPS,
    )
    torch.sum(dweight, dim=1, out=g["classify.weight"])
    torch.sum(dbias, dim=1, out=g["classify.bias"])
    return loss.sum(1), dx
