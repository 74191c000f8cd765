"""The paper's variants, S's restrictions for every cell of the published grid, and settings out of range."""

import re
from collections import Counter
from itertools import product
from typing import Any

import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.graph import VariantSpec
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings, specify
from ctlpp.files import UserError

GRID = [(8, 32, shared, overlap) for shared in (4, 8, 12, 16) for overlap in (2, 3, 4, 5, 6)]
ODD_SIZES = [  # symbols, functions, shared functions, shared symbols
    *((8, 33, 8, 4), (8, 34, 8, 3), (8, 35, 9, 5), (7, 31, 7, 2), (7, 21, 5, 3), (5, 9, 5, 1)),
    *((3, 6, 1, 3), (9, 23, 3, 8), (11, 40, 20, 7), (8, 32, 28, 1), (4, 8, 4, 1)),
]
STAGED: dict[str, Any] = {"symbols": 4, "functions": 9, "shared_functions": 4, "shared_symbols": 2}


def task_of(variant: str, **options: Any) -> Task:
    return make_task(Settings(variant=variant, **options))


def staged(symbols: int, functions: int, shared: int, overlap: int, seed: int = 0) -> VariantSpec:
    sizes: dict[str, Any] = {"symbols": symbols, "functions": functions, "seed": seed}
    return specify(Settings(variant="S", shared_functions=shared, shared_symbols=overlap, **sizes))


def groups_in_turn(task: Task, split: str, length: int) -> set[tuple[str, ...]]:
    """The groups that functions come from, one after the other, in all examples of a language."""
    home = {f: group for group, members in task.group_indices.items() for f in members}
    return {tuple(home[f] for f in row) for row in task.language(split).all(length).functions.tolist()}


def test_a_alternates_and_r_repeats_in_training_and_the_test_is_the_other_way_round() -> None:
    alternating, repeating = {tuple("aba"), tuple("bab")}, {tuple("aaa"), tuple("bbb")}
    for variant, seen, unseen in (("A", alternating, repeating), ("R", repeating, alternating)):
        task = task_of(variant, symbols=3, functions=4, max_length=3)
        assert groups_in_turn(task, "train", 1) == {("a",), ("b",)}
        assert groups_in_turn(task, "train", 3) == seen
        assert groups_in_turn(task, "ood", 3) == unseen
        assert task.language("ood").count(1) == 0


def test_ctl_tests_on_longer_compositions() -> None:
    task = task_of("CTL", symbols=3, functions=2, max_length=3)
    assert task.train_graph.lengths == (1, 2, 3)
    assert task.ood_graph.lengths == (4, 5, 6, 7)
    assert task_of("CTL", max_length=3, ood_max_length=4).ood_graph.lengths == (4,)
    assert task.language("train").count(3) == 3 * 2**3


def test_s_goes_through_pairs_and_the_test_crosses_the_paths() -> None:
    task = task_of("S", max_length=4, **STAGED)
    seen = {("a1", "a2"), ("a1", "o"), ("b1", "b2"), ("b1", "o")}
    unseen = {("a1", "b2"), ("b1", "a2")}
    for split, pairs in (("train", seen), ("ood", unseen)):
        assert groups_in_turn(task, split, 2) == pairs
        assert groups_in_turn(task, split, 4) == {one + other for one in pairs for other in pairs}
    assert [task.language("train").count(n) for n in (1, 3)] == [0, 0]


def test_restrictions_are_as_defined() -> None:
    for (symbols, functions, shared, overlap), seed in product(GRID + ODD_SIZES, range(2)):
        spec = staged(symbols, functions, shared, overlap, seed)
        others = [len(spec.groups[group]) for group in ("a1", "b1", "a2", "b2")]
        assert len(spec.groups["o"]) + sum(others) == shared + sum(others) == functions
        assert max(others) - min(others) <= 1
        sets = {(rule.source, rule.function): set(rule.symbols) for rule in spec.train.restrictions}
        assert set(sets) == {(path, g) for path in ("a1", "b1") for g in spec.groups["o"]}
        covered: set[int] = set()
        for g in spec.groups["o"]:
            from_a, from_b = sets["a1", g], sets["b1", g]
            assert len(from_a & from_b) == overlap
            assert from_a | from_b == set(range(symbols))
            assert abs(len(from_a) - len(from_b)) <= 1
            covered |= from_a & from_b
        assert covered == set(range(symbols))
        sizes = [sum(len(sets[path, g]) for g in spec.groups["o"]) for path in ("a1", "b1")]
        assert abs(sizes[0] - sizes[1]) <= 1, "neither path gets more of the odd ones"


def test_every_overlap_is_used_equally_often_and_the_seed_changes_restrictions_but_not_groups() -> None:
    times: Counter[int] = Counter()
    specs = [staged(8, 32, 8, 3, seed) for seed in range(50)]
    for spec in specs:
        rules = [set(rule.symbols) for rule in spec.train.restrictions]
        for one, other in zip(rules[::2], rules[1::2], strict=True):
            times.update(one & other)
    assert set(times.values()) == {50 * 8 * 3 // 8}
    assert len({spec.train.restrictions for spec in specs}) == 50
    assert len({str(spec.groups) for spec in specs}) == 1


def test_shared_path_goes_from_stage_1_to_shared_functions_on_symbols_seen_in_training() -> None:
    task = task_of("S", max_length=4, **STAGED)
    shared, train, unseen = (task.language(name) for name in ("shared_path", "train", "unseen_symbols"))
    for name in ("shared_path", "unseen_symbols"):
        assert groups_in_turn(task, name, 2) == {("a1", "o"), ("b1", "o")}
    assert train.contains(shared.all(4)).all()
    assert not train.contains(unseen.all(4)).any()
    every_pair = 4 * 4 * len(task.groups["a1"] + task.groups["b1"])
    assert shared.count(2) + unseen.count(2) == every_pair, "each stage-1 -> o pair is in one of the two"
    same = task_of("S", max_length=4, **(STAGED | {"shared_symbols": 4}))
    assert [same.language("unseen_symbols").count(n) for n in (2, 4)] == [0, 0]


FEW: dict[str, Any] = {"protocol": "text", "max_length": 2, "train": 2305}
TOO_FEW = {"functions": 16, "table": "authors"}
FEW_SHARED = {"shared_functions": 4, "shared_symbols": 1}
ALL = "only 2304 distinct training examples exist (fill rule), and iid takes 1000 of them"
LEFT = "distinct examples are left; ask for fewer, or longer ones"
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("Q", {}, "unknown variant 'Q': choose from CTL, A, R, S, or a TOML file with a graph"),
    ("A", {"symbols": 0}, "symbols 0: use 2 to 1000"),
    ("A", {"symbols": "8"}, "symbols '8': use 2 to 1000"),
    ("A", {"functions": 1}, "functions 1: use 2 to 10000"),
    ("S", {"functions": 4}, "functions 4: use 5 to 10000"),
    ("A", {"symbols": 3, "functions": 7}, "functions 7: only 6 different bijections of 3 symbols exist"),
    ("A", {"functions": 3000}, "functions 3000: on 8 symbols they make 72,000,000 pairs; use fewer"),
    ("A", {"max_length": 65}, "max_length 65: use 2 to 64"),
    ("A", {"train": 1e5}, "train 100000.0: use 1 to 1000000000"),
    ("A", {"iid": -1}, "iid -1: use 0 to 1000000000"),
    ("A", {"seed": -1}, "seed -1: use 0 to 9223372036854775807"),
    ("A", {"fill": 0.0}, "fill 0.0: use a share above 0 and up to 1"),
    ("A", {"protocol": "draft"}, "protocol draft: choose from authors, clean, text"),
    ("A", {"order": "up"}, "order up: choose from right-to-left, left-to-right"),
    ("A", {"weighting": "even"}, "weighting even: choose from uniform, sequential"),
    ("A", {"workers": 0}, "workers 0: use 1 to 1000"),
    ("A", {"protocol": "text", "twins": True}, "twins is not for the protocol text; choose authors or clean"),
    ("A", {"table": "x"}, "table x: choose from authors, authors-py37, a number, or a file with a table"),
    ("R", TOO_FEW, "table authors: it must have 16 bijections of 8 symbols, one per line"),
    ("A", {"shared_functions": 8}, "shared_functions is an option of S alone; leave it out for A"),
    ("S", {"ood_max_length": 8}, "ood_max_length is an option of CTL alone; leave it out for S"),
    ("CTL", {"ood_max_length": 6}, "ood_max_length 6: CTL tests on longer examples; use 7 or more"),
    ("CTL", {"ood_max_length": 10**9}, "ood_max_length 1000000000: use 3 to 128"),
    ("S", {"max_length": 5}, "max_length 5 is odd: S has even lengths only; use 4 or 6"),
    ("S", {"shared_functions": 29}, "shared_functions 29: use 1 to 28; a1, a2, b1 and b2 need functions too"),
    ("S", {"shared_symbols": 9}, "shared_symbols 9: use 1 to 8, the number of symbols"),
    ("S", FEW_SHARED, "shared_symbols 1: 4 shared functions must cover 8 symbols together; use 2 or more"),
    ("A", FEW, f"train 2305: {ALL}; ask for at most 1304, or longer ones"),
    ("A", FEW | {"train": 2304, "iid": 1}, f"iid 1: only 0 {LEFT}"),
    ("A", FEW | {"train": 2000, "iid": 10, "ood": 5000}, f"ood 5000: only 4096 {LEFT}"),
    ("A", FEW | {"train": 100}, "train 100: at least 256 are needed, all single applications belong to it"),
    ("R", FEW | {"protocol": "clean", "train": 2000, "iid": 49}, f"iid 49: only 48 {LEFT}"),
]


def test_a_mistake_is_one_line_that_says_what_would_be_right() -> None:
    for variant, options, text in BAD:
        with pytest.raises(UserError, match=f"^{re.escape(text)}$") as caught:
            generate(variant, **options)
        assert not options or caught.value.on_command_line().startswith("--")
