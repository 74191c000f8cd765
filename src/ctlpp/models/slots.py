"""A looped Transformer that sees of the other columns only a distribution over codes.

Each column has the embedding of its token, which it alone sees, and a *slot*: a distribution over codes,
one for each class (`codes`: more of them). A symbol's slot is its own code. In each of `depth` rounds every
other column attends to all slots, by distance and by what they hold, and a net proposes its next slot from
its token and what it has read. The slot of a column in front is the answer. What is given beforehand is the
codes; which slot to read, and hence the order of application, has to be found. The vocabulary is taken to
be that of a task.

Shapes: B batch, T columns (tokens and the one in front), D width, H heads, K = D / H, N codes, C classes.

Example:
    >>> import torch
    >>> Slots(vocab_size=41, n_classes=8)(torch.tensor([[3, 17, 35, 40]])).shape
    torch.Size([1, 8])
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.activations import record
from ctlpp.models.codes import MISS, SHARPNESS

_FAR = 8  # columns further away than this are as far as this


class Slots(nn.Module):
    """See above."""

    def __init__(
        self,
        vocab_size: int,
        n_classes: int,
        *,
        width: int = 128,
        heads: int = 4,
        hidden: int = 256,
        depth: int = 8,
        codes: int | None = None,
    ) -> None:
        super().__init__()
        self.start, self.depth, self.heads, self.classes = vocab_size, depth, heads, n_classes
        self.functions = vocab_size - n_classes - 1
        N = max(codes or n_classes, n_classes)
        self.embed = nn.Embedding(vocab_size + 1, width)  # the last row: the column in front
        self.recall = nn.Linear(N, width, bias=False)  # the codes' vectors
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.distance = nn.Linear(width, width), nn.Embedding(2 * _FAR + 1, heads)
        self.up, self.down = nn.Linear(2 * width, hidden), nn.Linear(hidden, N)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T - 1) -> (B, C)
        x = self.embed(F.pad(tokens, (1, 0), value=self.start))  # (B, T, D)
        at = torch.arange(x.shape[1], device=x.device)
        near = self.distance((at - at[:, None]).clamp(-_FAR, _FAR) + _FAR)  # (T, T, H)
        N = self.down.out_features
        symbol = F.pad(tokens - self.functions, (1, 0), value=-1)  # (B, T), from 0 for symbols
        is_symbol = ((symbol >= 0) & (symbol < self.classes))[..., None]
        own = F.one_hot(symbol.clamp(0, N - 1), N).to(x.dtype)  # (B, T, N)
        slots = torch.where(is_symbol, own, 1 / N)
        for _ in range(self.depth):
            read = self.read(x, self.recall(slots), near)
            proposed = self.down(F.gelu(self.up(torch.cat([x, read], dim=-1))))
            slots = record("state", torch.where(is_symbol, own, (SHARPNESS * proposed).softmax(-1)))
        return (record("readout", slots[:, 0])[:, : self.classes] + MISS).log()

    def read(self, x: Tensor, held: Tensor, near: Tensor) -> Tensor:
        """What each column reads from all slots. (B, T, D), (B, T, D), (T, T, H) -> (B, T, D)"""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)) for part in (self.query(x), self.key(held), self.value(held))
        )  # (B, T, H, K) each
        match = torch.einsum("bihk,bjhk->bijh", q, k) * q.shape[-1] ** -0.5 + near
        return torch.einsum("bijh,bjhk->bihk", match.softmax(2), v).flatten(-2)
