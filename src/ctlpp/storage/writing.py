"""Writing a dataset folder: beside its place first, then renamed, so that a folder is whole or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from ctlpp.benchmark.dataset import Dataset
from ctlpp.benchmark.splits import ENUMERATED
from ctlpp.storage.card import dataset_card
from ctlpp.storage.formats import ENDINGS, write_rows
from ctlpp.storage.rows import Digest, rows
from ctlpp.storage.task_file import to_json


def save(dataset: Dataset, folder: Path, *, format: str = "parquet", force: bool = False) -> None:
    """Write `task.json`, one file a split and a dataset card."""
    if format not in ENDINGS:
        raise ValueError(f"unknown format {format!r}: choose from {', '.join(ENDINGS)}")
    with fresh_folder(folder, force=force) as place:
        entries = {}
        for name, split in dataset.splits.items():
            file, total = name + ENDINGS[format], Digest()
            write_rows(place / file, total.follow(rows(dataset.task, split)), format)
            entries[name] = entry(dataset, name, total.hexdigest()) | {"file": file}
        (place / "task.json").write_text(to_json(dataset.task, dataset.recipe, entries), encoding="utf-8")
        (place / "README.md").write_text(dataset_card(dataset.task, dataset.recipe, entries), encoding="utf-8")


def entry(dataset: Dataset, name: str, sha256: str) -> dict[str, Any]:
    """What `task.json` says of a split."""
    by_length = {str(length): len(examples) for length, examples in dataset[name].items()}
    facts: dict[str, Any] = {"examples": dataset.size(name), "by_length": by_length, "sha256": sha256}
    if name not in ("train", *ENUMERATED) and (overlap := dataset.shared("train", name)):
        facts["in_train"] = overlap
    return facts


@contextmanager
def fresh_folder(folder: Path, *, force: bool) -> Iterator[Path]:
    """A folder beside `folder` that takes its place in the end; removed again if anything fails."""
    check_target(folder, force=force)
    place = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    made: list[Path] = []
    try:
        made += [parent for parent in folder.parents if not parent.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir()
        yield place
        _put(place, folder, force=force)
        made.clear()
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"cannot write {folder}: {reason}; choose another folder or make room") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()


def _put(place: Path, folder: Path, *, force: bool) -> None:
    """Rename `place` to `folder`; a folder that stands there goes only once the new one is in place."""
    if not (force and folder.exists()):
        place.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(old)
    try:
        place.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def check_target(folder: Path, *, force: bool) -> None:
    """Raise ValueError if the folder must not be written."""
    if not os.path.lexists(folder):
        return
    if folder.is_file():
        raise ValueError(f"{folder} is a file; choose a folder")
    if not _replaceable(folder):
        raise ValueError(f"{folder} is not a dataset folder, so it is not replaced; choose another folder")
    if not force:
        raise ValueError(f"{folder} exists already; choose another folder, or say --force to replace it")


def _replaceable(folder: Path) -> bool:
    """A dataset folder or an empty one, not a link to it."""
    try:
        plain = folder.is_dir() and not folder.is_symlink()
        return plain and ((folder / "task.json").is_file() or not any(folder.iterdir()))
    except OSError:
        return False
