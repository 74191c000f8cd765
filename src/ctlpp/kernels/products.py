"""Matrix products of a crowd: one batched product over the seeds each."""

from __future__ import annotations

import torch
from torch import Tensor


def times(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """x · weightᵀ, a linear map. (S, N, in), (S, out, in) -> (S, N, out)"""
    return torch.bmm(x, weight.mT, out=out)


def of_transposed(dy: Tensor, x: Tensor) -> Tensor:
    """dyᵀ · x, the gradient of a linear map's weight, in float32. (S, N, out), (S, N, in) -> (S, out, in)"""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.bmm(dy.mT, x, out_dtype=torch.float32)
    return torch.bmm(dy.mT, x)


def blocks(n: int, size: int) -> int:
    """How many blocks of a size cover n."""
    return -(-n // size)
