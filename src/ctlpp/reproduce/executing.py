"""Working off the plan, piece by piece: train, analyse, keep what is to be kept, and write the results anew.

Any of it can be killed and is taken up again: what is finished is skipped, what is begun is resumed.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from ctlpp.reproduce.failures import forget_failure, note_failure
from ctlpp.reproduce.holding import BusyError, held
from ctlpp.reproduce.keeping import shrink
from ctlpp.reproduce.pieces import Piece, Standing, recipe_of, stand, take
from ctlpp.reproduce.plan import Planned

PATIENCE = 10  # results are written anew when that took at most this part of the time since
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}
Start = Callable[[int], Callable[[int], None]]  # told a number of seeds, gives what to call with progress


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


class Screen(Protocol):
    """What shows how the work goes on."""

    def training(self, title: str) -> AbstractContextManager[object]:
        """Gives an observer of `train`."""

    def analysing(self, title: str) -> AbstractContextManager[Start]:
        """Gives what shows the progress of an analysis."""

    def note(self, line: str) -> None:
        """One line that the user should see."""


@dataclass
class Outcome:
    """What has become of the plan."""

    done: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)  # with the reason
    busy: list[Path] = field(default_factory=list)  # another process has them


class MachineError(Exception):
    """The disk is full, or the GPU is gone: there is no use in going on."""


class TimeIsUpError(KeyboardInterrupt):
    """The minutes are over, and everything is saved."""


def execute(cells: Sequence[Planned], out: Path, orders: Orders, screen: Screen, write: Callable[[], Any]) -> Outcome:
    """Work off the cells; `write` is called as pieces are done and makes the results of what is there."""
    outcome, pages = Outcome(), Pages(write)
    alarm = Alarm(orders.minutes)
    work = [(cell, piece) for cell in cells for piece in to_work_on(stand(out, cell, orders.seeds_a_piece), orders)]
    if not orders.retry:
        outcome.failed = {piece.folder: piece.failure for _, piece in work if piece.failure}
        work = [(cell, piece) for cell, piece in work if not piece.failure]
    try:
        for number, (cell, piece) in enumerate(work, 1):
            alarm.check()
            title = f"{number} of {len(work)}: {cell.title}, seeds {piece.folder.name}"
            _try(cell, piece, title, out, orders, screen, alarm, outcome)
            pages.changed()
    except KeyboardInterrupt:
        pages.catch_up()
        raise
    pages.write()
    return outcome


def to_work_on(standing: Standing, orders: Orders) -> list[Piece]:
    """The pieces that need anything at all."""
    after = [
        piece for piece in standing.found if piece.finished and (analysable(piece, orders) or large(piece, orders))
    ]
    return sorted([*standing.to_do, *after], key=lambda piece: piece.seeds)


def analysable(piece: Piece, orders: Orders) -> bool:
    """Whether an analysis is wanted and missing."""
    made = (piece.folder / "analysis" / "analysis.json").is_file()
    return orders.analysis and not made and (piece.folder / "checkpoint").is_dir()


def large(piece: Piece, orders: Orders) -> bool:
    """Whether it is to be made small."""
    return orders.small and (piece.folder / "checkpoint").is_dir()


def _try(
    cell: Planned,
    piece: Piece,
    title: str,
    out: Path,
    orders: Orders,
    screen: Screen,
    alarm: Alarm,
    outcome: Outcome,
) -> None:
    """Work on a piece and note how it went."""
    name = f"{cell.name}.{piece.folder.name}"
    try:
        if not take(out, cell, piece):
            raise BusyError(f"{name} has seeds that another process has taken")
        with held(out, name):
            forget_failure(piece.folder)
            _work_on(cell, piece, title, orders, screen, alarm)
            outcome.done.append(piece.folder)
    except BusyError as error:
        outcome.busy.append(piece.folder)
        screen.note(f"{error}: left to it")
    except Exception as error:
        if trouble := machine_trouble(error):
            raise MachineError(trouble) from error
        outcome.failed[piece.folder] = note_failure(piece.folder, error)
        screen.note(f"failed: {title}: {outcome.failed[piece.folder]}")
        if "CUDA error" in str(error):
            raise MachineError(f"the GPU fails ({outcome.failed[piece.folder]}): start again, with --retry") from error


def _work_on(cell: Planned, piece: Piece, title: str, orders: Orders, screen: Screen, alarm: Alarm) -> None:
    from ctlpp.benchmark.dataset import generate
    from ctlpp.figures.whole_run import analyze_run
    from ctlpp.training.run import train

    if not (piece.folder / "result.json").is_file():
        with screen.training(title) as watch:
            train(
                cell.model,
                generate(cell.variant, **cell.options),
                seeds=piece.seeds,
                recipe=recipe_of(cell),
                preset=cell.preset,
                device=orders.device,
                out=piece.folder,
                resume=True,
                observers=[watch, alarm],
                about={"cell": cell.name},
            )
    if analysable(piece, orders):
        with screen.analysing(title) as start:
            analyze_run(piece.folder, force=True, device=orders.device, figures=False, computing=start)
    if orders.small:
        shrink(piece.folder, orders.keep_weights)


def machine_trouble(error: BaseException) -> str:
    """One line, if the error is the machine's and not the run's."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError) or cause.errno not in _MACHINE:
        return ""
    return str(error) if error is not cause else f"cannot write {cause.filename}: {cause.strerror}; make room and go on"


class Alarm:
    """An observer of `train` that interrupts it, as Ctrl-C would, when the minutes are over."""

    def __init__(self, minutes: float | None) -> None:
        self.end = float("inf") if minutes is None else monotonic() + 60 * minutes

    def check(self) -> None:
        """Raise `TimeIsUpError` if it is."""
        if monotonic() >= self.end:
            raise TimeIsUpError

    def on_step(self, stats: object) -> None:
        """Let training save and stop."""
        if monotonic() >= self.end:
            signal.raise_signal(signal.SIGINT)


class Pages:
    """Results that are kept up to date, without spending much of the time on it."""

    def __init__(self, write: Callable[[], Any]) -> None:
        self._write, self._stale, self._next = write, False, 0.0

    def changed(self) -> None:
        """A piece is done."""
        self._stale = True
        if monotonic() >= self._next:
            self.write()

    def catch_up(self) -> None:
        """Write what has not been written yet."""
        if self._stale:
            self.write()

    def write(self) -> None:
        """Write now."""
        start = monotonic()
        self._write()
        self._stale, self._next = False, monotonic() + PATIENCE * (monotonic() - start)
