"""Ways to edit the rows of a dataset folder. Each is caught, also when the editor covers up the traces."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ctlpp.storage.folder import SCHEMA, digest, read_rows, write_rows
from ctlpp.storage.proof import check

Folders = Callable[..., Path]
Rows = dict[str, list[dict[str, Any]]]  # of every split
Task = dict[str, Any]  # the content of task.json
Change = Callable[[Rows, Task], None]
FORMATS = ("parquet", "jsonl", "text")
LEFT, SUMS, COUNTS = "traces left", "sums made right", "sums and counts made right"


def edit(folder: Path, format: str, change: Change, traces: str) -> None:
    """Change rows of the folder; `traces` says what the editor does about task.json."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    rows = {name: read_rows(folder / entry["file"]).to_pylist() for name, entry in task["splits"].items()}
    change(rows, task)
    for name, split in rows.items():
        entry = task["splits"][name]
        table = pa.Table.from_pylist([{"length": 1, "allowed": True} | row for row in split], schema=SCHEMA)
        write_rows(folder / entry["file"], table.to_batches(), format)
        if traces != LEFT:
            entry["sha256"] = digest(table.to_batches())
        if traces == COUNTS:
            lengths = [len(row["input"].split()) - 1 for row in split]
            entry |= {
                "examples": len(split),
                "by_length": {str(n): lengths.count(n) for n in sorted(set(lengths))},
            }
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")


def wrong_output(rows: Rows, _: Task) -> None:
    row = rows["train"][100]
    row["output"] = "1" if row["output"] == "0" else "0"


def row_twice(rows: Rows, _: Task) -> None:
    rows["train"][101] = rows["train"][100]


def moved_to_iid(rows: Rows, _: Task) -> None:
    rows["iid"].append(rows["train"].pop(100))


def copied_to_iid(rows: Rows, _: Task) -> None:
    rows["iid"][0] = rows["train"][100]


def copied_to_any(rows: Rows, _: Task) -> None:
    rows["any"][0] = rows["train"][100]


def iid_copied_to_any(rows: Rows, _: Task) -> None:
    rows["any"][0] = rows["iid"][0]


def copied_to_any_and_entries_reversed(rows: Rows, task: Task) -> None:
    rows["any"][0] = rows["train"][100]
    task["splits"] = dict(reversed(task["splits"].items()))


def ood_in_train(rows: Rows, _: Task) -> None:
    rows["train"][100] = rows["ood"][0]


def train_in_ood(rows: Rows, _: Task) -> None:
    rows["ood"][0] = rows["train"][100]


def row_removed(rows: Rows, _: Task) -> None:
    rows["train"].pop(100)


def row_added(rows: Rows, _: Task) -> None:
    seen = {row["input"] for name in ("train", "iid") for row in rows[name]}
    unseen = [row for row in rows["pairs"] if row["input"] not in seen]
    first, second = "abcdef", "ghijkl"
    rows["train"].append(
        next(row for row in unseen if row["input"][0] in second and row["input"][2] in first)
    )


def single_removed(rows: Rows, task: Task) -> None:
    rows["train"].pop(5)
    task["recipe"]["train"] -= 1


def single_moved_to_iid(rows: Rows, task: Task) -> None:
    rows["iid"].append(rows["train"].pop(5))
    task["recipe"]["train"] -= 1
    task["recipe"]["iid"] += 1


def pair_missing(rows: Rows, _: Task) -> None:
    rows["pairs"].pop(7)


def pair_replaced(rows: Rows, _: Task) -> None:
    rows["pairs"][7] = rows["pairs"][8]


def unknown_function(rows: Rows, _: Task) -> None:
    rows["train"][100]["input"] = "a zz 1"


def too_long(rows: Rows, _: Task) -> None:
    rows["train"][100] |= {"input": "a g a g a g 1", "length": 6}


def split_emptied(rows: Rows, _: Task) -> None:
    rows["iid"].clear()


def label_changed(rows: Rows, _: Task) -> None:
    rows["pairs"][7]["allowed"] = not rows["pairs"][7]["allowed"]


def length_changed(rows: Rows, _: Task) -> None:
    rows["train"][100]["length"] += 1


CHANGED = "does not have the sha256 in task.json: the file was changed"
FEWER = r"train\.\w+ has 599 rows, task.json says 600: the file was changed"
EXAMPLE = r"'\w \w \d' -> '\d'"
EDITS: list[tuple[Change, list[str]]] = [  # what is said if traces are left, sums are right, counts are right
    (wrong_output, [CHANGED, *2 * [rf"train\.\w+: row 100, {EXAMPLE}, has the wrong output; right is '\d'"]]),
    (row_twice, [CHANGED, *2 * [rf"train\.\w+: row 101, {EXAMPLE}, occurs twice"]]),
    (moved_to_iid, [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (copied_to_iid, [CHANGED, *2 * [r"train and iid share 1 examples, not 0; the first is '\w \w \d'"]]),
    (copied_to_any, [CHANGED, *2 * [r"train and any share 1 examples, not 0; the first is '\w \w \d'"]]),
    (iid_copied_to_any, [CHANGED, *2 * [r"iid and any share 1 examples, not 0; the first is '\w \w \d'"]]),
    (copied_to_any_and_entries_reversed, [CHANGED, *2 * ["train and any share 1 examples, not 0"]]),
    (ood_in_train, [CHANGED, *2 * [rf"train\.\w+: row 100, {EXAMPLE}, is not in the graph of train"]]),
    (train_in_ood, [CHANGED, *2 * [rf"ood\.\w+: row 0, {EXAMPLE}, is not in the graph of ood"]]),
    (row_removed, [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (row_added, [*2 * ["has 601 rows"], "train has 601 examples, the recipe in task.json asks for 600"]),
    (single_removed, [FEWER, FEWER, "train must hold all 48 examples of length 1, it has 47"]),
    (single_moved_to_iid, [FEWER, FEWER, "train must hold all 48 examples of length 1, it has 47"]),
    (pair_missing, [*2 * ["has 575 rows"], "pairs must hold all 576 examples of length 2, it has 575"]),
    (pair_replaced, [CHANGED, *2 * [rf"pairs\.\w+: row 8, {EXAMPLE}, occurs twice"]]),
    (
        unknown_function,
        [CHANGED, *2 * [r"train\.\w+: row 100 is no example of this task: input 'a zz 1', output '\d'"]],
    ),
    (
        too_long,
        [CHANGED, r"train has by_length \{.*\}, its file has \{.*'6': 1\}", "row 100, 'a g a g a g 1' -> "],
    ),
    (
        split_emptied,
        [*3 * [r"iid\.\w+ has 0 rows|iid\.\w+: the file is damaged|iid has 0 examples, the recipe"]],
    ),
    (label_changed, [*3 * [rf"pairs\.\w+: row 7, {EXAMPLE}, has the wrong label `allowed`"]]),
    (
        length_changed,
        [*3 * [r"train\.\w+: row 100 is no example of this task: input '\w \w \d', output '\d'"]],
    ),
]
CASES = [
    pytest.param(format, change, traces, text, id=f"{change.__name__}-{format}-{traces}")
    for change, texts in EDITS
    for traces, text in zip((LEFT, SUMS, COUNTS), texts, strict=True)
    for format in FORMATS
    if format != "text" or change not in (label_changed, length_changed)  # text files have no such columns
]


@pytest.mark.parametrize(("format", "change", "traces", "text"), CASES)
def test_edited_rows_are_caught(copies: Folders, format: str, change: Change, traces: str, text: str) -> None:
    folder = copies("A", format=format)
    edit(folder, format, change, traces)
    with pytest.raises(ValueError, match=text) as caught:
        check(folder)
    assert str(caught.value).startswith(str(folder))
    assert len(str(caught.value).splitlines()) == 1


def nothing(rows: Rows, _: Task) -> None:
    assert rows


@pytest.mark.parametrize("traces", [LEFT, SUMS, COUNTS])
@pytest.mark.parametrize("format", FORMATS)
def test_an_editor_who_changes_nothing_is_not_accused(copies: Folders, format: str, traces: str) -> None:
    folder = copies("A", format=format)
    edit(folder, format, nothing, traces)
    check(folder)


def released_single(rows: Rows, _: Task) -> None:
    rows["train"].insert(0, rows["singles"][0])


def released_pair_missing(rows: Rows, _: Task) -> None:
    in_iid = {row["input"] for row in rows["iid"]}
    at = next(i for i, row in enumerate(rows["train"]) if row["input"] not in in_iid)
    rows["train"].pop(at)


def released_iid_from_train(rows: Rows, task: Task) -> None:
    rows["iid"][-1] = rows["train"][-1]
    task["splits"]["iid"]["in_train"] += 1


def released_any_from_train(rows: Rows, task: Task) -> None:
    rows["any"][-1] = rows["train"][-1]
    task["splits"]["any"]["in_train"] = 1


def released_overlap_denied(_: Rows, task: Task) -> None:
    del task["splits"]["iid"]["in_train"]


RELEASED = [
    (released_single, "train has 1 single applications, the released protocol has none"),
    (released_pair_missing, "train must hold all 288 examples of length 2, it has 287"),
    (released_iid_from_train, r"train and iid share (\d+) examples, not (?!\1)"),
    (released_any_from_train, "train and any share 1 examples, not 0"),
    (released_overlap_denied, r"iid has in_train 0, its file has \d+"),
]


@pytest.mark.parametrize(("change", "text"), RELEASED)
def test_the_released_protocol_allows_its_own_overlap_and_no_other(
    copies: Folders, change: Change, text: str
) -> None:
    folder = copies("A", "released")
    edit(folder, "parquet", change, COUNTS)
    with pytest.raises(ValueError, match=text):
        check(folder)


def s_excluded_symbol(rows: Rows, _: Task) -> None:
    rows["train"][0] = next(row for row in rows["unseen_symbols"] if row["length"] == 2)


def s_single(rows: Rows, _: Task) -> None:
    rows["train"][0] = rows["singles"][0]


@pytest.mark.parametrize("change", [s_excluded_symbol, s_single])
def test_in_s_a_row_that_a_restriction_excludes_is_caught(copies: Folders, change: Change) -> None:
    folder = copies("S")
    edit(folder, "parquet", change, COUNTS)
    with pytest.raises(
        ValueError, match=r"train\.parquet: row 0, '.*' -> '\d', is not in the graph of train"
    ):
        check(folder)
