"""A dataset folder: what is in it, that what is read is what was written, and files that are damaged."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.conftest import Folders, Small

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.variants import ORDERS, PROTOCOLS, VARIANTS
from ctlpp.storage import folder as module
from ctlpp.storage.folder import SCHEMA, digest, lines, load, parse, rows, save
from ctlpp.storage.proof import check

FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}
each_format = pytest.mark.parametrize("format", FORMATS)
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def entries_of(folder: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads((folder / "task.json").read_text(encoding="utf-8"))["splits"])


@each_variant
@pytest.mark.parametrize(("protocol", "format"), [*zip(PROTOCOLS, FORMATS, strict=True)])
def test_a_folder_is_proved_and_loaded_as_it_was_saved(
    small: Small, originals: Folders, variant: str, format: str, protocol: str
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
    assert {path.name for path in folder.iterdir()} == {
        *("task.json", "README.md"),
        *(split + FORMATS[format] for split in dataset.splits),
    }


def test_the_sums_are_the_same_in_every_format_and_that_of_the_text_file_itself(originals: Folders) -> None:
    folders = {format: originals("S", format=format) for format in FORMATS}
    for split, entry in entries_of(folders["text"]).items():
        content = (folders["text"] / entry["file"]).read_bytes()
        sums = {entries_of(folder)[split]["sha256"] for folder in folders.values()}
        assert sums == {hashlib.sha256(content).hexdigest()}


def test_a_loaded_folder_can_be_saved_again_as_the_same_folder(originals: Folders, tmp_path: Path) -> None:
    for format in FORMATS:
        original, again = originals("S", format=format), tmp_path / format
        load(original).save(again, format=format)
        for path in original.iterdir():
            assert path.read_bytes() == (again / path.name).read_bytes()


def test_rows_of_text_files_can_be_read_by_anyone(originals: Folders, small: Small) -> None:
    texts = small("R").texts("ood")
    text = (originals("R", format="text") / "ood.txt").read_text(encoding="utf-8")
    assert [tuple(line.split("\t")) for line in text.splitlines()] == texts
    found = (originals("R", format="jsonl") / "ood.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(row["input"], row["output"]) for row in map(json.loads, found)] == texts
    assert all(row["length"] == len(row["input"].split()) - 1 for row in map(json.loads, found))
    assert {row["allowed"] for row in map(json.loads, found)} == {False}


def test_a_dataset_with_many_functions_and_long_examples_survives(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"symbols": 6, "functions": 270, "max_length": 9, "ood_max_length": 30}
    dataset = generate("CTL", train=2000, iid=20, ood=20, **sizes)
    dataset.save(tmp_path / "data")
    check(tmp_path / "data")
    loaded = load(tmp_path / "data")
    assert loaded.texts("ood") == dataset.texts("ood")
    assert loaded.task.vocabulary.size == 277


def test_a_graph_with_a_strange_name_survives(tmp_path: Path) -> None:
    path = tmp_path / "graph.toml"
    path.write_text(
        'name = "Grüße: |x| #1"\n[groups]\na = 3\n[train]\nedges = ["IN -> a", "a -> OUT"]\nlengths = [1]\n'
        '[ood]\nedges = ["IN -> a", "a -> a OUT"]\n',
        encoding="utf-8",
    )
    generate(path, protocol="text", symbols=3, train=9, iid=0, ood=5, max_length=2).save(tmp_path / "data")
    assert check(tmp_path / "data").dataset.task.variant == "Grüße: |x| #1"


def test_what_is_no_dataset_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    said = {
        "missing": "missing does not exist; name a dataset folder, as `ctlpp generate` writes it",
        "empty": "empty is no dataset folder: it has no readable task.json",
        "file": "file is a file; name the dataset folder, which has a task.json",
    }
    for name, line in said.items():
        for read in (load, check):
            with pytest.raises(ValueError, match=line):
                read(tmp_path / name)


def test_an_unknown_format_is_named(small: Small, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format csv: choose from parquet, jsonl, text"):
        save(small("R"), tmp_path / "data", format="csv")
    assert not list(tmp_path.iterdir())


def table_of(dataset: Dataset, split: str) -> pa.Table:
    return pa.Table.from_batches(list(rows(dataset.task, dataset[split])), schema=SCHEMA)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_written_as_text_is_read_back(small: Small, order: str) -> None:
    dataset = small("S", order=order)
    for split, parts in dataset.splits.items():
        table = table_of(dataset, split)
        assert table["length"].to_pylist() == sorted(table["length"].to_pylist()), "short examples first"
        parsed = parse(dataset.task, table, Path(split))
        assert list(parsed) == list(parts)
        for length, examples in parts.items():
            assert (parsed[length].keys() == examples.keys()).all()


def test_the_sum_is_that_of_the_lines_and_does_not_depend_on_batches(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = small("R")
    text = "".join(f"{question}\t{answer}\n" for question, answer in dataset.texts("train"))
    for at_once in (module.ROWS_AT_ONCE, 1, 7, 100):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
        assert digest(rows(dataset.task, dataset["train"])) == hashlib.sha256(text.encode()).hexdigest()


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(st.tuples(cells, cells), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_lines_are_input_tab_output_newline_also_of_a_slice(
    pairs: list[tuple[str, str]], start: int, length: int
) -> None:
    columns = {
        name: pa.array([pair[i] for pair in pairs], pa.string()) for i, name in enumerate(("input", "output"))
    }
    batch = pa.RecordBatch.from_pydict(columns).slice(min(start, len(pairs)), length)
    expected = "".join(f"{question}\t{answer}\n" for question, answer in pairs[start : start + length])
    assert lines(batch) == expected.encode()


def test_a_row_that_is_no_example_of_the_task_is_shown(small: Small) -> None:
    right = table_of(small("A"), "pairs").to_pylist()[0]
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
    for damage in ("truncated", "emptied", "removed", "a folder", "noise"):
        folder = copies("A", format=format)
        (path,) = folder.glob("train.*")
        content = path.read_bytes()
        path.unlink()
        if damage == "a folder":
            path.mkdir()
        elif damage != "removed":
            kept = {"truncated": content[: len(content) // 2], "emptied": b"", "noise": bytes(range(256))}
            path.write_bytes(kept[damage])
        for read in (check, load):
            with pytest.raises(
                ValueError, match=r"train\.\w+(: the file is (damaged|missing)| has \d+ rows)"
            ) as caught:
                read(folder)
            assert len(str(caught.value).splitlines()) == 1


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
        for read in (load, check):
            with pytest.raises(ValueError, match=r"train\.txt does not have the sha256 in task\.json"):
                read(folder)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Hugging Face's own library, offline and with its own cache."""
    patch = pytest.MonkeyPatch()
    cache = tmp_path_factory.mktemp("hub")
    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setenv("HF_DATASETS_OFFLINE", "1")
    patch.setenv("HF_HOME", str(cache))
    patch.setenv("HF_DATASETS_CACHE", str(cache / "datasets"))
    library = pytest.importorskip("datasets")
    library.disable_progress_bars()
    yield lambda folder: library.load_dataset(str(folder), cache_dir=str(cache))
    patch.undo()


@each_format
def test_the_folder_is_a_dataset_of_the_hub(hub: Any, originals: Folders, small: Small, format: str) -> None:
    loaded, dataset = hub(originals("S", format=format)), small("S")
    assert list(loaded) == list(dataset.splits)
    for split in dataset.splits:
        if format == "text":
            assert loaded[split]["text"][:] == ["\t".join(pair) for pair in dataset.texts(split)]
            continue
        assert loaded[split].column_names == ["input", "output", "length", "allowed"]
        pairs = zip(loaded[split]["input"], loaded[split]["output"], strict=True)
        assert list(pairs) == dataset.texts(split)
        expected = [length for length, examples in dataset[split].items() for _ in range(len(examples))]
        assert loaded[split]["length"][:] == expected
        assert loaded[split].features["allowed"].dtype == "bool"


def test_the_card_says_what_is_in_the_folder(originals: Folders) -> None:
    folder = originals("S", "clean")
    header, body = (
        (folder / "README.md").read_text(encoding="utf-8").removeprefix("---\n").split("\n---\n", 1)
    )
    assert '- split: unseen_symbols\n    path: "unseen_symbols.parquet"' in header
    assert "- 1K<n<10K" in header
    assert f"| `iid` | 60 | {entries_of(folder)['iid']['in_train']} | 2, 4 |" in body
    assert "IN → a1, b1; a1 → a2, o; b1 → b2, o" in body
