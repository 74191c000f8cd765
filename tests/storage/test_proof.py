"""Ways to edit the files of a dataset folder. Each is caught, also when the editor covers up the traces."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.storage.conftest import Folders, assert_refused

from ctlpp.storage.folder import SCHEMA, digest, read_rows, write_rows
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


def put(split: str, at: int, **cells: Any) -> Change:
    return lambda rows, _: rows[split][at].update(cells)


def other_output(rows: Rows, _: Task) -> None:
    row = rows["train"][100]
    row["output"] = "1" if row["output"] == "0" else "0"


def other_label(rows: Rows, _: Task) -> None:
    row = rows["pairs"][7]
    row["allowed"] = not row["allowed"]


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


def pair_added(rows: Rows, _: Task) -> None:
    seen = {row["input"] for name in ("train", "iid") for row in rows[name]}
    first, second = "abcdef", "ghijkl"  # the groups of A
    allowed = (row for row in rows["pairs"] if row["input"][0] in second and row["input"][2] in first)
    rows["train"].append(next(row for row in allowed if row["input"] not in seen))


CHANGED = "does not have the sha256 in task.json: the file was changed"
FEWER = r"train\.\w+ has 599 rows, task.json says 600: the file was changed"
SHARE = r"share 1 examples, not 0; the first is '\w \w \d'"
EXAMPLE = r"'\w \w \d' -> '\d'"
STRANGE = r"train\.\w+: row 100, '\w \w\w? \d' -> '\d', is no example of this task"
EMPTY = r"iid\.\w+ has 0 rows|iid\.\w+: the file is damaged|iid has 0 examples, the recipe"
EDITS: list[tuple[Change, list[str]]] = [  # what is said if traces are left, sums are right, counts are right
    (other_output, [CHANGED, *2 * [rf"row 100, {EXAMPLE}, has the wrong output"]]),
    (copied("train", "train", 101, of=100), [CHANGED, *2 * [r"train has '\w \w \d' twice"]]),
    (moved(100), [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (copied("train", "iid", of=100), [CHANGED, *2 * [rf"train and iid {SHARE}"]]),
    (copied("train", "any", of=100), [CHANGED, *2 * [rf"train and any {SHARE}"]]),
    (copied("iid", "any"), [CHANGED, *2 * [rf"iid and any {SHARE}"]]),
    (copied("ood", "train", 100), [CHANGED, *2 * [r"train has '\w \w \d', which is not in its graph"]]),
    (copied("train", "ood", of=100), [CHANGED, *2 * [r"ood has '\w \w \d', which is not in its graph"]]),
    (removed("train", 100), [FEWER, FEWER, "train has 599 examples, the recipe in task.json asks for 600"]),
    (pair_added, [*2 * ["has 601 rows"], "train has 601 examples, the recipe in task.json asks for 600"]),
    (moved(5, recipe=1), [FEWER, FEWER, "train must hold all 48 examples of length 1, it has 47"]),
    (removed("pairs", 7), [*2 * ["has 575 rows"], "pairs must hold all 576 examples of length 2, it has"]),
    (put("train", 100, input="a zz 1"), [CHANGED, *2 * [STRANGE]]),
    (lambda rows, _: rows["iid"].clear(), 3 * [EMPTY]),
]
LABELS = [  # columns that text files do not have, and the sums do not cover
    (other_label, rf"pairs\.\w+: row 7, {EXAMPLE}, has the wrong label `allowed`"),
    (put("train", 100, length=9), STRANGE),
]


def test_edited_rows_are_caught(copies: Folders) -> None:
    for traces, format in zip((LEFT, SUMS, COUNTS), FORMATS, strict=True):
        folder = copies("A", format=format)
        edit(folder, lambda *_: None, traces)
        check(folder)  # who changes nothing is not accused
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
    folder = copies("S")
    edit(folder, copied("unseen_symbols", "train"), COUNTS)
    assert_refused(folder, r"train has '.*', which is not in its graph")


def test_a_card_must_lead_to_the_files_and_may_say_more(copies: Folders) -> None:
    card = copies("A") / "README.md"
    text = card.read_text(encoding="utf-8")
    card.write_text(text + "\n- split: mine\n  path: x\n", encoding="utf-8")
    check(card.parent)
    card.write_text(text.replace('"ood.parquet"', '"iid.parquet"'), encoding="utf-8")
    assert_refused(card.parent, r"the header of README\.md does not name the files of task\.json")
    card.unlink()
    assert_refused(card.parent, r"the header of README\.md does not name the files of task\.json")
