"""Carry out a plan, piece by piece: train, analyse, keep what is to be kept.

It may be killed at any time: the next call skips what is finished and resumes what has begun.
Here this process works alone; `ctlpp.plans.cluster` has more processes, and other machines.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from time import time

import safetensors.torch
import torch

from ctlpp.analysis.folder import read_analysis
from ctlpp.files import BusyError, TimeUp, UserError, cannot_write, write_atomically
from ctlpp.plans.pieces import Piece, RunStatus, claim, forget_failure, run_status, write_failure
from ctlpp.plans.planned import PlannedRun, draw_data, seeds_that_fit
from ctlpp.runs.folder import read_run
from ctlpp.runs.history import SeedResult, tell
from ctlpp.runs.untrusted import DamagedError
from ctlpp.training import train as training
from ctlpp.training.engine import memory_budget
from ctlpp.training.run import find_device, load_run
from ctlpp.words import plural

Watch = Callable[[str, Piece], object]  # gives the title and the piece an observer of the training, or None
HERE, LOCAL = "", "local"  # where to work: in this process, in processes of this machine
LEFT_TO_OTHERS = "another process is at it; left to that one"
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """How a plan is to be carried out."""

    device: str = "auto"
    on: str = HERE  # "local" for processes of this machine, a scheduler "tcp://…", or a TOML file of a queue
    workers: int | None = None  # local processes, else one a GPU, or one a CPU core
    seeds_a_piece: int | None = None  # at most; else all that are missing …
    piece_minutes: float = 60.0  # … as far as memory holds them and, on workers, this time, by estimate
    analysis: bool = True  # look inside every seed, as `ctlpp analyze` does
    figures: bool = False  # and draw it
    small: bool = False  # drop the checkpoint of what is finished
    keep_weights: int | None = None  # with `small`, of so many seeds of a piece, best and worst first; else 2
    retry: bool = False  # take up pieces that failed
    minutes: float | None = None  # stop when they are over, with everything saved

    def __post_init__(self) -> None:
        for name, least in (("minutes", 0), ("seeds_a_piece", 1), ("keep_weights", 0), ("workers", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise UserError(f"‹{name}› {value}: must be {least} or more")
        if self.on not in (HERE, LOCAL) and not re.match(r"(tcp|tls)://.|.+\.toml$", self.on):
            raise UserError(f"‹on› {self.on}: choose from local, tcp://HOST:PORT, or a TOML file of a queue")
        if (self.on not in (HERE, LOCAL) or (self.workers or 1) > 1) and find_spec("distributed") is None:
            raise UserError("more than one process: Dask is not installed; pip install 'ctlpp[cluster]'")
        if self.on.endswith(".toml"):
            from ctlpp.plans.cluster import read_queue

            read_queue(Path(self.on))
        if self.keep_weights is not None and not self.small:
            raise UserError(f"‹keep_weights› {self.keep_weights}: without ‹small› all weights are kept")


@dataclass(frozen=True)
class PieceOutcome:
    """How the work on a piece has ended."""

    # done, busy (another process has it), failed, or machine: that has failed, not the piece.
    # From a worker also: again (another worker is to go on), and send files (it does not see the folder).
    state: str
    reason: str = ""
    traceback: tuple[str, ...] = ()  # if the failure is to be written beside the piece


@dataclass
class Outcome:
    """How the work on a plan has ended."""

    done: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)  # with the reason
    busy: list[Path] = field(default_factory=list)  # another process has them
    seeds: int = 0  # of this plan that are trained, by whomever


Work = Callable[[Sequence[Piece], WorkSettings, Watch], Iterator[tuple[Piece, PieceOutcome]]]


class MachineError(UserError):
    """The disk is full, or the GPU is gone: there is no use in going on."""


class Deadline:
    """An observer of `train` that interrupts it, as Ctrl-C would, when the minutes are over."""

    def __init__(self, minutes: float | None) -> None:
        self.end = float("inf") if minutes is None else time() + 60 * minutes

    def check(self) -> None:
        """Raise TimeUp if they are."""
        if time() >= self.end:
            raise TimeUp("the time is up")

    def on_step(self, stats: object) -> None:
        """Let training save and stop."""
        self.check()


def carry_out(
    plan: Sequence[PlannedRun],
    out: Path,
    settings: WorkSettings,
    watch: Watch = lambda title, piece: None,
    after_piece: Callable[[Piece, PieceOutcome], None] = lambda piece, outcome: None,
) -> Outcome:
    """Do whatever the planned runs still need."""
    work, at_most = _find_workers(settings)
    outcome, pieces = Outcome(), list[Piece]()
    finished: dict[str, set[int]] = {}  # seeds, by run
    for run in plan:
        status = run_status(out, run, at_most)
        finished[run.name] = {*status.finished}
        pieces += pieces_to_work_on(status, settings)
    if not settings.retry:
        outcome.failed = {piece.folder: piece.failure for piece in pieces if piece.failure}
        pieces = [piece for piece in pieces if not piece.failure]
    busy = []
    for piece, end in work(pieces, settings, watch) if pieces else ():
        if end.traceback:
            write_failure(piece.folder, end.reason, end.traceback)
        if end.state == "machine":
            again = ": start again, with ‹retry=True›" if end.traceback else ""
            raise MachineError(end.reason + again)
        if end.state == "failed":
            outcome.failed[piece.folder] = end.reason
        elif end.state == "busy":
            busy.append(piece)
        else:
            outcome.done.append(piece.folder)
            finished[piece.run.name] |= {*piece.seeds} & {*piece.run.seeds}
        after_piece(piece, end)
    for run in {piece.run for piece in busy}:  # the other process may have finished meanwhile
        finished[run.name] = {*run_status(out, run).finished}
    outcome.busy = [piece.folder for piece in busy if not {*piece.seeds} <= finished[piece.run.name]]
    outcome.seeds = sum(map(len, finished.values()))
    return outcome


def _find_workers(settings: WorkSettings) -> tuple[Work, Callable[[PlannedRun], int]]:
    """What works on pieces, and how many seeds a new one may have there."""
    work, facts, minutes = _work_here, partial(find_device_facts, settings.device), inf
    if settings.on not in (HERE, LOCAL) or count_workers(settings) > 1:
        from ctlpp.plans.cluster import device_facts, work_on_cluster

        work, facts, minutes = work_on_cluster, partial(device_facts, settings), settings.piece_minutes
    known = cache(facts)  # asked only if there are new pieces
    return work, lambda run: settings.seeds_a_piece or seeds_that_fit(run, minutes, *known())


def find_device_facts(name: str, workers: int | None = None) -> tuple[str, float]:
    """The kind of a device, and the bytes of its memory that a process may fill; workers: of this machine."""
    device = find_device(name)
    sharing = 1 if device.type == "cuda" else workers or os.cpu_count() or 1
    return device.type, memory_budget(device) / sharing


def count_workers(settings: WorkSettings) -> int:
    """Processes of this machine: one a GPU, else one a core; just this one without Dask."""
    if settings.on == HERE or find_spec("distributed") is None:
        return 1
    if settings.workers or settings.device.startswith("cuda:"):
        return settings.workers or 1
    gpus = torch.cuda.device_count() if settings.device != "cpu" and torch.cuda.is_available() else 0
    return gpus or os.cpu_count() or 1


def pieces_to_work_on(status: RunStatus, settings: WorkSettings) -> list[Piece]:
    """The pieces of a run that need anything at all."""
    trained = [piece for piece in status.found if piece.finished and (piece.folder / "checkpoint").is_dir()]
    after = [piece for piece in trained if settings.small or _needs_analysis(piece.folder, settings)]
    return sorted([*status.to_do, *after], key=lambda piece: piece.seeds)


def with_titles(pieces: Sequence[Piece]) -> Iterator[tuple[str, Piece]]:
    """Each piece with its title, `2 of 3: lstm-R, seeds 0-24`."""
    for number, piece in enumerate(pieces, 1):
        yield f"{number} of {len(pieces)}: {piece.run.name}, seeds {piece.folder.name}", piece


def _work_here(
    pieces: Sequence[Piece], settings: WorkSettings, watch: Watch
) -> Iterator[tuple[Piece, PieceOutcome]]:
    """Work in this process, one piece after the other."""
    deadline = Deadline(settings.minutes)
    for title, piece in with_titles(pieces):
        deadline.check()
        observer = watch(title, piece)
        observers = [deadline] if observer is None else [observer, deadline]
        try:
            with claim(piece):
                outcome = attempt(piece, settings, observers)
        except BusyError:
            tell(observers, "on_note", LEFT_TO_OTHERS)
            outcome = PieceOutcome("busy")
        yield piece, outcome


def attempt(piece: Piece, settings: WorkSettings, observers: Sequence[object] = ()) -> PieceOutcome:
    """Work on a piece; a failure is an outcome, too. Raises BusyError if another process is at it."""
    try:
        forget_failure(piece.folder)
        complete(piece, settings, observers)
        return PieceOutcome("done")
    except BusyError:
        raise
    except Exception as error:
        if trouble := machine_trouble(error):
            return PieceOutcome("machine", trouble)
        first = str(error).partition("\n")[0]
        reason = first if isinstance(error, ValueError) else f"{type(error).__name__}: {first}"
        tell(observers, "on_note", f"failed: {reason}")
        lines = tuple(traceback.format_exception(error))
        if "CUDA error" in str(error):  # whatever comes after in this process would fail as well
            return PieceOutcome("machine", f"the GPU has failed ({reason})", lines)
        return PieceOutcome("failed", reason, lines)
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def machine_trouble(error: BaseException) -> str:
    """One line, if the error is the machine's and not the run's."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError) or cause.errno not in _MACHINE:
        return ""
    return str(error if error is not cause else cannot_write(Path(str(cause.filename)), cause))


def complete(piece: Piece, settings: WorkSettings, observers: Sequence[object] = ()) -> None:
    """Do whatever a piece still needs: training, an analysis, a smaller folder."""
    run, folder = piece.run, piece.folder
    if read_run(folder, with_history=True).state != "finished":  # or a file is lost: training makes it anew
        training.train(
            run.model,
            draw_data(run),
            seeds=piece.seeds,
            recipe=run.recipe,
            preset=run.preset,
            sizes=dict(run.sizes),
            device=settings.device,
            out=folder,
            resume=(folder / "config.json").exists(),
            observers=observers,
            about=run.about,
        )
    if not (folder / "checkpoint").is_dir():
        return
    if _needs_analysis(folder, settings):
        from ctlpp.figures.run import analyze_run  # with a library of drawings

        tell(observers, "on_note", f"analysing {plural(len(piece.seeds))}")
        shutil.rmtree(folder / "analysis", ignore_errors=True)  # one that is damaged
        analyze_run(folder, device=settings.device, figures=settings.figures, formats=["png"])
    if settings.small:
        _keep_weights(folder, 2 if settings.keep_weights is None else settings.keep_weights)
        shutil.rmtree(folder / "checkpoint")


def _needs_analysis(folder: Path, settings: WorkSettings) -> bool:
    """Whether an analysis is wanted and there is none, or a damaged one."""
    try:
        return settings.analysis and read_analysis(folder) is None
    except DamagedError:
        return True


def _keep_weights(folder: Path, number: int) -> None:
    """Write `weights/seed-<n>.safetensors`, the state of an ordinary module, for some seeds."""
    crowd = load_run(folder).crowd
    for seed in best_and_worst(read_run(folder).seeds, number):
        state = {name: value.contiguous() for name, value in crowd.member(seed).state_dict().items()}
        write_atomically(folder / "weights" / f"seed-{seed}.safetensors", safetensors.torch.save(state))


def best_and_worst(seeds: Sequence[SeedResult], number: int) -> list[int]:
    """So many seeds by OOD accuracy: the best, the worst, the second best, …

    >>> best_and_worst([SeedResult(seed, {"ood": ood}, {}) for seed, ood in enumerate((0.5, 0.9, 0.1))], 2)
    [1, 2]
    """
    left = [seed.number for seed in sorted(seeds, key=lambda seed: -seed.accuracy.get("ood", 0.0))]
    return [left.pop(-(turn % 2)) for turn in range(min(number, len(left)))]
