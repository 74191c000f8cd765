"""The written-out gradient of the Transformer equals what autograd makes of the module."""

from functools import partial
from typing import Any

import pytest
from tests.kernels.conftest import check_gradient
from torch import nn

from ctlpp.models.ndr import NDR
from ctlpp.models.transformer import Transformer

pytest.importorskip("triton")

from ctlpp.kernels import relative
from ctlpp.kernels.transformer import gradient, supports

SIZES = {"width": 32, "heads": 2, "hidden": 32, "depth": 1}


def compare(
    *, length: int = 2, batch: int = 3, shared: bool = True, seeds: Any = (3, 5), **sizes: float
) -> None:
    small: Any = partial(Transformer, **{**SIZES, **sizes})  # type: ignore[arg-type]
    found = check_gradient(small, gradient, length=length, batch=batch, shared=shared, seeds=seeds)
    assert bool((found["layers.0.attend.bias"] == 0).all()), "softmax does not feel it"


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_losses_and_all_gradients_equal_the_reference_at_every_length(length: int) -> None:
    compare(length=length, depth=2)


@pytest.mark.parametrize(
    "how",
    [
        {"batch": 1},
        {"batch": 7},
        {"shared": False, "depth": 2},
        {"seeds": (3,)},
        {"dropout": 0.0, "key_dropout": 0.0},
        {"dropout": 0.3, "key_dropout": 0.0},
        {"dropout": 0.0, "key_dropout": 0.5},
        {"width": 64, "heads": 1},
        {"width": 64, "heads": 4},
        {"length": -1},
        {"length": 13},
    ],
    ids=str,
)
def test_they_do_with_other_sizes(how: dict[str, Any]) -> None:
    compare(**how)


@pytest.mark.parametrize(("tile", "columns"), [(16, 8), (16, 9), (32, 5), (32, 9), (32, 16)])
def test_examples_packed_into_a_tile_do_not_see_each_other(
    tile: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relative, "TILE", tile)
    compare(length=columns - 3, batch=8, seeds=(3,))


def test_a_program_may_take_fewer_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relative, "FORWARD", 1)
    monkeypatch.setattr(relative, "BACKWARD", 2)
    compare(length=5, batch=5)


def test_what_the_kernels_cannot_do_is_left_to_the_reference() -> None:
    assert supports(Transformer(41, 8), 9)
    assert supports(Transformer(41, 8), 16)
    assert not supports(Transformer(12, 4), 17)
    refused: list[nn.Module] = [NDR(12, 4), Transformer(12, 4, shared=False), Transformer(12, 4, dropout=1.0)]
    refused += [Transformer(12, 4, width=96), Transformer(12, 4, hidden=200)]
    refused += [Transformer(12, 4, width=32, heads=4)]
    assert not any(supports(model, 9) for model in refused)
