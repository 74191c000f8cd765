"""A sweep's folder: a run folder for every run, what has become of everything, and a report page.

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
from pathlib import Path
from time import monotonic
from typing import Any

from ctlpp.files import UserError, lock, make_folder, write_json
from ctlpp.plans.pieces import Piece, first_mismatch, run_status
from ctlpp.plans.planned import PlannedRun, data_digests
from ctlpp.plans.sweep import Row, plan_sweep, read_sweep
from ctlpp.plans.work import LOCAL, End, Outcome, WorkSettings, carry_out
from ctlpp.report.page import write_report
from ctlpp.runs.checkpoint import merge_runs
from ctlpp.runs.folder import read_run
from ctlpp.runs.history import StepStats
from ctlpp.words import duration, name_seeds

Say = Callable[[str], None]  # told a line for people
BOOKS = "sweep.json"
FORMAT = 1
WRITE_EVERY = 5.0  # seconds between states that are written


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
    out, own = Path(out), {"on": LOCAL, "analysis": False, **settings}
    Sweep(plan, out).carry_out(WorkSettings(**own))
    records = [(run, read_run(out / run.name)) for run in plan]
    return [
        {"run": run.name, "model": run.model, "variant": record.variant, "seed": seed.number, **seed.accuracy}
        for run, record in records
        for seed in record.seeds
    ]


@dataclass(eq=False)
class PieceState:
    """What has become of a piece; an observer of its training."""

    piece: Piece
    title: str = ""
    say: Say = lambda line: None
    state: str = "waiting"  # running, finished, failed, elsewhere (another process has it)
    where: str = "here"
    step: int = 0
    first: int = 0  # step of this sitting
    began: float = 0.0
    seconds: float = 0.0  # at work
    reason: str = ""

    def placed(self, where: str) -> None:
        """A worker has it."""
        self.where = where

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """It begins, perhaps again."""
        self.state, self.step, self.first, self.began = "running", step, step, monotonic()

    def on_note(self, line: str) -> None:
        """Pass it on."""
        self.say(f"{self.title}: {line}")

    def on_step(self, stats: StepStats) -> None:
        """How far it is."""
        self.step, self.seconds = stats.step, monotonic() - self.began

    def ended(self, end: End) -> None:
        """It is through."""
        self.state = {"done": "finished", "busy": "elsewhere"}.get(end.state, "failed")
        self.reason = end.reason
        self.step = self.piece.run.steps if end.state == "done" else self.step
        self.seconds = monotonic() - self.began if self.began else 0.0
        self.say(
            f"{self.title}: {self.state}" + f", {duration(self.seconds)} on {self.where}" * bool(self.began)
        )

    def to_json(self) -> dict[str, Any]:
        """As in sweep.json."""
        facts = {"seeds": name_seeds(self.piece.seeds), "state": self.state, "where": self.where}
        return facts | {"step": self.step} | ({"reason": self.reason} if self.reason else {})


@dataclass(eq=False)
class Sweep:
    """A plan, its folder and where everything stands."""

    plan: Sequence[PlannedRun]
    out: Path
    say: Say = lambda line: print(line, file=sys.stderr, flush=True)
    states: dict[Path, PieceState] = field(default_factory=dict)  # of pieces that this sitting knows
    merged: dict[str, set[int]] = field(default_factory=dict)  # seeds in run folders, by run
    done: dict[str, set[int]] = field(default_factory=dict)  # and in pieces of this sitting
    written: float = 0.0  # when

    def __post_init__(self) -> None:
        names = [path.name for path in self.out.iterdir()] if self.out.is_dir() else []
        if names and BOOKS not in names:
            other = f"{self.out} holds other files ({min(names)}, …)"
            raise UserError(f"{other}: choose an empty or a new folder as ‹out›")
        self.merged = {run.name: self._read_merged(run) for run in self.plan}

    @property
    def pieces(self) -> Path:
        """What is not yet merged."""
        return self.out / ".pieces"

    @property
    def left(self) -> list[PlannedRun]:
        """The plan without the seeds that are merged."""
        missing = [
            (run, [seed for seed in run.seeds if seed not in self.merged[run.name]]) for run in self.plan
        ]
        return [replace(run, seeds=tuple(seeds)) for run, seeds in missing if seeds]

    def carry_out(self, settings: WorkSettings) -> Outcome:
        """Train what is missing, merge it, and write down what has become of it."""
        for piece in (piece for run in self.left for piece in run_status(self.pieces, run).to_do):
            if piece.failure:
                self.states[piece.folder] = PieceState(piece, state="failed", reason=piece.failure)
        for run in self.left:  # before anything is begun
            try:
                data_digests(run)
            except UserError as error:
                raise UserError(f"the data of {run.name}: {error.args[0]}") from error
        make_folder(self.out)
        try:
            self.write()
            outcome = carry_out(self.left, self.pieces, settings, self._watch, self._through)
        finally:
            for run in self.left:
                self._merge(run)
            self.write()
        outcome.seeds = sum(len(self.merged[run.name] & {*run.seeds}) for run in self.plan)
        if any(self.merged.values()):
            write_report([self.out], self.out / "report.html", force=True)
        return outcome

    def _watch(self, title: str, piece: Piece) -> PieceState:
        self.states[piece.folder] = PieceState(piece, title, self.say)
        return self.states[piece.folder]

    def write(self) -> None:
        """Write sweep.json."""
        pieces: dict[str, list[PieceState]] = {}
        for state in self.states.values():
            pieces.setdefault(state.piece.run.name, []).append(state)
        runs = [self._to_json(run, pieces.get(run.name, [])) for run in self.plan]
        write_json(self.out / BOOKS, {"format": FORMAT, "runs": runs})
        self.written = monotonic()

    def _through(self, piece: Piece, end: End) -> None:
        """A piece has come to an end; when it was the last of its run, that is merged."""
        self.states[piece.folder].ended(end)
        if end.state == "done":
            done = self.done.setdefault(piece.run.name, set())
            done |= {*piece.seeds}
            if {*piece.run.seeds} <= done:
                self._merge(piece.run)
        if monotonic() - self.written > WRITE_EVERY:
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
        """A run, as in sweep.json."""
        states = {state.state for state in pieces}
        merged = sorted(self.merged[run.name] & {*run.seeds})
        state = next((one for one in ("failed", "running") if one in states), "waiting")
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
            "pieces": [one.to_json() for one in pieces],
        }
