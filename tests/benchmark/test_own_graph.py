"""Graphs of one's own, from TOML and from Python: what they mean, and what is said of a mistake."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctlpp import VariantSpec as Plan
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.graph import IN, Graph, Restriction
from ctlpp.benchmark.graph import read_spec as read_plan
from ctlpp.benchmark.variants import Settings, specify

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "graphs").glob("*.toml"))
SMALL: dict[str, Any] = {"symbols": 4, "max_length": 3, "train": 60, "iid": 5, "ood": 10}
FINE = """
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


def test_a_file_that_spells_out_a_equals_a(tmp_path: Path) -> None:
    names = "abcdefgh"
    own = generate_from(FINE.replace("a = 3", "a = 4").replace("b = 2", "b = 4"), tmp_path)
    variant = generate("A", functions=8, **SMALL)
    assert own.task.variant == "mine"
    assert own.task.groups == variant.task.groups == {"a": tuple(names[:4]), "b": tuple(names[4:])}
    assert own.task.functions == variant.task.functions
    assert own.texts("train") == variant.texts("train")
    assert own.texts("ood") == variant.texts("ood")


def test_a_plan_from_python_equals_the_variant_it_copies() -> None:
    plan = replace(specify(Settings(variant="R", symbols=4, functions=8, max_length=3)), name="own")
    own, variant = generate(plan, **SMALL), generate("R", functions=8, **SMALL)
    assert own.task.variant == "own"
    assert own.texts("train") == variant.texts("train")


def test_a_plan_from_python_may_have_restrictions_and_names_of_its_own() -> None:
    groups = {"turn": ("left", "right"), "flip": ("up", "down")}
    rule = Restriction(source="turn", function="up", symbols=(0, 1))
    plan = Plan(
        name="flips",
        groups=groups,
        train=Graph.of({IN: "turn", "turn": "flip", "flip": "turn OUT"}, lengths=[2, 4], restrictions=[rule]),
        ood=Graph.of({IN: "flip", "flip": "turn", "turn": "flip OUT"}, lengths=[2]),
    )
    dataset = generate(plan, symbols=4, train=20, iid=4, ood=10)
    task = dataset.task
    assert task.language("train").count(2) == 4 * 2 * 2 - 2 * 2
    assert sorted(task.functions) == ["down", "left", "right", "up"]
    pairs = [text.split() for text, _ in dataset.texts("train") if len(text.split()) == 3]
    assert all(second in groups["flip"] and first in groups["turn"] for second, first, _ in pairs)
    received = [task.functions[first][int(start)] for second, first, start in pairs if second == "up"]
    assert set(received) <= {0, 1}


def test_lengths_default_to_those_of_a_and_r_and_can_be_given(tmp_path: Path) -> None:
    task = generate_from(FINE, tmp_path).task
    assert (task.train_graph.lengths, task.ood_graph.lengths) == ((1, 2, 3), (2, 3))
    task = generate_from(FINE + "lengths = [5, 2, 2]", tmp_path).task
    assert task.ood_graph.lengths == (2, 5)


def test_the_name_is_that_of_the_file_unless_given(tmp_path: Path) -> None:
    assert generate_from(FINE.replace('name = "mine"', ""), tmp_path).task.variant == "graph"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_worked_examples_make_data(path: Path) -> None:
    dataset = generate(path, train=5000, iid=100, ood=100)
    assert (dataset.size("train"), dataset.size("iid"), dataset.size("ood")) == (5000, 100, 100)
    assert dataset.shared("train", "ood") == 0


def test_there_are_two_worked_examples() -> None:
    assert len(EXAMPLES) >= 2


MISTAKES = [  # a line of FINE, what somebody wrote instead, what is said
    ("b = 2", "", "train graph: edge IN -> b: unknown group 'b'; choose from OUT, a"),
    ("b = 2", "b = 0", "[groups]: b = 0 must be a whole number from 1 to 10000"),
    ("b = 2", "b = true", "[groups]: b = True must be a whole number from 1 to 10000"),
    ("b = 2", 'b = "x y"', "[groups]: b = 'x y' must be a whole number from 1 to 10000"),
    (
        "b = 2",
        "b = 2\nIN = 2",
        "[groups]: 'IN' cannot name a group; use letters and digits, but not IN or OUT",
    ),
    (
        "b = 2",
        'b = 2\n"c d" = 2',
        "[groups]: 'c d' cannot name a group; use letters and digits, but not IN or OUT",
    ),
    ("b = 2", "b = 2\nc = 1", "group c has no edge in either graph; add one or drop the group"),
    ("b = 2", "b = 22", "25 functions: only 24 different bijections of 4 symbols exist"),
    ("a -> b OUT", "a -> b c OUT", "train graph: edge a -> c: unknown group 'c'; choose from OUT, a, b"),
    ("a -> b OUT", "a b OUT", "[train] edges: 'a b OUT' must look like \"a -> b c OUT\""),
    ("a -> b OUT", "a ->", "[train] edges: 'a ->' must look like \"a -> b c OUT\""),
    ("a -> b OUT", "a x -> b", "[train] edges: 'a x -> b' must look like \"a -> b c OUT\""),
    ('"a -> b OUT", "b -> a OUT"', '"a -> b", "b -> a"', "train graph: there is no way from IN to OUT"),
    ('"a -> b OUT", "b -> a OUT"', '"a -> b OUT", "b -> b"', "train graph: group b is a dead end"),
    (
        '"IN -> a b", "a -> b OUT", "b -> a OUT"',
        '"IN -> b", "a -> b OUT", "b -> b OUT"',
        "group a cannot be reached from IN",
    ),
    (
        '["IN -> a b", "a -> a OUT", "b -> b OUT"]',
        '["IN -> a", "a -> OUT", "b -> a"]',
        "OOD graph: group b cannot be",
    ),
    ('["IN -> a b", "a -> a OUT", "b -> b OUT"]', '"IN -> a"', "[ood]: edges and restrictions must be lists"),
    ('["IN -> a b", "a -> a OUT", "b -> b OUT"]', "[1]", '[ood] edges: 1 must look like "a -> b c OUT"'),
    ("a -> a OUT", "a -> b a OUT", "the train and OOD graphs share"),
    ("[ood]", "[test]", "the file: unknown key 'test'; choose from name, groups, train, ood"),
    ("[ood]", "[train2]", "the file: unknown key 'train2'; choose from name, groups, train, ood"),
    (
        "[groups]\na = 3\nb = 2",
        "groups = 3",
        "[groups]: give each group a number of functions, such as a = 16",
    ),
    ("[groups]\na = 3\nb = 2", "[groups]", "[groups]: give each group a number of functions, such as a = 16"),
    ("[groups]\na = 3\nb = 2", "", "the file: groups is missing"),
    ("[ood]\nedges", "[ood]\nlengths = []\nedges", "[ood] lengths: must be a list of whole numbers from 1"),
    (
        "[ood]\nedges",
        "[ood]\nlengths = [2.5]\nedges",
        "[ood] lengths: must be a list of whole numbers from 1",
    ),
    (
        "[ood]\nedges",
        "[ood]\nlengths = [1000000000]\nedges",
        "OOD graph: lengths must be 1 to 128, not [1000000000]",
    ),
    (
        "[ood]\nedges",
        "[ood]\nfill = 2\nedges",
        "[ood]: unknown key 'fill'; choose from edges, lengths, restrictions",
    ),
    ("[ood]\nedges", "[ood]\n#", "[ood]: edges is missing"),
    ("mine", "S", "name: S is a variant of the paper; give your graph a name of its own"),
    ("mine", " ", "name: must be a printable text, not ' '"),
    ("mine", "a\\nb", "name: must be a printable text, not 'a\\nb'"),
    ("[groups]", "[groups", "not a readable TOML file"),
    ("[groups]", "x = " + 2000 * "[" + "\n[groups]", "not a readable TOML file"),
]


@pytest.mark.parametrize(("line", "instead", "text"), MISTAKES, ids=[f"{m[1]!r:.40}" for m in MISTAKES])
def test_a_mistake_in_the_file_is_named_in_one_line(
    line: str, instead: str, text: str, tmp_path: Path
) -> None:
    assert line in FINE
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        generate_from(FINE.replace(line, instead, 1), tmp_path)
    assert len(str(caught.value).splitlines()) == 1


RESTRICTION_MISTAKES = [
    (
        '{ from = "a", function = "z", symbols = [0] }',
        "there is no function 'z'; choose from those of the groups",
    ),
    (
        '{ from = "a", function = "a", symbols = [0] }',
        "there is no edge a -> a; restrict an edge that exists",
    ),
    ('{ from = "a", function = "d", symbols = [4] }', "no symbol has the index 4; use 0 to 3"),
    ('{ from = "a", function = "d", symbols = 1 }', "symbols must be a list of symbol indices, not 1"),
    (
        '{ from = "a", function = "d", symbols = ["1"] }',
        "symbols must be a list of symbol indices, not ['1']",
    ),
    ('{ from = "a", function = "d" }', "[train] restrictions: symbols is missing"),
    ('{ to = "a" }', "[train] restrictions: unknown key 'to'; choose from from, function, symbols"),
    ('"a"', "[train] restrictions: 'a' must be a table with from, function and symbols"),
]


@pytest.mark.parametrize(("rule", "text"), RESTRICTION_MISTAKES)
def test_a_mistake_in_a_restriction_is_named(rule: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        generate_from(FINE.replace("[train]", f"[train]\nrestrictions = [{rule}]"), tmp_path)


def test_restrictions_hold_in_the_data(tmp_path: Path) -> None:
    rule = '{ from = "a", function = "d", symbols = [0, 2] }'
    dataset = generate_from(FINE.replace("[train]", f"[train]\nrestrictions = [{rule}]"), tmp_path)
    allowed = {text for text, _ in dataset.texts("train") + dataset.texts("iid")}
    functions = dataset.task.functions
    received = [
        functions[text.split()[1]][int(text.split()[2])]
        for text in allowed
        if re.fullmatch("d [abc] .", text)
    ]
    assert received
    assert set(received) <= {0, 2}


def test_graphs_that_share_examples_are_refused_with_one_of_them(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"share 36 examples of length 2, for instance '[abc] [abc] \d'; OOD data must"
    ):
        generate_from(FINE.replace("a -> b OUT", "a -> a b OUT"), tmp_path)


def test_graphs_that_differ_only_by_restrictions_may_be_disjoint(tmp_path: Path) -> None:
    text = """
    [groups]
    a = 3
    [train]
    edges = ["IN -> a", "a -> OUT"]
    lengths = [1]
    restrictions = [{ from = "IN", function = "a", symbols = [0, 1] }]
    [ood]
    edges = ["IN -> a", "a -> OUT"]
    lengths = [1]
    restrictions = [%s]
    """
    others = ", ".join(f'{{ from = "IN", function = "{f}", symbols = [] }}' for f in "bc")
    apart = text % ('{ from = "IN", function = "a", symbols = [2, 3] }, ' + others)
    dataset = generate_from(apart, tmp_path, train=10, iid=0, ood=2)
    assert {text for text, _ in dataset.texts("ood")} == {"a 2", "a 3"}
    with pytest.raises(ValueError, match="share 1 examples of length 1, for instance 'a 1'"):
        generate_from(apart.replace("[2, 3]", "[1, 2]"), tmp_path, train=10, iid=0, ood=2)


def test_a_graph_without_an_example_of_its_lengths_is_refused(tmp_path: Path) -> None:
    text = (
        FINE.replace("IN -> a b", "IN -> a", 1)
        .replace("a -> b OUT", "a -> b")
        .replace("b -> a OUT", "b -> a OUT")
    )
    with pytest.raises(ValueError, match=r"train graph: it has no example of any of the lengths \[1, 3\]"):
        generate_from(text.replace("[train]", "[train]\nlengths = [1, 3]"), tmp_path)


def test_the_number_of_functions_is_that_of_the_file(tmp_path: Path) -> None:
    assert generate_from(FINE, tmp_path, functions=5).task.n_functions == 5
    with pytest.raises(
        ValueError, match="functions 6: the groups of mine have 5 together; leave the option out"
    ):
        generate_from(FINE, tmp_path, functions=6)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"graph\.toml does not exist: name a TOML file with a graph"):
        read_plan(tmp_path / "graph.toml", 6)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "graph.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"graph\.toml: not a readable TOML file"):
        read_plan(path, 6)


@pytest.mark.parametrize("name", ["IN", "", "x y", 'x"y', "\n"])
def test_a_plan_from_python_with_a_bad_name_is_refused(name: str) -> None:
    graph = Graph.of({IN: "a", "a": "a OUT"}, lengths=[1])
    ood = Graph.of({IN: "a", "a": "a OUT"}, lengths=[2])
    with pytest.raises(ValueError, match="cannot name a group"):
        generate(Plan(groups={name: ("f",), "a": ("g",)}, train=graph, ood=ood), **SMALL)
    if name != "IN":
        with pytest.raises(ValueError, match="cannot name a function"):
            generate(Plan(groups={"a": (name, "g")}, train=graph, ood=ood), **SMALL)


def test_a_function_cannot_have_the_name_of_a_symbol() -> None:
    graph, ood = (Graph.of({IN: "a", "a": "a OUT"}, lengths=[n]) for n in (1, 2))
    with pytest.raises(
        ValueError, match="'3' cannot name a function; use letters and digits, beginning with a letter"
    ):
        generate(Plan(groups={"a": ("3", "g")}, train=graph, ood=ood), **SMALL)
