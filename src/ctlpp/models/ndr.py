"""Neural Data Router (Csordás et al., 2022): geometric attention and a copy gate, one layer many times.

The input gets a start-of-sequence column in front; the class is read from that column after the last step.

Shapes: B batch, T columns (tokens and the start column), D width, H heads, K = D / H, C classes.

Example: a column stops at the nearest match, so a sure one hides whatever lies behind it.
    >>> import torch
    >>> sure, maybe, never = 50.0, 0.0, -torch.inf
    >>> match = torch.tensor([[never, sure, sure], [sure, never, maybe], [maybe, -sure, never]])
    >>> geometric_attention(match, look(3).near).round(decimals=3)
    tensor([[0.0000, 1.0000, 0.0000],
            [0.5000, 0.0000, 0.5000],
            [0.5000, 0.0000, 0.0000]])
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn

from ctlpp.models.activations import record


class View(NamedTuple):
    """What column i sees of the others, for all columns or for the first R, which alone are then updated."""

    near: Tensor  # 1.0 at [i, j, k]: k is as near to i as j is, or nearer, (R, T, T)
    right: Tensor  # true at [i, j]: j lies to the right of i, (R, T)
    itself: Tensor  # true at [i, i], (R, T)

    def updated(self, columns: Tensor) -> Tensor:
        """Those that are updated. (B, T, …) -> (B, R, …)"""
        R = len(self.right)
        return columns if columns.shape[1] == R else columns[:, :R]


def look(length: int, device: torch.device | None = None, dtype: torch.dtype = torch.float32) -> View:
    """The view of `length` columns; of two columns at the same distance the right one counts as nearer."""
    at = torch.arange(length, device=device)
    away = at - at[:, None]  # of j from i, (T, T)
    right, itself = away > 0, away == 0
    rank = 2 * away.abs() - right.long()  # 0 itself, 1 the column to its right, 2 the one to its left, 3 …
    return View((rank[:, None] <= rank[..., None]).to(dtype), right, itself)


def geometric_attention(match: Tensor, near: Tensor) -> Tensor:
    """A_ij = P_ij · ∏_{k nearer to i than j} (1 − P_ik) with P = σ(match): stop at the first match.

    match: (…, R, T), −∞ where j must not be read; near: (R, T, T). Returns A, (…, R, T), whose rows sum to 1
    at most. The sums of logarithms need all their digits, so autocast is off.
    """
    with torch.autocast(match.device.type, enabled=False):
        match = match.to(near.dtype)
        log_miss = F.logsigmoid(-match)  # log (1 − P); log P is match + log (1 − P)
        return (match + einsum("...ik,ijk->...ij", log_miss, near)).exp()


class GeometricAttention(nn.Module):
    """Each column reads the nearest column that matches; it prefers a direction by what it holds."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.direction = nn.Linear(width, 2 * heads)
        self.out = nn.Linear(width, width, bias=False)
        self.scale = nn.Parameter(torch.tensor((width // heads) ** -0.5))
        self.direction_scale = nn.Parameter(torch.tensor(1.0))
        self.bias = nn.Parameter(torch.tensor(0.0))
        self.dropout = nn.Dropout(dropout)
        init_qkv(self.qkv.weight, heads)
        nn.init.xavier_uniform_(self.out.weight)

    def forward(self, h: Tensor, view: View) -> Tensor:  # (B, T, D) -> (B, R, D)
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, T, H, K) each
        direction = self.direction(view.updated(h))
        prefer = torch.addcmul(self.bias, direction, self.direction_scale)  # (B, R, 2H)
        right, left = (
            torch.unflatten(prefer, -1, (2, self.heads, 1)).transpose(1, 3).unbind(2)
        )  # (B, H, R, 1) each
        content = einsum("bihk,bjhk->bhij", view.updated(q), self.dropout(k))
        match = torch.addcmul(torch.where(view.right, right, left), content, self.scale)
        A = geometric_attention(match.masked_fill(view.itself, -torch.inf), view.near)  # (B, H, R, T)
        read: Tensor = self.out(einsum("bhij,bjhk->bihk", A, v).flatten(-2))
        return read


class FFN(nn.Module):
    """Linear, GELU, linear."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        nn.init.xavier_uniform_(self.up.weight, gain=nn.init.calculate_gain("relu"))
        nn.init.xavier_uniform_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:  # (…, D) -> (…, D)
        out: Tensor = self.down(F.gelu(self.up(x)))
        return out


class NDRLayer(nn.Module):
    """Gather from another column, propose an update, and let a gate decide between it and the old state."""

    def __init__(
        self, width: int, heads: int, hidden: int, dropout: float, key_dropout: float, gate_dropout: float
    ) -> None:
        super().__init__()
        self.attend = GeometricAttention(width, heads, key_dropout)
        self.ffn_data, self.ffn_gate = FFN(width, hidden), FFN(width, width)
        self.norm_a, self.norm_u = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout, self.gate_dropout = nn.Dropout(dropout), gate_dropout
        nn.init.constant_(self.ffn_gate.down.bias, -3.0)  # closed at first: every column keeps its state

    def forward(self, h: Tensor, view: View) -> Tensor:  # (B, T, D) -> (B, R, D)
        read, h = self.attend(h, view), view.updated(h)
        a = self.norm_a(h + self.dropout(read))
        u = self.norm_u(self.ffn_data(a) + a)
        g = self.ffn_gate(a).sigmoid()
        if self.training and self.gate_dropout > 0:  # shuts whole columns and leaves the others as they are
            g = g * F.dropout(h.new_ones(*h.shape[:-1], 1), self.gate_dropout).bool()
        return torch.lerp(h, u.to(h.dtype), g.to(h.dtype))  # (1 − g) · h + g · u


class NDR(nn.Module):
    """The layer applied `depth` times, in evaluation `test_depth` times (None: as often as in training)."""

    def __init__(
        self,
        vocab_size: int,
        n_classes: int,
        *,
        width: int = 256,
        heads: int = 4,
        hidden: int = 512,
        depth: int = 8,
        test_depth: int | None = 10,
        dropout: float = 0.5,
        key_dropout: float = 0.1,
        gate_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.start, self.depth = vocab_size, depth
        self.test_depth = depth if test_depth is None else test_depth
        self.embed = nn.Embedding(vocab_size + 1, width)  # the last row: start of sequence
        self.layer = NDRLayer(width, heads, hidden, dropout, key_dropout, gate_dropout)
        self.classify = nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T - 1) -> (B, C)
        h = self.embed(F.pad(tokens, (1, 0), value=self.start))  # (B, T, D)
        view = look(h.shape[1], h.device, h.dtype)
        for _ in range(self.depth if self.training else self.test_depth):
            h = record("state", self.layer(h, view))
        logits: Tensor = self.classify(record("readout", h[:, 0]))
        return logits


@torch.no_grad()
def init_qkv(weight: Tensor, heads: int) -> None:
    """Xavier-uniform as the released code does it. weight: (3D, D), rows by (q k v, head, head width).

    Queries count as one matrix a head. Keys and values were meant to differ (a matrix a head, one for all),
    but their rows are stored head by head there, so the first half of (k v of head 0, k v of head 1, …) does.
    """
    D, K = weight.shape[1], weight.shape[1] // heads
    a_head, all_heads = (6 / (D + K)) ** 0.5, (6 / (D + D)) ** 0.5
    q, k, v = weight.view(3, heads, K, D)
    q.uniform_(-a_head, a_head)
    for n, part in enumerate(part for pair in zip(k, v, strict=True) for part in pair):
        bound = a_head if n < heads else all_heads
        part.uniform_(-bound, bound)
