"""Checkpoints that survive a kill at any moment.

A checkpoint is two files, `step-N.safetensors` and `step-N.json`. Each is written beside its place, flushed to the disk
and renamed; the JSON file comes last and holds the checksum of the other, so a checkpoint is whole or not there. The
newest two are kept.

Example:
    >>> import tempfile, torch
    >>> folder = Path(tempfile.mkdtemp())
    >>> save(folder, 100, {"weights": torch.ones(2, 3)}, {"note": "hello"})
    >>> tensors, facts, damaged = newest(folder)
    >>> facts["step"], facts["note"], damaged
    (100, 'hello', [])
"""

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

FORMAT = 1  # of checkpoints and run folders; raised when an older one cannot be continued
_KEPT = 2


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the checkpoint of a step and remove all but the newest two."""
    data = safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    stem = folder / f"step-{step:09d}"
    about = {"format": FORMAT, "step": step, "sha256": sha256(data).hexdigest(), **facts}
    make_folder(folder)
    write_atomically(stem.with_suffix(".safetensors"), data)
    write_atomically(stem.with_suffix(".json"), json.dumps(about, indent=1).encode())
    for old in sorted(folder.glob("step-*.json"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    kept = {path.stem for path in folder.glob("step-*.json")}
    for path in folder.iterdir():
        if path.suffix == ".part" or (path.suffix == ".safetensors" and path.stem not in kept):
            path.unlink(missing_ok=True)


def newest(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[str]] | None:
    """Tensors and facts of the newest checkpoint that is whole, and a line for each newer one that is not."""
    damaged: list[str] = []
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            return *_read(path), damaged
        except ValueError as error:
            damaged.append(str(error))
    if damaged:
        finished = (folder.parent / "result.json").is_file()
        lost = "the results of the run stay, only what needs its weights is lost: " if finished else ""
        raise ValueError(f"{damaged[0]}, and no older checkpoint is whole: {lost}train it again in a new folder")
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of the checkpoint with this JSON file; ValueError names the file that is damaged."""
    file = path
    try:
        facts = json.loads(path.read_text())
        checksum = facts["sha256"]
        file = path.with_suffix(".safetensors")
        data = file.read_bytes()
        if sha256(data).hexdigest() != checksum:
            raise ValueError("its checksum is wrong")
        return safetensors.torch.load(data), facts
    except FileNotFoundError as error:
        raise ValueError(f"{file} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        why = "not JSON" if isinstance(error, json.JSONDecodeError) else str(error).partition("\n")[0]
        raise ValueError(f"{file} is damaged ({why})") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Put a file in its place in one move; a full disk leaves the old one as it was and is one line."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise ValueError(
            f"cannot write {path}: {error.strerror}; what was saved before is still there: {remedy(error)} and resume"
        ) from error


def remedy(error: OSError) -> str:
    """What the user has to do before a file can be written."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "make it writable"
    return "see to the disk, which may be failing," if error.errno == errno.EIO else "make room"


def make_folder(folder: Path) -> None:
    """Make a folder, or say in one line why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make the folder {folder}: {error.strerror}; choose another") from error


def _sync_folder(folder: Path) -> None:
    """Flush the folder itself, so that a rename survives a power cut; not every system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
