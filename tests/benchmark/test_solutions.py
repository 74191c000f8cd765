"""Counts of the assignments of codes that fit the training data, against brute force."""

from itertools import permutations, product
from typing import Any

from ctlpp.benchmark.graph import IN, OUT, Graph, VariantSpec
from ctlpp.benchmark.solutions import MOST, Solutions, count_solutions
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings


def task_of(variant: Any, **settings: Any) -> Task:
    return make_task(Settings(variant=variant, train=1, **settings))


def staged_by_force(task: Task, codes: int) -> int:
    """All codes of the values of path b, where those of path a are 0, 1, …: every choice is tried."""
    sets = {(rule.source, rule.function): rule.symbols for rule in task.train_graph.restrictions}
    return sum(
        all(
            a == b
            for function in task.groups["o"]
            for a, b in product(sets["a1", function], sets["b1", function])
            if code[b] == a
        )
        for code in permutations(range(codes), task.n_symbols)
    )


def test_the_counts_for_s_equal_brute_force() -> None:
    for seed, (shared, overlap) in product(range(4), [(2, 2), (3, 2), (4, 1)]):
        sizes = {"functions": 12, "shared_functions": shared, "shared_symbols": overlap}
        task = task_of("S", symbols=4, **sizes, seed=seed)
        for codes in (4, 5):
            assert count_solutions(task, codes).fit == staged_by_force(task, codes)
        assert count_solutions(task, 4) == Solutions(1, 1)


def test_the_counts_for_a_and_r_equal_brute_force() -> None:
    n = 3
    for codes in (n, n + 1):
        fits = composes = 0
        for a, b in product(permutations(range(codes), n), repeat=2):
            groups = (range(n), a, b)  # the start, a, b: each two are met by a function or the reader
            if all(
                x[i] != y[j] for x in groups for y in groups for i in range(n) for j in range(n) if i != j
            ):
                fits += 1
                composes += all(a[i] in (i, b[i]) and b[i] in (i, a[i]) for i in range(n))
        for variant in "AR":
            found = count_solutions(task_of(variant, symbols=n, functions=6), codes)
            assert found.fit == fits
            assert found == Solutions(fits, composes) or variant == "A"


def test_where_groups_never_meet_the_data_decide_nothing() -> None:
    groups = {"a": ("f", "g"), "b": ("h", "k")}
    train = Graph.of({IN: "a", "a": "a OUT"}, lengths=[1, 2])
    ood = Graph.of({IN: "a", "a": "b", "b": OUT}, lengths=[2])
    task = task_of(VariantSpec(groups=groups, train=train, ood=ood), symbols=3)
    assert count_solutions(task, 3).compose == 0
    all_shared = task_of("S", shared_functions=16, shared_symbols=8)
    assert count_solutions(all_shared, 24).fit == 2**8  # each value has the same code, or one to spare
    assert count_solutions(task_of("A"), 24).fit == MOST
