"""A cell's work is cut by seeds: each piece is a run folder `OUT/runs/<cell>/<first>-<last>` with seeds of its own.

A seed belongs to one piece. What is begun stays as it was cut, so a cell can be trained with other seeds today than
tomorrow, or by two processes at a time.

Example:
    >>> cut([0, 1, 2, 5, 6, 7, 8, 9], at_most=3)
    [(0, 1, 2), (5, 6, 7), (8, 9)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ctlpp.benchmark.variants import Settings
from ctlpp.files import UserError, make_folder
from ctlpp.reproduce.failures import read_failure
from ctlpp.reproduce.holding import held
from ctlpp.reproduce.plan import SIZES, PlannedRun
from ctlpp.runs.folder import read_run, run_folders
from ctlpp.runs.untrusted import as_dict, as_list
from ctlpp.training.recipe import watching

MOST = 10_000  # seeds in a piece
_LEFT = ("results.md", "results.parquet", "figures", "report.html")  # by a process that came to no run


@dataclass(frozen=True)
class Piece:
    """Some seeds of a cell, in a run folder of their own."""

    folder: Path
    seeds: tuple[int, ...]
    finished: bool = False
    step: int = 0  # steps that are saved
    failure: str = ""  # why it failed, if it did


@dataclass(frozen=True)
class Standing:
    """What of a cell is there and what is to do."""

    cell: PlannedRun
    found: tuple[Piece, ...]  # pieces that exist
    to_do: tuple[Piece, ...]  # those that are not finished, and new ones for the seeds that no piece has

    @property
    def finished(self) -> tuple[int, ...]:
        """The planned seeds that are trained."""
        done = {seed for piece in self.found if piece.finished for seed in piece.seeds}
        return tuple(seed for seed in self.cell.seeds if seed in done)


def check_place(out: Path, scale: str) -> None:
    """Refuse a folder of something else, or with runs of another scale; one that is not there is fine."""
    if not out.is_dir():
        return
    strange = sorted(
        path.name for path in out.iterdir() if path.name not in _LEFT and not path.name.startswith(".")
    )
    if strange and not (out / "runs").is_dir():
        raise UserError(
            f"{out} holds other files ({strange[0]}, …): choose an empty or a new folder with --out"
        )
    for folder in run_folders(out / "runs"):
        found = scale_of(read_run(folder, folder.name).config)
        if found not in (None, scale):
            raise UserError(
                f"{out} has runs of --scale {found} ({folder.relative_to(out)}), not of {scale}: choose another folder"
                " with --out"
            )


def scale_of(config: dict[str, Any]) -> str | None:
    """The scale whose data a run was trained on, as the number of examples tells."""
    train = as_dict(as_dict(config.get("task")).get("recipe")).get("train")
    for scale, size in SIZES.items():
        if train in (dict(options).get("train", Settings.train) for options in (size.data, size.staged)):
            return scale
    return None


def stand(out: Path, cell: PlannedRun, at_most: int | None = None) -> Standing:
    """Look at what is there. `at_most`: seeds in a new piece. Raises UserError if something else is there."""
    found = tuple(find_pieces(out, cell))
    taken = {seed for piece in found for seed in piece.seeds}
    begun = [piece for piece in found if not piece.finished and {*piece.seeds} & {*cell.seeds}]
    missing = [seed for seed in cell.seeds if seed not in taken]
    fresh = [new_piece(out, cell, seeds) for seeds in cut(missing, min(at_most or MOST, MOST))]
    return Standing(cell, found, tuple(sorted([*begun, *fresh], key=lambda piece: piece.seeds)))


def cut(seeds: Sequence[int], at_most: int | None = None) -> list[tuple[int, ...]]:
    """Ranges without gaps, of at most so many seeds."""
    ranges: list[tuple[int, ...]] = []
    for seed in sorted(seeds):
        if ranges and seed == ranges[-1][-1] + 1 and len(ranges[-1]) != at_most:
            ranges[-1] = (*ranges[-1], seed)
        else:
            ranges.append((seed,))
    return ranges


def new_piece(out: Path, cell: PlannedRun, seeds: tuple[int, ...]) -> Piece:
    """A piece of a cell that need not exist."""
    folder = out / "runs" / cell.name / f"{seeds[0]}-{seeds[-1]}"
    return Piece(folder, seeds, failure=read_failure(folder))


def find_pieces(out: Path, cell: PlannedRun) -> Iterator[Piece]:
    """The pieces of a cell that exist, checked to be what they should be."""
    place = out / "runs" / cell.name
    folders = [path for path in place.iterdir() if path.is_dir()] if place.is_dir() else []
    for folder in sorted(folders):
        first, _, last = folder.name.partition("-")
        if not (first.isdecimal() and last.isdecimal() and 0 <= int(last) - int(first) < MOST):
            continue  # somebody's own
        seeds = tuple(range(int(first), int(last) + 1))
        yield _read_piece(folder, seeds, cell)


def _read_piece(folder: Path, seeds: tuple[int, ...], cell: PlannedRun) -> Piece:
    ended = (folder / "result.json").exists()
    if not (folder / "config.json").exists() and not ended:
        return Piece(folder, seeds, failure=read_failure(folder))  # somebody was about to begin
    record = read_run(folder, folder.name, with_history=True)
    if record.state == "version":
        raise UserError(f"{folder} was {record.reason}: choose another folder with --out")
    damage = f"{folder} is damaged ({record.reason}): remove that folder, and its seeds are trained again"
    if "seeds" not in record.config:  # there is no config.json that says what it is
        raise UserError(damage)
    check_settings(folder, record.config, cell)
    if record.config["seeds"] != list(seeds):
        raise UserError(f"{folder} does not hold the seeds that its name says: remove or rename that folder")
    done, saved = record.state == "finished", saved_step(folder)
    if record.state == "damaged" and ended and not saved:  # a checkpoint would give result and history anew
        raise UserError(damage)
    return Piece(folder, seeds, done, cell.steps if done else saved, read_failure(folder))


def saved_step(folder: Path) -> int:
    """The step of the newest checkpoint, by its name."""
    numbers = [path.stem.removeprefix("step-") for path in (folder / "checkpoint").glob("step-*.json")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def check_settings(folder: Path, config: dict[str, Any], cell: PlannedRun) -> None:
    """Refuse a run that is not what the plan has under its name."""
    if other := first_mismatch(config, cell):
        raise UserError(f"the run in {folder} {other}: choose another folder with --out")


def first_mismatch(config: dict[str, Any], cell: PlannedRun) -> str:
    """In what a run is not what the plan has under its name; empty if in nothing."""
    names = ("model", "variant", "protocol", "preset")
    wanted = {name: getattr(cell, name) for name in names} | asdict(cell.recipe) | _data_settings(cell)
    task = as_dict(config.get("task"))
    found = (
        as_dict(config.get("recipe"))
        | as_dict(task.get("recipe"))
        | {name: config.get(name) for name in names}
    )
    found |= {name: task.get(name) for name in ("seed", "shared_functions", "shared_symbols")}
    found |= {
        name: len(as_list(task.get(name)) or as_dict(task.get(name))) for name in ("symbols", "functions")
    }
    for name, value in wanted.items():
        value = list(value) if isinstance(value, tuple) else value
        if name not in watching(wanted) and found.get(name) != value:
            return f"has {name} {found.get(name)}, the plan {value}"
    return ""


def _data_settings(cell: PlannedRun) -> dict[str, Any]:
    """The settings of the data, under the names that a run notes them by."""
    settings = Settings(variant=cell.variant, **cell.options)
    names = ("seed", "symbols", "functions", "shared_functions", "shared_symbols")
    return settings.of_splits() | {name: getattr(settings, name) for name in names}


def take(out: Path, cell: PlannedRun, piece: Piece) -> bool:
    """Make the folder of a new piece; false if another process has taken one of its seeds meanwhile."""
    with held(out, "all", wait=True):
        others = [other for other in find_pieces(out, cell) if other.folder != piece.folder]
        if not piece.folder.exists() and any({*other.seeds} & {*piece.seeds} for other in others):
            return False
        make_folder(piece.folder)
    return True
