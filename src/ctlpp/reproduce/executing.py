"""Working off the plan, piece by piece: train, analyse, keep what is to be kept, and write the results anew.

Any of it can be killed and is taken up again: what is finished is skipped, what is begun is resumed.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ctlpp.files import UserError, cannot_write, make_folder
from ctlpp.reproduce.failures import forget_failure, note_failure
from ctlpp.reproduce.holding import BusyError, held
from ctlpp.reproduce.keeping import shrink
from ctlpp.reproduce.pacing import Alarm, Pages
from ctlpp.reproduce.page import Summary, write_results
from ctlpp.reproduce.pieces import Piece, Standing, stand, take
from ctlpp.reproduce.plan import PlannedRun
from ctlpp.runs.folder import read_run
from ctlpp.runs.untrusted import DamagedError, read_json

Start = Callable[[int], Callable[[int], None]]  # told a number of seeds, gives what to call with progress
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True, kw_only=True)
class Orders:
    """How the plan is to be worked off."""

    device: str = "auto"
    seeds_a_piece: int | None = None  # at most; None for all that are missing
    analysis: bool = True  # numbers of every piece, as `ctlpp analyze` makes them
    small: bool = False  # keep small files only: no checkpoints
    keep_weights: int = 2  # with `small`: weights of so many seeds a piece, the best and the worst first
    retry: bool = False  # take up pieces that failed
    minutes: float | None = None  # stop when they are over, with everything saved

    def __post_init__(self) -> None:
        for name, least in (("minutes", 0), ("seeds_a_piece", 1), ("keep_weights", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise UserError(f"{name} {value}: must be {least} or more")


class Screen(Protocol):
    """What shows how the work goes on."""

    def training(self, title: str) -> AbstractContextManager[object]:
        """Gives an observer of `train`."""

    def analysing(self) -> AbstractContextManager[Start]:
        """Gives what shows the progress of an analysis."""

    def note(self, line: str) -> None:
        """One line that the user should see."""


@dataclass
class Outcome:
    """What has become of the plan."""

    done: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)  # with the reason
    busy: list[Path] = field(default_factory=list)  # another process has them
    seeds: int = 0  # of these cells that are trained, by whomever


class MachineError(Exception):
    """The disk is full, or the GPU is gone: there is no use in going on."""


def execute(
    cells: Sequence[PlannedRun], out: Path, orders: Orders, screen: Screen
) -> tuple[Outcome, Summary]:
    """Work off the cells, and keep tables, figures and report in step with what is there."""
    outcome, alarm, pages = Outcome(), Alarm(orders.minutes), Pages(lambda: write_results(out))
    work = [
        (cell, piece)
        for cell in cells
        for piece in to_work_on(stand(out, cell, orders.seeds_a_piece), orders)
    ]
    if not orders.retry:
        outcome.failed = {piece.folder: piece.failure for _, piece in work if piece.failure}
        work = [(cell, piece) for cell, piece in work if not piece.failure]
    make_folder(out)
    try:
        for number, (cell, piece) in enumerate(work, 1):
            alarm.check()
            title = f"{number} of {len(work)}: {cell.name}, seeds {piece.folder.name}"
            _try(_Job(cell, piece, title, out, orders, screen, alarm), outcome)
            pages.changed()
    except KeyboardInterrupt:
        if work:
            pages.latest()
        raise
    trained = {cell.name: {*stand(out, cell).finished} for cell in cells}
    outcome.seeds = sum(map(len, trained.values()))
    through = {piece.folder for cell, piece in work if {*piece.seeds} <= trained[cell.name]}
    outcome.busy = [folder for folder in outcome.busy if folder not in through]
    return outcome, pages.latest()


def to_work_on(standing: Standing, orders: Orders) -> list[Piece]:
    """The pieces that need anything at all."""
    after = [
        piece
        for piece in standing.found
        if piece.finished and (analysable(piece, orders) or large(piece, orders))
    ]
    return sorted([*standing.to_do, *after], key=lambda piece: piece.seeds)


def analysable(piece: Piece, orders: Orders) -> bool:
    """Whether an analysis is wanted, and missing or damaged."""
    return orders.analysis and (piece.folder / "checkpoint").is_dir() and not _analysed(piece.folder)


def _analysed(folder: Path) -> bool:
    try:
        return bool(read_json(folder / "analysis" / "analysis.json"))
    except DamagedError:
        return False


def large(piece: Piece, orders: Orders) -> bool:
    """Whether it is to be made small."""
    return orders.small and (piece.folder / "checkpoint").is_dir()


@dataclass(frozen=True)
class _Job:
    """One piece, and all that belongs to working on it."""

    cell: PlannedRun
    piece: Piece
    title: str
    out: Path
    orders: Orders
    screen: Screen
    alarm: Alarm


def _try(job: _Job, outcome: Outcome) -> None:
    """Work on a piece and note how it went."""
    folder, name = job.piece.folder, f"{job.cell.name}.{job.piece.folder.name}"
    try:
        if not take(job.out, job.cell, job.piece):
            raise BusyError(f"{name} has seeds that another process has taken")
        with held(job.out, name):
            forget_failure(folder)
            _work_on(job)
        outcome.done.append(folder)
    except Exception as error:
        if isinstance(error, BusyError) or isinstance(error.__cause__, BlockingIOError):
            outcome.busy.append(folder)
            return job.screen.note(f"{job.title}: another process is at it; left to that one")
        if trouble := machine_trouble(error):
            raise MachineError(trouble) from error
        outcome.failed[folder] = reason = note_failure(folder, error)
        job.screen.note(f"{job.title}: failed: {reason}")
        if "CUDA error" in str(error):  # whatever comes after in this process would fail as well
            raise MachineError(f"the GPU has failed ({reason}): start again, with --retry") from error
    finally:
        _make_room()


def _work_on(job: _Job) -> None:
    """Whatever the piece still needs."""
    from ctlpp.benchmark.dataset import generate
    from ctlpp.figures.run import analyze_run
    from ctlpp.training.train import train

    cell, folder, orders = job.cell, job.piece.folder, job.orders
    for left in folder.glob(".*.part"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    if (
        read_run(folder, folder.name, with_history=True).state != "finished"
    ):  # or a file is lost, which training makes up for
        with job.screen.training(job.title) as watch:
            train(
                cell.model,
                generate(cell.variant, **cell.options),
                seeds=job.piece.seeds,
                recipe=cell.recipe,
                preset=cell.preset,
                device=orders.device,
                out=folder,
                resume=True,
                observers=[watch, job.alarm],
                about={"cell": cell.name},
            )
    if analysable(job.piece, orders):
        shutil.rmtree(folder / "analysis", ignore_errors=True)  # one that is damaged
        with job.screen.analysing() as start:
            analyze_run(folder, device=orders.device, figures=False, computing=start)
    if large(job.piece, orders):
        shrink(folder, orders.keep_weights)


def _make_room() -> None:
    """Let go of the memory of the piece before."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def machine_trouble(error: BaseException) -> str:
    """One line, if the error is the machine's and not the run's."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError) or cause.errno not in _MACHINE:
        return ""
    if error is not cause:
        return str(error)
    return str(cannot_write(Path(str(cause.filename)), cause))
