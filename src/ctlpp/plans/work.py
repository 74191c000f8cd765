"""Carry out a plan, piece by piece: train, analyse, keep what is to be kept.

All of it can be killed and is taken up again: what is finished is skipped, what is begun is resumed.
"""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import time
from typing import Any, ClassVar

from ctlpp.analysis.folder import read_analysis
from ctlpp.files import BusyError, UserError, cannot_write, lock, make_folder, write_atomically
from ctlpp.plans.pieces import Piece, forget_failure, note_failure, run_status, take
from ctlpp.plans.planned import PlannedRun
from ctlpp.runs.folder import read_run
from ctlpp.runs.history import SeedResult, tell
from ctlpp.runs.untrusted import DamagedError
from ctlpp.words import plural

Watch = Callable[[str], object]  # told the title of a piece, gives an observer of its training
End = tuple[str, str]  # "done", "busy" (another process has it), or "failed" and why
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """How a plan is to be carried out."""

    device: str = "auto"
    workers: int = 1  # processes of one thread each; more than one for small models on a CPU
    seeds_a_piece: int | None = None  # at most; else all that are missing
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
        if self.keep_weights is not None and not self.small:
            raise UserError(f"‹keep_weights› {self.keep_weights}: without ‹small› all weights are kept")


@dataclass
class Outcome:
    """How the work on a plan has ended."""

    done: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)  # with the reason
    busy: list[Path] = field(default_factory=list)  # another process has them
    seeds: int = 0  # of this plan that are trained, by whomever


class MachineError(UserError):
    """The disk is full, or the GPU is gone: there is no use in going on."""


class Deadline:
    """An observer of `train` that interrupts it, as Ctrl-C would, when the minutes are over."""

    def __init__(self, minutes: float | None) -> None:
        self.end = float("inf") if minutes is None else time() + 60 * minutes

    def check(self) -> None:
        """Raise KeyboardInterrupt if they are."""
        if time() >= self.end:
            raise KeyboardInterrupt("the time is up")

    def on_step(self, stats: object) -> None:
        """Let training save and stop."""
        if time() >= self.end:
            signal.raise_signal(signal.SIGINT)


def carry_out(
    plan: Sequence[PlannedRun],
    out: Path,
    settings: WorkSettings,
    watch: Watch = lambda title: None,
    changed: Callable[[], None] = lambda: None,
) -> Outcome:
    """Do whatever the planned runs still need; `changed` is called whenever a piece is through."""
    outcome = Outcome()
    pieces = [piece for run in plan for piece in pieces_to_work_on(out, run, settings)]
    if not settings.retry:
        outcome.failed = {piece.folder: piece.failure for piece in pieces if piece.failure}
        pieces = [piece for piece in pieces if not piece.failure]
    make_folder(out)
    work = _one_by_one if settings.workers == 1 else _side_by_side
    for piece, (state, reason) in work(pieces, settings, watch):
        if state == "failed":
            outcome.failed[piece.folder] = reason
        else:
            (outcome.done if state == "done" else outcome.busy).append(piece.folder)
        changed()
    trained = {run.name: {*run_status(out, run).finished} for run in plan}
    outcome.seeds = sum(map(len, trained.values()))
    through = {piece.folder for piece in pieces if {*piece.seeds} <= trained[piece.run.name]}
    outcome.busy = [folder for folder in outcome.busy if folder not in through]
    return outcome


def pieces_to_work_on(out: Path, run: PlannedRun, settings: WorkSettings) -> list[Piece]:
    """The pieces of a run that need anything at all."""
    status = run_status(out, run, settings.seeds_a_piece)
    trained = [piece for piece in status.found if piece.finished and (piece.folder / "checkpoint").is_dir()]
    after = [piece for piece in trained if settings.small or _needs_analysis(piece.folder, settings)]
    return sorted([*status.to_do, *after], key=lambda piece: piece.seeds)


def _titled(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str]]:
    for number, piece in enumerate(pieces, 1):
        yield piece, f"{number} of {len(pieces)}: {piece.run.name}, seeds {piece.folder.name}"


def _one_by_one(pieces: Sequence[Piece], settings: WorkSettings, watch: Watch) -> Iterator[tuple[Piece, End]]:
    """Work in this process."""
    deadline = Deadline(settings.minutes)
    for piece, title in _titled(pieces):
        deadline.check()
        yield piece, attempt(piece, settings, [watch(title), deadline])


def _side_by_side(
    pieces: Sequence[Piece], settings: WorkSettings, watch: Watch
) -> Iterator[tuple[Piece, End]]:
    """Work in processes of their own; after Ctrl-C none begins another piece."""
    deadline, left = Deadline(settings.minutes), list(_titled(pieces))
    running: dict[Future[End], Piece] = {}
    watches: dict[str, object] = {}
    context = multiprocessing.get_context("spawn")
    events, stop = context.Queue(), context.Event()
    with ProcessPoolExecutor(settings.workers, context, _start_worker, (events, stop)) as pool:
        try:
            while left or running:
                while left and len(running) < settings.workers:
                    deadline.check()
                    piece, title = left.pop(0)
                    watches[title] = watch(title)
                    observers = [_Sender(title), deadline]
                    running[pool.submit(attempt, piece, settings, observers)] = piece
                done, _ = wait(running, timeout=0.2)
                while not events.empty():
                    title, event, facts = events.get()
                    tell([watches[title]], event, *facts)
                for future in done:
                    yield running.pop(future), future.result()
        except KeyboardInterrupt as interrupt:
            deadline.check()
            raise KeyboardInterrupt from interrupt  # of all of it, not of what one worker did
        except BrokenProcessPool as error:
            raise MachineError("a worker process was killed: the same command goes on") from error
        finally:
            stop.set()  # a worker may have missed the interrupt


def _start_worker(events: Any, stop: Any) -> None:
    """Compute with one thread, and end with the process that shows the work, however that ends."""
    import torch

    torch.set_num_threads(1)
    _Sender.events, _Sender.stop = events, stop
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()


@dataclass(frozen=True)
class _Sender:
    """An observer in a worker process: sends what it sees to the one that shows it, and stops with it."""

    title: str
    events: ClassVar[Any]  # the process's own, as it was started with
    stop: ClassVar[Any]

    def on_start(self, *facts: object) -> None:
        self.events.put((self.title, "on_start", facts))

    def on_note(self, *facts: object) -> None:
        self.events.put((self.title, "on_note", facts))

    def on_step(self, *facts: object) -> None:
        self.events.put((self.title, "on_step", facts))
        if self.stop.is_set():
            signal.raise_signal(signal.SIGINT)

    def on_evaluate(self, *facts: object) -> None:
        self.events.put((self.title, "on_evaluate", facts))


def attempt(piece: Piece, settings: WorkSettings, observers: Sequence[object]) -> End:
    """Work on a piece unless another process does; a failure is noted beside its folder."""
    import torch

    try:
        if not take(piece):
            raise BusyError("another process has taken some of its seeds")
        with lock(piece.out / ".locks" / f"{piece.run.name}.{piece.folder.name}"):
            forget_failure(piece.folder)
            work_on(piece.run, piece.seeds, piece.folder, settings, observers)
        return "done", ""
    except BusyError:
        tell(observers, "on_note", "another process is at it; left to that one")
        return "busy", ""
    except Exception as error:
        if trouble := machine_trouble(error):
            raise MachineError(trouble) from error
        reason = note_failure(piece.folder, error)
        tell(observers, "on_note", f"failed: {reason}")
        if "CUDA error" in str(error):  # whatever comes after in this process would fail as well
            raise MachineError(f"the GPU has failed ({reason}): start again, with ‹retry=True›") from error
        return "failed", reason
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def machine_trouble(error: BaseException) -> str:
    """One line, if the error is the machine's and not the run's."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError) or cause.errno not in _MACHINE:
        return ""
    return str(error if error is not cause else cannot_write(Path(str(cause.filename)), cause))


def work_on(
    run: PlannedRun,
    seeds: Sequence[int],
    folder: Path,
    settings: WorkSettings,
    observers: Sequence[object] = (),
) -> None:
    """Whatever a piece still needs: training, an analysis, a smaller folder."""
    from ctlpp.benchmark.dataset import generate
    from ctlpp.figures.run import analyze_run
    from ctlpp.training.train import train

    for left in folder.glob(".*.part"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    if read_run(folder, with_history=True).state != "finished":  # or a file is lost: training makes it anew
        train(
            run.model,
            generate(run.variant, **run.options),
            seeds=seeds,
            recipe=run.recipe,
            preset=run.preset,
            sizes=dict(run.sizes),
            device=settings.device,
            out=folder,
            resume=(folder / "config.json").exists(),
            observers=observers,
            about={"cell": run.name},
        )
    if not (folder / "checkpoint").is_dir():
        return
    if _needs_analysis(folder, settings):
        tell(observers, "on_note", f"analysing {plural(len(seeds))}")
        shutil.rmtree(folder / "analysis", ignore_errors=True)  # one that is damaged
        analyze_run(folder, device=settings.device, figures=settings.figures, formats=["png"])
    if settings.small:
        _keep_weights(folder, 2 if settings.keep_weights is None else settings.keep_weights)
        shutil.rmtree(folder / "checkpoint")


def _needs_analysis(folder: Path, settings: WorkSettings) -> bool:
    """Whether an analysis is wanted, and is missing or damaged."""
    try:
        return settings.analysis and read_analysis(folder) is None
    except DamagedError:
        return True


def _keep_weights(folder: Path, number: int) -> None:
    """Write `weights/seed-<n>.safetensors`, the state of an ordinary module, for some seeds."""
    import safetensors.torch

    from ctlpp.training.train import load_run

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
