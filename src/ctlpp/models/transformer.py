"""Transformer encoder with Transformer-XL relative positions; one layer applied many times, or many layers.

The input gets a start-of-sequence column in front; the class is read from that column after the last layer.

Shapes: B batch, T columns (tokens and the start column), D width, H heads, K = D / H, C classes.

Example:
    >>> import torch
    >>> model = Transformer(vocab_size=41, n_classes=8)
    >>> model(torch.tensor([[3, 17, 35, 40]])).shape  # two functions, a symbol, the end
    torch.Size([1, 8])
"""

import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn

from ctlpp.models.activations import record


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """sin and cos of each position at `width / 2` wavelengths from 2π to 10,000 · 2π. (N,) -> (N, D)"""
    even = torch.arange(0, width, 2, device=positions.device, dtype=positions.dtype)
    rates = 10_000 ** (-even / width)
    angles = positions[:, None] * rates  # (N, D / 2), of an odd width rounded up
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :width]


class RelativeAttention(nn.Module):
    """Softmax over (q_i + u) · k_j + (q_i + v) · r_{j-i}, where r is linear in the offset's sinusoids."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.position = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.u = nn.Parameter(torch.zeros(heads, width // heads))
        self.v = nn.Parameter(torch.zeros(heads, width // heads))
        self.scale = nn.Parameter(torch.tensor((width // heads) ** -0.5))
        self.bias = nn.Parameter(torch.tensor(0.0))  # as released, though softmax does not feel it
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.qkv.weight[:width])
        nn.init.xavier_uniform_(self.qkv.weight[width:])  # keys and values count as one matrix
        nn.init.xavier_uniform_(self.position.weight)

    def forward(self, h: Tensor, waves: Tensor, offset: Tensor, hidden: Tensor | None = None) -> Tensor:
        """h: (B, T, D); waves: sinusoids of all offsets, (2T - 1, D); offset: its row for j - i, (T, T).

        hidden: true at [i, j] if i must not see j, (T, T).
        """
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, T, H, K) each
        k, r = self.dropout(k), self.dropout(self.position(waves)).unflatten(-1, (self.heads, -1))
        content = einsum("bihk,bjhk->bhji", q + self.u, k)
        position = einsum("bihk,ijhk->bhji", q + self.v, r[offset])
        # j before i: on a CPU a short softmax is three times as quick over numbers that lie apart
        match = torch.addcmul(self.bias, content + position, self.scale)  # (B, H, T, T)
        if hidden is not None:
            match = match.masked_fill(hidden.mT, -torch.inf)
        weights = match.softmax(dim=-2)
        read: Tensor = self.out(einsum("bhji,bjhk->bihk", weights, v).flatten(-2))
        return read


class TransformerLayer(nn.Module):
    """Attention, then a feed-forward net; the norm follows each residual sum."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, key_dropout: float) -> None:
        super().__init__()
        self.attend = RelativeAttention(width, heads, key_dropout)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm_a, self.norm_h = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_normal_(self.up.weight, gain=nn.init.calculate_gain("relu"))
        nn.init.xavier_uniform_(self.down.weight)

    def forward(self, h: Tensor, *view: Tensor | None) -> Tensor:  # (B, T, D) -> (B, T, D)
        a = self.norm_a(h + self.dropout(self.attend(h, *view)))
        ffn = self.down(self.dropout(F.relu(self.up(a))))
        out: Tensor = self.norm_h(a + self.dropout(ffn))
        return out


class Transformer(nn.Module):
    """`depth` applications of one shared layer, or of `depth` layers of their own if not `shared`.

    If `causal`, a column sees only what is applied before it: the columns to its right.
    """

    def __init__(
        self,
        vocab_size: int,
        n_classes: int,
        *,
        width: int = 128,
        heads: int = 4,
        hidden: int = 256,
        depth: int = 8,
        dropout: float = 0.1,
        key_dropout: float = 0.1,
        shared: bool = True,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.start, self.depth, self.width, self.causal = vocab_size, depth, width, causal
        self.embed = nn.Embedding(vocab_size + 1, width)  # the last row: start of sequence
        layers = (
            TransformerLayer(width, heads, hidden, dropout, key_dropout)
            for _ in range(1 if shared else depth)
        )
        self.layers = nn.ModuleList(layers)
        self.classify = nn.Linear(width, n_classes)
        nn.init.kaiming_normal_(self.embed.weight)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T - 1) -> (B, C)
        h = self.embed(F.pad(tokens, (1, 0), value=self.start))  # (B, T, D)
        T = h.shape[1]
        at = torch.arange(T, device=h.device)
        waves = sinusoids(torch.arange(1 - T, T, device=h.device, dtype=h.dtype), self.width)  # (2T - 1, D)
        offset = at - at[:, None] + T - 1  # (T, T)
        hidden = at < at[:, None] if self.causal else None
        for n in range(self.depth):
            h = record("state", self.layers[n % len(self.layers)](h, waves, offset, hidden))
        logits: Tensor = self.classify(record("readout", h[:, 0]))
        return logits
