"""The written-out gradient of the NDR equals what autograd makes of the module."""

from functools import partial
from typing import Any

import pytest
from tests.kernels.conftest import check_gradient

from ctlpp.models.ndr import NDR

pytest.importorskip("triton")

from ctlpp.kernels import ffn, ndr, ndr_weights
from ctlpp.kernels.launch import Tile

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # 1 / (1 + ∞) = 0 is meant


def compare(*, depth: int = 2, dropout: float = 0.3, width: int = 32, **how: Any) -> None:
    rates = dict.fromkeys(("dropout", "key_dropout", "gate_dropout"), dropout)
    small: Any = partial(NDR, width=width, heads=2, hidden=64, depth=depth, **rates)  # type: ignore[arg-type]
    check_gradient(small, ndr.gradient, **how)


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_losses_and_all_gradients_equal_the_reference_at_every_length(length: int) -> None:
    compare(length=length)


@pytest.mark.parametrize(
    "how",
    [
        {"shared": False},
        {"dropout": 0.0},
        {"depth": 1, "length": 3},
        {"depth": 4},
        {"seeds": (7,), "batch": 2},
        {"length": 7, "batch": 2},
        {"length": 13, "batch": 2},
        {"width": 128, "batch": 5},
    ],
    ids=str,
)
def test_they_do_with_other_sizes(how: dict[str, Any]) -> None:
    compare(**{"length": 2, **how})


def test_they_do_with_hidden_units_made_by_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffn, "fits", lambda pre, width: True)
    for name in ("FORWARD", "BACKWARD"):
        monkeypatch.setattr(ffn, name, Tile(rows=16, columns=32, step=16, warps=4, stages=2))
    compare(length=2, batch=5)  # 25 rows: a tile and a part of one


@pytest.mark.parametrize(("length", "batch", "depth"), [(3, 4, 2), (2, 3, 1)])
def test_they_do_with_the_gradients_of_weights_made_by_one_kernel(
    length: int, batch: int, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ndr_weights, "fits", lambda rows: True)
    monkeypatch.setattr(ndr_weights, "TILE", Tile(32, 32, 16, warps=4, stages=2))
    compare(length=length, batch=batch, depth=depth)


def test_only_models_that_the_kernels_can_hold_take_the_fast_path() -> None:
    assert ndr.supports(NDR(41, 8))
    assert not ndr.supports(NDR(41, 8, width=96, heads=4))  # no power of two
    assert not ndr.supports(NDR(41, 8, width=32, heads=4, hidden=64))  # heads of width 8
