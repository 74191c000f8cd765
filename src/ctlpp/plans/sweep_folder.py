"""A sweep's folder: a run folder per run, the state of everything, and a report page.

    DIR/<name>/         a run, merged from its pieces
    DIR/sweep.json      all runs: which are finished, running, waiting or failed, and where
    DIR/report.html     the page of `ctlpp report`
    DIR/.pieces/        what is not yet merged

Example:
    sweep([{"model": "lstm", "variant": "R", "lr": lr} for lr in (1e-3, 3e-3)], "sweeps/rates")
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from ctlpp.files import UserError, lock, write_json
from ctlpp.plans.pieces import Piece, check_out, first_mismatch, run_status
from ctlpp.plans.planned import PlannedRun, data_digests
from ctlpp.plans.sweep_file import Row, plan_sweep, read_sweep
from ctlpp.plans.work import LOCAL, Outcome, PieceOutcome, WorkSettings, carry_out
from ctlpp.report.page import write_report
from ctlpp.runs.checkpoint import merge_runs
from ctlpp.runs.folder import read_run
from ctlpp.runs.history import StepStats
from ctlpp.words import duration, name_seeds

Say = Callable[[str], None]  # prints a line
STATE_FILE = "sweep.json"
FORMAT = 1
WRITE_SECONDS = 5.0  # between versions of that file


def sweep(runs: Sequence[Row] | Path | str, out: Path | str, **settings: Any) -> list[dict[str, Any]]:
    """Carry out a sweep.

    Args:
        runs: Rows as in a sweep file's `[[run]]`, or the file.
        out: The sweep folder.
        settings: Of `ctlpp.plans.work.WorkSettings`, such as `on="tcp://host:8786"` or `minutes=30`.

    Returns:
        One dictionary per seed, with its run, model, variant, number and accuracies.
    """
    plan = read_sweep(Path(runs)) if isinstance(runs, Path | str) else plan_sweep(runs)
    out = Path(out)
    Sweep(plan, out).carry_out(WorkSettings(**{"on": LOCAL, "analysis": False, **settings}))
    records = [(run, read_run(out / run.name)) for run in plan]
    return [
        {"run": run.name, "model": run.model, "variant": record.variant, "seed": seed.number, **seed.accuracy}
        for run, record in records
        for seed in record.seeds
    ]


@dataclass(eq=False)
class PieceState:
    """How far a piece is; an observer of its training."""

    piece: Piece
    title: str = ""
    say: Say = lambda line: None
    state: str = "waiting"  # running, finished, failed, elsewhere (another process has it)
    worker: str = "here"
    step: int = 0
    first: int = 0  # the step at which this process found it
    began: float = 0.0
    seconds: float = 0.0  # of work
    reason: str = ""

    def assigned(self, worker: str) -> None:
        """A worker has it."""
        self.worker = worker

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """It begins, perhaps again."""
        self.state, self.step, self.first, self.began = "running", step, step, monotonic()

    def on_note(self, line: str) -> None:
        """Pass it on."""
        self.say(f"{self.title}: {line}")

    def on_step(self, stats: StepStats) -> None:
        """Note the progress."""
        self.step, self.seconds = stats.step, monotonic() - self.began

    def end(self, outcome: PieceOutcome) -> None:
        """Note how the work has ended."""
        self.state = {"done": "finished", "busy": "elsewhere"}.get(outcome.state, "failed")
        self.reason = outcome.reason
        line = f"{self.title}: {self.state}"
        if self.state == "finished":
            self.step = self.piece.run.steps
        if self.began:
            self.seconds = monotonic() - self.began
            line += f", {duration(self.seconds)} on {self.worker}"
        self.say(line)

    def to_json(self) -> dict[str, Any]:
        """The entry in sweep.json."""
        facts = {"seeds": name_seeds(self.piece.seeds), "state": self.state, "where": self.worker}
        return facts | {"step": self.step} | ({"reason": self.reason} if self.reason else {})


@dataclass(eq=False)
class Sweep:
    """A plan, its folder and the state of everything."""

    plan: Sequence[PlannedRun]
    out: Path
    say: Say = lambda line: print(line, file=sys.stderr, flush=True)
    states: dict[Path, PieceState] = field(default_factory=dict)  # of the pieces that this process knows
    merged: dict[str, set[int]] = field(default_factory=dict)  # seeds in run folders, by run
    trained: dict[str, set[int]] = field(default_factory=dict)  # and in pieces of this process
    written: float = -inf  # when

    def __post_init__(self) -> None:
        check_out(self.out, STATE_FILE)
        self.merged = {run.name: self._read_merged(run) for run in self.plan}
        self.trained = {name: {*seeds} for name, seeds in self.merged.items()}

    @property
    def pieces(self) -> Path:
        """The folder of what is not yet merged."""
        return self.out / ".pieces"

    @property
    def left(self) -> list[PlannedRun]:
        """The plan without the seeds that are merged."""
        missing = [
            (run, [seed for seed in run.seeds if seed not in self.merged[run.name]]) for run in self.plan
        ]
        return [replace(run, seeds=tuple(seeds)) for run, seeds in missing if seeds]

    def carry_out(self, settings: WorkSettings) -> Outcome:
        """Train what is missing, merge it, and write down the state of everything."""
        for piece in (piece for run in self.left for piece in run_status(self.pieces, run).to_do):
            if piece.failure:
                self.states[piece.folder] = PieceState(piece, state="failed", reason=piece.failure)
        for run in self.left:  # before anything is begun
            try:
                data_digests(run)
            except UserError as error:
                raise UserError(f"the data of {run.name}: {error.args[0]}") from error
        try:
            outcome = carry_out(self.left, self.pieces, settings, self._watch, self._after_piece)
        finally:
            if self.out.exists():  # something has begun
                for run in self.left:
                    self._merge(run)
                self.write()
        outcome.seeds = sum(len(self.merged[run.name] & {*run.seeds}) for run in self.plan)
        if any(self.merged.values()):
            write_report([self.out], self.out / "report.html", force=True)
        return outcome

    def _watch(self, title: str, piece: Piece) -> PieceState:
        self.states[piece.folder] = PieceState(piece, title, self.say)
        self._write_sometimes()
        return self.states[piece.folder]

    def write(self) -> None:
        """Write sweep.json."""
        states: dict[str, list[PieceState]] = {run.name: [] for run in self.plan}
        for state in self.states.values():
            states[state.piece.run.name].append(state)
        runs = [self._to_json(run, states[run.name]) for run in self.plan]
        write_json(self.out / STATE_FILE, {"format": FORMAT, "runs": runs})
        self.written = monotonic()

    def _after_piece(self, piece: Piece, outcome: PieceOutcome) -> None:
        """Note how the work on a piece has ended; merge its run if that was the last piece."""
        self.states[piece.folder].end(outcome)
        if outcome.state == "done":
            self.trained[piece.run.name] |= {*piece.seeds}
            if {*piece.run.seeds} <= self.trained[piece.run.name]:
                self._merge(piece.run)
        self._write_sometimes()

    def _write_sometimes(self) -> None:
        if monotonic() - self.written > WRITE_SECONDS:
            self.write()

    def _merge(self, run: PlannedRun) -> None:
        """Make finished pieces part of the run's folder."""
        target = self.out / run.name
        with lock(self.pieces / ".locks" / f"{run.name}.merge", wait=True):
            have = self._read_merged(run)
            found = [piece for piece in run_status(self.pieces, run).found if piece.finished]
            new = [piece.folder for piece in found if not {*piece.seeds} <= have]
            if len(new) == 1 and not have:
                new[0].rename(target)
            elif new:
                merge_runs(target, [*new, target] if have else new)
            for piece in found:
                shutil.rmtree(piece.folder, ignore_errors=True)
            with suppress(OSError):  # not if some are left
                (self.pieces / "runs" / run.name).rmdir()
            self.merged[run.name] = self._read_merged(run)
            self.trained[run.name] |= self.merged[run.name]

    def _read_merged(self, run: PlannedRun) -> set[int]:
        """The seeds that a run's folder has; UserError if it is not what it should be."""
        folder = self.out / run.name
        if not folder.exists():
            return set()
        record = read_run(folder, with_history=True)
        if record.state != "finished":
            remedy = "remove that folder, and it is trained anew"
            raise UserError(f"{folder} is {record.state} ({record.reason}): {remedy}")
        if mismatch := first_mismatch(record.config, run):
            raise UserError(f"the run in {folder} {mismatch}: choose another ‹out›")
        return {*record.config["seeds"]}

    def _to_json(self, run: PlannedRun, pieces: Sequence[PieceState]) -> dict[str, Any]:
        """The entry of a run in sweep.json."""
        states = {piece.state for piece in pieces}
        merged = sorted(self.merged[run.name] & {*run.seeds})
        state = next((state for state in ("failed", "running") if state in states), "waiting")
        return {
            "name": run.name,
            "model": run.model,
            "variant": run.variant,
            "state": "finished" if len(merged) == len(run.seeds) else state,
            "folder": run.name,
            "seeds": name_seeds(run.seeds),
            "finished": name_seeds(merged),
            "settings": {**dict(run.changes), **{f"size.{name}": value for name, value in run.sizes}},
            "data": run.options,
            "pieces": [piece.to_json() for piece in pieces],
        }
