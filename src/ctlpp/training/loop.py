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

from ctlpp.files import UserError, write_atomically, write_json
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import FORMAT, check_kept
from ctlpp.runs.history import TRAINING, Metrics, Score
from ctlpp.runs.observers import StepStats, tell
from ctlpp.training.batches import Batches, Split
from ctlpp.training.evaluate import Tally, evaluate
from ctlpp.training.result import Run, check_facts, fill, strip
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
    loss_count: int = 0  # steps since the last evaluation …
    saved: int = -1  # the step of the last checkpoint
    stopped: bool = False  # early
    tally: Tally | None = None  # of the evaluations
    aside: float = 0.0  # seconds that evaluations and checkpoints took, in all sittings
    loss_sum: Tensor = field(init=False)  # … and their summed losses, (S,)

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
        if facts.get("format") != FORMAT or facts.get("parameters") != self.config["parameters"]:
            raise UserError(
                f"the checkpoint in {self.folder} is of another model or version: choose another folder"
            )
        check_facts(facts, self.folder)
        fill(self.stepper.crowd, tensors)
        for name in ("mean", "square", "diverged"):
            getattr(self.stepper.optimizer, name).copy_(tensors[name])
        self.loss_sum.copy_(tensors["loss_sum"])
        self.metrics = Metrics.from_columns(strip(tensors, "metrics."), facts["splits"])
        self.step = self.saved = self.began_at = facts["step"]
        self.seconds, self.loss_count, self.stopped = facts["seconds"], facts["loss_count"], facts["stopped"]
        self.aside = facts.get("aside", 0.0)
        engine = self.config["engine"]
        if engine["device"] == self.stepper.crowd.device.type:  # the same order of floating-point sums
            self.stepper.regroup(engine["seeds_at_a_time"])

    def save(self) -> None:
        """Write a checkpoint and the metrics so far."""
        if self.folder is None or self.saved == self.step:
            return
        crowd, optimizer = self.stepper.crowd, self.stepper.optimizer
        tensors = {"weights": crowd.weights, "mean": optimizer.mean, "square": optimizer.square}
        tensors |= {"diverged": optimizer.diverged, "loss_sum": self.loss_sum}
        tensors |= {f"extras.{name}": extra for name, extra in crowd.extras.items()}
        tensors |= {
            f"metrics.{name}": torch.from_numpy(column) for name, column in self.metrics.columns().items()
        }
        facts = {
            "parameters": self.config["parameters"],
            "seconds": self.spent(),
            "aside": self.aside,
            "loss_count": self.loss_count,
            "splits": self.metrics.splits,
            "stopped": self.stopped,
        }
        with self.watched():
            checkpoint.save(self.folder / "checkpoint", self.step, tensors, facts)
            self.write_metrics()
        self.saved, self.saved_at = self.step, monotonic()
        tell(self.observers, "on_checkpoint", self.step)

    def write_metrics(self) -> None:
        """All evaluations so far, into the folder."""
        assert self.folder is not None
        write_atomically(self.folder / "metrics.parquet", self.metrics.parquet())

    def spent(self) -> float:
        """Seconds of training, in all sittings."""
        return self.seconds + monotonic() - self.began

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count the seconds of what is no training step, once all steps so far are done."""
        if self.stepper.crowd.device.type == "cuda":
            torch.cuda.synchronize(self.stepper.crowd.device)
        began = monotonic()
        yield
        self.aside += monotonic() - began

    def run(self) -> Run:
        """The run as it stands."""
        crowd, spent = self.stepper.crowd, (self.spent(), self.aside)
        return Run(self.config, crowd, self.metrics, self.diverged(), self.step, *spent, self.folder)


def fit(training: Training) -> Run:
    """Train to the end; on Ctrl-C or SIGTERM save and raise `Interrupted`."""
    tell(training.observers, "on_start", training.config, training.step)
    training.began = training.saved_at = monotonic()
    if training.folder is not None and training.over:
        training.write_metrics()  # what has become of the file since the run was over is not known
    whole = True  # a step and the evaluation that is due after it are done
    with _patient() as interrupted:
        try:
            while not training.over:
                whole = False
                _advance(training)
                scores = _evaluate(training) if _evaluation_due(training) else None
                whole = True
                _look_after(training, scores)
                if interrupted.is_set():
                    raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            if whole:
                training.save()
            if training.folder is None or training.saved < 0:
                raise
            where = f"step {training.saved} is saved in {training.folder}"
            raise Interrupted(f"interrupted: {where}; go on with resume=True") from error
    training.save()
    run = training.run()
    if training.folder is not None:
        write_json(training.folder / "result.json", run.result())
    tell(training.observers, "on_end", run)
    return run


def _advance(training: Training) -> None:
    """One step."""
    group = training.stepper.group
    training.stepper.step(training.step, *training.batches.at(training.step))
    training.loss_sum += training.stepper.losses
    training.loss_count += 1
    training.step += 1
    if training.stepper.group < group:
        line = f"out of memory: from step {training.step} on each step takes {training.stepper.group} seeds at a time"
        tell(training.observers, "on_note", line)


def _evaluation_due(training: Training) -> bool:
    recipe, step = training.stepper.recipe, training.step
    return step == recipe.steps or (recipe.eval_every > 0 and step % recipe.eval_every == 0)


def _look_after(training: Training, scores: list[Score] | None) -> None:
    """Whatever is due after a step and its evaluation: a checkpoint, reports."""
    recipe, step = training.stepper.recipe, training.step
    last = step == recipe.steps
    if scores is not None:
        tell(training.observers, "on_evaluate", step, scores)
    late = monotonic() - training.saved_at > 60 * recipe.checkpoint_minutes
    if last or late or training.stopped or (recipe.checkpoint_every and step % recipe.checkpoint_every == 0):
        training.save()
    if last or monotonic() - training.reported_at > _REPORT_SECONDS:
        training.reported_at = monotonic()
        tell(training.observers, "on_step", _stats(training))


def _evaluate(training: Training) -> list[Score]:
    """The scores of all seeds, which are in the metrics, too."""
    stepper, recipe = training.stepper, training.stepper.recipe
    known = training.diverged()
    stepper.crowd.set_progress(stepper.recipe.progress(training.step))
    if training.tally is None or training.tally.group > stepper.group:
        training.tally = Tally.of(stepper.crowd, stepper.group, stepper.bf16)
    with training.watched():
        scores = evaluate(stepper.crowd, training.held_out, tally=training.tally)
    losses = (training.loss_sum / max(1, training.loss_count)).tolist()
    seeds = stepper.crowd.seeds
    scores += [Score(seed, TRAINING, 0, float("nan"), loss) for seed, loss in zip(seeds, losses, strict=True)]
    training.metrics.add(training.step, scores)
    training.loss_sum.zero_()
    training.loss_count = 0
    training.stopped = training.metrics.settled(
        recipe.early_stop, recipe.settled_accuracy, recipe.settled_change, list(known)
    )
    return scores


def _stats(training: Training) -> StepStats:
    recipe, stepper = training.stepper.recipe, training.stepper
    return StepStats(
        step=training.step,
        steps=recipe.steps,
        rate=recipe.rate(training.step - 1),
        steps_per_second=(training.step - training.began_at) / max(monotonic() - training.began, 1e-9),
        losses=tuple(stepper.losses.tolist()),
        norms=tuple(stepper.norms.tolist()),
        diverged=tuple(training.diverged()),
    )


@contextmanager
def _patient() -> Iterator[threading.Event]:
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
