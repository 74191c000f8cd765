"""Run folders: their one reader, whoever wrote them. Without PyTorch.

They have `config.json`, `metrics.parquet`, `checkpoint/`, `result.json` in the end, and perhaps `analysis/`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from ctlpp.files import UserError
from ctlpp.runs.history import COLUMNS, SeedResult, read_history
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
from ctlpp.words import OLD_PRESETS, OLD_PROTOCOLS

if TYPE_CHECKING:
    from ctlpp.benchmark.task import Task

FORMAT = 1  # of run folders and checkpoints; raised when an older one cannot be continued
SAVING = ("checkpoint_every", "checkpoint_minutes")  # settings of a recipe that leave the results alone
LATER_SETTINGS = {"swap": 0.0, "tied": False, "restarts": 1}  # settings that older recipes lack
MARKS = ("config.json", "result.json", "metrics.parquet")  # a folder with one of these may be a run
_INSIDE = ("analysis", "checkpoint")  # folders of a run
_KINDS: dict[str, type | tuple[type, ...]] = {  # of what is read from a config
    **dict.fromkeys(("options", "recipe", "data", "engine", "versions"), dict),
    **dict.fromkeys(("model", "preset", "engine.device"), str),
    **dict.fromkeys(("variant", "protocol"), (str, NoneType)),
    **dict.fromkeys(("vocab_size", "n_classes", "parameters", "recipe.steps", "engine.seeds_at_a_time"), int),
    "engine.vectorised": bool,
    "engine.threads": (int, NoneType),  # older folders have none
    "seeds": list,
    "task": (dict, NoneType),
}


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
    def task(self) -> dict[str, Any]:
        """What `config.json` says of the task, if anything."""
        return as_dict(self.config.get("task"))

    @property
    def cell(self) -> tuple[int, int] | None:
        """Shared functions and shared symbols, on S."""
        functions, symbols = (as_int(self.task.get(f"shared_{noun}")) for noun in ("functions", "symbols"))
        return None if functions is None or symbols is None else (functions, symbols)


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
    """Folders that look like runs; folders inside a run are skipped.

    Links come last. They are followed to a run only, not to folders that contain some: no circles.
    """
    links: list[Path] = []
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if any(mark in files for mark in MARKS):
            below[:] = [name for name in below if name not in _INSIDE]
            yield Path(place)
        links += [path for name in below if (path := Path(place, name)).is_symlink()]
    for link in links:
        files = next(os.walk(link), ("", [], []))[2]  # none if there is nothing, or nothing that may be read
        if any(mark in files for mark in MARKS):
            yield link


def _name(place: Path, under: Path, several: bool) -> str:
    inner = place.relative_to(under)
    if not inner.parts:
        return under.resolve().name
    return str(Path(under.resolve().name) / inner) if several else str(inner)


def _natural(name: str) -> list[str | int]:
    """A key that sorts run-2 before run-10: text and numbers in turn."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]


def read_run(folder: Path, name: str = "", *, with_history: bool = False) -> RunRecord:
    """The record of a folder. with_history: a run whose history cannot be read counts as damaged, too."""
    record = _read_config(RunRecord(folder, name or folder.name, ""))
    if record.state:
        return record
    try:
        if not (folder / "result.json").is_file():
            return _read_unfinished(record)
        result = read_json(folder / "result.json")
        entries = [as_dict(entry) for entry in as_list(result.get("seeds"))]
        if [entry.get("seed") for entry in entries] != record.config["seeds"]:
            raise DamagedError("result.json has other seeds than config.json")
        seeds = tuple(map(_read_seed, entries))
        if with_history:
            read_columns(folder / "metrics.parquet", COLUMNS)
    except DamagedError as error:
        return replace(record, state="damaged", reason=str(error))
    steps, seconds = as_int(result.get("steps")), as_float(result.get("seconds"))
    return replace(record, state="finished", seeds=seeds, step=steps, seconds=seconds)


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run; UserError says why there are none."""
    written = "as `ctlpp train` writes it"
    if not folder.is_dir():
        fault = "is a file, not a run folder" if folder.exists() else "does not exist: name a run folder"
        raise UserError(f"{folder} {fault}, {written}")
    if not (folder / "config.json").is_file():
        inside = next((place for place in run_folders(folder) if place != folder), None)
        remedy = f"choose one inside, as {inside}" if inside else f"name a run folder, {written}"
        raise UserError(f"no run in {folder}: there is no config.json in it; {remedy}")
    record = _read_config(RunRecord(folder, "", ""))
    if record.state == "foreign":
        raise UserError(f"no run in {folder}: {record.reason}; choose another folder")
    if record.state:
        raise UserError(f"the run in {folder} cannot be used: {record.reason}; train in a new folder")
    return record.config


def _read_config(record: RunRecord) -> RunRecord:
    """The record with its config; with a state and a reason only if something is wrong."""
    folder = record.folder
    if not (folder / "config.json").is_file():
        state = "damaged" if (folder / "result.json").is_file() else "foreign"
        return replace(record, state=state, reason="config.json is missing: the settings are not known")
    try:
        config = read_json(folder / "config.json")
    except DamagedError as error:
        return replace(record, state="damaged", reason=str(error))
    if not {"model", "seeds", "recipe"} <= config.keys():
        return replace(record, state="foreign", reason="its config.json is not one of ctlpp")
    record = replace(record, config=_rename(config))
    if config.get("format") != FORMAT:
        version = as_str(as_dict(config.get("versions")).get("ctlpp")) or "unknown"
        return replace(record, state="version", reason=f"written by another version of ctlpp ({version})")
    for name, kind in _KINDS.items():
        outer, _, inner = name.rpartition(".")
        value = (as_dict(config.get(outer)) if outer else config).get(inner)
        if not isinstance(value, kind):
            reason = f"config.json is damaged ({name} is {shorten(value)})"
            return replace(record, state="damaged", reason=reason)
    return record


def check_data_matches_run(config: dict[str, Any], task: Task, run: Path | str, data: Path | str) -> None:
    """Refuse data whose tokens mean something else than in training."""
    for what, ours, theirs in (
        ("tokens", config["vocab_size"], task.vocabulary.size),
        ("symbols", config["n_classes"], task.n_symbols),
    ):
        if ours != theirs:
            here = f"the run in {run} was trained with {ours}"
            raise UserError(f"{data} has {theirs} {what}, {here}: they do not fit")
    trained = config.get("task")
    if not trained:
        return
    if trained["order"] != task.order:
        raise UserError(f"{data} is written {task.order}, the run in {run} was trained {trained['order']}")
    tables = {name: list(table) for name, table in task.functions.items()}
    if trained["functions"] != tables:
        differing = (name for name in tables if trained["functions"].get(name) != tables[name])
        other = f"the run in {run} was trained with ({next(differing, 'the order of names')})"
        raise UserError(f"{data} has other functions than {other}; use its task")


def _rename(config: dict[str, Any]) -> dict[str, Any]:
    """The config with today's names of protocols and presets, and with later settings of recipes."""
    recipe = as_dict(config.get("recipe"))
    for name, value in LATER_SETTINGS.items():
        recipe.setdefault(name, value)
    for place, key, names in (
        (config, "preset", OLD_PRESETS),
        (config, "protocol", OLD_PROTOCOLS),
        (as_dict(config.get("task")), "protocol", OLD_PROTOCOLS),
    ):
        if isinstance(old := place.get(key), str):
            place[key] = names.get(old, old)
    return config


def _read_seed(entry: dict[str, Any]) -> SeedResult:
    """A seed of a `result.json`; DamagedError at what training would not have written."""
    diverged, number = entry.get("diverged") is True, entry["seed"]
    accuracy, loss = _shares(entry.get("accuracy"), diverged), as_dict(entry.get("loss"))
    if not (accuracy or diverged):
        raise DamagedError(f"result.json has no accuracy of seed {number}")
    by_length = {
        split: {int(n): share for n, share in _shares(lengths, diverged).items() if n.isdecimal()}
        for split, lengths in as_dict(entry.get("by_length")).items()
    }
    return SeedResult(number, accuracy, by_length, diverged, as_int(entry.get("diverged_at")), loss)


def _shares(value: object, diverged: bool) -> dict[str, float]:
    """Accuracies by name, each from 0 to 1; those of a diverged seed may be missing."""
    known = {name: share for name, share in as_dict(value).items() if share is not None or not diverged}
    for share in known.values():
        if (number := as_float(share)) is None or not 0 <= number <= 1:
            raise DamagedError(f"result.json has an accuracy of {json.dumps(share)[:20]}")
    return {as_str(name): share for name, share in known.items()}


def _read_unfinished(record: RunRecord) -> RunRecord:
    """A run without results: the last evaluation in its history, if there is one yet."""
    planned, path = record.config["recipe"]["steps"], record.folder / "metrics.parquet"
    history = read_history(path) if path.is_file() else None
    if history is None or not len(history.steps):
        return replace(record, state="unfinished", reason=f"no evaluation yet, {planned:,} steps planned")
    seeds, step = tuple(history.results({})), int(history.steps[-1])
    reason = f"last evaluated at step {step:,} of {planned:,}"
    return replace(record, state="unfinished", reason=reason, seeds=seeds, step=step)


def shorten(value: object) -> str:
    """A setting, for a message."""
    text = json.dumps(value) if not isinstance(value, str) else value or "none"
    return text if len(text) <= 60 else text[:57] + "…"
