"""A looped Transformer that sees of the other columns only a distribution over codes.

Each column has the embedding of its token, which it alone sees, and a *slot*: a distribution over codes,
one for each class (`codes`: more of them). A symbol's slot is its own code. In each of `depth` rounds every
other column attends to all slots, by distance and by what they hold, and a net proposes its next slot from
its token and what it has read. The slot of a column in front is the answer. What is given beforehand is the
codes; which slot to read, and hence the order of application, has to be found. The vocabulary is taken to
be that of a task.

Shapes: B batch, T columns (tokens and the one in front), D width, H heads, K = D / H, G hidden units, N
codes, C classes.

Example:
    >>> import torch
    >>> Slots(vocab_size=41, n_classes=8)(torch.tensor([[3, 17, 35, 40]])).shape
    torch.Size([1, 8])
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.activations import record
from ctlpp.models.codes import MISS, RECALLED, SHARPNESS

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
        nn.init.normal_(self.recall.weight, std=RECALLED)
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
        asked, given, own_part = self.by_code(x)
        for _ in range(self.depth):
            match = torch.einsum("bihn,bjn->bijh", asked, slots) + near
            read = torch.einsum("bijh,bjn->bihn", match.softmax(2), slots)  # codes, read by each head
            proposed = self.down(F.gelu(own_part + torch.einsum("bihn,hng->big", read, given)))
            slots = record("state", torch.where(is_symbol, own, (SHARPNESS * proposed).softmax(-1)))
        return (record("readout", slots[:, 0])[:, : self.classes] + MISS).log()

    def by_code(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What all rounds have in common: keys, values and what they do are linear in the shares of codes.

        How well each code fits a column's query, (B, T, H, N); what it adds to the G hidden units when a head
        reads it, (H, N, G); and what a column's own token adds to them, (B, T, G).
        """
        by_token, by_read = self.up.weight.chunk(2, dim=1)  # (G, D) each
        codes = self.recall.weight.T  # (N, D)
        q, k, v, up = (
            part.unflatten(-1, (self.heads, -1))
            for part in (self.query(x), self.key(codes), self.value(codes), by_read)
        )  # (…, H, K) each
        asked = torch.einsum("bihk,nhk->bihn", q, k) * q.shape[-1] ** -0.5
        return asked, torch.einsum("nhk,ghk->hng", v, up), F.linear(x, by_token, self.up.bias)
