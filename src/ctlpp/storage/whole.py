"""Writing a file or a folder: whole or not at all.

Both are written beside their place and renamed in the end; what stood there goes only once the new one is in place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A kind of folder that we write: only one of the same kind, or an empty one, is ever replaced."""

    noun: str  # "an analysis"
    mark: str  # a file that every folder of the kind has
    hint: str  # ends an error: ": choose {} folder with --out"


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place first, then rename; a full disk leaves an old file as it was and is one line."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}; choose another place or make room") from error
    finally:
        with suppress(OSError):  # such as a parent that is a file: then there is nothing to remove
            part.unlink()


@contextmanager
def write_folder(kind: Kind, folder: Path, *, force: bool) -> Iterator[Path]:
    """A folder beside `folder` that takes its place in the end; removed again if anything fails."""
    import pyarrow as pa

    check_folder(kind, folder, force=force)
    target = Path(os.path.realpath(folder))  # has a name and a parent, as `..` has not
    place = target.with_name(f".{target.name}.{os.getpid()}.part")
    made: list[Path] = []
    try:
        made += [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir()
        yield place
        _put(place, target, force=force)
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
    try:
        folder.rename(old)
        place.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def check_folder(kind: Kind, folder: Path, *, force: bool) -> None:
    """Raise ValueError if the folder must not be written: before the work of which it would hold the result."""
    another = kind.hint.format("another")
    if not os.path.lexists(folder):
        check_above(folder, another)
        return
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link, so it is not replaced{another}")
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file{kind.hint.format('a')}")
    if not _replaceable(kind, folder):
        raise ValueError(f"{folder} is not {kind.noun}, so it is not replaced{another}")
    if _holds_us(folder):
        raise ValueError(f"{folder} is the folder you are in or one above it, so it is not replaced{another}")
    if not force:
        raise ValueError(f"{folder} exists already{another}, or say --force to replace it")


def check_above(path: Path, hint: str) -> None:
    """Raise ValueError if a file stands where a folder above the path must be."""
    nearest = next((parent for parent in path.parents if os.path.lexists(parent)), Path())
    if not nearest.is_dir():
        raise ValueError(f"cannot write {path}: {nearest} is not a folder{hint}")


def _replaceable(kind: Kind, folder: Path) -> bool:
    """A folder of our kind or an empty one."""
    try:
        return (folder / kind.mark).is_file() or not any(folder.iterdir())
    except OSError:
        return False


def _holds_us(folder: Path) -> bool:
    """Whether the current folder would go with this one."""
    try:
        return Path.cwd().is_relative_to(os.path.realpath(folder))
    except OSError:  # the current folder is gone already
        return False
