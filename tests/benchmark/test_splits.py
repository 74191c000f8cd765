"""What is in the splits: sizes, balance, membership, disjointness, few sequences, released data."""

import subprocess
import sys
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.sampling import WEIGHTINGS
from ctlpp.benchmark.splits import balance, filled
from ctlpp.benchmark.variants import PROTOCOLS, VARIANTS
from ctlpp.storage.folder import rows

SMALL: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4, "train": 700, "iid": 90, "ood": 90}
STAGED: dict[str, Any] = {"shared_functions": 4, "shared_symbols": 2}
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@cache
def small(variant: str, protocol: str = "paper") -> Dataset:
    return generate(variant, protocol=protocol, **(SMALL | (STAGED if variant == "S" else {})))


@cache
def default(variant: str, protocol: str = "paper") -> Dataset:
    return generate(variant, protocol=protocol)


def by_length(dataset: Dataset, split: str) -> dict[int, int]:
    return {length: len(examples) for length, examples in dataset[split].items()}


def inputs(dataset: Dataset, split: str) -> set[str]:
    return {text for text, _ in dataset.texts(split)}


def distinct(dataset: Dataset, split: str) -> int:
    """How many different examples a split must have: with the protocol authors, train has pairs twice."""
    sizes = by_length(dataset, split)
    if split == "train" and dataset.task.protocol == "authors":
        sizes[2] = dataset.task.language("train").count(2)
    return sum(sizes.values())


@given(st.dictionaries(st.integers(1, 9), st.integers(0, 50), min_size=1), st.data())
def test_lengths_get_the_same_number_unless_they_are_full(room: dict[int, int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(room.values())))
    sizes = balance(total, room)
    assert sum(sizes.values()) == total
    assert sizes.keys() == room.keys()
    assert all(size <= room[length] for length, size in sizes.items())
    others = [size for length, size in sizes.items() if size < room[length]]
    assert not others or max(sizes.values()) - min(others) <= 1


@given(st.floats(0, 1), st.integers(0, 10**400))
def test_a_share_of_a_number_of_any_size_is_a_whole_number_next_to_it(fill: float, count: int) -> None:
    part = filled(fill, count)
    assert 0 <= part <= count
    assert abs(part - Fraction(fill) * count) <= 1


@each_variant
@each_protocol
def test_every_example_is_right_in_its_graph_and_in_no_split_twice(variant: str, protocol: str) -> None:
    dataset = small(variant, protocol)
    for name, split in dataset.splits.items():
        assert len(inputs(dataset, name)) == distinct(dataset, name) > 0
        assert all(dataset.task.language(name).contains(examples).all() for examples in split.values())
        for text, output in dataset.texts(name):
            *functions, start = text.split()
            symbol = int(start)
            for function in reversed(functions):
                symbol = dataset.task.functions[function][symbol]
            assert output == str(symbol)


@each_variant
@each_protocol
def test_splits_are_disjoint(variant: str, protocol: str) -> None:
    dataset = small(variant, protocol)
    sampled = [name for name in dataset.splits if name not in ("train", "iid", "singles", "pairs")]
    drawn_anew = ["ood_independent"] * (protocol == "authors")
    assert sampled == ["ood", *drawn_anew, "any"] + ["shared_path", "unseen_symbols"] * (variant == "S")
    for name in sampled:
        assert not inputs(dataset, name) & (inputs(dataset, "train") | inputs(dataset, "iid"))
    both = inputs(dataset, "train") & inputs(dataset, "iid")
    assert len(both) == dataset.shared("train", "iid")
    assert len(both) == (0 if protocol == "paper" else len(dataset["iid"][2]))


@each_variant
def test_paper_lengths_are_balanced_up_to_the_fill_rule(variant: str) -> None:
    assert [small(variant).size(name) for name in ("train", "iid", "ood", "any")] == [700, 90, 90, 90]
    dataset = default(variant)
    train, iid = by_length(dataset, "train"), by_length(dataset, "iid")
    open_ended = []
    for length in [n for n in train if n > 1]:
        used, half = train[length] + iid.get(length, 0), dataset.task.language("train").count(length) // 2
        assert used <= half
        open_ended += [train[length]] * (used < half)
    assert max(open_ended) - min(open_ended) <= 1
    assert max(train.values()) == max(open_ended)
    assert max(by_length(dataset, "ood").values()) - min(by_length(dataset, "ood").values()) <= 1


def test_paper_sizes_of_the_default_a() -> None:
    dataset = default("A")
    assert by_length(dataset, "train") == {1: 256, 2: 1848, 3: 32568, 4: 88442, 5: 88443, 6: 88443}
    assert by_length(dataset, "iid") == by_length(dataset, "ood") == dict.fromkeys(range(2, 7), 200)


def test_paper_trains_on_every_single_application_but_s_on_none() -> None:
    for variant in ("CTL", "A", "R"):
        dataset = small(variant)
        singles = {f"{f} {s}" for f in dataset.task.functions for s in range(4)}
        assert inputs(dataset, "singles") == singles
        assert singles <= inputs(dataset, "train")
        assert 1 not in dataset["iid"]
    for protocol in PROTOCOLS:
        dataset = small("S", protocol)
        assert all(length % 2 == 0 for name in ("train", "iid", "ood") for length in dataset[name])
        assert dataset.size("singles") == 12 * 4


@each_variant
def test_pairs_are_all_pairs_labelled_by_whether_training_allows_the_succession(variant: str) -> None:
    task = small(variant).task
    home = {f: group for group, members in task.groups.items() for f in members}
    rules = {(rule.source, rule.function): rule.symbols for rule in task.train_graph.restrictions}
    labels = [row for batch in rows(task, small(variant)["pairs"]) for row in batch.to_pylist()]
    names = task.functions
    assert {row["input"] for row in labels} == {
        f"{g} {f} {s}" for f in names for g in names for s in range(4)
    }
    for row in labels:
        second, first, start = row["input"].split()
        succession = (home[first], home[second]) in task.train_graph.edges
        received = rules.get((home[first], second), range(4))
        assert row["allowed"] == (succession and task.functions[first][int(start)] in received)
    assert {row["allowed"] for row in labels} == ({True} if variant == "CTL" else {True, False})


@each_variant
def test_any_has_all_kinds_of_compositions_of_two_or_more_functions(variant: str) -> None:
    dataset = small(variant)
    assert set(dataset["any"]) == {*dataset.task.train_graph.lengths, *dataset.task.ood_graph.lengths} - {1}
    kinds = {tuple(text.split()[:2]) for text in inputs(dataset, "any")}
    assert len(kinds) > 40, "of the 144 pairs of functions"


def test_diagnostic_splits_have_what_is_left_if_fewer_exist_than_in_ood() -> None:
    dataset = generate("S", symbols=4, functions=8, max_length=2, train=10, iid=2, ood=8, **STAGED)
    task = dataset.task
    shared = task.language("shared_path").all(2)
    texts = {task.describe(shared, row) for row in range(len(shared))}
    left = texts - inputs(dataset, "train") - inputs(dataset, "iid")
    assert inputs(dataset, "shared_path") <= left
    assert dataset.size("shared_path") == min(8, len(left))


@pytest.mark.parametrize("variant", ["CTL", "A", "R"])
def test_the_order_of_training_examples_within_a_length_carries_no_information(variant: str) -> None:
    examples = default(variant)["train"][4]
    halves = [np.bincount(half, minlength=8) for half in np.array_split(examples.starts, 2)]
    assert chi2_contingency(halves).pvalue > 1e-4


@pytest.mark.parametrize("variant", ["A", "R"])
def test_released_draws_train_and_iid_together_with_half_of_the_pairs(variant: str) -> None:
    dataset = default(variant, "released")
    language = dataset.task.language("train")
    joint = balance(301_000, {n: language.count(n) // 2 for n in range(2, 7)})
    assert joint == {2: 2048, 3: 32768, 4: 88728, 5: 88728, 6: 88728}
    train, iid = by_length(dataset, "train"), by_length(dataset, "iid")
    assert {n: train[n] + iid[n] for n in range(3, 7)} == {n: joint[n] for n in range(3, 7)}
    assert sum(iid.values()) == 1000
    assert chisquare([iid[n] for n in joint], [joint[n] * 1000 / 301_000 for n in joint]).pvalue > 1e-4


@each_variant
def test_released_has_no_singles_and_all_permitted_pairs(variant: str) -> None:
    dataset = default(variant, "released")
    language = dataset.task.language("train")
    assert 1 not in dataset["train"]
    assert sorted(language.rank(dataset["train"][2]).tolist()) == list(range(language.count(2)))


@settings(max_examples=60)
@given(
    variant=st.sampled_from(VARIANTS),
    protocol=st.sampled_from(PROTOCOLS),
    fill=st.sampled_from([0.1, 0.3, 0.5, 0.999, 1.0]),
    sizes=st.tuples(st.integers(1, 700), st.integers(0, 300), st.integers(0, 300)),
    weighting=st.sampled_from(WEIGHTINGS),
)
def test_any_sizes_are_either_met_exactly_or_refused(
    variant: str, protocol: str, fill: float, sizes: tuple[int, int, int], weighting: str
) -> None:
    options: dict[str, Any] = {"symbols": 3, "functions": 5, "max_length": 4, "fill": fill}
    options |= {"shared_functions": 1, "shared_symbols": 3} if variant == "S" else {}
    options |= dict(zip(("train", "iid", "ood"), sizes, strict=True))
    try:
        dataset = generate(variant, protocol=protocol, weighting=weighting, **options)
    except ValueError as error:
        assert str(error).startswith(("train ", "iid ", "ood "))  # noqa: PT017
        return
    found = {name: dataset.size(name) for name in dataset.splits}
    assert (found.get("iid", 0), found.get("ood", 0)) == sizes[1:]
    assert found["train"] == sizes[0] if protocol == "paper" else found["train"] >= sizes[0]
    if "iid" in found and protocol == "paper":
        assert dataset.shared("train", "iid") == 0
    assert all(len(inputs(dataset, name)) == distinct(dataset, name) for name in found)


def test_train_and_iid_may_use_all_there_is() -> None:
    sizes: dict[str, Any] = {"symbols": 4, "functions": 8, "max_length": 4, "ood": 5}
    most = 32 + (128 + 512 + 2048) // 2
    for iid in (0, 1, 500, 1344):
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
    options: dict[str, Any] = {"functions": 60, "max_length": 12, "train": 20_000, "iid": 100, "ood": 100}
    dataset = generate("CTL", **options)
    assert dataset.task.language("train").count(12) == 8 * 60**12
    assert set(dataset["ood"]) == {13, 14, 15, 16}
    assert len(inputs(dataset, "train") | inputs(dataset, "iid") | inputs(dataset, "ood")) == 20_200


def test_nearly_all_examples_can_be_drawn_step_by_step() -> None:
    options: dict[str, Any] = {
        "functions": 8,
        "max_length": 4,
        "fill": 0.999,
        "train": 440,
        "iid": 6,
        "ood": 10,
    }
    assert generate("S", **options, **STAGED).size("train") == 440


PROGRAM = """
import resource
from ctlpp.benchmark.dataset import generate

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # MiB

before = peak()
dataset = generate("A", functions=64, max_length=10, train=10_000_000)
print(dataset.size("train"), peak() - before)
"""


def test_ten_million_training_examples_need_less_than_a_gibibyte() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    examples, mebibytes = map(int, done.stdout.split())
    assert examples == 10_000_000
    assert mebibytes < 1024
