"""A tiny task and a tiny model with dropout, for everything that needs no real one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from ctlpp.training.crowd import Crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.run import Run
from ctlpp.training.train import Interrupted, train

Splits = dict[str, dict[int, tuple[Tensor, Tensor]]]
RECIPE = Recipe(steps=20, batch=10, lr=0.01, warmup=2, eval_every=5, checkpoint_every=4)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The history of a run folder."""
    return pq.read_table(folder / "metrics.parquet").to_pylist()  # type: ignore[no-any-return]


class Tiny(nn.Module):
    """Mean of embeddings, a hidden layer, two dropouts."""

    hidden: nn.Module

    def __init__(self, vocab_size: int, n_classes: int, width: int = 8, dropout: float = 0.3) -> None:
        super().__init__()
        self.embed, self.hidden = nn.Embedding(vocab_size, width), nn.Linear(width, width)
        self.classify, self.dropout = nn.Linear(width, n_classes), nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        h = self.dropout(self.embed(tokens)).mean(1)
        logits: Tensor = self.classify(self.dropout(self.hidden(h).tanh()))
        return logits


def tiny_splits() -> Splits:
    """Sequences whose class is half their greatest token."""
    drawn = torch.Generator().manual_seed(5)
    splits: Splits = {}
    for name, count in (("train", 40), ("iid", 12), ("ood", 12)):
        tokens = {length: torch.randint(8, (count, length + 2), generator=drawn) for length in (1, 2, 3)}
        splits[name] = {length: (x, x.amax(1) // 2) for length, x in tokens.items()}
    return splits


def assert_same_seed(one: Crowd, other: Crowd, seed: int) -> None:
    """Its weights and buffers are the same in both crowds."""
    left, right = one.member(seed).state_dict(), other.member(seed).state_dict()
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)


def assert_same_alone_and_resumed(folder: Path, *model_and_data: Any, **how: Any) -> Run:
    """A seed is the same alone and among others, which are the same after an interruption at step 8."""
    whole = train(*model_and_data, seeds=[0, 7, 2], **how)
    alone = train(*model_and_data, seeds=[7], **how)
    assert_same_seed(whole.crowd, alone.crowd, 7)

    def leave(step: int) -> None:
        if step == 8:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        train(
            *model_and_data,
            seeds=[0, 7, 2],
            out=folder,
            observers=[SimpleNamespace(on_checkpoint=leave)],
            **how,
        )
    again = train(*model_and_data, seeds=[0, 7, 2], out=folder, resume=True, **how)
    assert torch.equal(again.crowd.weights, whole.crowd.weights)
    return whole


@pytest.fixture
def splits() -> Splits:
    return tiny_splits()


class Heard:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.notes: list[str] = []
        self.evaluated: list[int] = []
        self.saved: list[int] = []

    def on_start(self, config: object, step: int) -> None:
        self.started.append(step)

    def on_note(self, line: str) -> None:
        self.notes.append(line)

    def on_evaluate(self, step: int, scores: object) -> None:
        self.evaluated.append(step)

    def on_checkpoint(self, step: int) -> None:
        self.saved.append(step)


@pytest.fixture
def heard() -> Heard:
    return Heard()
