"""A dataset folder: what is in it, and that what is read is what was written."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.task import Vocabulary
from ctlpp.storage.folder import load
from ctlpp.storage.proof import check

FORMATS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}
VARIANTS = ("CTL", "A", "R", "S")
each_format = pytest.mark.parametrize("format", FORMATS)
each_variant = pytest.mark.parametrize("variant", VARIANTS)
Folders = Callable[..., Path]


def everything_below(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, hidden ones included."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


@each_variant
@each_format
@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_a_folder_is_loaded_as_it_was_saved(
    small: Callable[..., Dataset], originals: Folders, variant: str, format: str, protocol: str
) -> None:
    dataset, loaded = small(variant, protocol), load(originals(variant, protocol, format=format))
    assert loaded.task == dataset.task
    assert loaded.recipe == dataset.recipe
    assert list(loaded.splits) == list(dataset.splits)
    for split in dataset.splits:
        assert loaded.texts(split) == dataset.texts(split)


@each_variant
def test_the_sums_are_the_same_in_every_format_and_that_of_the_text_file_itself(
    originals: Folders, variant: str
) -> None:
    entries = {
        f: json.loads((originals(variant, format=f) / "task.json").read_text())["splits"] for f in FORMATS
    }
    for split, entry in entries["text"].items():
        file = originals(variant, format="text") / entry["file"]
        assert {entries[f][split]["sha256"] for f in FORMATS} == {
            hashlib.sha256(file.read_bytes()).hexdigest()
        }


@each_format
def test_a_loaded_folder_can_be_saved_again_as_the_same_folder(
    originals: Folders, format: str, tmp_path: Path
) -> None:
    original = originals("S", format=format)
    load(original).save(tmp_path / "again", format=format)
    assert everything_below(tmp_path / "again") == everything_below(original)


@each_variant
@each_format
@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_an_untouched_folder_is_proved(originals: Folders, variant: str, format: str, protocol: str) -> None:
    folder = originals(variant, protocol, format=format)
    proof = check(folder)
    content = json.loads((folder / "task.json").read_text())
    assert proof.examples == {name: entry["examples"] for name, entry in content["splits"].items()}
    overlaps = {pair: n for pair, n in proof.overlaps.items() if n}
    assert overlaps == (
        {("train", "iid"): content["splits"]["iid"]["in_train"]} if protocol == "released" else {}
    )


def test_the_folder_has_one_file_a_split_the_task_and_a_card(originals: Folders) -> None:
    for format, ending in FORMATS.items():
        names = {path.name for path in originals("A", format=format).iterdir()}
        splits = ("train", "iid", "ood", "singles", "pairs", "any")
        assert names == {"task.json", "README.md", *(split + ending for split in splits)}


def test_task_json_has_the_entries_of_the_interface(
    small: Callable[..., Dataset], originals: Folders
) -> None:
    content = json.loads((originals("S") / "task.json").read_text(encoding="utf-8"))
    task = small("S").task
    assert content["format"] == 1
    assert (content["variant"], content["protocol"], content["seed"], content["order"]) == (
        "S",
        "paper",
        0,
        "right-to-left",
    )
    assert content["symbols"] == ["0", "1", "2", "3"]
    assert content["functions"] == {name: list(table) for name, table in task.functions.items()}
    assert content["groups"] == {group: list(names) for group, names in task.groups.items()}
    assert ["IN", "a1"] in content["train_graph"]["edges"]
    assert set(content["train_graph"]["restrictions"][0]) == {"from", "function", "symbols"}
    assert ["a1", "b2"] in content["ood_graph"]["edges"]
    assert (content["shared_functions"], content["shared_symbols"]) == (4, 2)
    train = content["splits"]["train"]
    assert train["examples"] == 600 == sum(train["by_length"].values())
    assert len(train["sha256"]) == 64


def test_only_the_released_protocol_admits_an_overlap(
    small: Callable[..., Dataset], originals: Folders
) -> None:
    for protocol in ("paper", "released"):
        entries = json.loads((originals("A", protocol) / "task.json").read_text())["splits"]
        admitted = {name: entry["in_train"] for name, entry in entries.items() if "in_train" in entry}
        overlap = small("A", protocol).shared("train", "iid")
        assert admitted == ({"iid": overlap} if protocol == "released" else {})
        assert (overlap > 0) == (protocol == "released")


@each_format
def test_rows_of_text_files_can_be_read_by_anyone(
    originals: Folders, small: Callable[..., Dataset], format: str
) -> None:
    if format == "parquet":
        return
    texts = small("R").texts("ood")
    lines = (originals("R", format=format) / f"ood{FORMATS[format]}").read_text(encoding="utf-8").splitlines()
    if format == "text":
        assert [tuple(line.split("\t")) for line in lines] == texts
    else:
        rows = [json.loads(line) for line in lines]
        assert [(row["input"], row["output"]) for row in rows] == texts
        assert all(row["length"] == len(row["input"].split()) - 1 for row in rows)
        assert {row["allowed"] for row in rows} == {False}


def test_a_dataset_with_more_than_256_functions_and_long_examples_survives(tmp_path: Path) -> None:
    dataset = generate(
        "CTL", functions=300, max_length=9, train=3000, iid=20, ood=20, symbols=6, ood_max_length=30
    )
    dataset.save(tmp_path / "data")
    check(tmp_path / "data")
    loaded = load(tmp_path / "data")
    assert loaded.texts("ood") == dataset.texts("ood")
    vocabulary: Vocabulary = loaded.task.vocabulary
    assert vocabulary.size == 307


def test_a_graph_with_names_of_its_own_survives(tmp_path: Path) -> None:
    path = tmp_path / "graph.toml"
    path.write_text(
        'name = "Grüße: |x| #1"\n[groups]\na = 3\n[train]\nedges = ["IN -> a", "a -> OUT"]\nlengths = [1]\n'
        '[ood]\nedges = ["IN -> a", "a -> a OUT"]\n',
        encoding="utf-8",
    )
    generate(path, symbols=3, train=9, iid=0, ood=5, max_length=2).save(tmp_path / "data")
    assert check(tmp_path / "data").task.variant == "Grüße: |x| #1"


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("missing", r"data does not exist; name a dataset folder, as `ctlpp generate` writes it"),
        ("empty", r"data is no dataset folder: it has no readable task\.json"),
        ("file", r"data is a file; name the dataset folder, which has a task\.json"),
    ],
)
def test_what_is_no_dataset_folder_is_named(tmp_path: Path, what: str, line: str) -> None:
    folder = tmp_path / "data"
    if what == "empty":
        folder.mkdir()
    elif what == "file":
        folder.write_text("x")
    for read in (load, check):
        with pytest.raises(ValueError, match=line):
            read(folder)
