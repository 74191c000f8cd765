"""Ways to edit the files of a dataset folder. Each is caught, also when the editor covers up the traces."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.storage.conftest import Folders, rewrite

from ctlpp.storage.folder import SCHEMA, digest, load, read_rows, write_rows
from ctlpp.storage.proof import check

Rows = dict[str, list[dict[str, Any]]]  # of every split
Task = dict[str, Any]  # the content of task.json
Change = Callable[[Rows, Task], Any]
FORMATS = ("text", "jsonl", "parquet")
LEFT, SUMS, COUNTS = "traces left", "sums made right", "sums and counts made right"


def edit(folder: Path, change: Change, traces: str) -> None:
    """Change rows of the folder; `traces` says what the editor does about task.json."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    del task["sha256"]  # of its own content, as folders of version 0.1
    rows = {name: read_rows(folder / entry["file"]).to_pylist() for name, entry in task["splits"].items()}
    change(rows, task)
    for name, split in rows.items():
        entry = task["splits"][name]
        table = pa.Table.from_pylist([{"length": 1, "allowed": True} | row for row in split], schema=SCHEMA)
        write_rows(folder / entry["file"], table.to_batches())
        if traces != LEFT:
            entry["sha256"] = digest(table.to_batches())
        if traces == COUNTS:
            lengths = [len(row["input"].split()) - 1 for row in split]
            entry["examples"] = len(split)
            entry["by_length"] = {str(n): lengths.count(n) for n in sorted(set(lengths))}
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")


def assert_refused(folder: Path, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        check(folder)
    assert str(caught.value).startswith(str(folder))
    assert len(str(caught.value).splitlines()) == 1


def put(split: str, at: int, **cells: Any) -> Change:
    return lambda rows, _: rows[split][at].update(cells)


def flipped(split: str, at: int, cell: str) -> Change:
    """Another value in a cell: the other label, a length that is larger by one, another symbol."""

    def change(rows: Rows, _: Task) -> None:
        value = rows[split][at][cell]
        others = {True: False, False: True, "0": "1"} if cell != "length" else {value: value + 1}
        rows[split][at][cell] = others.get(value, "0")

    return change


def removed(split: str, at: int) -> Change:
    return lambda rows, _: rows[split].pop(at)


def copied(source: str, target: str, at: int = 0, of: int = 0) -> Change:
    return lambda rows, _: rows[target].__setitem__(at, rows[source][of])


def moved(at: int, *, recipe: int = 0) -> Change:
    """A row from train to iid, with sizes in the recipe that fit if `recipe` is 1."""

    def change(rows: Rows, task: Task) -> None:
        rows["iid"].append(rows["train"].pop(at))
        task["recipe"]["train"] -= recipe
        task["recipe"]["iid"] += recipe

    return change


def copied_and_entries_reversed(rows: Rows, task: Task) -> None:
    rows["any"][0] = rows["train"][100]
    task["splits"] = dict(reversed(task["splits"].items()))


def pair_added(rows: Rows, _: Task) -> None:
    seen = {row["input"] for name in ("train", "iid") for row in rows[name]}
    unseen = [row for row in rows["pairs"] if row["input"] not in seen]
    first, second = "abcdef", "ghijkl"  # the groups of A
    rows["train"].append(
        next(row for row in unseen if row["input"][0] in second and row["input"][2] in first)
    )


CHANGED = "does not have the sha256 in task.json: the file was changed"
FEWER = r"train\.\w+ has 599 rows, task.json says 600: the file was changed"
SHARE = r"share 1 examples, not 0; the first is '\w \w \d'"
EXAMPLE = r"'\w \w \d' -> '\d'"
STRANGE = r"train\.\w+: row 100, '\w \w\w? \d' -> '\d', is no example of this task"
EMPTY = r"iid\.\w+ has 0 rows|iid\.\w+: the file is damaged|iid has 0 examples, the recipe"
EDITS: list[tuple[Change, list[str]]] = [  # what is said if traces are left, sums are right, counts are right
    (flipped("train", 100, "output"), [CHANGED, *2 * [rf"row 100, {EXAMPLE}, has the wrong output"]]),
    (copied("train", "train", 101, of=100), [CHANGED, *2 * [r"train has '\w \w \d' twice"]]),
    (moved(100), [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (copied("train", "iid", of=100), [CHANGED, *2 * [rf"train and iid {SHARE}"]]),
    (copied("train", "any", of=100), [CHANGED, *2 * [rf"train and any {SHARE}"]]),
    (copied("iid", "any"), [CHANGED, *2 * [rf"iid and any {SHARE}"]]),
    (copied_and_entries_reversed, [CHANGED, *2 * [rf"train and any {SHARE}"]]),
    (copied("ood", "train", 100), [CHANGED, *2 * [r"train has '\w \w \d', which is not in its graph"]]),
    (copied("train", "ood", of=100), [CHANGED, *2 * [r"ood has '\w \w \d', which is not in its graph"]]),
    (removed("train", 100), [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (pair_added, [*2 * ["has 601 rows"], "train has 601 examples, the recipe in task.json asks for 600"]),
    (moved(5, recipe=1), [FEWER, FEWER, "train must hold all 48 examples of length 1, it has 47"]),
    (
        removed("pairs", 7),
        [*2 * ["has 575 rows"], "pairs must hold all 576 examples of length 2, it has 575"],
    ),
    (put("train", 100, input="a zz 1"), [CHANGED, *2 * [STRANGE]]),
    (put("train", 100, input="a g a g a g 1", length=6), [CHANGED, *2 * ["row 100, 'a g a g a g 1' -> "]]),
    (lambda rows, _: rows["iid"].clear(), 3 * [EMPTY]),
]
LABELS = [  # columns that text files do not have, and the sums do not cover
    (flipped("pairs", 7, "allowed"), rf"pairs\.\w+: row 7, {EXAMPLE}, has the wrong label `allowed`"),
    (flipped("train", 100, "length"), STRANGE),
]


def test_edited_rows_are_caught(copies: Folders) -> None:
    for change, texts in EDITS:
        for traces, text, format in zip((LEFT, SUMS, COUNTS), texts, FORMATS, strict=True):
            folder = copies("A", format=format)
            edit(folder, change, traces)
            assert_refused(folder, text)
    for change, text in LABELS:
        for format in FORMATS[1:]:
            folder = copies("A", format=format)
            edit(folder, change, LEFT)
            assert_refused(folder, text)


def test_an_editor_who_changes_nothing_is_not_accused(copies: Folders) -> None:
    for traces, format in ((LEFT, "parquet"), (SUMS, "jsonl"), (COUNTS, "text")):
        folder = copies("A", format=format)
        edit(folder, lambda *_: None, traces)
        check(folder)


def single_added(rows: Rows, _: Task) -> None:
    rows["train"].insert(0, rows["singles"][0])


def pair_of_train_missing(rows: Rows, _: Task) -> None:
    in_iid = {row["input"] for row in rows["iid"]}
    rows["train"].remove(next(row for row in rows["train"] if row["input"] not in in_iid))


def copied_and_admitted(split: str) -> Change:
    def change(rows: Rows, task: Task) -> None:
        rows[split][-1] = rows["train"][-1]
        task["splits"][split]["in_train"] = task["splits"][split].get("in_train", 0) + 1

    return change


def test_a_protocol_that_adds_pairs_allows_its_own_overlap_and_no_other(copies: Folders) -> None:
    edits: list[tuple[Change, str]] = [
        (single_added, "train has 1 single applications, its protocol has none"),
        (pair_of_train_missing, "train must hold all 288 examples of length 2, it has 287"),
        (copied_and_admitted("iid"), r"train and iid share (\d+) examples, not (?!\1)"),
        (copied_and_admitted("any"), "train and any share 1 examples, not 0"),
        (lambda _, task: task["splits"]["iid"].pop("in_train"), r"in_train 0 for iid, its file has \d+"),
    ]
    for change, text in edits:
        folder = copies("A", "clean")
        edit(folder, change, COUNTS)
        assert_refused(folder, text)


def test_in_s_a_row_that_a_restriction_excludes_is_caught(copies: Folders) -> None:
    for split in ("unseen_symbols", "singles"):
        folder = copies("S")
        edit(folder, copied(split, "train"), COUNTS)
        assert_refused(folder, r"train has '.*', which is not in its graph")


def test_a_stray_file_is_named(copies: Folders) -> None:
    folder = copies("A")
    shutil.copy(folder / "ood.parquet", folder / "validation.parquet")
    assert_refused(folder, r"task\.json does not list validation\.parquet; remove that file")


def test_a_card_must_lead_to_the_files_and_may_say_more(copies: Folders) -> None:
    card = copies("A") / "README.md"
    text = card.read_text(encoding="utf-8")
    card.write_text(text + "\n- split: mine\n  path: x\n", encoding="utf-8")
    check(card.parent)
    card.write_text(text.replace('"ood.parquet"', '"iid.parquet"'), encoding="utf-8")
    assert_refused(card.parent, r"the header of README\.md does not name the files of task\.json")
    card.unlink()
    assert_refused(card.parent, r"the header of README\.md does not name the files of task\.json")


def test_a_folder_that_was_made_with_a_limit_of_sequences_is_still_proved(copies: Folders) -> None:
    folder = copies("A")
    rewrite(folder, lambda task: task["recipe"].update(distinct_sequences="n/7"))
    check(folder)
    assert load(folder).settings["distinct_sequences"] == "n/7"
