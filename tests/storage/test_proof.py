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
LEFT, SUMS, COUNTS = "traces left", "sums made right", "sums and counts made right"


def edit(folder: Path, change: Change, traces: str) -> None:
    """Change rows of the folder; `traces` says what the editor does about task.json."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
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


def wrong_output(rows: Rows, _: Task) -> None:
    row = rows["train"][100]
    row["output"] = "1" if row["output"] == "0" else "0"


def row_twice(rows: Rows, _: Task) -> None:
    rows["train"][101] = rows["train"][100]


def moved_to_iid(rows: Rows, _: Task) -> None:
    rows["iid"].append(rows["train"].pop(100))


def copied(source: str, target: str, at: int = 0) -> Change:
    def change(rows: Rows, _: Task) -> None:
        rows[target][at] = rows[source][100 if source == "train" else 0]

    change.__name__ = f"{source} copied to {target}"
    return change


def copied_and_entries_reversed(rows: Rows, task: Task) -> None:
    rows["any"][0] = rows["train"][100]
    task["splits"] = dict(reversed(task["splits"].items()))


def row_removed(rows: Rows, _: Task) -> None:
    rows["train"].pop(100)


def row_added(rows: Rows, _: Task) -> None:
    seen = {row["input"] for name in ("train", "iid") for row in rows[name]}
    unseen = [row for row in rows["pairs"] if row["input"] not in seen]
    first, second = "abcdef", "ghijkl"
    rows["train"].append(
        next(row for row in unseen if row["input"][0] in second and row["input"][2] in first)
    )


def single_moved_to_iid(rows: Rows, task: Task) -> None:
    rows["iid"].append(rows["train"].pop(5))
    task["recipe"]["train"] -= 1
    task["recipe"]["iid"] += 1


def pair_missing(rows: Rows, _: Task) -> None:
    rows["pairs"].pop(7)


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
SHARE = r"share 1 examples, not 0; the first is '\w \w \d'"
EXAMPLE = r"'\w \w \d' -> '\d'"
STRANGE = r"train\.\w+: row 100 is no example of this task: input '\w \w\w? \d', output '\d'"
EMPTY = r"iid\.\w+ has 0 rows|iid\.\w+: the file is damaged|iid has 0 examples, the recipe"
EDITS: list[tuple[Change, list[str]]] = [  # what is said if traces are left, sums are right, counts are right
    (wrong_output, [CHANGED, *2 * [rf"train\.\w+: row 100, {EXAMPLE}, has the wrong output; right is '\d'"]]),
    (row_twice, [CHANGED, *2 * [rf"train\.\w+: row 101, {EXAMPLE}, occurs twice"]]),
    (moved_to_iid, [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (copied("train", "iid"), [CHANGED, *2 * [rf"train and iid {SHARE}"]]),
    (copied("train", "any"), [CHANGED, *2 * [rf"train and any {SHARE}"]]),
    (copied("iid", "any"), [CHANGED, *2 * [rf"iid and any {SHARE}"]]),
    (copied_and_entries_reversed, [CHANGED, *2 * [rf"train and any {SHARE}"]]),
    (copied("ood", "train", 100), [CHANGED, *2 * [rf"row 100, {EXAMPLE}, is not in the graph of train"]]),
    (copied("train", "ood"), [CHANGED, *2 * [rf"ood\.\w+: row 0, {EXAMPLE}, is not in the graph of ood"]]),
    (row_removed, [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (row_added, [*2 * ["has 601 rows"], "train has 601 examples, the recipe in task.json asks for 600"]),
    (single_moved_to_iid, [FEWER, FEWER, "train must hold all 48 examples of length 1, it has 47"]),
    (pair_missing, [*2 * ["has 575 rows"], "pairs must hold all 576 examples of length 2, it has 575"]),
    (unknown_function, [CHANGED, *2 * [STRANGE]]),
    (too_long, [CHANGED, r"for train, its file has \{.*'6': 1\}", "row 100, 'a g a g a g 1' -> "]),
    (split_emptied, 3 * [EMPTY]),
    (label_changed, 3 * [rf"pairs\.\w+: row 7, {EXAMPLE}, has the wrong label `allowed`"]),
    (length_changed, 3 * [STRANGE]),
]


@pytest.mark.parametrize(("change", "texts"), EDITS, ids=[change.__name__ for change, _ in EDITS])
def test_edited_rows_are_caught(copies: Folders, change: Change, texts: list[str]) -> None:
    formats = ("text", "jsonl", "parquet")
    if change in (label_changed, length_changed):  # text files have no such columns
        formats = ("jsonl", "jsonl", "parquet")
    for traces, text, format in zip((LEFT, SUMS, COUNTS), texts, formats, strict=True):
        folder = copies("A", format=format)
        edit(folder, change, traces)
        assert_refused(folder, text)


def test_an_editor_who_changes_nothing_is_not_accused(copies: Folders) -> None:
    for traces, format in ((LEFT, "parquet"), (SUMS, "jsonl"), (COUNTS, "text")):
        folder = copies("A", format=format)
        edit(folder, lambda *_: None, traces)
        check(folder)


def released_single(rows: Rows, _: Task) -> None:
    rows["train"].insert(0, rows["singles"][0])


def released_pair_missing(rows: Rows, _: Task) -> None:
    in_iid = {row["input"] for row in rows["iid"]}
    rows["train"].remove(next(row for row in rows["train"] if row["input"] not in in_iid))


def released_from_train(split: str) -> Change:
    def change(rows: Rows, task: Task) -> None:
        rows[split][-1] = rows["train"][-1]
        task["splits"][split]["in_train"] = task["splits"][split].get("in_train", 0) + 1

    return change


def released_overlap_denied(_: Rows, task: Task) -> None:
    del task["splits"]["iid"]["in_train"]


def test_the_released_protocol_allows_its_own_overlap_and_no_other(copies: Folders) -> None:
    edits: list[tuple[Change, str]] = [
        (released_single, "train has 1 single applications, its protocol has none"),
        (released_pair_missing, "train must hold all 288 examples of length 2, it has 287"),
        (released_from_train("iid"), r"train and iid share (\d+) examples, not (?!\1)"),
        (released_from_train("any"), "train and any share 1 examples, not 0"),
        (released_overlap_denied, r"task.json has in_train 0 for iid, its file has \d+"),
    ]
    for change, text in edits:
        folder = copies("A", "released")
        edit(folder, change, COUNTS)
        assert_refused(folder, text)


def test_in_s_a_row_that_a_restriction_excludes_is_caught(copies: Folders) -> None:
    for split in ("unseen_symbols", "singles"):
        folder = copies("S")
        edit(folder, copied(split, "train"), COUNTS)
        assert_refused(folder, r"train\.parquet: row 0, '.*' -> '\d', is not in the graph of train")


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
