"""Finding run folders and reading what they say of themselves, however damaged, unfinished or foreign they are."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctlpp.files import UserError
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

FORMAT = 1  # of config.json; that of `training.checkpoint`, which takes a second to import
MARKS = ("config.json", "result.json", "metrics.parquet")  # a folder with one of these may be a run
INSIDE = ("analysis", "checkpoint")  # folders of a run


@dataclass(frozen=True)
class SeedResult:
    """One seed's accuracies: of the end, or of the last evaluation so far."""

    number: int
    accuracy: dict[str, float]  # by split
    by_length: dict[str, dict[int, float]]  # by split and number of functions
    diverged: bool = False
    diverged_at: int | None = None


@dataclass(frozen=True)
class RunRecord:
    """A run folder as it was found."""

    folder: Path
    name: str  # as the page calls it
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

    def accuracies(self, split: str) -> list[float]:
        """Of the seeds that have not diverged."""
        return [seed.accuracy[split] for seed in self.seeds if not seed.diverged and split in seed.accuracy]


def find_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """All runs in and under the folders. Raises UserError if there is none."""
    found: dict[Path, RunRecord] = {}
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder} does not exist: name run folders, or folders that contain some")
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: name run folders, or folders that contain some")
        mine = list(run_folders(folder))
        for place in mine:
            found.setdefault(place.resolve(), read_run(place, _name(place, folder, len(folders) > 1)))
        if all(found[place.resolve()].state == "foreign" for place in mine):
            raise UserError(f"no runs in or under {folder}: `ctlpp train` writes one")
    return sorted(found.values(), key=lambda record: (record.state == "foreign", _natural(record.name)))


def run_folders(folder: Path) -> Iterator[Path]:
    """Folders that look like runs; those within a run are its own affair.

    Links come last, and are followed to a run itself only, not to folders that contain some: so there is no way round.
    """
    links: list[Path] = []
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if any(mark in files for mark in MARKS):
            below[:] = [name for name in below if name not in INSIDE]
            yield Path(place)
        links += [path for name in below if (path := Path(place, name)).is_symlink()]
    yield from filter(_is_marked, links)


def _is_marked(folder: Path) -> bool:
    files = next(os.walk(folder), ("", [], []))[2]  # none if there is nothing, or nothing that may be read
    return any(mark in files for mark in MARKS)


def _name(place: Path, under: Path, several: bool) -> str:
    inner = place.relative_to(under)
    if not inner.parts:
        return under.resolve().name
    return str(Path(under.resolve().name) / inner) if several else str(inner)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts run-2 before run-10."""
    words = "".join(c if c.isascii() and c.isdigit() else f" {c} " for c in name).split()
    return [(0, int(word[:15]), "") if word.isascii() and word.isdigit() else (1, 0, word) for word in words]


def read_run(folder: Path, name: str) -> RunRecord:
    """What a folder says of itself."""
    if not (folder / "config.json").is_file():
        return _without_config(folder, name)
    try:
        config = read_json(folder / "config.json")
    except DamagedError as error:
        return RunRecord(folder, name, "damaged", str(error))
    if not {"model", "seeds", "recipe"} <= config.keys():
        return RunRecord(folder, name, "foreign", "its config.json is not one of ctlpp")
    if config.get("format") != FORMAT:
        written = as_str(as_dict(config.get("versions")).get("ctlpp")) or "unknown"
        reason = f"written by another version of ctlpp ({written})"
        return RunRecord(folder, name, "version", reason, config)
    if not (folder / "result.json").is_file():
        return _unfinished(folder, name, config)
    try:
        result = read_json(folder / "result.json")
    except DamagedError as error:
        return RunRecord(folder, name, "damaged", str(error), config)
    if reason := _flaw(result, config):
        return RunRecord(folder, name, "damaged", reason, config)
    seeds = read_seeds(result)
    return RunRecord(
        folder,
        name,
        "finished",
        "",
        config,
        seeds,
        as_int(result.get("steps")),
        as_float(result.get("seconds")),
    )


def read_run_with_history(folder: Path, name: str) -> RunRecord:
    """The same, with a look into the history of a finished run: one that cannot be read makes it damaged."""
    record = read_run(folder, name)
    if record.state != "finished":
        return record
    try:
        read_columns(folder / "metrics.parquet", ["step", "seed", "split", "length", "accuracy"])
    except DamagedError as error:
        return replace(record, state="damaged", reason=str(error))
    return record


def _flaw(result: dict[str, Any], config: dict[str, Any]) -> str:
    """What training would not have written into a `result.json`; empty if there is nothing of that kind."""
    entries = list(map(as_dict, as_list(result.get("seeds"))))
    numbers = Counter(as_int(entry.get("seed")) for entry in entries)
    if not {*numbers} - {None}:
        return "result.json lists no seeds"
    if twice := [number for number, times in numbers.items() if number is not None and times > 1]:
        return f"result.json lists seed {twice[0]} twice"
    if {*numbers} != {as_int(seed) for seed in as_list(config.get("seeds"))} - {None}:
        return "result.json has other seeds than config.json"
    for entry in entries:
        diverged, accuracy = entry.get("diverged") is True, as_dict(entry.get("accuracy"))
        if not (accuracy or diverged):
            return f"result.json has no accuracy of seed {entry['seed']}"
        for shares in (accuracy, *map(as_dict, as_dict(entry.get("by_length")).values())):
            for share in shares.values():
                if not (_shares({"": share}) or (share is None and diverged)):
                    return f"result.json has an accuracy of {json.dumps(share)[:20]}"
    return ""


def _without_config(folder: Path, name: str) -> RunRecord:
    """A folder with results but without settings: its results are shown, and compared with nothing."""
    try:
        result = read_json(folder / "result.json")
        if not (seeds := read_seeds(result)):
            raise DamagedError("result.json lists no seeds")
    except DamagedError as error:
        return RunRecord(folder, name, "foreign", f"there is no config.json, and {error}")
    config = {key: result.get(key) for key in ("model", "variant", "protocol", "parameters", "versions")}
    reason = "config.json is missing: the settings are not known"
    return RunRecord(folder, name, "damaged", reason, config, seeds, as_int(result.get("steps")))


def read_seeds(result: dict[str, Any]) -> tuple[SeedResult, ...]:
    """The seeds of a `result.json`."""
    found = []
    for entry in map(as_dict, as_list(result.get("seeds"))):
        number = as_int(entry.get("seed"))
        if number is None:
            continue
        by_length = {split: _lengths(values) for split, values in as_dict(entry.get("by_length")).items()}
        found.append(
            SeedResult(
                number=number,
                accuracy=_shares(entry.get("accuracy")),
                by_length=by_length,
                diverged=entry.get("diverged") is True,
                diverged_at=as_int(entry.get("diverged_at")),
            )
        )
    return tuple(found)


def _unfinished(folder: Path, name: str, config: dict[str, Any]) -> RunRecord:
    planned, path = as_int(as_dict(config.get("recipe")).get("steps")), folder / "metrics.parquet"
    try:
        step, seeds = _last_evaluation(path) if path.is_file() else (None, ())
    except DamagedError as error:
        return RunRecord(folder, name, "damaged", str(error), config)
    if step is None:
        reason = "no evaluation yet" + (f", {planned:,} steps planned" if planned is not None else "")
        return RunRecord(folder, name, "unfinished", reason, config)
    reason = f"last evaluated at step {step:,}" + (f" of {planned:,}" if planned is not None else "")
    frozen = _frozen(folder)
    seeds = tuple(replace(seed, diverged=seed.number in frozen) for seed in seeds)
    return RunRecord(folder, name, "unfinished", reason, config, seeds, step)


def _frozen(folder: Path) -> set[int | None]:
    """The seeds of an unfinished run that have diverged, as far as its analysis knows."""
    try:
        return {
            as_int(seed) for seed in as_list(read_json(folder / "analysis" / "analysis.json").get("diverged"))
        }
    except DamagedError:
        return set()


def _last_evaluation(path: Path) -> tuple[int | None, tuple[SeedResult, ...]]:
    """The last step in a history and its scores; a checkpoint may have been written before the first evaluation."""
    rows = read_columns(path, ["step", "seed", "split", "length", "accuracy"]).to_pylist()
    steps = [step for row in rows if (step := as_int(row["step"])) is not None]
    if not steps:
        return None, ()
    entries: dict[int, dict[str, Any]] = {}
    for row in rows:
        number, length, split = as_int(row["seed"]), as_int(row["length"]), as_str(row["split"])
        if row["step"] != max(steps) or number is None or length is None or as_float(row["accuracy"]) is None:
            continue
        entry = entries.setdefault(number, {"seed": number, "accuracy": {}, "by_length": {}})
        if length == 0:
            entry["accuracy"][split] = row["accuracy"]
        else:
            entry["by_length"].setdefault(split, {})[str(length)] = row["accuracy"]
    return max(steps), read_seeds({"seeds": list(entries.values())})


def _shares(value: object) -> dict[str, float]:
    """Accuracies by name: those that are numbers from 0 to 1."""
    found = {as_str(name): as_float(share) for name, share in as_dict(value).items()}
    return {name: share for name, share in found.items() if share is not None and 0 <= share <= 1}


def _lengths(value: object) -> dict[int, float]:
    return {int(name): share for name, share in _shares(value).items() if name.isascii() and name.isdigit()}
