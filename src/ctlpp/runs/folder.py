"""Run folders: their one reader, whoever wrote them, and the rules for training in one. Without PyTorch.

They have `config.json`, `metrics.parquet`, `checkpoint/`, `result.json` in the end, and perhaps `analysis/`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

from ctlpp.files import UserError, lock, write_json
from ctlpp.runs.history import COLUMNS, read_history
from ctlpp.runs.untrusted import (
    DamagedError,
    as_dict,
    as_float,
    as_int,
    as_list,
    as_str,
    read_columns,
    read_json,
)
from ctlpp.statistics.published import CONVERGED

FORMAT = 1  # of run folders and checkpoints; raised when an older one cannot be continued
SAVING = ("checkpoint_every", "checkpoint_minutes")  # settings of a recipe that leave the results alone
_MARKS = ("config.json", "result.json", "metrics.parquet")  # a folder with one of these may be a run
_INSIDE = ("analysis", "checkpoint")  # folders of a run
_OURS = {*_MARKS, "checkpoint", ".lock"}
_DECIDES = ("model", "options", "variant", "protocol", "vocab_size", "n_classes", "seeds", "parameters")
_KINDS: dict[str, type | tuple[type, ...]] = {  # of what is read from a config
    **dict.fromkeys(("options", "recipe", "data", "engine", "versions"), dict),
    **dict.fromkeys(("model", "preset", "engine.device"), str),
    **dict.fromkeys(("variant", "protocol"), (str, NoneType)),
    **dict.fromkeys(("vocab_size", "n_classes", "parameters", "recipe.steps", "engine.seeds_at_a_time"), int),
    "engine.vectorised": bool,
    "seeds": list,
    "task": (dict, NoneType),
}


@dataclass(frozen=True)
class SeedResult:
    """One seed's accuracies: of the end, or of the last evaluation so far."""

    number: int
    accuracy: dict[str, float]  # by split
    by_length: dict[str, dict[int, float]]  # by split and number of functions
    diverged: bool = False
    diverged_at: int | None = None

    @property
    def converged(self) -> bool:
        """By the paper's rule."""
        return not self.diverged and self.accuracy.get("iid", 0) > CONVERGED


@dataclass(frozen=True)
class RunRecord:
    """A run folder as it was found."""

    folder: Path
    name: str  # as pages call it
    state: str  # finished, unfinished, damaged, version (of another one), foreign
    reason: str = ""  # for the states that need one
    config: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[SeedResult, ...] = ()
    step: int | None = None  # steps done
    seconds: float | None = None

    @property
    def task(self) -> dict[str, Any]:
        """What `config.json` says of the task, if anything."""
        return as_dict(self.config.get("task"))

    @property
    def model(self) -> str:
        """A name of the zoo, or package.module:factory."""
        return as_str(self.config.get("model"))

    @property
    def variant(self) -> str:
        """Of the data: A, R, S, …"""
        return as_str(self.config.get("variant"))

    @property
    def protocol(self) -> str:
        """Of the data."""
        return as_str(self.config.get("protocol"))

    @property
    def preset(self) -> str:
        """Of the hyper-parameters."""
        return as_str(self.config.get("preset"))

    @property
    def cell(self) -> tuple[int, int] | None:
        """Shared functions and shared symbols, on S."""
        functions, symbols = (
            as_int(self.task.get("shared_functions")),
            as_int(self.task.get("shared_symbols")),
        )
        return None if functions is None or symbols is None else (functions, symbols)

    def accuracies(self, split: str) -> list[float]:
        """Of the seeds that have not diverged."""
        return [seed.accuracy[split] for seed in self.seeds if not seed.diverged and split in seed.accuracy]


def find_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """All runs in and under the folders. Raises UserError if there is none."""
    found: dict[Path, RunRecord] = {}
    for folder in folders:
        if not folder.is_dir():
            fault = "is not a folder" if folder.exists() else "does not exist"
            raise UserError(f"{folder} {fault}: name run folders, or folders that contain some")
        mine = list(run_folders(folder))
        for place in mine:
            found.setdefault(place.resolve(), read_run(place, _name(place, folder, len(folders) > 1)))
        if all(found[place.resolve()].state == "foreign" for place in mine):
            raise UserError(f"no runs in or under {folder}: `ctlpp train` writes one")
    return sorted(found.values(), key=lambda record: (record.state == "foreign", _natural(record.name)))


def run_folders(folder: Path) -> Iterator[Path]:
    """Folders that look like runs; those within a run are its own affair.

    Links come last, and are followed to a run only, not to folders that contain some: there is no way round.
    """
    links: list[Path] = []
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if any(mark in files for mark in _MARKS):
            below[:] = [name for name in below if name not in _INSIDE]
            yield Path(place)
        links += [path for name in below if (path := Path(place, name)).is_symlink()]
    for link in links:
        files = next(os.walk(link), ("", [], []))[2]  # none if there is nothing, or nothing that may be read
        if any(mark in files for mark in _MARKS):
            yield link


def _name(place: Path, under: Path, several: bool) -> str:
    inner = place.relative_to(under)
    if not inner.parts:
        return under.resolve().name
    return str(Path(under.resolve().name) / inner) if several else str(inner)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts run-2 before run-10."""
    words = "".join(c if c.isascii() and c.isdigit() else f" {c} " for c in name).split()
    return [(0, int(word[:15]), "") if word.isascii() and word.isdigit() else (1, 0, word) for word in words]


def read_run(folder: Path, name: str = "", *, with_history: bool = False) -> RunRecord:
    """What a folder says of itself. with_history: a run whose history cannot be read is damaged, too."""
    state, reason, config = _read_config(folder)
    record = RunRecord(folder, name or folder.name, state, reason, config)
    if state:
        return record
    try:
        if not (folder / "result.json").is_file():
            return _read_unfinished(record)
        result = read_json(folder / "result.json")
        seeds = _read_seeds(result, config["seeds"])
        if with_history:
            read_columns(folder / "metrics.parquet", COLUMNS)
    except DamagedError as error:
        return replace(record, state="damaged", reason=str(error))
    steps, seconds = as_int(result.get("steps")), as_float(result.get("seconds"))
    return replace(record, state="finished", seeds=seeds, step=steps, seconds=seconds)


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run; UserError says why there are none."""
    if not folder.is_dir():
        fault = "is a file, not a run folder" if folder.exists() else "does not exist: name a run folder"
        raise UserError(f"{folder} {fault}, as `ctlpp train` writes it")
    if not (folder / "config.json").is_file():
        inside = next((place for place in run_folders(folder) if place != folder), None)
        remedy = (
            f"choose one inside, as {inside}" if inside else "name a run folder, as `ctlpp train` writes it"
        )
        raise UserError(f"no run in {folder}: there is no config.json in it; {remedy}")
    state, reason, config = _read_config(folder)
    if state == "damaged":
        raise UserError(f"{folder}/{reason}: train in a new folder")
    if state == "version":
        raise UserError(f"{folder} was {reason}: train again in a new folder")
    if state:
        raise UserError(f"no run in {folder}: {reason}; choose another folder")
    return config


def _read_config(folder: Path) -> tuple[str, str, dict[str, Any]]:
    """State and reason, empty if there is nothing wrong, and the config."""
    if not (folder / "config.json").is_file():
        lost = (folder / "result.json").is_file()
        return "damaged" if lost else "foreign", "config.json is missing: the settings are not known", {}
    try:
        config = read_json(folder / "config.json")
    except DamagedError as error:
        return "damaged", str(error), {}
    if not {"model", "seeds", "recipe"} <= config.keys():
        return "foreign", "its config.json is not one of ctlpp", {}
    if config.get("format") != FORMAT:
        version = as_str(as_dict(config.get("versions")).get("ctlpp")) or "unknown"
        return "version", f"written by another version of ctlpp ({version})", config
    for name, kind in _KINDS.items():
        outer, _, inner = name.rpartition(".")
        value = (as_dict(config.get(outer)) if outer else config).get(inner)
        if not isinstance(value, kind):
            return "damaged", f"config.json is damaged ({name} is {_text(value)})", config
    return "", "", config


def _read_seeds(result: dict[str, Any], numbers: list[Any]) -> tuple[SeedResult, ...]:
    """The seeds of a `result.json`; DamagedError at what training would not have written."""
    entries = [as_dict(entry) for entry in as_list(result.get("seeds"))]
    if [entry.get("seed") for entry in entries] != numbers:
        raise DamagedError("result.json has other seeds than config.json")
    return tuple(map(_read_seed, entries))


def _read_seed(entry: dict[str, Any]) -> SeedResult:
    diverged, number = entry.get("diverged") is True, entry["seed"]
    accuracy = _shares(entry.get("accuracy"), diverged)
    if not (accuracy or diverged):
        raise DamagedError(f"result.json has no accuracy of seed {number}")
    by_length = {
        split: {
            int(length): share for length, share in _shares(lengths, diverged).items() if length.isdecimal()
        }
        for split, lengths in as_dict(entry.get("by_length")).items()
    }
    return SeedResult(number, accuracy, by_length, diverged, as_int(entry.get("diverged_at")))


def _shares(value: object, diverged: bool) -> dict[str, float]:
    """Accuracies by name, each from 0 to 1; those of a diverged seed may be missing."""
    known = {
        as_str(name): share for name, share in as_dict(value).items() if share is not None or not diverged
    }
    for share in known.values():
        if (number := as_float(share)) is None or not 0 <= number <= 1:
            raise DamagedError(f"result.json has an accuracy of {json.dumps(share)[:20]}")
    return known


def _read_unfinished(record: RunRecord) -> RunRecord:
    """A run without results: the last evaluation in its history, if there is one yet."""
    planned, path = record.config["recipe"]["steps"], record.folder / "metrics.parquet"
    history = read_history(path) if path.is_file() else None
    if history is None or not len(history.steps):
        return replace(record, state="unfinished", reason=f"no evaluation yet, {planned:,} steps planned")
    frozen, seeds = _frozen(record.folder), []
    for i, number in enumerate(history.seeds.tolist()):
        curves = {key: curve[-1, i].item() for key, curve in history.accuracy.items()}
        last = {key: value for key, value in curves.items() if 0 <= value <= 1}  # and not nan
        by_length: dict[str, dict[int, float]] = {split: {} for split in history.splits}
        for (split, length), value in last.items():
            by_length[split][length] = value
        accuracy = {split: own.pop(0) for split, own in by_length.items() if 0 in own}
        seeds.append(SeedResult(number, accuracy, by_length, number in frozen))
    step = int(history.steps[-1])
    reason = f"last evaluated at step {step:,} of {planned:,}"
    return replace(record, state="unfinished", reason=reason, seeds=tuple(seeds), step=step)


def _frozen(folder: Path) -> list[Any]:
    """The seeds of an unfinished run that have diverged, as far as its analysis knows."""
    try:
        return as_list(read_json(folder / "analysis" / "analysis.json").get("diverged"))
    except DamagedError:
        return []


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder, or a new one, against other processes; refuse a folder with other things in it."""
    if folder.is_dir() and not (folder / "config.json").exists():
        strange = sorted(p.name for p in folder.iterdir() if p.name not in _OURS and p.suffix != ".part")
        if strange:
            raise UserError(f"{folder} holds other files ({strange[0]}, …): choose an empty or a new folder")
    with lock(folder / ".lock"):
        yield


def claim(folder: Path, config: dict[str, Any], resume: bool) -> dict[str, Any]:
    """Start a run in a folder, or check that the run in it is the one to resume. Returns its config."""
    if not (folder / "config.json").exists():
        write_json(folder / "config.json", config)
        return config
    if not resume:
        raise UserError(
            f"{folder} already holds a run: continue it with ‹resume=True›, or choose another folder"
        )
    found = read_config(folder)
    _check_same(folder, found, config)
    return found


def check_kept(folder: Path, remedy: str) -> None:
    """Raise UserError if a run is finished and its checkpoint was not kept."""
    if (folder / "result.json").is_file() and not any((folder / "checkpoint").glob("step-*.json")):
        lost = f"the run in {folder} is finished, and only its small files were kept, not its checkpoint"
        raise UserError(f"{lost}: {remedy}")


def check_last(folder: Path, step: int, damaged: Sequence[str]) -> None:
    """Raise UserError if a run is finished, but its newest whole checkpoint, of this step, is no end."""
    if not (folder / "result.json").is_file():
        return
    lost = list(damaged)
    last = read_run(folder).step
    if last is not None and step != last:
        lost.append(f"{folder / 'checkpoint' / f'step-{last:09d}.json'} is missing")
    if lost:
        raise UserError(
            f"{lost[0]}: the finished run in {folder} keeps its results, but its weights are lost;"
            f" training it as before with ‹resume=True› makes them anew from step {step}"
        )


def _check_same(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to continue a run with other settings than it began with."""
    recipe = [name for name in wanted["recipe"] if name not in SAVING]
    settings = [(name, found.get(name), wanted[name]) for name in _DECIDES]
    settings += [(name, found["recipe"].get(name), wanted["recipe"][name]) for name in recipe]
    settings += [("splits", sorted(found["data"]), sorted(wanted["data"]))]
    for name, old, new in settings:
        if old != new:
            raise UserError(
                f"the run in {folder} has {name} {_text(old)}, not {_text(new)}:"
                " resume with the same settings, or choose another folder"
            )
    for split, digest in wanted["data"].items():
        if found["data"][split] != digest:
            raise UserError(
                f"the data has changed since the run in {folder} began (split {split}):"
                " resume with the data it began with, or choose another folder"
            )


def move(folder: Path, config: dict[str, Any], here: str, step: int) -> tuple[dict[str, Any], str]:
    """The config of a run that goes on from a step, and a note if that is elsewhere than it was last.

    `config.json` then says so under `continued`: the step, and where from there on.
    """
    moves = as_dict(config.get("continued"))
    last = str([where(config), *moves.values()][-1])
    if here == last:
        return config, ""
    config = config | {"continued": moves | {f"step {step}": here}}
    write_json(folder / "config.json", config)
    note = f"the run was on {last}; from step {step} on it is on {here}, so it may not continue exactly"
    return config, note


def where(config: Mapping[str, Any]) -> str:
    """The machine, precision and versions that a config names, in one line."""
    engine = [str(config["engine"].get(key)) for key in ("device_name", "precision")]
    return ", ".join([*engine, *(f"{name} {version}" for name, version in config["versions"].items())])


def _text(value: object) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value or "none"
    return text if len(text) <= 60 else text[:57] + "…"
