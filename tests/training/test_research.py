"""Room for research: own losses, schedules, curricula, modules that cannot be vectorised."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.training.conftest import Tiny, assert_same_seed
from torch import Tensor, nn

from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

RECIPE = Recipe(steps=12, batch=10, lr=0.01, warmup=2, eval_every=0)


class Annealed(nn.Module):
    """Logits are divided by a temperature that falls from 3 to 1, with a smoothed loss."""

    progress: Tensor

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, n_classes)
        self.register_buffer("progress", torch.zeros(()))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.embed(tokens).mean(1) / (3 - 2 * self.progress)
        return logits

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets, label_smoothing=0.1)


class Auxiliary(Tiny):
    """Predicts the length of the input, too."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__(vocab_size, n_classes)
        self.count = nn.Linear(8, 1)

    def training_loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        error: Tensor = (self.count(self.embed(tokens).sum(1)) - tokens.shape[1]).square().mean()
        return F.cross_entropy(self(tokens), targets) + 0.5 * error


class Standard(Tiny):
    """A layer of the library; the biases of its keys would drift by rounding alone."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__(vocab_size, n_classes)
        self.hidden = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.classify(self.hidden(self.embed(tokens)).mean(1))
        return logits


class Normed(Tiny):
    """Batch statistics are buffers that training changes."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__(vocab_size, n_classes, dropout=0.0)
        self.hidden = nn.BatchNorm1d(8)


@pytest.mark.parametrize("factory", [Annealed, Auxiliary, Standard, Normed])
@pytest.mark.parametrize("order", ["shared", "per_seed"])
def test_own_losses_schedules_layers_and_buffers_are_the_same_alone_and_in_a_crowd(
    factory: Any, order: str, splits: Any
) -> None:
    recipe = replace(RECIPE, batch_order=order)
    crowd, alone = (train(factory, splits, seeds=seeds, recipe=recipe).crowd for seeds in ([0, 1, 2], [1]))
    assert crowd.vectorised
    assert ("hidden.running_mean" in crowd.seed_buffers) == (factory is Normed)
    assert_same_seed(crowd, alone, 1)


def test_an_own_loss_sees_the_progress_of_the_training_and_is_reported(splits: Any) -> None:
    seen = []

    class Watch(Annealed):
        def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
            if self.training:
                seen.append(float(self.progress))
            return 2 * super().loss(logits, targets)

    run = train(Watch, splits, seeds=[0], recipe=RECIPE)
    assert float(run.crowd.module.progress) == 1  # type: ignore[arg-type]
    assert seen[-12:] == pytest.approx([step / 12 for step in range(12)])
    tokens, targets = splits["iid"][2]
    smooth = F.cross_entropy(run.crowd.member(0)(tokens), targets, label_smoothing=0.1)
    reported = {score.length: score.loss for score in run.history.at_end() if score.split == "iid"}
    assert reported[2] == pytest.approx(2 * smooth.item(), rel=1e-5)


class Library(Tiny):
    """nn.LSTM has no vectorised form."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__(vocab_size, n_classes)
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.classify(self.lstm(self.dropout(self.embed(tokens)))[0][:, -1])
        return logits


class Asks(Annealed):
    def forward(self, tokens: Tensor) -> Tensor:
        logits = super().forward(tokens)
        return logits * (logits.sum().item() != 0)


def test_modules_that_cannot_be_vectorised_say_why_and_train_one_after_the_other(
    splits: Any, heard: Any
) -> None:
    for factory in (Library, Asks):
        run = train(factory, splits, seeds=[0, 4], recipe=RECIPE, observers=[heard])
        note = heard.notes.pop()
        assert note.startswith(f"{factory.__name__} cannot be vectorised (")
        assert note.endswith("): its seeds train one after the other")
        assert "\n" not in note
        alone = train(factory, splits, seeds=[4], recipe=RECIPE, observers=[])
        assert_same_seed(run.crowd, alone.crowd, 4)
    assert ".item() on a Tensor.)" in note  # without PyTorch's advice to those who develop it


class Noisy(Annealed):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + torch.empty(4).cauchy_()


class Broken(Annealed):
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        raise RuntimeError("no\nway")


def test_a_model_that_breaks_or_uses_the_global_generator_is_refused_in_one_line(splits: Any) -> None:
    with pytest.raises(ValueError, match=r"^the model draws from the global random generator in forward"):
        train(Noisy, splits, seeds=[0], recipe=RECIPE)
    with pytest.raises(ValueError, match=r"^the model failed in a training step: RuntimeError: no$"):
        train(Broken, splits, seeds=[0], recipe=RECIPE)


def test_a_settled_crowd_stops_early(splits: Any, heard: Any) -> None:
    recipe = replace(RECIPE, steps=50, eval_every=5, early_stop=2, settled_accuracy=0.0, settled_change=1.0)
    run = train(Tiny, splits, seeds=[0, 1], recipe=recipe, observers=[heard])
    assert run.step == 15
    assert heard.evaluated == [5, 10, 15]
