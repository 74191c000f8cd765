"""Files and folders that are written completely or not at all, locks, and how a user's mistake is reported.

Example:
    >>> error = UserError("‹max_length› 5 is odd: S has even lengths only; or use ‹resume=True›")
    >>> str(error)  # in Python
    'max_length 5 is odd: S has even lengths only; or use resume=True'
    >>> error.on_command_line()
    '--max-length 5 is odd: S has even lengths only; or use --resume'
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ARGUMENT = re.compile(r"‹(\w+)(=\w+)?›")


class UserError(ValueError):
    """A user's mistake, in one line: what is wrong, and what would be right.

    Arguments are written in ‹marks›: Python shows them as arguments, the command line as options.
    """

    def __str__(self) -> str:
        return _ARGUMENT.sub(r"\1\2", str(self.args[0]))

    def on_command_line(self) -> str:
        """The message with options in place of arguments."""
        return _ARGUMENT.sub(lambda found: "--" + found[1].replace("_", "-"), str(self.args[0]))


class BusyError(UserError):
    """Another process holds the lock."""


class TimeUp(KeyboardInterrupt):
    """The time that a user allowed is over."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, as job schedulers send it."""


def with_resume_command(stop: KeyboardInterrupt, command: str) -> KeyboardInterrupt:
    """The interrupt that stopped a command, with a line that says how to resume it."""
    line = f"{str(stop).partition(';')[0] or 'interrupted'}; go on with: {command}"
    for kind in (TimeUp, Terminated):
        if isinstance(stop, kind) or isinstance(stop.__cause__, kind):
            return kind(line)
    return KeyboardInterrupt(line)


@contextmanager
def lock(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file; wait for another process, or raise `BusyError`. The end of a process frees it."""
    from filelock import FileLock, Timeout

    make_folder(path.parent)
    try:
        with FileLock(path, timeout=-1 if wait else 0):
            yield
    except Timeout as error:
        busy = f"{path.parent} is in use by another process"
        raise BusyError(f"{busy}: wait for it, or choose another") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the target, flush to the disk, then rename: an old file stays until then."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink()


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    write_atomically(path, text.encode() + b"\n")


def as_frame(table: Any) -> Any:
    """A `pyarrow.Table` as a `pandas.DataFrame`, or as it is where pandas is not installed."""
    try:
        return table.to_pandas()
    except ImportError:
        return table


def cannot_write(path: Path, error: OSError) -> UserError:
    """The one line for a file that cannot be written, with the remedy."""
    problem = f"{error.strerror or error}; what was there before is unchanged"
    return UserError(f"cannot write {path}: {problem}: make room, make it writable, or choose another place")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, or say in one line why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror
        raise UserError(f"cannot make the folder {folder}: {why}; choose another") from error


def _sync_folder(folder: Path) -> None:
    """Flush the folder itself, so that a rename survives a power cut; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that we write: it replaces only an empty folder or one of the same kind."""

    noun: str  # "an analysis"
    mark: str  # a file that every folder of this kind has


@contextmanager
def write_folder(kind: FolderKind, folder: Path, *, force: bool) -> Iterator[Path]:
    """Give a new folder to write into, which takes the place of `folder` only if nothing fails."""
    check_folder(kind, folder, force=force)
    target = Path(os.path.realpath(folder))  # has a name and a parent, which `..` does not
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    made: list[Path] = []
    try:
        made += [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_over(target)
        part.mkdir()
        with lock(part / ".lock"):
            yield part
        (part / ".lock").unlink()
        _replace(target, part, force=force)
        made.clear()
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()


def _remove_left_over(target: Path) -> None:
    """Remove what killed processes have left of this folder: nobody holds the locks."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(UserError), lock(part / ".lock"):
            shutil.rmtree(part, ignore_errors=True)


def _replace(folder: Path, part: Path, *, force: bool) -> None:
    """Rename `part` to `folder`; remove an old folder only once the new one is in place."""
    for file in (path for path in part.rglob("*") if path.is_file()):
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        if force and folder.exists():
            folder.rename(old)
        part.rename(folder)
        _sync_folder(folder.parent)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def check_folder(kind: FolderKind, folder: Path, *, force: bool) -> None:
    """Raise UserError if the folder must not be written; called before the work for it, too."""
    if not os.path.lexists(folder):
        check_writable(folder)
        return
    if folder.is_symlink():
        raise UserError(f"{folder} is a link, so it is not replaced: choose another folder")
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: choose a folder")
    if not (folder / kind.mark).is_file() and any(folder.iterdir()):
        raise UserError(f"{folder} is not {kind.noun}, so it is not replaced: choose another folder")
    if Path.cwd().is_relative_to(os.path.realpath(folder)):
        here = f"{folder} is the current folder or has it inside"
        raise UserError(f"{here}, so it is not replaced: choose another")
    if not force:
        raise UserError(f"{folder} exists already: choose another folder, or replace it with ‹force=True›")
    check_writable(folder)


def check_writable(path: Path) -> None:
    """Raise UserError if nothing can be written at the path: try it in the nearest folder above."""
    nearest = next((parent for parent in path.parents if os.path.lexists(parent)), Path())
    if not nearest.is_dir():
        raise UserError(f"cannot write {path}: {nearest} is not a folder; choose another place")
    trial = nearest / f".{Path(os.path.realpath(path)).name}.{os.getpid()}.part"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise cannot_write(path, error) from error
