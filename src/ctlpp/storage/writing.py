"""Writing a dataset folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ctlpp.benchmark.dataset import Dataset
from ctlpp.benchmark.splits import ENUMERATED
from ctlpp.files import FolderKind, UserError, check_folder, write_folder
from ctlpp.storage.card import dataset_card
from ctlpp.storage.formats import ENDINGS, write_rows
from ctlpp.storage.rows import Digest, rows
from ctlpp.storage.task_file import to_json

DATASET = FolderKind("a dataset folder", mark="task.json")
check_target = partial(check_folder, DATASET)


def save(dataset: Dataset, folder: Path, *, format: str = "parquet", force: bool = False) -> None:
    """Write `task.json`, one file a split and a dataset card."""
    if format not in ENDINGS:
        raise UserError(f"unknown format {format!r}: choose from {', '.join(ENDINGS)}")
    with write_folder(DATASET, folder, force=force) as place:
        entries = {}
        for name, split in dataset.splits.items():
            file, total = name + ENDINGS[format], Digest()
            write_rows(place / file, total.follow(rows(dataset.task, split)), format)
            entries[name] = entry(dataset, name, total.hexdigest()) | {"file": file}
        (place / "task.json").write_text(to_json(dataset.task, dataset.recipe, entries), encoding="utf-8")
        (place / "README.md").write_text(
            dataset_card(dataset.task, dataset.recipe, entries), encoding="utf-8"
        )


def entry(dataset: Dataset, name: str, sha256: str) -> dict[str, Any]:
    """What `task.json` says of a split."""
    by_length = {str(length): len(examples) for length, examples in dataset[name].items()}
    facts: dict[str, Any] = {"examples": dataset.size(name), "by_length": by_length, "sha256": sha256}
    if name not in ("train", *ENUMERATED) and (overlap := dataset.shared("train", name)):
        facts["in_train"] = overlap
    return facts
