"""Recurrent models. They read one way or, the Bi-LSTM, both ways.

Those that read one way go from the last token to the first, the order of application; with `from_end=False`
the other way. Cells are written out because those of `torch.nn` cannot be vectorised over seeds.

Shapes: B batch, T tokens, E embedding width, D units per direction, C classes.

Example:
    >>> import torch
    >>> for model in (BiLSTM, LSTM, GRU, RNN):
    ...     print(tuple(model(vocab_size=41, n_classes=8)(torch.tensor([[3, 17, 35, 40]])).shape))
    (1, 8)
    (1, 8)
    (1, 8)
    (1, 8)
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ctlpp.models.activations import record


class LSTMCell(nn.Module):
    """The LSTM's equations; with `directions=2` both directions in one product (shapes then start with 2).

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
    """Two directions of `width` units each; both final states, side by side, feed the classifier."""

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


class LSTM(nn.Module):
    """One direction of the LSTM."""

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
        self.cell = LSTMCell(embedding, width)
        self.classify = nn.Linear(width, n_classes)
        self.from_end = from_end

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.dropout(self.embed(tokens.flip(1) if self.from_end else tokens)).transpose(0, 1)  # (T, B, E)
        states = [record("state", h) for h in self.cell(x)]  # T of (B, D)
        logits: Tensor = self.classify(record("readout", states[-1]))
        return logits


Step = Callable[[Tensor, Tensor, Tensor], Tensor]  # (W x, U h, h) -> h


def rnn_step(Wx: Tensor, Uh: Tensor, h: Tensor) -> Tensor:
    """The plain (Elman) RNN. All (B, D)."""
    return (Wx + Uh).tanh()


def gru_step(Wx: Tensor, Uh: Tensor, h: Tensor) -> Tensor:
    """The GRU (Cho et al., 2014), its reset gate after the recurrent product.

    Wx, Uh: (B, 3D), columns of reset, update, candidate; h: (B, D).
    """
    sizes = [2 * h.shape[-1], h.shape[-1]]
    gates_x, candidate_x = Wx.split_with_sizes(sizes, dim=-1)
    gates_h, candidate_h = Uh.split_with_sizes(sizes, dim=-1)
    r, z = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)  # (B, D) each
    candidate = (candidate_x + r * candidate_h).tanh()
    return torch.lerp(candidate, h.to(z.dtype), z)  # (1 − z) · candidate + z · h


class Recurrent(nn.Module):
    """h ← step(W x, U h, h), where W and U have `gates` columns per unit."""

    def __init__(
        self,
        step: Step,
        gates: int,
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
        self.W = nn.Linear(embedding, gates * width)
        self.U = nn.Linear(width, gates * width)
        self.classify = nn.Linear(width, n_classes)
        self.step, self.width, self.from_end = step, width, from_end
        for weight in (*self.W.parameters(), *self.U.parameters()):
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.dropout(self.embed(tokens.flip(1) if self.from_end else tokens)).transpose(0, 1)  # (T, B, E)
        h = x.new_zeros(x.shape[1], self.width)  # (B, D)
        for Wx in self.W(x).unbind(0):
            h = record("state", self.step(Wx, self.U(h), h))
        logits: Tensor = self.classify(record("readout", h))
        return logits


RNN = partial(Recurrent, rnn_step, 1)
GRU = partial(Recurrent, gru_step, 3)
