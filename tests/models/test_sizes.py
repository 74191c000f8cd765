"""A size that a model cannot have is refused in one line that says which it can have."""

import re

import pytest
import torch

from ctlpp.models.sizes import LARGEST, check_sizes
from ctlpp.models.zoo import MODELS, PRESETS


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_sizes_of_every_preset_are_right(name: str, preset: str) -> None:
    sizes = MODELS[name].sizes[preset]
    check_sizes(name, MODELS[name].factory, sizes, sizes)


@pytest.mark.parametrize(
    ("name", "size", "value", "rule"),
    [
        ("lstm", "width", 0, f"use a whole number from 1 to {LARGEST}"),
        ("lstm", "embedding", LARGEST + 1, f"use a whole number from 1 to {LARGEST}"),
        ("ndr", "width", 64.0, f"use a whole number from 1 to {LARGEST}"),
        ("ndr", "depth", True, f"use a whole number from 1 to {LARGEST}"),
        ("ndr", "test_depth", 0, f"use a whole number from 1 to {LARGEST}, or None"),
        ("ndr", "gate_dropout", -0.1, "use a number from 0 to below 1"),
        ("ndr", "dropout", float("nan"), "use a number from 0 to below 1"),
        ("transformer", "shared", 1, "use True or False"),
        (
            "transformer",
            "test_depth",
            4,
            "transformer has no test_depth; choose from width, heads, hidden, depth, "
            "dropout, key_dropout, shared",
        ),
        ("transformer", "width", 7, "must be a multiple of the heads, 4; use 4 or 8"),
        ("transformer", "width", 3, "must be a multiple of the heads, 4; use 4"),
        ("transformer", "heads", 100, "must divide the width, 64; use 64"),
    ],
)
def test_a_wrong_size_is_answered_with_what_would_be_right(
    name: str, size: str, value: object, rule: str
) -> None:
    chosen, spec = {size: value}, MODELS[name]
    with pytest.raises(ValueError, match=f"^{re.escape(f'size {size}={value}: {rule}')}$"):
        check_sizes(name, spec.factory, chosen, {**spec.sizes["quick"], **chosen})


@pytest.mark.parametrize("name", MODELS)
def test_the_smallest_and_odd_sizes_that_are_allowed_make_a_model(name: str) -> None:
    spec = MODELS[name]
    for width in (1, 7):
        ones = {size: 1 for size, value in spec.sizes["quick"].items() if type(value) is int}
        chosen = {**ones, "width": width}
        sizes = {**spec.sizes["quick"], **chosen}
        check_sizes(name, spec.factory, chosen, sizes)
        assert spec.factory(9, 4, **sizes)(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 4)
