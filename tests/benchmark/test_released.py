"""The released protocol: one draw for train and iid, no single applications, all pairs added to train."""

from functools import cache

import pytest
from scipy.stats import chisquare

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.splits import balance

each_variant = pytest.mark.parametrize("variant", ["CTL", "A", "R", "S"])


@cache
def released(variant: str) -> Dataset:
    return generate(variant, protocol="released")


def by_length(dataset: Dataset, split: str) -> dict[int, int]:
    return {length: len(examples) for length, examples in dataset[split].items()}


@pytest.mark.parametrize("variant", ["A", "R"])
def test_released_draws_train_and_iid_together_with_half_of_the_pairs(variant: str) -> None:
    dataset = released(variant)
    language = dataset.task.language("train")
    joint = balance(301_000, {n: language.count(n) // 2 for n in range(2, 7)})
    assert joint == {2: 2048, 3: 32768, 4: 88728, 5: 88728, 6: 88728}
    train, iid = by_length(dataset, "train"), by_length(dataset, "iid")
    assert {n: train[n] + iid[n] for n in range(3, 7)} == {n: joint[n] for n in range(3, 7)}
    assert sum(iid.values()) == 1000
    assert chisquare([iid[n] for n in joint], [joint[n] * 1000 / 301_000 for n in joint]).pvalue > 1e-4


@each_variant
def test_released_has_no_singles_and_all_permitted_pairs(variant: str) -> None:
    dataset = released(variant)
    language = dataset.task.language("train")
    assert 1 not in dataset["train"]
    assert len(dataset["train"][2]) == language.count(2)
    assert sorted(language.rank(dataset["train"][2]).tolist()) == list(range(language.count(2)))


@each_variant
def test_released_overlap_is_the_pairs_of_iid(variant: str) -> None:
    dataset = released(variant)
    assert dataset.shared("train", "iid") == len(dataset["iid"][2]) > 0
    assert dataset.shared("train", "ood") == 0
    assert dataset.shared("iid", "ood") == 0
