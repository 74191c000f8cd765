"""Counting, membership and numbering, against an enumeration of everything and against a recursion."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ctlpp.benchmark.graph import IN, OUT, Graph, Restriction, function_names
from ctlpp.benchmark.language import Examples, Language
from ctlpp.benchmark.sampling import Stream
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings

NAMES = function_names(60)
Walk = tuple[int, tuple[int, ...]]  # the start symbol and the functions, first one first


def language_of(graph: Graph, table: NDArray[Any], groups: Mapping[str, list[int]]) -> Language:
    return Language(graph, table=table, groups=groups, names=NAMES[: len(table)])


def may_follow(language: Language, source: str, function: int, symbol: int) -> bool:
    """One step, read off the graph's own words."""
    home = next(group for group, node in language.nodes.items() if node == language.group_of[function])
    name = NAMES[function]
    rules = [r for r in language.graph.restrictions if (r.source, r.function) == (source, name)]
    return (source, home) in language.graph.edges and all(symbol in rule.symbols for rule in rules)


def is_example(language: Language, start: int, functions: tuple[int, ...]) -> bool:
    """Membership, one function after the other."""
    names = list(language.nodes)
    group, symbol = IN, start
    for function in functions:
        if not may_follow(language, group, function, symbol):
            return False
        group, symbol = names[language.group_of[function]], language.table[function, symbol]
    return (group, OUT) in language.graph.edges and len(functions) in language.graph.lengths


def successions_allowed(language: Language, symbol: int, functions: tuple[int, ...]) -> bool:
    """Whether every function may follow the one before it, wherever they begin and end."""
    names = list(language.nodes)
    for before, after in pairwise(functions):
        symbol = language.table[before, symbol]
        if not may_follow(language, names[language.group_of[before]], after, symbol):
            return False
    return True


def count_by_recursion(language: Language, length: int) -> int:
    """How many examples there are, in Python integers, one node at a time."""
    names = list(language.nodes)

    @cache
    def ways(group: str, symbol: int, left: int) -> int:
        if left == 0:
            return int((group, OUT) in language.graph.edges)
        followers = [f for f in range(language.n_functions) if may_follow(language, group, f, symbol)]
        nodes = [(names[language.group_of[f]], int(language.table[f, symbol])) for f in followers]
        return sum(ways(*node, left - 1) for node in nodes)

    return sum(ways(IN, symbol, length) for symbol in range(language.n_symbols))


def as_walks(examples: Examples) -> list[Walk]:
    return list(zip(examples.starts.tolist(), map(tuple, examples.functions.tolist()), strict=True))


def as_examples(walks: list[Walk], length: int) -> Examples:
    functions = np.array([functions for _, functions in walks], dtype=np.int64).reshape(len(walks), length)
    return Examples(starts=np.array([start for start, _ in walks], dtype=np.int64), functions=functions)


@st.composite
def languages(draw: st.DrawFn) -> Language:
    """2 or 3 symbols, 2 to 5 functions in up to 3 groups, any edges, any restrictions: dead ends included."""
    n_symbols, n_functions = draw(st.integers(2, 3)), draw(st.integers(2, 5))
    table = np.array([draw(st.permutations(range(n_symbols))) for _ in range(n_functions)])
    homes = draw(st.lists(st.sampled_from("xyz"), min_size=n_functions, max_size=n_functions))
    groups = {group: [f for f in range(n_functions) if homes[f] == group] for group in sorted(set(homes))}
    possible = [*product((IN, *groups), groups), *product(groups, [OUT])]
    edges = [edge for edge in possible if draw(st.integers(0, 3))]  # three of four
    rule = st.builds(
        Restriction,
        source=st.sampled_from([IN, *groups]),
        function=st.sampled_from(NAMES[:n_functions]),
        symbols=st.sets(st.integers(0, n_symbols - 1)).map(lambda symbols: tuple(sorted(symbols))),
    )
    rules = draw(st.lists(rule, max_size=4))
    lengths = draw(st.sets(st.integers(1, 4), min_size=1))
    graph = Graph(edges=tuple(edges), lengths=tuple(lengths), restrictions=tuple(rules))
    return language_of(graph, table, groups)


@settings(max_examples=100)
@given(languages(), st.integers(1, 4), st.data())
def test_counts_membership_successions_and_numbers_are_those_of_an_enumeration(
    language: Language, length: int, data: st.DataObject
) -> None:
    every = list(product(range(language.n_symbols), product(range(language.n_functions), repeat=length)))
    allowed = [walk for walk in every if is_example(language, *walk)]
    by_recursion = count_by_recursion(language, length) * (length in language.graph.lengths)
    assert language.count(length) == len(allowed) == by_recursion
    assert as_walks(language.all(length)) == allowed, "in dictionary order"
    assert language.rank(as_examples(allowed, length)).tolist() == list(range(len(allowed)))
    assert language.contains(as_examples(every, length)).tolist() == [walk in set(allowed) for walk in every]
    successions = [successions_allowed(language, *walk) for walk in every]
    assert language.allows_successions(as_examples(every, length)).tolist() == successions
    if allowed:
        numbers = data.draw(st.lists(st.integers(0, len(allowed) - 1)))
        examples = language.unrank(length, np.array(numbers, dtype=np.int64))
        assert as_walks(examples) == [allowed[number] for number in numbers]


def test_examples_have_equal_keys_if_and_only_if_they_are_equal() -> None:
    for n_functions, length, kind in ((8, 3, "u1"), (8, 12, "u1"), (400, 2, "u2"), (400, 9, "u2")):
        random = np.random.default_rng(0)
        functions = random.integers(n_functions, size=(60, length)).astype(kind)
        functions[:, 1:] = functions[0, 1:]
        examples = Examples(starts=random.integers(3, size=60).astype("u1"), functions=functions)
        rows, keys = np.column_stack([examples.starts, functions]), examples.keys()
        for row, key in zip(rows, keys, strict=True):
            assert ((keys == key) == (rows == row).all(axis=1)).all()


def free(n_functions: int, length: int) -> tuple[Language, int]:
    graph = Graph.of({IN: "f", "f": "f OUT"}, lengths=[length])
    table = np.array([Stream(f, "test").permutation(8) for f in range(n_functions)])
    return language_of(graph, table, {"f": list(range(n_functions))}), 8 * n_functions**length


def staged(n_functions: int, length: int) -> tuple[Language, int]:
    task = make_task(Settings(variant="S", functions=n_functions, max_length=length))
    language = task.language("train")
    return language, count_by_recursion(language, length)


def lopsided() -> tuple[Language, int]:
    """The number of examples behind a choice differs from choice to choice."""
    graph = Graph.of({IN: "w c", "w": "w OUT", "x": "w", "c": "x c OUT"}, lengths=[31])
    groups = {"w": list(range(4)), "x": list(range(4, 20)), "c": [20]}
    language = language_of(graph, np.zeros((21, 1), dtype=np.int64), groups)
    return language, count_by_recursion(language, 31)


BIG = {
    "any of 60 functions, 12 long": free(60, 12),
    "60 functions in stages, 12 long": staged(60, 12),
    "just below 2**62": free(15, 15),
    "exactly 2**63": free(32, 12),
    "2**63 and a bit, lopsided": lopsided(),
    "hundreds of bits": free(60, 64),
}


@pytest.mark.parametrize("name", BIG)
def test_numbers_beyond_64_bits_are_exact(name: str) -> None:
    language, count = BIG[name]
    length = max(language.graph.lengths)
    assert language.count(length) == count
    numbers = sorted({0, 1, count // 2, count - 2, count - 1, *Stream(0, name).below(count, 300).tolist()})
    examples = language.unrank(length, np.array(numbers, dtype=object))
    assert language.contains(examples).all()
    assert language.rank(examples).tolist() == numbers
    walks = as_walks(examples)
    assert walks == sorted(walks), "numbers are in dictionary order"
