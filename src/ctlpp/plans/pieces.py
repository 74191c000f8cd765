"""Pieces: a planned run is cut by seeds, and every piece is a run folder `OUT/runs/<name>/<first>-<last>`.

A seed belongs to one piece. A piece that has begun keeps its seeds: so a run can get more seeds another day,
and two processes can share it. The note of a failure is beside the piece, `<first>-<last>.failed.json`.

Example:
    >>> cut([0, 1, 2, 5, 6, 7, 8, 9], at_most=3)
    [(0, 1, 2), (5, 6, 7), (8, 9)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ctlpp.benchmark.variants import VARIANTS, Settings
from ctlpp.files import BusyError, UserError, lock, make_folder, write_json
from ctlpp.plans.planned import REPEATS, PlannedRun, current_name, describe_task, seconds
from ctlpp.runs.folder import read_run
from ctlpp.runs.untrusted import DamagedError, as_dict, as_list, as_str, read_json
from ctlpp.training.recipe import Recipe, watching

MOST_SEEDS = 10_000  # in a piece
OF_TASK = ("seed", "shared_functions", "shared_symbols")  # settings of the data that `task.json` has by name


@dataclass(frozen=True)
class Piece:
    """Some seeds of a planned run, in a run folder of their own."""

    run: PlannedRun
    folder: Path
    seeds: tuple[int, ...]
    finished: bool = False
    step: int = 0  # steps that are saved
    failure: str = ""  # why it failed, if it did

    @property
    def out(self) -> Path:
        """The folder of the whole plan."""
        return self.folder.parents[2]


@dataclass(frozen=True)
class RunStatus:
    """What a planned run has, and what is to do."""

    run: PlannedRun
    found: tuple[Piece, ...]  # pieces that exist
    to_do: tuple[Piece, ...]  # those that are not finished, and new ones for the seeds that no piece has

    @property
    def finished(self) -> tuple[int, ...]:
        """The planned seeds that are trained."""
        done = {seed for piece in self.found if piece.finished for seed in piece.seeds}
        return tuple(seed for seed in self.run.seeds if seed in done)

    @property
    def missing(self) -> int:
        """How many seeds are still to be trained."""
        return 0 if self.run.ended else len(self.run.seeds) - len(self.finished)

    def remaining(self, device: str) -> float:
        """Seconds for what is to do."""
        run = self.run
        return sum(seconds(run, len(piece.seeds), device, run.steps - piece.step) for piece in self.to_do)


def run_status(
    out: Path, run: PlannedRun, at_most: Callable[[PlannedRun], int | None] = lambda run: None
) -> RunStatus:
    """Look at the folder. Raises UserError if something else is there.

    at_most: gives how many seeds a new piece may have; called only if there will be one.
    """
    found = [_read_piece(folder, seeds, run) for folder, seeds in _piece_folders(out, run)]
    if run.ended:
        return RunStatus(run, tuple(found), ())
    taken = {seed for piece in found for seed in piece.seeds}
    to_do = [piece for piece in found if not piece.finished and {*piece.seeds} & {*run.seeds}]
    free = [seed for seed in run.seeds if seed not in taken]
    for seeds in cut(free, min(at_most(run) or MOST_SEEDS, MOST_SEEDS)) if free else ():
        folder = out / "runs" / run.name / f"{seeds[0]}-{seeds[-1]}"
        to_do.append(Piece(run, folder, seeds, failure=read_failure(folder)))
    return RunStatus(run, tuple(found), tuple(sorted(to_do, key=lambda piece: piece.seeds)))


def cut(seeds: Sequence[int], at_most: int) -> list[tuple[int, ...]]:
    """Ranges without gaps, of at most so many seeds."""
    ranges: list[tuple[int, ...]] = []
    for seed in sorted(seeds):
        if ranges and seed == ranges[-1][-1] + 1 and len(ranges[-1]) < at_most:
            ranges[-1] = (*ranges[-1], seed)
        else:
            ranges.append((seed,))
    return ranges


def _piece_folders(out: Path, run: PlannedRun) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """Folders of a run's pieces, with the seeds that their names say; other folders are left alone."""
    named = [path for path in (out / "runs").glob("*") if current_name(path.name) == run.name]
    for folder in sorted(piece for path in named for piece in path.glob("*-*")):
        name = re.fullmatch(r"(\d+)-(\d+)", folder.name)
        seeds = range(int(name[1]), int(name[2]) + 1) if name and folder.is_dir() else range(0)
        if 0 < len(seeds) <= MOST_SEEDS:
            yield folder, tuple(seeds)


def _read_piece(folder: Path, seeds: tuple[int, ...], run: PlannedRun) -> Piece:
    ended, failure = (folder / "result.json").exists(), read_failure(folder)
    if not ended and not (folder / "config.json").exists():  # somebody was about to begin
        return Piece(run, folder, seeds, failure=failure)
    record, saved = read_run(folder, with_history=True), saved_step(folder)
    if record.state == "version":
        raise UserError(f"{folder} was {record.reason}: choose another ‹out›")
    if "seeds" not in record.config or (record.state == "damaged" and ended and not saved):
        remedy = "remove that folder, and its seeds are trained again"
        raise UserError(f"{folder} is damaged ({record.reason}): {remedy}")
    if mismatch := first_mismatch(record.config, run):
        raise UserError(f"the run in {folder} {mismatch}: choose another ‹out›")
    if record.config["seeds"] != list(seeds):
        raise UserError(f"{folder} does not hold the seeds that its name says: remove or rename that folder")
    finished = record.state == "finished"  # else a checkpoint gives lost or damaged files anew
    return Piece(run, folder, seeds, finished, run.steps if finished else saved, failure)


def saved_step(folder: Path) -> int:
    """The step of the newest checkpoint, by its name."""
    numbers = [path.stem.removeprefix("step-") for path in (folder / "checkpoint").glob("step-*.json")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def first_mismatch(config: dict[str, Any], run: PlannedRun) -> str:
    """In what the config of a run differs from the plan; empty if in nothing."""
    task = as_dict(config.get("task"))
    wanted = {"model": run.model, "preset": run.preset, **dict(run.sizes), **asdict(run.recipe)}
    found = asdict(Recipe()) | config  # older runs do not have the newest settings
    found |= as_dict(config.get("options")) | as_dict(config.get("recipe"))
    if as_dict(config.get("about")).get("code") != run.about.get("code"):
        return "was trained with other code of its model"
    if run.variant in VARIANTS:
        wanted |= _data_settings(run)
        found |= as_dict(task.get("recipe")) | {name: task.get(name) for name in OF_TASK}
        found |= {"symbols": len(as_list(task.get("symbols")))}
        found |= {"functions": len(as_dict(task.get("functions")))}
    elif task != describe_task(run):
        return f"was trained on other data than {run.variant} has now"
    unimportant = watching(wanted)
    for name, value in wanted.items():
        value = list(value) if isinstance(value, tuple) else value
        if name not in unimportant and found.get(name) != value:
            return f"has {name} {found.get(name)}, the plan {value}"
    return ""


def _data_settings(run: PlannedRun) -> dict[str, Any]:
    """Everything that decides the data of one of the paper's variants."""
    options = run.options
    limit = {REPEATS: options.pop(REPEATS)} if REPEATS in options else {}
    settings = Settings(variant=run.variant, **options)
    of_task = {name: getattr(settings, name) for name in (*OF_TASK, "symbols", "functions")}
    return {"variant": run.variant, "protocol": run.protocol} | settings.split_settings() | limit | of_task


@contextmanager
def claim(piece: Piece) -> Iterator[None]:
    """Hold a piece and make its folder; BusyError if another process has it, or one of its seeds."""
    locks = piece.out / ".locks"
    with lock(locks / "all", wait=True):
        others = [seeds for folder, seeds in _piece_folders(piece.out, piece.run) if folder != piece.folder]
        if not piece.folder.exists() and any({*seeds} & {*piece.seeds} for seeds in others):
            raise BusyError("another process has taken some of its seeds")
        make_folder(piece.folder)
    with lock(locks / f"{piece.run.name}.{piece.folder.name}"):
        yield


def check_out(out: Path, *own: str) -> None:
    """Refuse a folder that has files, but none of these; one that is not there is fine."""
    names = {path.name for path in out.glob("[!.]*")}
    if names and not names & {*own}:
        other = f"{out} holds other files ({min(names)}, …)"
        raise UserError(f"{other}: choose an empty or a new folder as ‹out›")


def write_failure(folder: Path, reason: str, traceback: Sequence[str]) -> None:
    """Write down why a piece failed."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(_failure_file(folder), {"reason": reason, "when": when, "traceback": [*traceback]})


def read_failure(folder: Path) -> str:
    """Why a piece failed; empty if it did not, or if its folder is gone: it then begins anew."""
    path = _failure_file(folder)
    if not path.is_file() or not folder.is_dir():
        return ""
    try:
        return as_str(read_json(path).get("reason")) or f"{path.name} has no reason"
    except DamagedError as error:
        return str(error)


def forget_failure(folder: Path) -> None:
    """Let a piece be tried again."""
    _failure_file(folder).unlink(missing_ok=True)


def _failure_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.failed.json")
