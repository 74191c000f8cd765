"""A dataset folder: what is in it, that what is read is what was written, and files that are damaged."""

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.storage.conftest import Folders, small

from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.graph import IN, Graph, VariantSpec, function_names
from ctlpp.benchmark.variants import PROTOCOLS, VARIANTS
from ctlpp.storage.card import dataset_card
from ctlpp.storage.folder import SCHEMA, load, parse, to_table
from ctlpp.storage.proof import check

FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}
each_format = pytest.mark.parametrize("format", FORMATS)
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def entries_of(folder: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads((folder / "task.json").read_text(encoding="utf-8"))["splits"])


@each_variant
@pytest.mark.parametrize(("protocol", "format"), [*zip(PROTOCOLS, FORMATS, strict=True)])
def test_a_folder_is_proved_and_loaded_as_it_was_saved(
    originals: Folders, variant: str, format: str, protocol: str
) -> None:
    folder, dataset = originals(variant, protocol, format=format), small(variant, protocol)
    loaded, proof, entries = load(folder), check(folder), entries_of(folder)
    assert (loaded.task, loaded.settings) == (dataset.task, dataset.settings)
    assert list(loaded.splits) == list(dataset.splits)
    assert all(loaded.texts(split) == dataset.texts(split) for split in dataset.splits)
    assert proof.examples == {name: entry["examples"] for name, entry in entries.items()}
    admitted = {("train", name): entry["in_train"] for name, entry in entries.items() if "in_train" in entry}
    assert {pair: n for pair, n in proof.overlaps.items() if n} == admitted
    assert list(admitted) == [("train", "iid")] * (PROTOCOLS[protocol].complete - 1)
    files = {"task.json", "README.md", *(split + FORMATS[format] for split in dataset.splits)}
    assert {path.name for path in folder.iterdir()} == files


def test_the_sums_are_those_of_the_text_file_in_every_format_and_a_folder_can_be_saved_again(
    originals: Folders, tmp_path: Path
) -> None:
    text = originals("S", format="text")
    sums = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in text.glob("*.txt")}
    for format in FORMATS:
        original, again = originals("S", format=format), tmp_path / format
        assert {split: entry["sha256"] for split, entry in entries_of(original).items()} == sums
        load(original).save(again, format=format)
        for path in original.iterdir():
            assert path.read_bytes() == (again / path.name).read_bytes()


def test_a_strange_name_many_functions_and_long_examples_survive(tmp_path: Path) -> None:
    train, ood = (Graph.of({IN: "a", "a": "a OUT"}, lengths=lengths) for lengths in ([2, 9], [30]))
    groups = {"a": function_names(260)}
    spec = VariantSpec(groups=groups, train=train, ood=ood, name="Grüße: |x| #1")
    dataset = generate(spec, symbols=6, protocol="clean", train=2000, iid=20, ood=20)
    dataset.save(tmp_path / "data")
    proved = check(tmp_path / "data").dataset
    assert proved.task.variant == "Grüße: |x| #1"
    assert proved.texts("ood") == dataset.texts("ood")


def test_what_is_no_dataset_folder_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format csv: choose from parquet, jsonl, text"):
        small("R").save(tmp_path / "data", format="csv")
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    said = {
        "missing": "missing does not exist; name a dataset folder, as `ctlpp generate` writes it",
        "empty": "empty is no dataset folder: it has no readable task.json",
        "file": "file is a file; name the dataset folder, which has a task.json",
    }
    for name, line in said.items():
        with pytest.raises(ValueError, match=line):
            load(tmp_path / name)


def test_a_row_that_is_no_example_of_the_task_is_shown() -> None:
    right = to_table(small("A"), "pairs").to_pylist()[0]
    inputs = ["a zz 1", "a b 9", "a b", "1 2", "a 1 b", "a b <end>", "1", "", "a  1", "a b 1 "]
    wrong: list[dict[str, Any]] = [{"input": text} for text in inputs]
    for row in [*wrong, {"output": "9"}, {"output": "a"}, {"length": 3}]:
        table = pa.Table.from_pylist([right, right, right | row, right], schema=SCHEMA)
        shown = f"here: row 2, {(right | row)['input']!r} -> '.', is no example of this task"
        with pytest.raises(ValueError, match=f"^{shown}"):
            parse(small("A").task, table, Path("here"))
    assert parse(small("A").task, SCHEMA.empty_table(), Path("here")) == {}


@each_format
def test_a_damaged_file_is_named(copies: Folders, format: str) -> None:
    for damage in ("truncated", "emptied", "noise", "removed", "a folder"):
        folder = copies("A", format=format)
        (path,) = folder.glob("train.*")
        half = path.read_bytes()[: path.stat().st_size // 2]
        path.unlink()
        if damage == "a folder":
            path.mkdir()
        elif damage != "removed":
            path.write_bytes({"truncated": half, "emptied": b"", "noise": bytes(range(256))}[damage])
        line = r"^.*train\.\w+(: the file is (damaged|missing)| has \d+ rows)[^\n]*$"
        with pytest.raises(ValueError, match=line):
            load(folder)


@each_format
def test_changed_bytes_are_refused_in_one_line_or_change_no_row(copies: Folders, format: str) -> None:
    folder = copies("A", format=format)
    (path,) = folder.glob("ood.*")
    content, random = path.read_bytes(), Random(0)
    for _ in range(25):
        edited = bytearray(content)
        for _ in range(random.choice([1, 2, 8])):
            edited[random.randrange(len(edited))] = random.randrange(256)
        path.write_bytes(edited[: random.choice([None, None, random.randrange(len(edited))])])
        try:
            check(folder)
        except ValueError as error:
            assert str(folder) in str(error)  # noqa: PT017
            assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_a_text_file_with_other_bytes_is_caught_even_if_the_rows_are_the_same(copies: Folders) -> None:
    folder = copies("A", format="text")
    content = (folder / "train.txt").read_bytes()
    with_byte_order_mark, wrong_output = b"\xef\xbb\xbf" + content, content.replace(b"\t0\n", b"\t1\n", 1)
    for edited in (content + b"\n", content.replace(b"\n", b"\r\n"), with_byte_order_mark, wrong_output):
        (folder / "train.txt").write_bytes(edited)
        with pytest.raises(ValueError, match=r"train\.txt does not have the sha256 in task\.json"):
            load(folder)


@each_format
def test_hugging_faces_library_reads_the_folder(
    originals: Folders, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    library = pytest.importorskip("datasets")
    library.disable_progress_bars()
    loaded = library.load_dataset(str(originals("S", format=format)), cache_dir=str(tmp_path))
    assert list(loaded) == list(small("S").splits)
    for name, split in loaded.items():
        if format == "text":
            assert split["text"][:] == ["\t".join(pair) for pair in small("S").texts(name)]
            continue
        assert split.column_names == ["input", "output", "length", "allowed"]
        assert list(zip(split["input"], split["output"], strict=True)) == small("S").texts(name)
        assert split["length"][:] == [len(text.split()) - 1 for text in split["input"]]
        assert split.features["allowed"].dtype == "bool"
    assert format == "text" or not any(loaded["ood"]["allowed"])


def test_the_card_says_what_is_in_the_folder(originals: Folders) -> None:
    folder = originals("S", "clean")
    header, _, body = (folder / "README.md").read_text(encoding="utf-8").partition("\n---\n")
    assert '- split: unseen_symbols\n    path: "unseen_symbols.parquet"' in header
    assert "- 1K<n<10K" in header
    assert f"| `iid` | 60 | {entries_of(folder)['iid']['in_train']} | 2, 4 |" in body
    assert "IN → a1, b1; a1 → a2, o; b1 → b2, o" in body
    largest = {"examples": 10**9, "by_length": {"2": 10**9}, "file": "train.parquet"}
    assert "- 1B<n<10B" in dataset_card(load(folder).task, {}, {"train": largest})
