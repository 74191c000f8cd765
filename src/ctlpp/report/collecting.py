"""Finding run folders and reading what they say of themselves, however damaged, unfinished or foreign they are."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctlpp.report.strangers import DamagedError, items, part, read_columns, read_object, real, text, whole

FORMAT = 1  # of config.json; that of `training.checkpoint`, which takes a second to import
MARKS = ("config.json", "result.json", "metrics.parquet")  # a folder with one of these may be a run
INSIDE = ("analysis", "checkpoint")  # folders of a run


@dataclass(frozen=True)
class Seed:
    """One seed's accuracies: of the end, or of the last evaluation so far."""

    number: int
    accuracy: dict[str, float]  # by split
    by_length: dict[str, dict[int, float]]  # by split and number of functions
    diverged: bool = False
    diverged_at: int | None = None


@dataclass(frozen=True)
class Record:
    """A run folder as it was found."""

    folder: Path
    name: str  # as the page calls it
    state: str  # finished, unfinished, damaged, version (of another one), foreign
    reason: str = ""  # for the states that need one
    config: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[Seed, ...] = ()
    step: int | None = None  # steps done
    seconds: float | None = None

    @property
    def task(self) -> dict[str, Any]:
        """What `config.json` says of the task, if anything."""
        return part(self.config.get("task"))

    def accuracies(self, split: str) -> list[float]:
        """Of the seeds that have not diverged."""
        return [seed.accuracy[split] for seed in self.seeds if not seed.diverged and split in seed.accuracy]


def collect(folders: Sequence[Path]) -> list[Record]:
    """All runs in and under the folders. Raises ValueError if there is none."""
    found: dict[Path, Record] = {}
    for folder in folders:
        if not folder.exists():
            raise ValueError(f"{folder} does not exist: name run folders, or folders that contain some")
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder: name run folders, or folders that contain some")
        mine = list(candidates(folder))
        for place in mine:
            found.setdefault(place.resolve(), read_record(place, _name(place, folder, len(folders) > 1)))
        if all(found[place.resolve()].state == "foreign" for place in mine):
            raise ValueError(f"no runs in or under {folder}: `ctlpp train` writes one")
    return sorted(found.values(), key=lambda record: (record.state == "foreign", _natural(record.name)))


def candidates(folder: Path) -> Iterator[Path]:
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


def read_record(folder: Path, name: str) -> Record:
    """What a folder says of itself."""
    if not (folder / "config.json").is_file():
        return _without_config(folder, name)
    try:
        config = read_object(folder / "config.json")
    except DamagedError as error:
        return Record(folder, name, "damaged", str(error))
    if not {"model", "seeds", "recipe"} <= config.keys():
        return Record(folder, name, "foreign", "its config.json is not one of ctlpp")
    if config.get("format") != FORMAT:
        written = text(part(config.get("versions")).get("ctlpp")) or "unknown"
        reason = f"written by another version of ctlpp ({written})"
        return Record(folder, name, "version", reason, config)
    if not (folder / "result.json").is_file():
        return _unfinished(folder, name, config)
    try:
        result = read_object(folder / "result.json")
    except DamagedError as error:
        return Record(folder, name, "damaged", str(error), config)
    if reason := _flaw(result, config):
        return Record(folder, name, "damaged", reason, config)
    seeds = read_seeds(result)
    return Record(folder, name, "finished", "", config, seeds, whole(result.get("steps")), real(result.get("seconds")))


def read_whole(folder: Path, name: str) -> Record:
    """The same, with a look into the history of a finished run: one that cannot be read makes it damaged."""
    record = read_record(folder, name)
    if record.state != "finished":
        return record
    try:
        read_columns(folder / "metrics.parquet", ["step", "seed", "split", "length", "accuracy"])
    except DamagedError as error:
        return replace(record, state="damaged", reason=str(error))
    return record


def _flaw(result: dict[str, Any], config: dict[str, Any]) -> str:
    """What training would not have written into a `result.json`; empty if there is nothing of that kind."""
    entries = list(map(part, items(result.get("seeds"))))
    numbers = Counter(whole(entry.get("seed")) for entry in entries)
    if not {*numbers} - {None}:
        return "result.json lists no seeds"
    if twice := [number for number, times in numbers.items() if number is not None and times > 1]:
        return f"result.json lists seed {twice[0]} twice"
    if {*numbers} != {whole(seed) for seed in items(config.get("seeds"))} - {None}:
        return "result.json has other seeds than config.json"
    for entry in entries:
        diverged, accuracy = entry.get("diverged") is True, part(entry.get("accuracy"))
        if not (accuracy or diverged):
            return f"result.json has no accuracy of seed {entry['seed']}"
        for shares in (accuracy, *map(part, part(entry.get("by_length")).values())):
            for share in shares.values():
                if not (_shares({"": share}) or (share is None and diverged)):
                    return f"result.json has an accuracy of {json.dumps(share)[:20]}"
    return ""


def _without_config(folder: Path, name: str) -> Record:
    """A folder with results but without settings: its results are shown, and compared with nothing."""
    try:
        result = read_object(folder / "result.json")
        if not (seeds := read_seeds(result)):
            raise DamagedError("result.json lists no seeds")
    except DamagedError as error:
        return Record(folder, name, "foreign", f"there is no config.json, and {error}")
    config = {key: result.get(key) for key in ("model", "variant", "protocol", "parameters", "versions")}
    reason = "config.json is missing: the settings are not known"
    return Record(folder, name, "damaged", reason, config, seeds, whole(result.get("steps")))


def read_seeds(result: dict[str, Any]) -> tuple[Seed, ...]:
    """The seeds of a `result.json`."""
    found = []
    for entry in map(part, items(result.get("seeds"))):
        number = whole(entry.get("seed"))
        if number is None:
            continue
        by_length = {split: _lengths(values) for split, values in part(entry.get("by_length")).items()}
        found.append(
            Seed(
                number=number,
                accuracy=_shares(entry.get("accuracy")),
                by_length=by_length,
                diverged=entry.get("diverged") is True,
                diverged_at=whole(entry.get("diverged_at")),
            )
        )
    return tuple(found)


def _unfinished(folder: Path, name: str, config: dict[str, Any]) -> Record:
    planned, path = whole(part(config.get("recipe")).get("steps")), folder / "metrics.parquet"
    try:
        step, seeds = _last_evaluation(path) if path.is_file() else (None, ())
    except DamagedError as error:
        return Record(folder, name, "damaged", str(error), config)
    if step is None:
        reason = "no evaluation yet" + (f", {planned:,} steps planned" if planned is not None else "")
        return Record(folder, name, "unfinished", reason, config)
    reason = f"last evaluated at step {step:,}" + (f" of {planned:,}" if planned is not None else "")
    frozen = _frozen(folder)
    seeds = tuple(replace(seed, diverged=seed.number in frozen) for seed in seeds)
    return Record(folder, name, "unfinished", reason, config, seeds, step)


def _frozen(folder: Path) -> set[int | None]:
    """The seeds of an unfinished run that have diverged, as far as its analysis knows."""
    try:
        return {whole(seed) for seed in items(read_object(folder / "analysis" / "analysis.json").get("diverged"))}
    except DamagedError:
        return set()


def _last_evaluation(path: Path) -> tuple[int | None, tuple[Seed, ...]]:
    """The last step in a history and its scores; a checkpoint may have been written before the first evaluation."""
    rows = read_columns(path, ["step", "seed", "split", "length", "accuracy"]).to_pylist()
    steps = [step for row in rows if (step := whole(row["step"])) is not None]
    if not steps:
        return None, ()
    entries: dict[int, dict[str, Any]] = {}
    for row in rows:
        number, length, split = whole(row["seed"]), whole(row["length"]), text(row["split"])
        if row["step"] != max(steps) or number is None or length is None or real(row["accuracy"]) is None:
            continue
        entry = entries.setdefault(number, {"seed": number, "accuracy": {}, "by_length": {}})
        if length == 0:
            entry["accuracy"][split] = row["accuracy"]
        else:
            entry["by_length"].setdefault(split, {})[str(length)] = row["accuracy"]
    return max(steps), read_seeds({"seeds": list(entries.values())})


def _shares(value: object) -> dict[str, float]:
    """Accuracies by name: those that are numbers from 0 to 1."""
    found = {text(name): real(share) for name, share in part(value).items()}
    return {name: share for name, share in found.items() if share is not None and 0 <= share <= 1}


def _lengths(value: object) -> dict[int, float]:
    return {int(name): share for name, share in _shares(value).items() if name.isascii() and name.isdigit()}
