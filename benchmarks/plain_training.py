"""The obvious way to train several seeds: one after the other, with plain PyTorch.

It is the reference for the speed of `ctlpp.train` (`ctlpp bench train`). The LSTM is the library's
`nn.LSTM`; PyTorch has neither geometric attention nor relative positions, so NDR and Transformer are the
same modules that ctlpp trains, called as anyone would call them. Optimiser, clipping and dropout are
PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.zoo import MODELS

Batch = tuple[Tensor, Tensor]  # tokens (B, T), targets (B,)


class LibraryBiLSTM(nn.Module):
    """The bi-directional LSTM on top of `nn.LSTM`."""

    def __init__(
        self, vocab_size: int, n_classes: int, *, embedding: int, width: int, dropout: float
    ) -> None:
        super().__init__()
        self.embed, self.dropout = nn.Embedding(vocab_size, embedding), nn.Dropout(dropout)
        self.lstm = nn.LSTM(embedding, width, bidirectional=True, batch_first=True)
        self.classify = nn.Linear(2 * width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        _, (h, _) = self.lstm(self.dropout(self.embed(tokens)))  # (2, B, D)
        logits: Tensor = self.classify(torch.cat([h[0], h[1]], dim=-1))
        return logits


class PlainTraining:
    """Seeds of one model, each with an optimiser of its own."""

    def __init__(
        self,
        model: str,
        vocab_size: int,
        n_classes: int,
        seeds: Sequence[int],
        recipe: Any,
        sizes: dict[str, Any],
        device: str = "cpu",
    ) -> None:
        factory = LibraryBiLSTM if model == "lstm" else MODELS[model].factory
        self.models, self.optimizers, self.clip = [], [], recipe.clip
        for seed in seeds:
            torch.manual_seed(seed)
            module = factory(vocab_size, n_classes, **sizes).to(device).train()
            self.models.append(module)
            self.optimizers.append(
                torch.optim.AdamW(
                    module.parameters(), lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay
                )
            )

    def step(self, tokens: Tensor, targets: Tensor) -> None:
        """One update of every seed."""
        for module, optimizer in zip(self.models, self.optimizers, strict=True):
            optimizer.zero_grad()
            loss: Tensor = F.cross_entropy(module(tokens), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(module.parameters(), self.clip)
            optimizer.step()
