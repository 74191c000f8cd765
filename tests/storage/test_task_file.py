"""Ways to edit task.json: each is refused in one line, never with a traceback of another kind."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctlpp.storage.folder import load
from ctlpp.storage.proof import check

Folders = Callable[..., Path]
Task = dict[str, Any]


def rewrite(folder: Path, change: Callable[[Task], Any]) -> None:
    path = folder / "task.json"
    task = json.loads(path.read_text(encoding="utf-8"))
    change(task)
    path.write_text(json.dumps(task), encoding="utf-8")


def put(*keys: Any) -> Callable[[Task], Any]:
    """`put("splits", "train", "examples", 5)` sets task["splits"]["train"]["examples"] = 5."""
    *path, last, value = keys

    def change(task: Task) -> None:
        place: Any = task
        for key in path:
            place = place[key]
        place[last] = value

    return change


def drop(*keys: Any) -> Callable[[Task], Any]:
    *path, last = keys

    def change(task: Task) -> None:
        place: Any = task
        for key in path:
            place = place[key]
        del place[last]

    return change


def swap_tables(task: Task) -> None:
    tables = task["functions"]
    tables["a"], tables["b"] = tables["b"], tables["a"]


def same_table(task: Task) -> None:
    task["functions"]["a"] = task["functions"]["b"]


def swap_outputs(task: Task) -> None:
    table = task["functions"]["a"]
    table[0], table[1] = table[1], table[0]


def swap_groups(task: Task) -> None:
    groups = task["groups"]
    groups["a"][0], groups["b"][0] = groups["b"][0], groups["a"][0]


def rename(task: Task) -> None:
    task["splits"]["test"] = task["splits"].pop("ood")


OF_A: dict[str, tuple[Callable[[Task], Any], str]] = {
    "format 2": (put("format", 2), "format 2 is not known; this version reads format 1"),
    "format true": (put("format", True), "format True is not known; this version reads format 1"),
    "no format": (drop("format"), "format None is not known; this version reads format 1"),
    "examples": (put("splits", "train", "examples", 599), "train.parquet has 600 rows, task.json says 599"),
    "by_length": (
        put("splits", "train", "by_length", {"2": 600}),
        "train has by_length {'2': 600}, its file has {'1'",
    ),
    "sha256": (put("splits", "iid", "sha256", 64 * "0"), "iid.parquet does not have the sha256 in task.json"),
    "in_train": (put("splits", "iid", "in_train", 3), "iid has in_train 3, its file has 0"),
    "no bijection": (
        put("functions", "a", [0, 0, 1, 2]),
        "function a is no bijection of the 4 symbols: [0, 0, 1, 2]",
    ),
    "too short a table": (
        put("functions", "a", [0, 1]),
        "function a is no bijection of the 4 symbols: [0, 1]",
    ),
    "two outputs of a function": (swap_outputs, "has the wrong output; right is"),
    "two functions": (swap_tables, "has the wrong output; right is"),
    "a table twice": (same_table, "two functions have the same table; all must differ"),
    "a function's group": (swap_groups, "is not in the graph of train"),
    "a function in no group": (drop("groups", "a", 0), "every function must be in exactly one group"),
    "a function in two groups": (put("groups", "a", 0, "l"), "every function must be in exactly one group"),
    "a symbol's name": (put("symbols", 0, "x"), "is no example of this task"),
    "a symbol twice": (put("symbols", 0, "1"), "'1' is the name of two things; all functions and"),
    "a symbol like a function": (put("symbols", 0, "a"), "'a' is the name of two things; all functions and"),
    "a symbol with a space": (put("symbols", 0, "a b"), "'a b' cannot name a symbol; use letters and digits"),
    "one symbol": (put("symbols", ["0"]), "a task needs at least two symbols and a function"),
    "the order": (put("order", "left-to-right"), "is no example of this task"),
    "an unknown order": (put("order", "up"), "'up' is not one of right-to-left, left-to-right"),
    "the protocol": (put("protocol", "released"), "train and iid share 0 examples, not 15"),
    "an unknown protocol": (put("protocol", "draft"), "'draft' is not one of paper, released"),
    "the variant R": (put("variant", "R"), "the train graph does not have the edges of variant R"),
    "the variant S": (put("variant", "S"), "the train graph does not have the edges of variant S"),
    "an edge more": (
        lambda task: task["train_graph"]["edges"].append(["a", "a"]),
        "the train graph does not have the edges of variant A",
    ),
    "an edge less": (drop("ood_graph", "edges", 2), "the OOD graph does not have the edges of variant A"),
    "an unknown group": (put("train_graph", "edges", 0, ["IN", "c"]), "edge IN -> c: unknown group 'c'"),
    "an edge of three": (put("train_graph", "edges", 0, ["IN", "a", "b"]), "an edge has two ends, not 3"),
    "a length less": (put("train_graph", "lengths", [1, 2, 3]), "is not in the graph of train"),
    "endless lengths": (put("ood_graph", "lengths", [10**12]), "OOD graph: lengths must be 1 to 128"),
    "a restriction": (
        put("train_graph", "restrictions", [{"from": "a", "function": "g", "symbols": [0]}]),
        "variant A restricts each shared function once after a1 and once after b1, no others",
    ),
    "a knob of S": (put("shared_functions", 8), "shared_functions is 8, but there are 0 shared functions"),
    "a smaller share": (
        put("recipe", "fill", 0.1),
        "train and iid use 144 of 288 examples of length 2, above",
    ),
    "an odd share": (put("recipe", "fill", 0), "fill 0 must be a share above 0 and up to 1"),
    "a size": (put("recipe", "iid", 61), "iid has 60 examples, the recipe in task.json asks for 61"),
    "train not listed": (drop("splits", "train"), "the split train is missing"),
    "iid not listed": (drop("splits", "iid"), "iid.parquet: task.json does not list this file; remove it"),
    "a split renamed": (rename, "unknown split 'test'; choose from train, iid, ood, singles, pairs, any"),
    "another folder": (
        put("splits", "train", "file", "../x/iid.parquet"),
        "needs the name of a file in the folder",
    ),
    "an absolute path": (
        put("splits", "train", "file", "/etc/passwd"),
        "needs the name of a file in the folder",
    ),
    "a folder below": (
        put("splits", "train", "file", "x/train.parquet"),
        "needs the name of a file in the folder",
    ),
    "the folder above": (put("splits", "train", "file", ".."), "needs the name of a file in the folder"),
    "no file name": (put("splits", "train", "file", ""), "needs the name of a file in the folder, not ''"),
    "a file of another kind": (
        put("splits", "train", "file", "task.json"),
        "needs the name of a file in the folder",
    ),
    "another split's file": (
        put("splits", "iid", "file", "train.parquet"),
        "iid.parquet: task.json does not list",
    ),
    "a number for a text": (put("variant", 5), "the entry 'variant' must have a printable text, not 5"),
    "a line feed": (put("variant", "a\nb"), "the entry 'variant' must have a printable text, not 'a\\nb'"),
    "a text for a number": (put("seed", "0"), "the entry 'seed' must have a whole number, not '0'"),
    "a fraction": (put("seed", 0.5), "the entry 'seed' must have a whole number, not 0.5"),
    "infinity": (put("seed", float("inf")), "the entry 'seed' must have a whole number, not inf"),
    "a text for a list": (put("symbols", "0123"), "the entry 'symbols' must have a list, not '0123'"),
    "a list for an object": (put("functions", []), "the entry 'functions' must have an object, not a list"),
    "an object for a list": (put("groups", "a", {}), "the entry 'a' must have a list, not an object"),
    "null": (put("splits", None), "the entry 'splits' must have an object, not None"),
    "a truth value": (
        put("functions", "a", [True, 0, 2, 3]),
        "the entry 'a' must have a whole number, not True",
    ),
}


@pytest.mark.parametrize("name", OF_A)
def test_an_edited_task_is_caught(copies: Folders, name: str) -> None:
    change, text = OF_A[name]
    folder = copies("A")
    rewrite(folder, change)
    assert_refused(folder, re.escape(text))


def assert_refused(folder: Path, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        check(folder)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def widen(task: Task) -> None:
    task["train_graph"]["restrictions"][0]["symbols"] = [0, 1, 2, 3]


def exchange(task: Task) -> None:
    one, other = task["train_graph"]["restrictions"][:2]
    one["symbols"], other["symbols"] = other["symbols"], one["symbols"]


def same_overlaps(task: Task) -> None:
    for rule in task["train_graph"]["restrictions"]:
        rule["symbols"] = [0, 1, 2] if rule["from"] == "a1" else [0, 1, 3]


OF_S: dict[str, tuple[Callable[[Task], Any], str]] = {
    "a wider restriction": (widen, "the restrictions of a must share 2 symbols and have all 4 together"),
    "another restriction": (exchange, "is not in the graph of train|wrong label"),
    "overlaps that do not cover": (
        same_overlaps,
        "the symbols that the shared functions receive from both paths must",
    ),
    "no restriction": (
        drop("train_graph", "restrictions"),
        "variant S restricts each shared function once after a1",
    ),
    "one restriction less": (
        drop("train_graph", "restrictions", 0),
        "variant S restricts each shared function once",
    ),
    "shared functions": (
        put("shared_functions", 5),
        "shared_functions is 5, but there are 4 shared functions",
    ),
    "shared symbols": (
        put("shared_symbols", 3),
        "the restrictions of a must share 3 symbols and have all 4 together",
    ),
    "a symbol out of range": (
        put("train_graph", "restrictions", 0, "symbols", [0, 9]),
        "restriction of 'a' after 'a1': no symbol has the index 9; use 0 to 3",
    ),
}


@pytest.mark.parametrize("name", OF_S)
def test_edited_restrictions_are_caught(copies: Folders, name: str) -> None:
    change, text = OF_S[name]
    folder = copies("S")
    rewrite(folder, change)
    assert_refused(folder, text)


KEYS = (
    "variant",
    "protocol",
    "seed",
    "order",
    "symbols",
    "functions",
    "groups",
    "train_graph",
    "ood_graph",
    "splits",
)
MISSING = [
    *((key,) for key in KEYS),
    *(("train_graph", key) for key in ("edges", "lengths")),
    *(("splits", "train", key) for key in ("file", "examples", "by_length", "sha256")),
]


@pytest.mark.parametrize("keys", MISSING, ids=" ".join)
def test_a_missing_entry_is_named(copies: Folders, keys: tuple[str, ...]) -> None:
    folder = copies("A")
    rewrite(folder, drop(*keys))
    assert_refused(folder, f"the entry '{keys[-1]}' is missing")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1, 2]", "format None is not known"),
        (b"null", "format None is not known"),
        (100_000 * b"[", "not valid JSON"),
        (
            b'{"format": 1, "variant": ' + 900 * b"[" + 900 * b"]" + b"}",
            "must have a printable text, not a list",
        ),
        (b'{"format": 1, "seed": ' + 5000 * b"9" + b"}", "not valid JSON"),
        (b"\xff\xfe", "it has no readable task.json"),
    ],
)
def test_a_task_json_that_is_none_is_refused(copies: Folders, text: bytes, said: str) -> None:
    folder = copies("A")
    (folder / "task.json").write_bytes(text)
    assert_refused(folder, said)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        *([path] if path else []),
        *(place for key, item in inner for place in places(item, (*path, key))),
    ]


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 9)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["a", "IN", "OUT", "S", "released", "train.parquet", "..", 10**400, 2**63]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "1", "file"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=120)
@given(
    data=st.data(),
    variant=st.sampled_from(["A", "S"]),
    value=junk,
    action=st.sampled_from(["put", "drop", "add"]),
)
def test_junk_in_task_json_is_refused_in_one_line_or_does_no_harm(
    originals: Folders, data: st.DataObject, variant: str, value: Any, action: str
) -> None:
    original = originals(variant)
    task = deepcopy(json.loads((original / "task.json").read_text(encoding="utf-8")))
    path = data.draw(st.sampled_from(places(task)))
    if action == "drop":
        drop(*path)(task)
    elif action == "put":
        put(*path, value)(task)
    else:
        put(*path[:-1], "a" if isinstance(path[-1], str) else path[-1], value)(task)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(original, Path(name) / "data"))
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        for read in (check, load):
            try:
                read(folder)
            except ValueError as error:
                assert len(str(error).splitlines()) == 1  # noqa: PT017
