"""A dataset folder whose function sequences are limited: it says so, and `check` counts them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.storage.folder import SCHEMA, digest, load, read_rows, write_rows
from ctlpp.storage.proof import check

SMALL: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4, "train": 600, "iid": 60, "ood": 60}
STAGED: dict[str, Any] = {"shared_functions": 4, "shared_symbols": 2}


def limited(folder: Path, limit: int | str, variant: str = "A", protocol: str = "paper") -> Path:
    options = SMALL | (STAGED if variant == "S" else {})
    generate(variant, protocol=protocol, distinct_sequences=limit, **options).save(folder / "data")
    return folder / "data"


def rewrite(folder: Path, **recipe: object) -> None:
    path = folder / "task.json"
    task = json.loads(path.read_text(encoding="utf-8"))
    task["recipe"] |= recipe
    path.write_text(json.dumps(task), encoding="utf-8")


@pytest.mark.parametrize(("limit", "text"), [(80, "80"), ("n/3", "n/3 (for n examples)")])
def test_the_recipe_and_the_card_name_the_limit(tmp_path: Path, limit: int | str, text: str) -> None:
    folder = limited(tmp_path, limit)
    assert load(folder).recipe["distinct_sequences"] == limit
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"`iid` together have at most\n{text} different ones, each on several start symbols." in card
    assert "Single functions are the exception: `train` has them all." in card


def test_the_card_names_an_exception_only_if_there_is_one(tmp_path: Path) -> None:
    assert "the exception" not in (limited(tmp_path / "paper", "n/2", "S") / "README.md").read_text(
        encoding="utf-8"
    )
    card = (limited(tmp_path / "released", "n/2", "S", "released") / "README.md").read_text(encoding="utf-8")
    assert "Pairs are the exception: `train` has them all." in card


def test_a_dataset_without_a_limit_does_not_speak_of_it(tmp_path: Path) -> None:
    generate("A", **SMALL).save(tmp_path / "data")
    assert "sequences" not in (tmp_path / "data/README.md").read_text(encoding="utf-8")
    assert "sequences" not in (tmp_path / "data/task.json").read_text(encoding="utf-8")
    assert check(tmp_path / "data").sequences == {}


@pytest.mark.parametrize(
    ("variant", "protocol", "limit", "sequences"),
    [
        ("A", "paper", 80, {2: 68, 3: 80, 4: 80}),
        ("A", "released", "n/3", {3: 86, 4: 86}),
        ("S", "paper", "n/2", {2: 20, 4: 310}),
    ],
)
def test_check_counts_the_sequences_of_train_and_iid(
    tmp_path: Path, variant: str, protocol: str, limit: int | str, sequences: dict[int, int]
) -> None:
    assert check(limited(tmp_path, limit, variant, protocol)).sequences == sequences


def test_one_sequence_too_many_is_caught(tmp_path: Path) -> None:
    folder = limited(tmp_path, 80)
    rewrite(folder, distinct_sequences=79)
    line = "train and iid have 80 function sequences of length 3, the recipe in task.json allows 79"
    with pytest.raises(ValueError, match=line):
        check(folder)


def test_a_row_of_another_sequence_is_caught_though_everything_else_is_right(tmp_path: Path) -> None:
    folder = limited(tmp_path, 80)
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    train = read_rows(folder / "train.parquet").to_pylist()
    seen = {row["input"].rpartition(" ")[0] for row in train}
    plain = {text: output for text, output in generate("A", **SMALL).texts("train") if len(text.split()) == 5}
    strange = next(text for text in plain if text.rpartition(" ")[0] not in seen)
    train[-1] |= {"input": strange, "output": plain[strange]}
    table = pa.Table.from_pylist(train, schema=SCHEMA)
    write_rows(folder / "train.parquet", table.to_batches(), "parquet")
    task["splits"]["train"]["sha256"] = digest(table.to_batches())
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"train and iid have 81 function sequences of length 4, .* allows 80"
    ):
        check(folder)


@pytest.mark.parametrize("value", [0, "n/0", None, [], 1.5, "many", True])
def test_a_recipe_with_another_limit_is_refused(tmp_path: Path, value: object) -> None:
    folder = limited(tmp_path, 80)
    rewrite(folder, distinct_sequences=value)
    with pytest.raises(
        ValueError, match=r"task.json: distinct_sequences .*: use a whole number from 1, or n/7"
    ):
        load(folder)
