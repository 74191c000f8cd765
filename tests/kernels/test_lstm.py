"""The written-out gradient of the Bi-LSTM equals what autograd makes of the module."""

from functools import partial
from typing import Any

import pytest
from tests.kernels.conftest import check_gradient

from ctlpp.models.lstm import BiLSTM
from ctlpp.models.recurrent import GRU

pytest.importorskip("triton")

from ctlpp.kernels import lstm


def compare(*, dropout: float = 0.5, **how: Any) -> None:
    check_gradient(partial(BiLSTM, embedding=32, width=16, dropout=dropout), lstm.gradient, **how)


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_losses_and_all_gradients_equal_the_reference_at_every_length(length: int) -> None:
    compare(length=length)


def test_every_seed_may_have_a_batch_of_its_own_and_dropout_may_be_off() -> None:
    compare(length=1, shared=False)
    compare(length=1, dropout=0.0)


@pytest.mark.parametrize("batch", [1, 19])
def test_batches_that_no_block_divides(batch: int) -> None:
    compare(length=1, batch=batch)


def test_only_the_module_itself_with_widths_that_are_powers_of_two_is_supported() -> None:
    class Own(BiLSTM):
        pass

    assert lstm.supports(BiLSTM(41, 8))
    refused = [Own(41, 8), GRU(41, 8), BiLSTM(41, 8, dropout=1.0)]
    refused += [BiLSTM(41, 8, embedding=48), BiLSTM(41, 8, width=100)]
    assert not any(lstm.supports(model) for model in refused)
