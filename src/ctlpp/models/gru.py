"""One-directional GRU (Cho et al., 2014, with the reset gate after the recurrent product).

Shapes: B batch, T tokens, E embedding width, D units, C classes.

Example:
    >>> import torch
    >>> model = GRU(vocab_size=41, n_classes=8)
    >>> model(torch.tensor([[3, 17, 35, 40]])).shape
    torch.Size([1, 8])
"""

import torch
from torch import Tensor, nn

from ctlpp.models.activations import record


class GRU(nn.Module):
    """Reads from the last token to the first, as right-to-left data applies its functions; else `from_end=False`."""

    def __init__(
        self,
        vocab_size: int,
        n_classes: int,
        *,
        embedding: int = 256,
        width: int = 128,
        dropout: float = 0.5,
        from_end: bool = True,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embedding)
        self.dropout = nn.Dropout(dropout)
        self.W = nn.Linear(embedding, 3 * width)  # columns: reset, update, candidate
        self.U = nn.Linear(width, 3 * width)
        self.classify = nn.Linear(width, n_classes)
        self.from_end, self.width = from_end, width
        for weight in (*self.W.parameters(), *self.U.parameters()):
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.dropout(self.embed(tokens.flip(1) if self.from_end else tokens)).transpose(0, 1)  # (T, B, E)
        h = x.new_zeros(x.shape[1], self.width)  # (B, D)
        for step in self.W(x).unbind(0):
            h = record("state", self.step(step, h))
        logits: Tensor = self.classify(record("readout", h))
        return logits

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        """x: what the input adds to the gates, (B, 3D); h: (B, D)."""
        sizes = [2 * self.width, self.width]
        gates_x, candidate_x = x.split_with_sizes(sizes, dim=-1)
        gates_h, candidate_h = self.U(h).split_with_sizes(sizes, dim=-1)
        r, z = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)  # (B, D) each
        candidate = (candidate_x + r * candidate_h).tanh()
        return torch.lerp(candidate, h.to(z.dtype), z)  # (1 − z) · candidate + z · h
