"""One-directional LSTM: is reading in the order of application enough?

Shapes: B batch, T tokens, E embedding width, D units, C classes.

Example:
    >>> import torch
    >>> model = LSTM(vocab_size=41, n_classes=8)
    >>> model(torch.tensor([[3, 17, 35, 40]])).shape
    torch.Size([1, 8])
"""

from torch import Tensor, nn

from ctlpp.models.activations import record
from ctlpp.models.lstm import LSTMCell


class LSTM(nn.Module):
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
        self.cell = LSTMCell(embedding, width)
        self.classify = nn.Linear(width, n_classes)
        self.from_end = from_end

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.dropout(self.embed(tokens.flip(1) if self.from_end else tokens)).transpose(0, 1)  # (T, B, E)
        states = [record("state", h) for h in self.cell(x)]  # T of (B, D)
        logits: Tensor = self.classify(record("readout", states[-1]))
        return logits
