"""Sampling graphs, from Python and from TOML: what they mean, and what is said of a mistake."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.graph import IN, OUT, Edge, Graph, Restriction, VariantSpec, check_graph, read_spec
from ctlpp.benchmark.variants import Settings, specify

GROUPS = {"a": ("f", "g"), "b": ("h",)}
FINE = {IN: "a b", "a": "b OUT", "b": "a OUT"}
EVERYTHING = [*product((IN, "a", "b"), "ab"), *product("ab", [OUT])]


def rule(source: str, function: str, *symbols: int) -> Restriction:
    return Restriction(source=source, function=function, symbols=symbols)


def check(after: dict[str, str], lengths: Sequence[int] = (1, 2), rules: Sequence[Restriction] = ()) -> None:
    check_graph(Graph.of(after, lengths=lengths, restrictions=rules), "train", GROUPS, n_symbols=3)


@given(st.sets(st.sampled_from(EVERYTHING)), st.sets(st.sampled_from(EVERYTHING)))
def test_what_two_graphs_share_is_what_both_allow(one: set[Edge], other: set[Edge]) -> None:
    def walks(chosen: set[Edge]) -> set[tuple[str, ...]]:
        words = [word for length in (1, 2, 3) for word in product("ab", repeat=length)]
        return {w for w in words if all(step in chosen for step in zip((IN, *w), (*w, OUT), strict=True))}

    graphs = [Graph(edges=tuple(sorted(chosen)), lengths=(1, 2, 3)) for chosen in (one, other)]
    both = graphs[0].shared_with(graphs[1])
    assert walks(set(both.edges)) == walks(one) & walks(other)
    assert both.lengths == (1, 2, 3)


EDGE_MISTAKES: list[tuple[dict[str, str], str]] = [
    ({IN: "a c", "a": "OUT"}, "edge IN -> c: unknown group 'c'; choose from OUT, a, b"),
    ({IN: "a", "a": "OUT IN"}, "edge a -> IN: unknown group 'IN'; choose from OUT, a, b"),
    ({IN: "a", OUT: "a"}, "edge OUT -> a: unknown group 'OUT'; choose from IN, a, b"),
    ({IN: "a OUT", "a": "OUT"}, "edge IN -> OUT: an example needs at least one function"),
    ({IN: "a", "a": "a OUT OUT"}, "edge a -> OUT is given twice; once is enough"),
    ({IN: "a", "a": "a"}, "there is no way from IN to OUT; add edges that lead there"),
    ({}, "there is no way from IN to OUT"),
    ({IN: "a", "a": "OUT", "b": "a"}, "group b cannot be reached from IN; add an edge to it or drop its"),
    ({IN: "a b", "a": "b OUT", "b": "b"}, "group b is a dead end; add an edge from it toward OUT"),
]
RULE_MISTAKES = [
    (rule("a", "q", 0), "restriction of 'q' after 'a': there is no function 'q'"),
    (rule("a", "f", 0), "restriction of 'f' after 'a': there is no edge a -> a; restrict one that exists"),
    (rule("a", "h", 1, 3), "restriction of 'h' after 'a': no symbol has the index 3; use 0 to 2"),
]


def test_mistakes_in_edges_lengths_and_restrictions_are_named() -> None:
    check(FINE, rules=[rule("a", "h", 0, 2), rule(IN, "f", 1), rule("b", "g")])
    for after, text in EDGE_MISTAKES:
        with pytest.raises(ValueError, match=f"^train graph: {text}"):
            check(after)
    for lengths in ((), (0, 1), (-1,), (1, 10**9)):
        with pytest.raises(ValueError, match=r"^train graph: lengths must be 1 to 128, not \["):
            check(FINE, lengths=lengths)
    for bad, text in RULE_MISTAKES:
        with pytest.raises(ValueError, match=f"^train graph: {text}"):
            check(FINE, rules=[bad])


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "graphs").glob("*.toml"))
SMALL: dict[str, Any] = {"symbols": 4, "max_length": 3, "train": 60, "iid": 5, "ood": 10}
TOML = """
name = "mine"
[groups]
a = 3
b = 2
[train]
edges = ["IN -> a b", "a -> b OUT", "b -> a OUT"]
[ood]
edges = ["IN -> a b", "a -> a OUT", "b -> b OUT"]
"""


def generate_from(text: str, folder: Path, **options: Any) -> Dataset:
    path = folder / "graph.toml"
    path.write_text(text, encoding="utf-8")
    return generate(path, **(SMALL | options))


def test_a_file_or_a_spec_that_spells_out_a_variant_equals_the_variant(tmp_path: Path) -> None:
    variant = generate("A", functions=8, **SMALL)
    spec = specify(Settings(variant="A", symbols=4, functions=8, max_length=3))
    in_python = generate(replace(spec, name="mine"), **SMALL)
    in_toml = generate_from(TOML.replace("a = 3", "a = 4").replace("b = 2", "b = 4"), tmp_path)
    for own in (in_python, in_toml):
        assert own.task == replace(variant.task, variant="mine")
        assert own.texts("train") == variant.texts("train")
        assert own.texts("ood") == variant.texts("ood")


def test_names_and_lengths_have_defaults(tmp_path: Path) -> None:
    task = generate_from(TOML, tmp_path).task
    assert (task.variant, task.train_graph.lengths, task.ood_graph.lengths) == ("mine", (1, 2, 3), (2, 3))
    task = generate_from(TOML.replace('name = "mine"', "") + "lengths = [5, 2, 2]", tmp_path).task
    assert (task.variant, task.ood_graph.lengths) == ("graph", (5, 2))


def test_the_worked_examples_make_data() -> None:
    assert len(EXAMPLES) >= 2
    for path in EXAMPLES:
        dataset = generate(path, protocol="text", train=5000, iid=100, ood=100)
        assert (dataset.size("train"), dataset.size("iid"), dataset.size("ood")) == (5000, 100, 100)
        assert dataset.shared("train", "ood") == 0


TRAIN = 'edges = ["IN -> a b", "a -> b OUT"'
ODD = 'lengths = [1, 3]\nedges = ["IN -> a", "a -> b"'  # where only even lengths have examples
OOD = '["IN -> a b", "a -> a OUT", "b -> b OUT"]'
MISTAKES = [  # a line of TOML, what somebody wrote instead, what is said
    ("b = 2", "b = 0", "group b must have 1 to 10000 functions, not 0"),
    ("b = 2", "b = 2\nIN = 2", "'IN' cannot name a group: use letters and digits, but not IN or OUT"),
    ("b = 2", "b = 2\nc = 1", "group c has no edge in either graph; add one or drop the group"),
    ("b = 2", "b = 22", "functions 25: only 24 different bijections of 4 symbols exist"),
    ("a -> b OUT", "a b OUT", "the edge 'a b OUT' must look like \"a -> b c OUT\""),
    ("a -> b OUT", "a x -> b", "the edge 'a x -> b' must look like \"a -> b c OUT\""),
    (OOD, '"IN -> a"', "the entry 'edges' must have a list, not 'IN -> a'"),
    ("a -> a OUT", "a -> b a OUT", "the train and OOD graphs share"),
    ("[ood]", "[test]", "unknown key 'test'; choose from name, groups, train, ood"),
    ("[groups]\na = 3\nb = 2", "[groups]", "a task needs at least two symbols and a function"),
    (TRAIN, ODD, "train graph: it has no example of any of the lengths [1, 3]"),
    ("[ood]\n", "[ood]\nfill = 2\n", "unknown key 'fill'; choose from edges, lengths, restrictions"),
    ("[ood]\nedges", "[ood]\n#", "the entry 'edges' is missing"),
    ("mine", "S", "S is a variant of the paper: give your graph a name of its own"),
    ("mine", " ", "' ' cannot name a variant: use a printable text"),
    ("mine", "a\\nb", "the entry 'name' must have a printable text, not 'a\\nb'"),
    ("[groups]", "[groups", "not a readable TOML file"),
    ("[groups]", "x = " + 2000 * "[" + "\n[groups]", "not a readable TOML file"),
]
TABLES = [  # what somebody wrote for a restriction
    ('{ from = "a", function = "d", symbols = ["1"] }', "'symbols' must have a whole number, not '1'"),
    ('{ from = "a", function = "d" }', "the entry 'symbols' is missing"),
    ('{ to = "a" }', "unknown key 'to'; choose from from, function, symbols"),
    ('"a"', "the entry 'restrictions' must have an object, not 'a'"),
]


def test_a_mistake_in_the_file_is_named_in_one_line(tmp_path: Path) -> None:
    tables = [("[train]\n", f"[train]\nrestrictions = [{table}]\n", text) for table, text in TABLES]
    for line, instead, text in [*MISTAKES, *tables]:
        assert line in TOML
        with pytest.raises(ValueError, match=re.escape(text)) as caught:
            generate_from(TOML.replace(line, instead, 1), tmp_path)
        assert len(str(caught.value).splitlines()) == 1


def test_graphs_that_differ_only_by_restrictions_may_be_disjoint() -> None:
    def restricted(**symbols: tuple[int, ...]) -> Graph:
        rules = [rule(IN, function, *allowed) for function, allowed in symbols.items()]
        return Graph.of({IN: "a", "a": "OUT"}, lengths=[1], restrictions=rules)

    train, ood = restricted(f=(0, 1)), restricted(f=(2, 3), g=(), h=())
    spec = VariantSpec(groups={"a": ("f", "g", "h")}, train=train, ood=ood)
    dataset = generate(spec, protocol="text", symbols=4, train=10, iid=0, ood=2)
    assert dataset.task.variant == "own"
    assert {text for text, _ in dataset.texts("ood")} == {"f 2", "f 3"}
    both = replace(spec, ood=restricted(f=(1, 2), g=(), h=()))
    with pytest.raises(ValueError, match="share 1 examples of length 1, for instance 'f 1'"):
        generate(both, symbols=4)


def test_a_file_with_another_number_of_functions_or_none_is_named(tmp_path: Path) -> None:
    assert generate_from(TOML, tmp_path, functions=5).task.n_functions == 5
    with pytest.raises(ValueError, match="functions 6: the groups of mine have 5 together; leave it out"):
        generate_from(TOML, tmp_path, functions=6)
    path = tmp_path / "binary.toml"
    with pytest.raises(ValueError, match=r"binary\.toml does not exist: name a TOML file with a graph"):
        read_spec(path, 6)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"binary\.toml: not a readable TOML file"):
        read_spec(path, 6)


def test_names_that_cannot_be_written_are_refused() -> None:
    graph, ood = (Graph.of({IN: "a", "a": "a OUT"}, lengths=[n]) for n in (1, 2))
    for name in ("", "x y", 'x"y', "\n", "3"):
        for kind, groups in (("group", {name: ("f",), "a": ("g",)}), ("function", {"a": (name, "g")})):
            with pytest.raises(ValueError, match=f"cannot name a {kind}: use letters and digits, but not IN"):
                generate(VariantSpec(groups=groups, train=graph, ood=ood), **SMALL)
