"""Reading a dataset folder. Its checksums are verified on the way."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from ctlpp.benchmark.dataset import Dataset
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.storage.formats import read_rows
from ctlpp.storage.rows import digest, parse
from ctlpp.storage.task_file import from_json


def load(folder: str | Path) -> Dataset:
    """The dataset in a folder. Raises UserError if a file is missing, damaged or was changed."""
    folder = Path(folder)
    task, recipe, entries = read_task(folder)
    splits = {}
    for name, entry in entries.items():
        table = read_split(folder, entry)
        parsed = parse(task, table, name)
        splits[name] = {length: part.examples for length, part in parsed.items()}
    return Dataset(task=task, recipe=recipe, splits=splits)


def read_task(folder: Path) -> tuple[Task, dict[str, Any], dict[str, dict[str, Any]]]:
    """What `task.json` in the folder says."""
    path = folder / "task.json"
    if folder.is_file():
        raise UserError(f"{folder} is a file; name the dataset folder, which has a task.json")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = "is no dataset folder: it has no readable task.json" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}; name a dataset folder, as `ctlpp generate` writes it") from error
    try:
        return from_json(text)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error


def read_split(folder: Path, entry: dict[str, Any]) -> pa.Table:
    """The rows of a split, if they are those that `task.json` vouches for."""
    path = folder / entry["file"]
    table = read_rows(path)
    if table.num_rows != entry["examples"]:
        raise UserError(
            f"{path} has {table.num_rows} rows, task.json says {entry['examples']}: the file was changed"
        )
    if digest(table.to_batches()) != entry["sha256"] or (
        path.suffix == ".txt" and _sha256(path) != entry["sha256"]
    ):
        raise UserError(f"{path} does not have the sha256 in task.json: the file was changed")
    return table


def _sha256(path: Path) -> str:
    """Of the file itself: a text file is nothing but the lines of its split."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
