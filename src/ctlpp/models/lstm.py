"""Bi-directional LSTM: the two final hidden states, side by side, feed the classifier.

The cell is written out because `nn.LSTM` cannot be vectorised over seeds. Both directions run as one batched
product, so each step of reading is a single matrix product.

Shapes: B batch, T tokens, E embedding width, D units a direction, C classes.

Example:
    >>> import torch
    >>> model = BiLSTM(vocab_size=41, n_classes=8)
    >>> model(torch.tensor([[3, 17, 35, 40]])).shape  # two functions, a symbol, the end
    torch.Size([1, 8])
"""

import torch
from torch import Tensor, nn

from ctlpp.models.activations import record


class LSTMCell(nn.Module):
    """The LSTM's equations; with `directions=2` for both directions side by side (shapes then start with 2).

    The 4D columns of the gates: input, forget, output, candidate.
    """

    def __init__(self, inputs: int, width: int, directions: int | None = None) -> None:
        super().__init__()
        lead = () if directions is None else (directions,)
        self.width = width
        self.W = nn.Parameter(torch.empty(*lead, inputs, 4 * width))
        self.U = nn.Parameter(torch.empty(*lead, width, 4 * width))
        self.b_in = nn.Parameter(torch.empty(*lead, 1, 4 * width))
        self.b_rec = nn.Parameter(torch.empty(*lead, 1, 4 * width))
        for weight in self.parameters():
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5)

    def forward(self, x: Tensor) -> list[Tensor]:  # (…, T, B, E) -> T of (…, B, D)
        """The hidden state after every step of reading."""
        gates = x.flatten(-3, -2) @ self.W + (self.b_in + self.b_rec)  # all steps at once, (…, T * B, 4D)
        h = c = x.new_zeros(*x.shape[:-3], x.shape[-2], self.width)  # (…, B, D)
        states = []
        for step in gates.reshape(*x.shape[:-1], -1).unbind(-3):
            h, c = self.step(step, h, c)
            h, c = record("hidden", h), record("cell", c)
            states.append(h)
        return states

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """x: what the input adds to the gates, (…, B, 4D); h, c: (…, B, D)."""
        gates, candidate = (x + h @ self.U).split_with_sizes([3 * self.width, self.width], dim=-1)
        i, f, o = gates.sigmoid().chunk(3, dim=-1)  # (…, B, D) each
        c = f * c + i * candidate.tanh()
        return o * c.tanh(), c


class BiLSTM(nn.Module):
    """One layer, two directions of `width` units each."""

    def __init__(
        self, vocab_size: int, n_classes: int, *, embedding: int = 256, width: int = 128, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embedding)
        self.dropout = nn.Dropout(dropout)
        self.cell = LSTMCell(embedding, width, directions=2)
        self.classify = nn.Linear(2 * width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.dropout(self.embed(tokens)).transpose(0, 1)  # (T, B, E)
        states = self.cell(torch.stack([x, x.flip(0)]))  # T of (2, B, D)
        for forward, backward in states:
            record("state", forward)
            record("state_backward", backward)
        readout = record("readout", torch.cat([states[-1][0], states[-1][1]], dim=-1))  # (B, 2D)
        logits: Tensor = self.classify(readout)
        return logits
