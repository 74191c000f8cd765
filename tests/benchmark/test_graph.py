from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctlpp.benchmark.graph import IN, OUT, Graph, Restriction, check_graph, complete_graph

GROUPS = {"a": ("f", "g"), "b": ("h",)}
FINE = {IN: "a b", "a": "b OUT", "b": "a OUT"}


def rule(source: str, function: str, *symbols: int) -> Restriction:
    return Restriction(source=source, function=function, symbols=symbols)


def checked(
    after: dict[str, str], lengths: Sequence[int] = (1, 2), rules: Sequence[Restriction] = ()
) -> None:
    check_graph(Graph.of(after, lengths=lengths, restrictions=rules), "train", GROUPS, n_symbols=3)


def test_a_sound_graph_is_accepted() -> None:
    checked(FINE, rules=[rule("a", "h", 0, 2), rule(IN, "f", 1), rule("b", "g")])


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ({IN: "a c", "a": "OUT"}, "train graph: edge IN -> c: unknown group 'c'; choose from OUT, a, b"),
        (
            {IN: "a", "a": "OUT", "c": "a"},
            "train graph: edge c -> a: unknown group 'c'; choose from IN, a, b",
        ),
        ({IN: "a", "a": "OUT IN"}, "train graph: edge a -> IN: unknown group 'IN'; choose from OUT, a, b"),
        ({IN: "a", OUT: "a"}, "train graph: edge OUT -> a: unknown group 'OUT'; choose from IN, a, b"),
        (
            {IN: "a OUT", "a": "OUT"},
            "edge IN -> OUT: an example needs at least one function; go through a group",
        ),
        ({IN: "a", "a": "a OUT OUT"}, "train graph: edge a -> OUT is given twice; once is enough"),
        ({IN: "a", "a": "a"}, "train graph: there is no way from IN to OUT; add edges that lead there"),
        ({"a": "OUT"}, "train graph: there is no way from IN to OUT; add edges that lead there"),
        ({}, "train graph: there is no way from IN to OUT; add edges that lead there"),
        (
            {IN: "a", "a": "OUT", "b": "a"},
            "train graph: group b cannot be reached from IN; add an edge to it or drop its edges",
        ),
        (
            {IN: "a b", "a": "b OUT", "b": "b"},
            "train graph: group b is a dead end; add an edge from it toward OUT",
        ),
    ],
)
def test_a_mistake_in_the_edges_is_named(after: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        checked(after)


@pytest.mark.parametrize("lengths", [(), (0, 1), (-1,)])
def test_lengths_below_one_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"train graph: lengths must be 1 to \d+, not \["):
        checked(FINE, lengths=lengths)


def test_lengths_that_could_never_be_counted_are_refused() -> None:
    with pytest.raises(ValueError, match=r"train graph: lengths must be 1 to \d+, not \[1, 1000000000\]"):
        checked(FINE, lengths=(1, 10**9))


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (
            rule("a", "q", 0),
            "restriction of 'q' after 'a': there is no function 'q'; choose from those of the groups",
        ),
        (
            rule("a", "f", 0),
            "restriction of 'f' after 'a': there is no edge a -> a; restrict an edge that exists",
        ),
        (
            rule("c", "f", 0),
            "restriction of 'f' after 'c': there is no edge c -> a; restrict an edge that exists",
        ),
        (rule("a", "h", 1, 3), "restriction of 'h' after 'a': no symbol has the index 3; use 0 to 2"),
        (rule("a", "h", -1), "restriction of 'h' after 'a': no symbol has the index -1; use 0 to 2"),
    ],
)
def test_a_mistake_in_a_restriction_is_named(bad: Restriction, text: str) -> None:
    with pytest.raises(ValueError, match=f"train graph: {text}"):
        checked(FINE, rules=[bad])


def test_everything_follows_everything_in_the_complete_graph() -> None:
    graph = complete_graph("ab", [2])
    assert set(graph.edges) == {*product((IN, "a", "b"), "ab"), *product("ab", [OUT])}
    check_graph(graph, "any", GROUPS, n_symbols=3)


edges = st.sets(st.sampled_from([*product((IN, "a", "b"), "ab"), *product("ab", [OUT])]))


@given(edges, edges)
def test_what_two_graphs_share_is_what_both_allow(
    one: set[tuple[str, str]], other: set[tuple[str, str]]
) -> None:
    def walks(chosen: set[tuple[str, str]]) -> set[tuple[str, ...]]:
        words = [word for length in (1, 2, 3) for word in product("ab", repeat=length)]
        return {w for w in words if all(step in chosen for step in zip((IN, *w), (*w, OUT), strict=True))}

    graphs = [Graph(edges=tuple(sorted(chosen)), lengths=(1, 2, 3)) for chosen in (one, other)]
    both = graphs[0].shared_with(graphs[1])
    assert walks(set(both.edges)) == walks(one) & walks(other)
    assert both.lengths == (1, 2, 3)
