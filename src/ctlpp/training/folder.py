"""A run folder: `config.json`, `metrics.parquet`, `result.json`, `checkpoint/`, and a lock while a process trains."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any

from ctlpp.files import UserError, make_folder, write_json
from ctlpp.runs.checkpoint import FORMAT
from ctlpp.training.recipe import SAVING

_DECIDES = ("model", "options", "variant", "protocol", "vocab_size", "n_classes", "seeds", "parameters")
_KINDS: dict[tuple[str, ...], type | tuple[type, ...]] = {  # of what is read from a config
    ("format",): int,
    **{(key,): str for key in ("model", "preset")},
    **{(key,): (str, NoneType) for key in ("variant", "protocol")},
    **{(key,): int for key in ("vocab_size", "n_classes", "parameters")},
    **{(key,): dict for key in ("options", "recipe", "data", "engine", "versions")},
    ("seeds",): list,
    ("task",): (dict, NoneType),
    ("recipe", "steps"): int,
    ("engine", "device"): str,
    ("engine", "vectorised"): bool,
    ("engine", "seeds_at_a_time"): int,
}
_DEPTHS = ("*/", "*/*/", "*/*/*/")  # how deep runs are looked for in a folder that is none
_OURS = {"checkpoint", "config.json", "metrics.parquet", "result.json", ".lock"}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder; a second process is refused. The system lets go when the process ends, however it ends."""
    _check_ours(folder)
    make_folder(folder)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        with contextlib.suppress(ImportError):  # there is no fcntl on Windows
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(
                    f"{folder} is in use by another process: wait for it, or choose another"
                ) from error
        yield
    finally:
        os.close(handle)


def _check_ours(folder: Path) -> None:
    """Refuse a folder with other things in it, and leave nothing there."""
    if folder.is_dir() and not (folder / "config.json").exists():
        strange = sorted(p.name for p in folder.iterdir() if p.name not in _OURS and p.suffix != ".part")
        if strange:
            raise UserError(f"{folder} holds other files ({strange[0]}, …): choose an empty or a new folder")


def claim(folder: Path, config: dict[str, Any], resume: bool) -> dict[str, Any]:
    """Start a run in a folder, or check that the run in it is the one to resume. Returns the folder's config."""
    path = folder / "config.json"
    if not path.exists():
        write_json(path, config)
        return config
    if not resume:
        raise UserError(f"{folder} already holds a run: continue it with --resume, or choose another folder")
    found = read_config(folder)
    check_same(folder, found, config)
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a run folder."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError as error:
        if not folder.exists():
            raise UserError(
                f"{folder} does not exist: name a run folder, as `ctlpp train` writes it"
            ) from error
        inside = next(
            (path.parent for depth in _DEPTHS for path in sorted(folder.glob(f"{depth}config.json"))), None
        )
        remedy = (
            f"choose one inside, as {inside}" if inside else "name a run folder, as `ctlpp train` writes it"
        )
        raise UserError(f"no run in {folder}: there is no config.json in it; {remedy}") from error
    except NotADirectoryError as error:
        raise UserError(f"{folder} is a file, not a run folder, as `ctlpp train` writes it") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{folder / 'config.json'} cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        raise _damaged(folder, "it holds no JSON object")
    if config.get("format", FORMAT) != FORMAT:
        versions = config.get("versions")
        version = versions.get("ctlpp", "unknown") if isinstance(versions, dict) else "unknown"
        raise UserError(
            f"{folder} was written by another version of ctlpp ({version}): train again in a new folder"
        )
    for place, kind in _KINDS.items():
        value: Any = config
        for key in place:
            value = value.get(key)
        if not isinstance(value, kind):
            raise _damaged(folder, f"{'.'.join(place)} is {_text(value)}")
    return config


def _damaged(folder: Path, why: str) -> UserError:
    return UserError(f"{folder / 'config.json'} is damaged ({why}): train in a new folder")


def check_kept(folder: Path, remedy: str) -> None:
    """Raise UserError if a run is finished and its checkpoint was not kept."""
    if (folder / "result.json").is_file() and not any((folder / "checkpoint").glob("step-*.json")):
        lost = f"the run in {folder} is finished, and only its small files were kept, not its checkpoint"
        raise UserError(f"{lost}: {remedy}")


def check_last(folder: Path, step: int, damaged: Sequence[str]) -> None:
    """Raise UserError if a run is finished, but the newest checkpoint that is whole, of this step, is not its last."""
    path = folder / "result.json"
    if not path.is_file():
        return
    lost = list(damaged)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        if step != (last := int(json.loads(path.read_text())["steps"])):
            lost.append(f"{folder / 'checkpoint' / f'step-{last:09d}.json'} is missing")
    if lost:
        raise UserError(
            f"{lost[0]}: the finished run in {folder} keeps its results, but its weights are lost;"
            f" `ctlpp train … --resume`, as it was trained, makes them anew from step {step}"
        )


def check_same(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to continue a run with other settings than it began with."""
    for key in _DECIDES:
        if found.get(key) != wanted[key]:
            raise _other(folder, key, found.get(key), wanted[key])
    for key, value in wanted["recipe"].items():
        if key not in SAVING and found["recipe"].get(key) != value:
            raise _other(folder, key, found["recipe"].get(key), value)
    for split, digest in wanted["data"].items():
        if found["data"].get(split) != digest:
            raise UserError(
                f"the data has changed since the run in {folder} began (split {split}):"
                " resume with the data it began with, or choose another folder"
            )
    if set(found["data"]) != set(wanted["data"]):
        raise _other(folder, "splits", sorted(found["data"]), sorted(wanted["data"]))


def move(folder: Path, config: dict[str, Any], here: str, step: int) -> tuple[dict[str, Any], str]:
    """The config of a run that goes on from a step, and a note if that is elsewhere than it was last.

    `config.json` then says so under `continued`: the step, and where from there on.
    """
    before = config.get("continued")
    moves = dict(before) if isinstance(before, dict) else {}
    last = str(list(moves.values())[-1]) if moves else where(config)
    if here == last:
        return config, ""
    config = config | {"continued": moves | {f"step {step}": here}}
    write_json(folder / "config.json", config)
    return (
        config,
        f"the run was on {last}; from step {step} on it is on {here}, so it may not continue exactly",
    )


def where(config: dict[str, Any]) -> str:
    """The machine, precision and versions that a config names, in one line."""
    engine = [str(config["engine"].get(key)) for key in ("device_name", "precision")]
    return ", ".join([*engine, *(f"{name} {version}" for name, version in config["versions"].items())])


def _other(folder: Path, key: str, found: object, wanted: object) -> UserError:
    return UserError(
        f"the run in {folder} has {key} {_text(found)}, not {_text(wanted)}:"
        " resume with the same settings, or choose another folder"
    )


def _text(value: object) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value or "none"
    return text if len(text) <= 60 else text[:57] + "…"
