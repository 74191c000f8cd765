"""Embeddings of a batch, and what their gradient needs."""

from __future__ import annotations

import torch
from torch import Tensor


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """The embeddings of a batch, one for all seeds or one a seed. (S, V, D), (B, T) or (S, B, T) -> (S, B · T, D)"""
    if ids.ndim == 2:
        return table[:, ids.flatten()]
    return table.gather(1, ids.flatten(1)[..., None].expand(-1, -1, table.shape[-1]))


def one_hot(ids: Tensor, size: int, like: Tensor) -> Tensor:
    """1 where a row has an id, (S, N, V): the gradient of the table is its product with that of the embeddings."""
    hot = ids.flatten(-2)[..., None] == torch.arange(size, device=ids.device)
    return hot.to(like.dtype).expand(len(like), -1, -1)
