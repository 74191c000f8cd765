"""The written-out gradient of the Bi-LSTM equals what autograd makes of the module."""

import pytest
import torch
from torch import nn

from ctlpp.models.lstm import BiLSTM
from ctlpp.models.recurrent import GRU
from ctlpp.training.crowd import init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper
from ctlpp.training.streams import step_keys

pytest.importorskip("triton")

from ctlpp.kernels import lstm

VOCABULARY, CLASSES, SEEDS = 13, 5, (3, 5)


def compare(*, length: int, batch: int, dropout: float = 0.5, shared: bool = True) -> None:
    def small(vocab_size: int, n_classes: int) -> nn.Module:
        return BiLSTM(vocab_size, n_classes, embedding=32, width=16, dropout=dropout)

    crowd = init_crowd(small, VOCABULARY, CLASSES, list(SEEDS))
    stepper = Stepper(crowd, Recipe(), Optimizer.of(crowd), len(SEEDS))
    stepper.scalars.set(stepper.recipe, 7)
    crowd.module.train()
    generator = torch.Generator().manual_seed(length)
    lead = (batch,) if shared else (len(SEEDS), batch)
    tokens = torch.randint(VOCABULARY, (*lead, length + 2), generator=generator)
    targets = torch.randint(CLASSES, lead, generator=generator)

    gradient = torch.full_like(crowd.weights, torch.nan)
    places = crowd.slices.items()
    views = {name: gradient[:, at.start : at.end].view(len(SEEDS), *at.shape) for name, at in places}
    keys = step_keys(stepper.keys, stepper.scalars.step)
    assert isinstance(crowd.module, BiLSTM)
    losses = lstm.gradient(crowd.module, crowd.parameters(), views, keys, tokens, targets, torch.float32)
    expected_losses, expected = stepper.gradient(slice(None), tokens, targets)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-6)
    for name, at in places:
        part, wanted = gradient[:, at.start : at.end], expected[:, at.start : at.end]
        assert (part - wanted).norm() < 1e-5 * wanted.norm(), name


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_losses_and_all_gradients_equal_the_reference_at_every_length(length: int) -> None:
    compare(length=length, batch=3)


def test_every_seed_may_have_a_batch_of_its_own() -> None:
    compare(length=1, batch=3, shared=False)


def test_without_dropout() -> None:
    compare(length=1, batch=3, dropout=0.0)


@pytest.mark.parametrize("batch", [1, 19])
def test_batches_that_no_block_divides(batch: int) -> None:
    compare(length=1, batch=batch)


def test_only_the_module_itself_with_widths_that_are_powers_of_two_is_supported() -> None:
    class Own(BiLSTM):
        pass

    assert lstm.supports(BiLSTM(41, 8))
    assert not lstm.supports(Own(41, 8))
    assert not lstm.supports(BiLSTM(41, 8, embedding=48))
    assert not lstm.supports(BiLSTM(41, 8, width=100))
    assert not lstm.supports(BiLSTM(41, 8, dropout=1.0))
    assert not lstm.supports(GRU(41, 8))
