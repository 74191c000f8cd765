"""A run, and the loop that trains it: steps, evaluations, checkpoints, early stop, interrupts."""

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from ctlpp.files import Terminated, as_frame, write_json
from ctlpp.runs import checkpoint
from ctlpp.runs.history import TRAINING, History, Score, StepStats, tell, to_table
from ctlpp.training.batches import (
    Batches,
    Split,
    check_data_matches_run,
    check_tokens,
    open_data,
    read_splits,
)
from ctlpp.training.crowd import Crowd
from ctlpp.training.engine import computing_with
from ctlpp.training.step import Stepper, Tally, evaluate
from ctlpp.words import plural

_REPORT_SECONDS = 0.5


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during training; the text says how to go on."""


@dataclass
class Run:
    """What `train` and `load_run` give back."""

    config: dict[str, Any]  #: as in config.json
    crowd: Crowd  #: `crowd.member(seed)` is an ordinary module
    history: History  #: all evaluations
    folder: Path | None = None
    step: int = 0  #: steps done
    seconds: float = 0.0  #: spent, over all sittings …
    overhead_seconds: float = 0.0  #: … and how many of them on evaluations and checkpoints
    diverged: dict[int, int] = field(default_factory=dict)  #: seed -> the step at which it was frozen
    notes: tuple[str, ...] = ()  #: what was not as usual when it was loaded

    def __repr__(self) -> str:
        about, many = self.config, plural(len(self.crowd.seeds))
        return f"<{about['model']} on {about['variant'] or 'own data'}: {many}, {plural(self.step, 'step')}>"

    @property
    def threads(self) -> int:
        """How many threads compute it on a CPU."""
        return int(self.config["engine"].get("threads") or 1)

    def evaluate(self, data: Any, splits: str | Sequence[str] | None = None) -> list[Score]:
        """Scores of all seeds on other data, as `ctlpp.evaluate` has them."""
        place, data = data if isinstance(data, str | Path) else "the dataset", open_data(data)
        if not isinstance(data, Mapping):
            check_data_matches_run(self.config, data.task, self.folder or "memory", place)
        known = read_splits(data, splits)
        check_tokens(self.config, known)
        tally = Tally.of(self.crowd, self.config["engine"]["seeds_at_a_time"])
        with computing_with(self.threads):
            return evaluate(tally, known, self.step)

    def table(self) -> list[dict[str, Any]]:
        """One row per seed: its number, its last accuracy on every split, the step it diverged at or None.

        With restarts also whether it is chosen.
        """
        return [
            {"seed": one.number, "diverged": one.diverged_at, **self._choice(one.number), **one.accuracy}
            for one in self.history.results(self.diverged)
        ]

    def _choice(self, seed: int) -> dict[str, bool]:
        """Whether a seed is the one of its restarts that fits the training data best; empty without any."""
        restarts = self.config["recipe"]["restarts"]
        return {"chosen": seed in self.history.chosen(restarts)} if restarts > 1 else {}

    def frame(self) -> Any:
        """The whole history as a table: step, seed, split, length (0: all of the split), accuracy, loss.

        Returns:
            A `pandas.DataFrame`, or a `pyarrow.Table` where pandas is not installed.
        """
        return as_frame(to_table(self.history.scores()))

    def result(self) -> dict[str, Any]:
        """As in result.json."""
        about = {key: self.config[key] for key in ("model", "variant", "protocol", "parameters")}
        about |= {"steps": self.step, "seconds": round(self.seconds, 3)}
        about |= {"seconds_aside": round(self.overhead_seconds, 3)}
        about |= {"device": self.config["engine"]["device_name"], "versions": self.config["versions"]}
        if "continued" in self.config:
            about["continued"] = self.config["continued"]
        seeds = [asdict(one) for one in self.history.results(self.diverged)]
        numbered = [{"seed": one.pop("number"), **one} for one in seeds]
        return about | {"seeds": [one | self._choice(one["seed"]) for one in numbered]}

    def set_diverged(self, steps: Tensor) -> None:
        """Take the step at which each seed was frozen, (S,), -1 while it trains."""
        frozen = zip(self.crowd.seeds, steps.tolist(), strict=True)
        self.diverged = {seed: step for seed, step in frozen if step >= 0}

    def to_tensors(self) -> tuple[dict[str, Tensor], list[str]]:
        """Weights and history for a checkpoint, and the names of the splits."""
        rows = self.history.scores()
        splits = list(dict.fromkeys(row.split for row in rows))
        whole = [(row.step, row.seed, splits.index(row.split), row.length) for row in rows]
        real = [(row.accuracy, row.loss) for row in rows]
        history = {
            "metrics.whole": torch.tensor(whole, dtype=torch.int64).view(-1, 4),
            "metrics.real": torch.tensor(real, dtype=torch.float64).view(-1, 2),
        }
        return self.crowd.to_tensors() | history, splits

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Take the state of a checkpoint."""
        self.crowd.restore(tensors)
        self.set_diverged(tensors["diverged"])
        both = zip(tensors["metrics.whole"].tolist(), tensors["metrics.real"].tolist(), strict=True)
        rows = ((step, seed, facts["splits"][n], length, *real) for (step, seed, n, length), real in both)
        self.history = History.of(rows, self.crowd.seeds)
        self.step, self.seconds = facts["step"], facts["seconds"]
        self.overhead_seconds = facts.get("aside", 0.0)


@dataclass
class Training:
    """A run in the making."""

    run: Run
    stepper: Stepper
    batches: Batches
    held_out: dict[str, Split]
    observers: tuple[object, ...]
    loss_count: int = 0  # steps since the last evaluation …
    loss_sum: Tensor = field(init=False)  # … and their summed losses, (S,)
    saved: int = -1  # the step of the last checkpoint
    stopped: bool = False  # early, or by an observer
    tally: Tally | None = None  # of the evaluations

    def __post_init__(self) -> None:
        self.loss_sum = torch.zeros_like(self.stepper.losses, dtype=self.run.crowd.sum_dtype)

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return self.stopped or self.run.step >= self.stepper.recipe.steps

    def fit(self) -> None:
        """Train to the end; on Ctrl-C or SIGTERM save and raise `Interrupted`."""
        tell(self.observers, "on_start", self.run.config, self.run.step)
        try:
            with computing_with(self.run.threads):
                self._fit()
            self._finish()
        finally:
            tell(self.observers, "on_close")

    def _fit(self) -> None:
        run = self.run
        self.began, self.began_at, self.earlier = monotonic(), run.step, run.seconds
        self.saved_at, self.reported_at = self.began, 0.0
        every, last = self.stepper.recipe.eval_every, self.stepper.recipe.steps
        whole = True  # a step and the evaluation that is due after it are done
        with _graceful_interrupt() as interrupted:
            try:
                while not self.over:
                    whole = False
                    self._advance()
                    due = run.step == last or (every > 0 and run.step % every == 0)
                    scores = self._evaluate() if due else None
                    whole = True
                    self._after_step(scores)
                    if interrupted:
                        raise interrupted[0]
            except KeyboardInterrupt as error:
                if whole:
                    self.save()
                if run.folder is None or self.saved < 0:
                    raise
                why = f"{str(error) or 'interrupted'}: step {self.saved} is saved in {run.folder}"
                raise Interrupted(f"{why}; go on with resume=True") from error

    def _finish(self) -> None:
        """Write the results, and the history again, in case it was lost after an earlier end."""
        self.run.seconds = self._spent()
        self.run.set_diverged(self.stepper.optimizer.diverged)
        if self.run.folder is not None:
            self.run.history.write(self.run.folder / "metrics.parquet")
            write_json(self.run.folder / "result.json", self.run.result())
        tell(self.observers, "on_end", self.run)

    def _advance(self) -> None:
        """Take one step."""
        run, group = self.run, self.stepper.group
        self.stepper.step(run.step, *self.batches.at(run.step))
        self.loss_sum += self.stepper.losses
        self.loss_count += 1
        run.step += 1
        if self.stepper.group < group:
            fewer = f"from step {run.step} on each step takes {self.stepper.group} seeds at a time"
            tell(self.observers, "on_note", f"out of memory: {fewer}")

    def _evaluate(self) -> list[Score]:
        """The scores of all seeds; they go into the history, too."""
        run, recipe = self.run, self.stepper.recipe
        run.crowd.set_progress(recipe.progress(run.step))
        if self.tally is None or self.tally.group > self.stepper.group:
            self.tally = Tally.of(run.crowd, self.stepper.group)
        with self._timing_overhead():
            scores = evaluate(self.tally, self.held_out, run.step)
        losses = (self.loss_sum / max(1, self.loss_count)).tolist()
        scores += [
            Score(run.step, seed, TRAINING, 0, float("nan"), loss)
            for seed, loss in zip(run.crowd.seeds, losses, strict=True)
        ]
        run.history.add(scores)
        self.loss_sum.zero_()
        self.loss_count = 0
        run.set_diverged(self.stepper.optimizer.diverged)
        rule = recipe.early_stop, recipe.settled_accuracy, recipe.settled_change
        self.stopped = run.history.settled(*rule, list(run.diverged))
        return scores

    def _after_step(self, scores: list[Score] | None) -> None:
        """Whatever is due after a step and its evaluation: reports, a checkpoint."""
        recipe, step, stop = self.stepper.recipe, self.run.step, False
        if scores is not None:
            stop = tell(self.observers, "on_evaluate", step, scores)
        if self.over or monotonic() - self.reported_at > _REPORT_SECONDS:
            self.reported_at = monotonic()
            stop |= tell(self.observers, "on_step", self._stats())
        if stop and scores is None:
            tell(self.observers, "on_evaluate", step, self._evaluate())
        self.stopped |= stop
        late = monotonic() - self.saved_at > 60 * recipe.checkpoint_minutes
        due = recipe.checkpoint_every > 0 and step % recipe.checkpoint_every == 0
        if late or due or self.over:
            self.save()

    def _stats(self) -> StepStats:
        run, recipe, stepper = self.run, self.stepper.recipe, self.stepper
        run.set_diverged(stepper.optimizer.diverged)
        return StepStats(
            step=run.step,
            steps=recipe.steps,
            rate=recipe.rate(run.step - 1),
            steps_per_second=(run.step - self.began_at) / max(monotonic() - self.began, 1e-9),
            losses=tuple(stepper.losses.tolist()),
            norms=tuple(stepper.norms.tolist()),
            diverged=tuple(run.diverged),
        )

    def _spent(self) -> float:
        """Seconds of training, in all sittings."""
        return self.earlier + monotonic() - self.began

    @contextmanager
    def _timing_overhead(self) -> Iterator[None]:
        """Wait for all steps so far, then count the seconds as overhead."""
        if self.run.crowd.device.type == "cuda":
            torch.cuda.synchronize(self.run.crowd.device)
        began = monotonic()
        yield
        self.run.overhead_seconds += monotonic() - began

    def save(self) -> None:
        """Write a checkpoint and the history so far."""
        run = self.run
        if run.folder is None or self.saved == run.step:
            return
        tensors, splits = run.to_tensors()
        tensors |= vars(self.stepper.optimizer) | {"loss_sum": self.loss_sum}
        if self.stepper.own is not None:
            tensors |= self.stepper.own.to_tensors()
        facts = {
            "seconds": self._spent(),
            "aside": run.overhead_seconds,
            "loss_count": self.loss_count,
            "splits": splits,
            "stopped": self.stopped,
            "planned": self.stepper.recipe.steps,
        }
        with self._timing_overhead():
            checkpoint.save(run.folder, run.step, tensors, facts)
            run.history.write(run.folder / "metrics.parquet")
        self.saved, self.saved_at = run.step, monotonic()
        tell(self.observers, "on_checkpoint", run.step)

    def resume(self, here: Mapping[str, Any]) -> None:
        """Go on from the newest checkpoint. here: the config that the run would have if it began here."""
        run = self.run
        assert run.folder is not None
        found = checkpoint.newest(run.folder)
        if found is not None:
            self._restore(*found)
        if not self.over and (line := checkpoint.note_move(run.folder, run.config, here, run.step)):
            tell(self.observers, "on_note", line)
        if found is None:
            line = f"nothing is saved in {run.folder} yet: the run begins at step 0"
            tell(self.observers, "on_note", line)

    def _restore(self, tensors: dict[str, Tensor], facts: dict[str, Any], damaged: list[str]) -> None:
        for line in damaged:
            tell(self.observers, "on_note", f"warning: {line}: falling back to the checkpoint before")
        self.run.restore(tensors, facts)
        for name, tensor in vars(self.stepper.optimizer).items():
            tensor.copy_(tensors[name])
        if self.stepper.own is not None:
            self.stepper.own.restore(tensors)
        self.loss_sum.copy_(tensors["loss_sum"])
        self.saved, self.loss_count, self.stopped = facts["step"], facts["loss_count"], facts["stopped"]
        self._note_more_steps(facts.get("planned", self.stepper.recipe.steps))
        engine = self.run.config["engine"]
        if engine["device"] == self.run.crowd.device.type:  # the same order of floating-point sums
            self.stepper.regroup(engine["seeds_at_a_time"])

    def _note_more_steps(self, planned: int) -> None:
        """Go on with a run that was over; note what would have been different with more steps planned."""
        recipe, step = self.stepper.recipe, self.run.step
        if recipe.steps == planned:
            return
        self.stopped = False
        before = replace(recipe, steps=planned)
        rates = any(before.rate(one) != recipe.rate(one) for one in range(step))
        progress = self.batches.curriculum is not None or bool(self.run.crowd.progress_buffers())
        if other := ["the learning rate"] * rates + ["the progress"] * progress:
            was = f"was that of a run of {plural(planned, 'step')}, not of {recipe.steps:,}"
            tell(self.observers, "on_note", f"up to step {step:,} {' and '.join(other)} {was}")


@contextmanager
def _graceful_interrupt() -> Iterator[list[KeyboardInterrupt]]:
    """Hold the first Ctrl-C or SIGTERM back until a step has ended; a second one acts at once."""
    asked: list[KeyboardInterrupt] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.append(Terminated("ended by SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt())
        if len(asked) > 1:
            raise asked[-1]

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
