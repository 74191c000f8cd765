"""The paper's variants: groups, graphs, and S's restrictions for every cell of the published grid."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Plan, Settings, plan_variant

GRID = [(shared, overlap) for shared in (4, 8, 12, 16) for overlap in (2, 3, 4, 5, 6)]
ODD_SIZES = [  # symbols, functions, shared functions, shared symbols
    (8, 33, 8, 4),
    (8, 34, 8, 3),
    (8, 35, 9, 5),
    (7, 31, 7, 2),
    (7, 21, 5, 3),
    (5, 9, 5, 1),
    (3, 6, 1, 3),
    (2, 5, 1, 2),
    (9, 23, 3, 8),
    (11, 40, 20, 7),
    (8, 32, 28, 1),
    (4, 8, 4, 1),
]


def task_of(variant: str, **options: Any) -> Task:
    return make_task(Settings(variant=variant, **options))


def staged(symbols: int, functions: int, shared: int, overlap: int, seed: int = 0) -> Plan:
    return plan_variant(
        "S",
        n_symbols=symbols,
        n_functions=functions,
        max_length=6,
        seed=seed,
        shared_functions=shared,
        shared_symbols=overlap,
    )


def groups_in_turn(task: Task, split: str, length: int) -> set[tuple[str, ...]]:
    """The groups that functions come from, one after the other, in all examples of a language."""
    home = {f: group for group, members in task.group_indices.items() for f in members}
    return {tuple(home[f] for f in row) for row in task.language(split).all(length).functions.tolist()}


def test_a_alternates_in_training_and_repeats_in_the_test() -> None:
    task = task_of("A", symbols=3, functions=4, max_length=3)
    assert groups_in_turn(task, "train", 1) == {("a",), ("b",)}
    assert groups_in_turn(task, "train", 3) == {tuple("aba"), tuple("bab")}
    assert groups_in_turn(task, "ood", 3) == {tuple("aaa"), tuple("bbb")}
    assert task.language("ood").count(1) == 0


def test_r_repeats_in_training_and_alternates_in_the_test() -> None:
    task = task_of("R", symbols=3, functions=4, max_length=3)
    assert groups_in_turn(task, "train", 3) == {tuple("aaa"), tuple("bbb")}
    assert groups_in_turn(task, "ood", 3) == {tuple("aba"), tuple("bab")}
    assert task.language("ood").count(1) == 0


def test_ctl_tests_on_longer_compositions() -> None:
    task = task_of("CTL", symbols=3, functions=2, max_length=3)
    assert task.train_graph.lengths == (1, 2, 3)
    assert task.ood_graph.lengths == (4, 5, 6, 7)
    assert task_of("CTL", max_length=3, ood_max_length=4).ood_graph.lengths == (4,)
    assert task.language("train").count(3) == 3 * 2**3


def test_s_goes_through_pairs_and_the_test_crosses_the_paths() -> None:
    task = task_of("S", symbols=4, functions=9, shared_functions=4, shared_symbols=2, max_length=4)
    seen = {("a1", "a2"), ("a1", "o"), ("b1", "b2"), ("b1", "o")}
    unseen = {("a1", "b2"), ("b1", "a2")}
    assert groups_in_turn(task, "train", 2) == seen
    assert groups_in_turn(task, "train", 4) == {one + other for one in seen for other in seen}
    assert groups_in_turn(task, "ood", 2) == unseen
    assert groups_in_turn(task, "ood", 4) == {one + other for one in unseen for other in unseen}
    assert [task.language("train").count(n) for n in (1, 3)] == [0, 0]


@pytest.mark.parametrize("variant", ["CTL", "A", "R", "S"])
def test_no_example_is_in_both_graphs(variant: str) -> None:
    options: dict[str, Any] = {"shared_functions": 2, "shared_symbols": 2} if variant == "S" else {}
    task = task_of(variant, symbols=3, functions=6, max_length=4, **options)
    for length in task.train_graph.lengths:
        assert not task.language("ood").contains(task.language("train").all(length)).any()


@pytest.mark.parametrize(("shared", "overlap"), GRID)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_restrictions_are_as_defined_for_the_published_grid(shared: int, overlap: int, seed: int) -> None:
    plan = staged(8, 32, shared, overlap, seed)
    check_restrictions(plan, 8, overlap)
    rest = (32 - shared) // 4
    assert {group: len(members) for group, members in plan.groups.items()} == {
        "a1": rest,
        "b1": rest,
        "a2": rest,
        "b2": rest,
        "o": shared,
    }


@pytest.mark.parametrize(("symbols", "functions", "shared", "overlap"), ODD_SIZES)
def test_restrictions_are_as_defined_for_odd_sizes(
    symbols: int, functions: int, shared: int, overlap: int
) -> None:
    for seed in range(5):
        check_restrictions(staged(symbols, functions, shared, overlap, seed), symbols, overlap)


def check_restrictions(plan: Plan, n_symbols: int, overlap: int) -> None:
    """What the definition demands of the symbols that shared functions may receive."""
    sets = {(rule.source, rule.function): set(rule.symbols) for rule in plan.train.restrictions}
    assert set(sets) == {(path, g) for path in ("a1", "b1") for g in plan.groups["o"]}
    covered: set[int] = set()
    for g in plan.groups["o"]:
        from_a, from_b = sets["a1", g], sets["b1", g]
        assert len(from_a & from_b) == overlap
        assert from_a | from_b == set(range(n_symbols))
        assert abs(len(from_a) - len(from_b)) <= 1
        covered |= from_a & from_b
    assert covered == set(range(n_symbols))
    sizes = [sum(len(sets[path, g]) for g in plan.groups["o"]) for path in ("a1", "b1")]
    assert abs(sizes[0] - sizes[1]) <= 1, "neither path gets more of the odd ones"


def test_every_overlap_is_used_about_equally_often() -> None:
    sets = [set(rule.symbols) for seed in range(50) for rule in staged(8, 32, 8, 3, seed).train.restrictions]
    times = np.array(
        [sum(symbol in one & other for one, other in pairwise_rules(sets)) for symbol in range(8)]
    )
    assert times.min() == times.max() == 50 * 8 * 3 // 8


def pairwise_rules(sets: list[set[int]]) -> list[tuple[set[int], set[int]]]:
    return list(zip(sets[::2], sets[1::2], strict=True))


@pytest.mark.parametrize("functions", [2, 3, 31, 33])
@pytest.mark.parametrize("variant", ["A", "R"])
def test_functions_that_do_not_divide_evenly_differ_by_one(variant: str, functions: int) -> None:
    task = task_of(variant, functions=functions)
    assert [len(members) for members in task.groups.values()] == [math.ceil(functions / 2), functions // 2]
    assert task.n_functions == functions


@pytest.mark.parametrize("functions", range(12, 17))
def test_s_splits_what_is_not_shared_as_evenly_as_possible(functions: int) -> None:
    groups = staged(8, functions, 8, 4).groups
    sizes = [len(groups[group]) for group in ("a1", "b1", "a2", "b2")]
    assert sum(sizes) == functions - 8
    assert max(sizes) - min(sizes) <= 1


def test_the_seed_changes_functions_and_restrictions_but_not_groups() -> None:
    one, other = task_of("S", seed=0), task_of("S", seed=1)
    assert one.groups == other.groups
    assert one.functions != other.functions
    assert one.train_graph.restrictions != other.train_graph.restrictions


def test_functions_are_the_same_in_every_variant_of_a_seed() -> None:
    tables = [task_of(variant, seed=4).functions for variant in ("CTL", "A", "R", "S")]
    assert all(one == other for one, other in pairwise(tables))


def test_shared_path_goes_from_stage_1_to_shared_functions_on_symbols_seen_in_training() -> None:
    task = task_of("S", symbols=4, functions=9, shared_functions=4, shared_symbols=2, max_length=4)
    shared, train, unseen = (task.language(name) for name in ("shared_path", "train", "unseen_symbols"))
    assert groups_in_turn(task, "shared_path", 2) == groups_in_turn(task, "unseen_symbols", 2)
    assert groups_in_turn(task, "shared_path", 2) == {("a1", "o"), ("b1", "o")}
    assert train.contains(shared.all(4)).all()
    assert not train.contains(unseen.all(4)).any()
    every_pair = 4 * 4 * len(task.groups["a1"] + task.groups["b1"])
    assert shared.count(2) + unseen.count(2) == every_pair, "each stage-1 -> o pair is in one of the two"


def test_no_symbol_is_unseen_if_the_paths_share_them_all() -> None:
    task = task_of("S", symbols=4, functions=9, shared_functions=4, shared_symbols=4, max_length=4)
    assert [task.language("unseen_symbols").count(n) for n in (2, 4)] == [0, 0]
