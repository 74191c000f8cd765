"""Sizes at the limits of what exists: met exactly, or refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctlpp.benchmark.dataset import Dataset, generate

VARIANTS = ("CTL", "A", "R", "S")


def inputs(dataset: Dataset, split: str) -> set[str]:
    return {text for text, _ in dataset.texts(split)}


@settings(max_examples=150)
@given(
    variant=st.sampled_from(VARIANTS),
    protocol=st.sampled_from(["paper", "released"]),
    fill=st.sampled_from([0.1, 0.3, 0.5, 0.999, 1.0]),
    train=st.integers(1, 700),
    iid=st.integers(0, 300),
    ood=st.integers(0, 300),
    weighting=st.sampled_from(["uniform", "sequential"]),
)
def test_any_sizes_are_either_met_exactly_or_refused(
    variant: str, protocol: str, fill: float, train: int, iid: int, ood: int, weighting: str
) -> None:
    sizes: dict[str, Any] = {
        "symbols": 3,
        "functions": 5,
        "max_length": 4,
        "fill": fill,
        "weighting": weighting,
    }
    sizes |= {"shared_functions": 1, "shared_symbols": 3} if variant == "S" else {}
    try:
        dataset = generate(variant, protocol=protocol, train=train, iid=iid, ood=ood, **sizes)
    except ValueError as error:
        assert str(error).startswith(("train ", "iid ", "ood "))  # noqa: PT017
        return
    found = {name: dataset.size(name) for name in dataset.splits}
    assert (found.get("iid", 0), found.get("ood", 0)) == (iid, ood)
    assert found["train"] == train if protocol == "paper" else found["train"] >= train
    if iid and protocol == "paper":
        assert dataset.shared("train", "iid") == 0
    assert all(len(inputs(dataset, name)) == size for name, size in found.items())


@pytest.mark.parametrize("iid", [0, 1, 500, 1000, 1344])
def test_train_and_iid_may_use_all_there_is(iid: int) -> None:
    sizes: dict[str, Any] = {"symbols": 4, "functions": 8, "max_length": 4, "ood": 5}
    most = 32 + (128 + 512 + 2048) // 2
    dataset = generate("A", train=most - iid, iid=iid, **sizes)
    assert dataset.size("train") == most - iid
    assert (dataset.size("iid") if iid else 0) == iid
    with pytest.raises(ValueError, match="distinct"):
        generate("A", train=most - iid, iid=iid + 1, **sizes)


def test_without_iid_and_ood_examples_those_splits_are_left_out() -> None:
    dataset = generate("A", symbols=4, functions=8, max_length=3, train=100, iid=0, ood=0)
    assert list(dataset.splits) == ["train", "singles", "pairs"]
    with pytest.raises(ValueError, match="unknown split 'iid': choose from train, singles, pairs"):
        dataset["iid"]


def test_counts_beyond_64_bits_make_data_like_any_other() -> None:
    dataset = generate("CTL", functions=60, max_length=12, train=20_000, iid=100, ood=100)
    assert dataset.task.language("train").count(12) == 8 * 60**12
    assert dataset.size("train") == 20_000
    assert set(dataset["ood"]) == {13, 14, 15, 16}
    assert len(inputs(dataset, "train") | inputs(dataset, "iid") | inputs(dataset, "ood")) == 20_200


def test_nearly_all_examples_can_be_drawn_step_by_step() -> None:
    dataset = generate(
        "S",
        functions=8,
        max_length=4,
        fill=0.999,
        train=440,
        iid=6,
        ood=10,
        shared_functions=4,
        shared_symbols=2,
    )
    assert dataset.size("train") == 440
