"""Linear recurrences: each layer carries a matrix a head, and what a token does to it is linear in it.

- `DeltaNet` (Yang et al., 2024), with negative eigenvalues (Grazzi et al., 2025): what the matrix holds under
  a key moves toward a value, S ← S + β k (v − S k)ᵀ with 0 < β < 2. At β = 2 it reflects, and reflections
  make permutations.
- `SSM`, a diagonal state-space model as in Mamba-2: S ← a S + (1 − a) k vᵀ with 0 < a < 1. It is the negative
  control: its transitions commute, and permutations do not.

Both read from the last token to the first. Shapes: B batch, T tokens, D width, H heads, K = D / H, C classes.

Example:
    >>> import torch
    >>> for model in (DeltaNet, SSM):
    ...     print(tuple(model(vocab_size=41, n_classes=8)(torch.tensor([[3, 17, 35, 40]])).shape))
    (1, 8)
    (1, 8)
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.activations import record

Transition = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (S, k, v, strength) -> S


def delta(S: Tensor, k: Tensor, v: Tensor, strength: Tensor) -> Tensor:
    """The delta rule. S: (B, H, K, K), by key and value; k of length 1, v: (B, H, K); strength: (B, H, 1)"""
    beta = 2 * strength.sigmoid()
    held = torch.einsum("bhk,bhkv->bhv", k, S)
    return S + torch.einsum("bhk,bhv->bhkv", k, beta * (v - held))


def decay(S: Tensor, k: Tensor, v: Tensor, strength: Tensor) -> Tensor:
    """Forget a share of everything and add. Shapes as above."""
    a = strength.sigmoid()
    return a[..., None] * S + torch.einsum("bhk,bhv->bhkv", k, (1 - a) * v)


class LinearLayer(nn.Module):
    """One step of the recurrence, then a feed-forward net; each adds to what comes in."""

    def __init__(self, transition: Transition, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.transition, self.heads = transition, heads
        self.norm_x, self.norm_h = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.strength = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, heads)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:  # (B, D), (B, H, K, K)
        normed = self.norm_x(x)
        q, k, v = self.qkv(normed).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, H, K) each
        S = self.transition(S, F.normalize(k, dim=-1), v, self.strength(normed)[..., None])
        read = torch.einsum("bhk,bhkv->bhv", F.normalize(q, dim=-1), S)
        h = x + self.dropout(self.out(read.flatten(-2)))
        return h + self.dropout(self.down(F.gelu(self.up(self.norm_h(h))))), S


class LinearRNN(nn.Module):
    """`depth` layers, token by token; the class is read after the last one."""

    def __init__(
        self,
        transition: Transition,
        vocab_size: int,
        n_classes: int,
        *,
        width: int = 128,
        heads: int = 4,
        hidden: int = 256,
        depth: int = 2,
        dropout: float = 0.1,
        from_end: bool = True,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        layers = (LinearLayer(transition, width, heads, hidden, dropout) for _ in range(depth))
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(width)
        self.classify = nn.Linear(width, n_classes)
        self.heads, self.from_end = heads, from_end

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.embed(tokens.flip(1) if self.from_end else tokens)  # (B, T, D)
        K = x.shape[-1] // self.heads
        shape = len(self.layers), self.heads, K, K
        S = x.new_zeros(len(x), *shape)
        for h in x.unbind(1):
            matrices = []
            for layer, own in zip(self.layers, S.unbind(1), strict=True):
                h, own = layer(h, own)
                matrices.append(own)
            state = record("state", torch.cat([h, *(own.flatten(1) for own in matrices)], dim=-1))
            h, S = state[:, : x.shape[-1]], torch.unflatten(state[:, x.shape[-1] :], 1, shape)
        logits: Tensor = self.classify(record("readout", self.norm(h)))
        return logits


DeltaNet = partial(LinearRNN, delta)
SSM = partial(LinearRNN, decay)
