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
from tests.storage.conftest import Folders, assert_refused, rewrite, small

from ctlpp.storage.folder import load
from ctlpp.storage.proof import check

Task = dict[str, Any]
Change = Callable[[Task], Any]


def test_task_json_has_the_entries_of_the_interface(originals: Folders) -> None:
    content = json.loads((originals("S") / "task.json").read_text(encoding="utf-8"))
    task = small("S").task
    expected: Task = {"format": 1, "variant": "S", "protocol": "text", "seed": 0, "order": "right-to-left"}
    expected |= {"symbols": ["0", "1", "2", "3"], "shared_functions": 4, "shared_symbols": 2}
    expected["functions"] = {name: list(table) for name, table in task.functions.items()}
    expected["groups"] = {group: list(names) for group, names in task.groups.items()}
    assert {key: content[key] for key in expected} == expected
    assert ["IN", "a1"] in content["train_graph"]["edges"]
    assert set(content["train_graph"]["restrictions"][0]) == {"from", "function", "symbols"}
    assert ["a1", "b2"] in content["ood_graph"]["edges"]
    train = content["splits"]["train"]
    assert train["examples"] == 600 == sum(train["by_length"].values())
    assert len(train["sha256"]) == 64


def test_protocols_are_known_by_their_old_names(copies: Folders) -> None:
    for now, then in (("text", "paper"), ("clean", "released")):
        folder = copies("A", now)
        rewrite(folder, put("protocol", then))
        assert check(folder).dataset.task.protocol == now


def put(*keys: Any) -> Change:
    """`put("splits", "train", "examples", 5)` sets task["splits"]["train"]["examples"] = 5."""
    *path, last, value = keys
    return lambda task: inside(task, path).__setitem__(last, value)


def drop(*keys: Any) -> Change:
    *path, last = keys
    return lambda task: inside(task, path).__delitem__(last)


def swap(one: tuple[Any, ...], other: tuple[Any, ...]) -> Change:
    def change(task: Task) -> None:
        first, second = inside(task, one), inside(task, other)
        put(*one, second)(task)
        put(*other, first)(task)

    return change


def inside(value: Any, path: Any) -> Any:
    for key in path:
        value = value[key]
    return value


FILE = "split 'train' needs the name of a file in the folder, not "
OF_A: list[tuple[Change, str]] = [
    (put("format", 2), "format 2 is not known; this version reads format 1"),
    (put("splits", "train", "examples", 599), "train.parquet has 600 rows, task.json says 599"),
    (put("splits", "train", "by_length", {"2": 600}), "has by_length {'2': 600} for train, its file has"),
    (put("splits", "iid", "sha256", 64 * "0"), "iid.parquet does not have the sha256 in task.json"),
    (put("splits", "iid", "in_train", 3), "task.json has in_train 3 for iid, its file has 0"),
    (put("functions", "a", [0, 0, 1, 2]), "function a is no bijection of 4 symbols: [0, 0, 1, 2]"),
    (lambda task: put("functions", "a", task["functions"]["b"])(task), "two functions have the same table"),
    (swap(("groups", "a", 0), ("groups", "b", 0)), "has the wrong label `allowed`"),
    (drop("groups", "a", 0), "every function must be in exactly one group"),
    (put("symbols", 0, "1"), "'1' is the name of two things; all functions and symbols must differ"),
    (put("symbols", 0, "a b"), "'a b' cannot name a symbol: use letters and digits"),
    (put("symbols", ["0"]), "a task needs at least two symbols and a function"),
    (put("order", "left-to-right"), "is no example of this task"),
    (put("order", "up"), "'up' is not one of right-to-left, left-to-right"),
    (put("protocol", "clean"), "train and iid share 0 examples, not 15"),
    (put("protocol", "draft"), "'draft' is not one of authors, clean, text"),
    (put("variant", "R"), "the train graph must have the edges of variant R; or use another name"),
    (drop("ood_graph", "edges", 2), "the OOD graph must have the edges of variant A"),
    (put("train_graph", "edges", 0, ["IN", "a", "b"]), 'the edge a list must look like "a -> b c OUT"'),
    (put("train_graph", "lengths", [1, 2, 3]), "which is not in its graph"),
    (put("ood_graph", "lengths", [10**12]), "OOD graph: lengths must be 1 to 128"),
    (put("shared_functions", 8), "shared_functions is 8, but group o has 0"),
    (put("recipe", "fill", 0.1), "train and iid use 144 of 288 examples of length 2, above fill 0.1"),
    (put("recipe", "fill", 0), "fill 0 must be a share above 0 and up to 1"),
    (put("recipe", "iid", 61), "iid has 60 examples, the recipe in task.json asks for 61"),
    (drop("splits", "train"), "task.json lacks the split train"),
    (drop("splits", "iid"), "task.json does not list iid.parquet; remove that file"),
    (lambda task: put("splits", "test", task["splits"].pop("ood"))(task), "has the unknown split 'test'"),
    (put("splits", "iid", "file", "train.parquet"), "train.parquet has 600 rows, task.json says 60"),
    *((put("splits", "train", "file", name), FILE) for name in ("../x/iid.parquet", "/etc/passwd", "..")),
    (put("splits", "train", "file", "task.json"), FILE),
    (put("variant", "a\nb"), "the entry 'variant' must have a printable text, not 'a\\nb'"),
    (put("seed", "0"), "the entry 'seed' must have a whole number, not '0'"),
    (put("groups", "a", {}), "the entry 'a' must have a list, not an object"),
    (put("splits", None), "the entry 'splits' must have an object, not None"),
    (put("functions", "a", [True, 0, 2, 3]), "the entry 'a' must have a whole number, not True"),
    *((drop("splits", "train", key), f"the entry '{key}' is missing") for key in ("file", "sha256")),
    *((drop(key), f"the entry '{key}' is missing") for key in ("variant", "functions", "train_graph")),
]


def same_overlaps(task: Task) -> None:
    for rule in task["train_graph"]["restrictions"]:
        rule["symbols"] = [0, 1, 2] if rule["from"] == "a1" else [0, 1, 3]


RULE = ("train_graph", "restrictions", 0, "symbols")
OF_S: list[tuple[Change, str]] = [
    (put(*RULE, [0, 1, 2, 3]), "the restrictions of a must share 2 symbols and have all 4 together"),
    (swap(RULE, ("train_graph", "restrictions", 1, "symbols")), "has the wrong label `allowed`"),
    (same_overlaps, "the symbols that shared functions receive from both paths must be all together"),
    (drop("train_graph", "restrictions", 0), "variants restrict each shared function once after a1 and"),
    (put("shared_functions", 5), "shared_functions is 5, but group o has 4"),
    (put("shared_symbols", 3), "the restrictions of a must share 3 symbols and have all 4 together"),
]


def test_an_edited_task_is_refused_in_one_line(copies: Folders) -> None:
    for variant, edits in (("A", OF_A), ("S", OF_S)):
        folder = copies(variant)
        before = (folder / "task.json").read_text(encoding="utf-8")
        for change, text in edits:
            rewrite(folder, change)
            assert_refused(folder, re.escape(text))
            (folder / "task.json").write_text(before, encoding="utf-8")


def test_a_task_json_vouches_for_its_own_content(copies: Folders) -> None:
    folder = copies("A", format="text")
    content = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    for change in (put("seed", 1), swap(("groups", "a", 0), ("groups", "b", 0)), put("recipe", {})):
        edited = deepcopy(content)
        change(edited)
        (folder / "task.json").write_text(json.dumps(edited), encoding="utf-8")
        with pytest.raises(ValueError, match=r"task\.json: the content does not have its own sha256"):
            load(folder)
    (folder / "task.json").write_text(json.dumps(content, indent=3, sort_keys=True), encoding="utf-8")
    load(folder)  # another layout says the same


def test_nobody_trains_on_the_targets_of_another_table(copies: Folders) -> None:
    folder = copies("A")
    rewrite(folder, swap(("functions", "a"), ("functions", "b")))
    with pytest.raises(ValueError, match=r"train\.parquet: row \d+, .* has the wrong output"):
        load(folder)


def test_a_task_json_that_is_none_is_refused(copies: Folders) -> None:
    folder = copies("A")
    start = b'{"format": 1, "protocol": "text", "functions": {}, "groups": {}, "variant": '
    nested = 900 * b"[" + 900 * b"]"
    said = {b"": "not valid JSON", b"[1, 2]": "format None is not known", 100_000 * b"[": "not valid JSON"}
    said |= {start + nested + b"}": "the entry 'variant' must have a printable text, not a list"}
    said |= {start + 5000 * b"9" + b"}": "not valid JSON", b"\xff\xfe": "it has no readable task.json"}
    for text, line in said.items():
        (folder / "task.json").write_bytes(text)
        assert_refused(folder, re.escape(line))


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [place for key, item in inner for place in paths_in(item, (*path, key))]
    return [path, *below] if path else below


words = st.sampled_from(["a", "IN", "OUT", "S", "clean", "train.parquet", "..", 10**400, 2**63])
leaves = st.none() | st.booleans() | st.integers() | st.integers(0, 9) | st.floats() | st.text(max_size=4)
keys = st.sampled_from(["a", "1", "file"])
junk = st.recursive(
    leaves | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80)
@given(st.data(), st.sampled_from(["A", "S"]), junk, st.sampled_from(["put", "drop", "add"]))
def test_junk_in_task_json_is_refused_in_one_line_or_does_no_harm(
    originals: Folders, data: st.DataObject, variant: str, value: Any, action: str
) -> None:
    original = originals(variant)
    task = json.loads((original / "task.json").read_text(encoding="utf-8"))
    del task["sha256"]
    path = data.draw(st.sampled_from(paths_in(task)))
    if action == "drop":
        drop(*path)(task)
    elif action == "put":
        put(*path, value)(task)
    else:
        put(*path[:-1], "a" if isinstance(path[-1], str) else path[-1], value)(task)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(original, Path(name) / "data"))
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        try:
            check(folder)
        except ValueError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
