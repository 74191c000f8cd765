"""Matrix products of a crowd: one batched product over the seeds each."""

from __future__ import annotations

import torch
from torch import Tensor

SHARES = 1  # of the rows in the gradient of a weight that all layers share: a product each, then added up
DIRECT = False  # whether the gradient of a weight is written straight to its place, where it is not divided


def times(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """x · weightᵀ, a linear map. (S, N, in), (S, out, in) -> (S, N, out)"""
    return torch.bmm(x, weight.mT, out=out)


def of_transposed(dy: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
    """dyᵀ · x, the gradient of a linear map's weight, in float32. (S, N, out), (S, N, in) -> (S, out, in)"""
    if x.is_cuda and x.dtype != torch.float32:
        if out is None:
            return torch.bmm(dy.mT, x, out_dtype=torch.float32)
        return torch.bmm(dy.mT, x, out_dtype=torch.float32, out=out)
    return torch.bmm(dy.mT, x, out=out)


def shares(rows: int) -> int:
    """Into how many products the gradient of a weight is divided: at most SHARES, all over as many rows."""
    return next(n for n in range(SHARES, 0, -1) if rows % n == 0)


def cut(x: Tensor, n: int) -> Tensor:
    """n shares of the rows, a batch entry each. (S, N, W) -> (S · n, N / n, W)"""
    return x.unflatten(1, (n, -1)).flatten(0, 1)


def rows_of(x: Tensor) -> Tensor:
    """All layers' rows together. (S, depth, N, W) -> (S, depth · N, W)"""
    return x.flatten(1, 2)


def blocks(n: int, size: int) -> int:
    """How many blocks of a size cover n."""
    return -(-n // size)
