"""The written-out gradient of each model equals what autograd makes of the module.

A case varies several things at once: lengths, batches that no block divides, seeds with batches of their
own, sizes, and rates of dropout.
"""

from functools import partial
from typing import Any

import pytest
from tests.kernels.conftest import check_gradient

from ctlpp.models.ndr import NDR
from ctlpp.models.recurrent import BiLSTM
from ctlpp.models.transformer import Transformer

pytest.importorskip("triton")

from ctlpp.kernels import ffn, lstm, ndr, ndr_weights, relative, transformer
from ctlpp.kernels.launch import Tile

pytestmark = [
    pytest.mark.usefixtures("blocks_for_the_interpreter"),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2"),  # 1 / (1 + ∞) = 0 is meant
]

SMALL = {"width": 32, "heads": 2, "depth": 2, "dropout": 0.3, "key_dropout": 0.3}


def check_ndr(
    *, length: int = 2, batch: int = 3, shared: bool = True, seeds: Any = (3, 5), **sizes: Any
) -> None:
    small = partial(NDR, **(SMALL | {"hidden": 64, "gate_dropout": 0.3} | sizes))
    check_gradient(small, ndr.Pass, length=length, batch=batch, shared=shared, seeds=seeds)


def check_transformer(length: int, batch: int = 3, *, shared: bool = True, **sizes: Any) -> None:
    small = partial(Transformer, **(SMALL | {"hidden": 32} | sizes))
    found = check_gradient(small, transformer.Pass, length=length, batch=batch, shared=shared)
    assert bool((found["layers.0.attend.bias"] == 0).all()), "softmax does not feel it"


@pytest.mark.parametrize(
    "how",
    [
        {"length": 2, "shared": False},
        {"length": 3, "dropout": 0.0, "key_dropout": 0.0, "gate_dropout": 0.0, "seeds": (7,)},
        {"length": 4, "depth": 3, "hidden": 16, "seeds": (7,)},
        {"length": 5, "batch": 4, "seeds": (7,)},
        {"length": 6, "batch": 2, "seeds": (7,)},
        {"length": 13, "batch": 2, "depth": 1},
        {"length": 2, "batch": 5, "width": 128, "seeds": (7,)},
    ],
    ids=str,
)
def test_losses_and_all_gradients_of_the_ndr_equal_the_reference(how: dict[str, Any]) -> None:
    check_ndr(**how)


def test_they_do_with_hidden_units_and_gradients_of_weights_made_by_one_kernel_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (ffn, ndr_weights):
        monkeypatch.setattr(module, "fits", lambda *rows: True)
    for name in ("FORWARD", "BACKWARD"):
        monkeypatch.setattr(ffn, name, Tile(rows=16, columns=32, step=16, warps=4, stages=2))
    for rows, columns, depth in ((16, 32, 2), (32, 16, 1)):
        monkeypatch.setattr(ndr_weights, "TILE", Tile(rows, columns, 16, warps=4, stages=2))
        check_ndr(length=2, batch=5, depth=depth, seeds=(7,))  # 25 rows: a tile and a part of one


@pytest.mark.parametrize(
    "how",
    [
        {"length": -1, "shared": False},
        {"length": 2, "batch": 1, "dropout": 0.0},
        {"length": 3, "batch": 7, "depth": 1},
        {"length": 4, "width": 64, "heads": 1, "key_dropout": 0.0, "depth": 1},
        {"length": 5, "width": 64, "heads": 4, "depth": 1},
        {"length": 6, "dropout": 0.0, "key_dropout": 0.0},
        {"length": 13, "depth": 1},
    ],
    ids=str,
)
def test_losses_and_all_gradients_of_the_transformer_equal_the_reference(how: dict[str, Any]) -> None:
    check_transformer(**how)


@pytest.mark.parametrize(("tile", "columns"), [(16, 8), (32, 5), (32, 9)])
def test_examples_packed_into_a_tile_do_not_see_each_other(
    tile: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TILE": tile, "FORWARD": 1, "BACKWARD": 2}.items():
        monkeypatch.setattr(relative, name, value)
    check_transformer(columns - 3, batch=8, depth=1)


@pytest.mark.parametrize(
    ("length", "how"),
    [(1, {"shared": False}), (2, {"batch": 1}), (1, {"batch": 19, "seeds": (7,)}), (3, {"dropout": 0.0})],
    ids=str,
)
def test_losses_and_all_gradients_of_the_bi_lstm_equal_the_reference(
    length: int, how: dict[str, Any]
) -> None:
    dropout = how.pop("dropout", 0.5)
    small = partial(BiLSTM, embedding=32, width=16, dropout=dropout)
    check_gradient(small, lstm.Pass, length=length, **how)


def test_sizes_that_the_kernels_cannot_hold_are_left_to_the_reference() -> None:
    assert ndr.supports(NDR(41, 8), 15)
    assert not ndr.supports(NDR(41, 8), 16)
    assert not ndr.supports(NDR(41, 8, width=96, heads=4), 8)  # no power of two
    assert not ndr.supports(NDR(41, 8, width=32, heads=4, hidden=64), 8)  # heads of width 8
    assert transformer.supports(Transformer(41, 8), 15)
    assert not transformer.supports(Transformer(41, 8), 16)
    for sizes in ({"shared": False}, {"dropout": 1.0}, {"width": 96}, {"hidden": 200}, {"width": 32}):
        assert not transformer.supports(Transformer(12, 4, **sizes), 8)
    assert lstm.supports(BiLSTM(41, 8), 99)
    for sizes in ({"dropout": 1.0}, {"embedding": 48}, {"width": 100}):
        assert not lstm.supports(BiLSTM(41, 8, **sizes), 8)
