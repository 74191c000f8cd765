"""The training loop: steps, evaluations, checkpoints, early stop, interrupts."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from ctlpp.files import UserError, write_atomically
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import check_kept
from ctlpp.runs.history import TRAINING, Metrics, Score
from ctlpp.runs.observers import StepStats, tell
from ctlpp.training.batches import Batches, Split
from ctlpp.training.evaluate import Tally, evaluate
from ctlpp.training.step import Stepper

_REPORT_SECONDS = 0.5


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during training; the text says how to go on."""


@dataclass
class Training:
    """A run in the making."""

    stepper: Stepper
    batches: Batches
    held_out: dict[str, Split]
    config: dict[str, Any]
    observers: tuple[object, ...]
    folder: Path | None = None
    step: int = 0  # steps done
    metrics: Metrics = field(default_factory=Metrics)
    seconds: float = 0.0  # spent in earlier sittings
    overhead_seconds: float = 0.0  # that evaluations and checkpoints took, in all sittings
    loss_count: int = 0  # steps since the last evaluation …
    loss_sum: Tensor = field(init=False)  # … and their summed losses, (S,)
    saved: int = -1  # the step of the last checkpoint
    stopped: bool = False  # early
    tally: Tally | None = None  # of the evaluations

    def __post_init__(self) -> None:
        self.loss_sum = torch.zeros_like(self.stepper.losses, dtype=torch.float64)
        self.began, self.began_at, self.saved_at, self.reported_at = monotonic(), self.step, monotonic(), 0.0

    @property
    def over(self) -> bool:
        """Whether there is no step left."""
        return self.stopped or self.step >= self.stepper.recipe.steps

    def diverged(self) -> dict[int, int]:
        """The frozen seeds, and the step at which each was."""
        steps = self.stepper.optimizer.diverged.tolist()
        return {seed: step for seed, step in zip(self.stepper.crowd.seeds, steps, strict=True) if step >= 0}

    def spent(self) -> float:
        """Seconds of training, in all sittings."""
        return self.seconds + monotonic() - self.began

    def fit(self) -> None:
        """Train to the end; on Ctrl-C or SIGTERM save and raise `Interrupted`."""
        tell(self.observers, "on_start", self.config, self.step)
        self.began = self.saved_at = monotonic()
        if self.folder is not None and self.over:
            self.write_metrics()  # what has become of the file since the run was over is not known
        whole = True  # a step and the evaluation that is due after it are done
        with _graceful_interrupt() as interrupted:
            try:
                while not self.over:
                    whole = False
                    self._advance()
                    scores = self._evaluate() if self._evaluation_is_due() else None
                    whole = True
                    self._after_step(scores)
                    if interrupted.is_set():
                        raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                if whole:
                    self.save()
                if self.folder is None or self.saved < 0:
                    raise
                where = f"step {self.saved} is saved in {self.folder}"
                raise Interrupted(f"interrupted: {where}; go on with resume=True") from error
        self.save()

    def _advance(self) -> None:
        """One step."""
        group = self.stepper.group
        self.stepper.step(self.step, *self.batches.at(self.step))
        self.loss_sum += self.stepper.losses
        self.loss_count += 1
        self.step += 1
        if self.stepper.group < group:
            fewer = f"from step {self.step} on each step takes {self.stepper.group} seeds at a time"
            tell(self.observers, "on_note", f"out of memory: {fewer}")

    def _evaluation_is_due(self) -> bool:
        recipe = self.stepper.recipe
        return self.step == recipe.steps or (recipe.eval_every > 0 and self.step % recipe.eval_every == 0)

    def _evaluate(self) -> list[Score]:
        """The scores of all seeds, which are in the metrics, too."""
        stepper, recipe, crowd = self.stepper, self.stepper.recipe, self.stepper.crowd
        crowd.set_progress(recipe.progress(self.step))
        if self.tally is None or self.tally.group > stepper.group:
            self.tally = Tally.of(crowd, stepper.group, stepper.bf16)
        with self._timing_overhead():
            scores = evaluate(crowd, self.held_out, tally=self.tally)
        losses = (self.loss_sum / max(1, self.loss_count)).tolist()
        nan = float("nan")
        scores += [
            Score(seed, TRAINING, 0, nan, loss) for seed, loss in zip(crowd.seeds, losses, strict=True)
        ]
        self.metrics.add(self.step, scores)
        self.loss_sum.zero_()
        self.loss_count = 0
        rule = recipe.early_stop, recipe.settled_accuracy, recipe.settled_change
        self.stopped = self.metrics.settled(*rule, list(self.diverged()))
        return scores

    def _after_step(self, scores: list[Score] | None) -> None:
        """Whatever is due after a step and its evaluation: a checkpoint, reports."""
        recipe, last = self.stepper.recipe, self.step == self.stepper.recipe.steps
        if scores is not None:
            tell(self.observers, "on_evaluate", self.step, scores)
        late = monotonic() - self.saved_at > 60 * recipe.checkpoint_minutes
        due = recipe.checkpoint_every > 0 and self.step % recipe.checkpoint_every == 0
        if last or late or due or self.stopped:
            self.save()
        if last or monotonic() - self.reported_at > _REPORT_SECONDS:
            self.reported_at = monotonic()
            tell(self.observers, "on_step", self._stats())

    def _stats(self) -> StepStats:
        recipe, stepper = self.stepper.recipe, self.stepper
        return StepStats(
            step=self.step,
            steps=recipe.steps,
            rate=recipe.rate(self.step - 1),
            steps_per_second=(self.step - self.began_at) / max(monotonic() - self.began, 1e-9),
            losses=tuple(stepper.losses.tolist()),
            norms=tuple(stepper.norms.tolist()),
            diverged=tuple(self.diverged()),
        )

    @contextmanager
    def _timing_overhead(self) -> Iterator[None]:
        """Count the seconds of what is no training step, once all steps so far are done."""
        if self.stepper.crowd.device.type == "cuda":
            torch.cuda.synchronize(self.stepper.crowd.device)
        began = monotonic()
        yield
        self.overhead_seconds += monotonic() - began

    def save(self) -> None:
        """Write a checkpoint and the metrics so far."""
        if self.folder is None or self.saved == self.step:
            return
        optimizer, columns = self.stepper.optimizer, self.metrics.columns()
        tensors = self.stepper.crowd.to_tensors() | {"mean": optimizer.mean, "square": optimizer.square}
        tensors |= {"diverged": optimizer.diverged, "loss_sum": self.loss_sum}
        tensors |= {f"metrics.{name}": torch.from_numpy(column) for name, column in columns.items()}
        facts = {
            "parameters": self.config["parameters"],
            "seconds": self.spent(),
            "aside": self.overhead_seconds,
            "loss_count": self.loss_count,
            "splits": self.metrics.splits,
            "stopped": self.stopped,
        }
        with self._timing_overhead():
            checkpoint.save(self.folder / "checkpoint", self.step, tensors, facts)
            self.write_metrics()
        self.saved, self.saved_at = self.step, monotonic()
        tell(self.observers, "on_checkpoint", self.step)

    def write_metrics(self) -> None:
        """All evaluations so far, into the folder."""
        assert self.folder is not None
        write_atomically(self.folder / "metrics.parquet", self.metrics.parquet())

    def restore(self) -> None:
        """Go on from the newest checkpoint of the folder, if there is one."""
        assert self.folder is not None
        check_kept(self.folder, "there is nothing to resume; choose another folder")
        found = checkpoint.newest(self.folder / "checkpoint")
        if found is None:
            return
        tensors, facts, damaged = found
        for line in damaged:
            tell(self.observers, "on_note", f"warning: {line}: falling back to the checkpoint before")
        if facts.get("parameters") != self.config["parameters"]:
            raise UserError(f"the checkpoint in {self.folder} is of another model: choose another folder")
        self.stepper.crowd.fill(tensors)
        for name in ("mean", "square", "diverged"):
            getattr(self.stepper.optimizer, name).copy_(tensors[name])
        self.loss_sum.copy_(tensors["loss_sum"])
        self.metrics = metrics_of(tensors, facts)
        self.step = self.saved = self.began_at = facts["step"]
        self.seconds, self.loss_count, self.stopped = facts["seconds"], facts["loss_count"], facts["stopped"]
        self.overhead_seconds = facts.get("aside", 0.0)
        engine = self.config["engine"]
        if engine["device"] == self.stepper.crowd.device.type:  # the same order of floating-point sums
            self.stepper.regroup(engine["seeds_at_a_time"])


def metrics_of(tensors: dict[str, Tensor], facts: dict[str, Any]) -> Metrics:
    """The history in a checkpoint."""
    columns = {name: tensors[f"metrics.{name}"] for name in ("whole", "real")}
    return Metrics.from_columns(columns, facts["splits"])


@contextmanager
def _graceful_interrupt() -> Iterator[threading.Event]:
    """Let the first Ctrl-C, or SIGTERM, wait for the end of a step; the second one does not wait."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
