"""What is in the splits: sizes, balance, membership, disjointness, and the quirks of the released protocol."""

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.splits import balance, filled
from ctlpp.storage.folder import rows

SMALL: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4, "train": 700, "iid": 90, "ood": 90}
STAGED: dict[str, Any] = {"shared_functions": 4, "shared_symbols": 2}
VARIANTS = ("CTL", "A", "R", "S")
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_protocol = pytest.mark.parametrize("protocol", ["paper", "released"])


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


@given(st.dictionaries(st.integers(1, 9), st.integers(0, 50), min_size=1), st.data())
def test_lengths_get_the_same_number_unless_they_are_full(room: dict[int, int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(room.values())))
    sizes = balance(total, room)
    assert sum(sizes.values()) == total
    assert sizes.keys() == room.keys()
    assert all(size <= room[length] for length, size in sizes.items())
    others = [size for length, size in sizes.items() if size < room[length]]
    assert not others or max(sizes.values()) - min(others) <= 1


@each_variant
@each_protocol
def test_no_example_is_twice_in_a_split_and_every_one_is_in_the_graph(variant: str, protocol: str) -> None:
    dataset = small(variant, protocol)
    for name, split in dataset.splits.items():
        assert len(inputs(dataset, name)) == dataset.size(name) > 0
        for examples in split.values():
            assert dataset.task.language(name).contains(examples).all()


@each_variant
@each_protocol
def test_outputs_are_what_the_functions_make_of_the_start_one_after_the_other(
    variant: str, protocol: str
) -> None:
    dataset = small(variant, protocol)
    for name in dataset.splits:
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
    assert sampled == ["ood", "any"] + ["shared_path", "unseen_symbols"] * (variant == "S")
    for name in sampled:
        assert not inputs(dataset, name) & inputs(dataset, "train")
        assert not inputs(dataset, name) & inputs(dataset, "iid")
    both = inputs(dataset, "train") & inputs(dataset, "iid")
    assert len(both) == dataset.shared("train", "iid")
    if protocol == "paper":
        assert not both


@each_variant
def test_paper_sizes_are_those_asked_for(variant: str) -> None:
    dataset = small(variant)
    assert [dataset.size(name) for name in ("train", "iid", "ood", "any")] == [700, 90, 90, 90]


@each_variant
def test_paper_lengths_are_balanced_up_to_the_fill_rule(variant: str) -> None:
    dataset = default(variant)
    exist = {n: dataset.task.language("train").count(n) for n in dataset.task.train_graph.lengths}
    train, iid = by_length(dataset, "train"), by_length(dataset, "iid")
    open_ended = []
    for length, count in exist.items():
        if count == 0 or length == 1:
            continue
        used = train[length] + iid.get(length, 0)
        assert used <= count // 2
        if used < count // 2:
            open_ended.append(train[length])
    assert max(open_ended) - min(open_ended) <= 1
    assert max(train.values()) == max(open_ended)
    assert max(by_length(dataset, "ood").values()) - min(by_length(dataset, "ood").values()) <= 1


def test_paper_sizes_of_the_default_a() -> None:
    dataset = default("A")
    assert by_length(dataset, "train") == {1: 256, 2: 1848, 3: 32568, 4: 88442, 5: 88443, 6: 88443}
    assert by_length(dataset, "iid") == dict.fromkeys(range(2, 7), 200)
    assert by_length(dataset, "ood") == dict.fromkeys(range(2, 7), 200)


@pytest.mark.parametrize("variant", ["CTL", "A", "R"])
def test_paper_trains_on_every_single_application(variant: str) -> None:
    dataset = small(variant)
    singles = {f"{f} {s}" for f in dataset.task.functions for s in range(4)}
    assert inputs(dataset, "singles") == singles
    assert singles <= inputs(dataset, "train")
    assert 1 not in dataset["iid"]


@each_protocol
def test_s_never_trains_on_a_single_application(protocol: str) -> None:
    dataset = small("S", protocol)
    assert all(length % 2 == 0 for name in ("train", "iid", "ood") for length in dataset[name])
    assert dataset.size("singles") == 12 * 4


@each_variant
@each_protocol
def test_pairs_are_all_pairs_of_functions_on_all_symbols(variant: str, protocol: str) -> None:
    dataset = small(variant, protocol)
    names = dataset.task.functions
    assert inputs(dataset, "pairs") == {f"{g} {f} {s}" for f in names for g in names for s in range(4)}


@each_variant
def test_pairs_are_labelled_by_whether_training_allows_the_succession(variant: str) -> None:
    dataset = small(variant)
    task = dataset.task
    home = {f: group for group, members in task.groups.items() for f in members}
    rules = {(rule.source, rule.function): rule.symbols for rule in task.train_graph.restrictions}
    labels = [row for batch in rows(task, dataset["pairs"]) for row in batch.to_pylist()]
    assert len(labels) == 12 * 12 * 4
    for row in labels:
        second, first, start = row["input"].split()
        symbol = task.functions[first][int(start)]
        succession = (home[first], home[second]) in task.train_graph.edges
        received = rules.get((home[first], second), range(4))
        assert row["allowed"] == (succession and symbol in received)
    assert {row["allowed"] for row in labels} == ({True} if variant == "CTL" else {True, False})


@each_variant
def test_any_has_all_kinds_of_compositions_of_two_or_more_functions(variant: str) -> None:
    dataset = small(variant)
    lengths = {*dataset.task.train_graph.lengths, *dataset.task.ood_graph.lengths} - {1}
    assert set(dataset["any"]) == lengths
    kinds = {(text.split()[0], text.split()[1]) for text in inputs(dataset, "any")}
    assert len(kinds) > 40, "of the 144 pairs of functions"


def test_s_has_splits_for_the_shared_functions() -> None:
    dataset = small("S")
    task = dataset.task
    home = {f: group for group, members in task.groups.items() for f in members}
    rules = {(rule.source, rule.function): rule.symbols for rule in task.train_graph.restrictions}
    for name, seen in (("shared_path", True), ("unseen_symbols", False)):
        assert dataset.size(name) > 20
        for text in inputs(dataset, name):
            *functions, start = text.split()
            symbol = int(start)
            applied = functions[::-1]
            for first, second in zip(applied[::2], applied[1::2], strict=True):
                symbol = task.functions[first][symbol]
                assert (symbol in rules[home[first], second]) is seen
                symbol = task.functions[second][symbol]


def test_diagnostic_splits_have_what_is_left_if_fewer_exist_than_in_ood() -> None:
    dataset = generate("S", symbols=4, functions=8, max_length=2, train=10, iid=2, ood=8, **STAGED)
    task = dataset.task
    assert dataset.size("ood") == 8
    used = sum(map(len, [dataset["train"][2], dataset["iid"][2]]))
    assert used == 12
    left = task.language("shared_path").all(2)
    texts = {task.describe(left, row) for row in range(len(left))}
    assert inputs(dataset, "shared_path") <= texts - inputs(dataset, "train") - inputs(dataset, "iid")
    assert dataset.size("shared_path") == min(
        8, len(texts - inputs(dataset, "train") - inputs(dataset, "iid"))
    )


@pytest.mark.parametrize("variant", ["CTL", "A", "R"])
def test_the_order_of_training_examples_within_a_length_carries_no_information(variant: str) -> None:
    examples = default(variant)["train"][4]
    halves = [np.bincount(half, minlength=8) for half in np.array_split(examples.starts, 2)]
    assert chi2_contingency(halves).pvalue > 1e-4


@given(st.floats(0, 1), st.integers(0, 10**400))
def test_a_share_of_a_number_of_any_size_is_a_whole_number_next_to_it(fill: float, count: int) -> None:
    part = filled(fill, count)
    assert 0 <= part <= count
    assert abs(part - Fraction(fill) * count) <= 1
