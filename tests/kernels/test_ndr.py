"""The written-out gradient of the NDR equals what autograd makes of the module."""

import pytest
import torch
from torch import nn

from ctlpp.models.ndr import NDR
from ctlpp.training.crowd import init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper
from ctlpp.training.streams import step_keys

pytest.importorskip("triton")

from ctlpp.kernels import ffn, ndr, ndr_weights
from ctlpp.kernels.launch import Tile

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # 1 / (1 + ∞) = 0 is meant

VOCABULARY, CLASSES, SEEDS = 13, 5, (3, 5)
DROPOUTS = ("dropout", "key_dropout", "gate_dropout")


def compare(
    *,
    length: int,
    batch: int,
    shared: bool = True,
    depth: int = 2,
    dropouts: bool = True,
    width: int = 32,
    seeds: tuple[int, ...] = SEEDS,
) -> None:
    rates = dict.fromkeys(DROPOUTS, 0.3 if dropouts else 0.0)

    def small(vocab_size: int, n_classes: int) -> nn.Module:
        return NDR(vocab_size, n_classes, width=width, heads=2, hidden=64, depth=depth, **rates)  # type: ignore[arg-type]

    crowd = init_crowd(small, VOCABULARY, CLASSES, list(seeds))
    generator = torch.Generator().manual_seed(length)
    crowd.weights.add_(
        0.1 * torch.randn(crowd.weights.shape, generator=generator)
    )  # norms and scalars off their start
    stepper = Stepper(crowd, Recipe(), Optimizer.of(crowd), len(seeds))
    stepper.scalars.set(stepper.recipe, 7)
    crowd.module.train()
    lead = (batch,) if shared else (len(seeds), batch)
    tokens = torch.randint(VOCABULARY, (*lead, length + 2), generator=generator)
    targets = torch.randint(CLASSES, lead, generator=generator)

    losses, expected = stepper.gradient(slice(None), tokens, targets)
    found = torch.full_like(expected, torch.nan)
    keys = step_keys(stepper.keys, stepper.scalars.step)
    assert isinstance(crowd.module, NDR)
    fast_losses = ndr.gradient(
        crowd.module, crowd.parameters(), crowd.views(found), keys, tokens, targets, torch.float32
    )

    torch.testing.assert_close(fast_losses, losses, rtol=1e-5, atol=1e-6)
    for name, reference in crowd.views(expected).items():
        error = (crowd.views(found)[name] - reference).norm() / (reference.norm() + 1e-12)
        assert error < 1e-5, f"{name}: {error}"


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_losses_and_all_gradients_equal_the_reference_for_every_length(length: int) -> None:
    compare(length=length, batch=3)


def test_they_do_with_batches_of_each_seeds_own() -> None:
    compare(length=2, batch=3, shared=False)


def test_they_do_without_dropout_and_with_one_layer() -> None:
    compare(length=2, batch=3, dropouts=False)
    compare(length=3, batch=3, depth=1)


def test_they_do_with_several_whole_layers_and_with_one_seed() -> None:
    compare(length=2, batch=3, depth=4)
    compare(length=2, batch=2, seeds=(7,))


def test_they_do_with_hidden_units_made_by_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffn, "fits", lambda pre, width: True)
    for name in ("FORWARD", "BACKWARD"):
        monkeypatch.setattr(ffn, name, Tile(rows=16, columns=32, step=16, warps=4, stages=2))
    compare(length=2, batch=5)  # 25 rows: a tile and a part of one


def test_they_do_with_the_gradients_of_ndr_weights_made_by_one_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ndr_weights, "fits", lambda rows: True)
    monkeypatch.setattr(ndr_weights, "TILE", Tile(32, 32, 16, warps=4, stages=2))
    compare(length=3, batch=4)
    compare(length=2, batch=3, depth=1)


def test_they_do_with_up_to_sixteen_columns_and_with_wide_heads() -> None:
    compare(length=13, batch=2)
    compare(length=7, batch=2)
    compare(length=2, batch=5, width=128)


def test_only_models_that_the_kernels_can_hold_take_the_fast_path() -> None:
    assert ndr.supports(NDR(41, 8))
    assert not ndr.supports(NDR(41, 8, width=96, heads=4))  # no power of two
    assert not ndr.supports(NDR(41, 8, width=32, heads=4, hidden=64))  # heads of width 8
