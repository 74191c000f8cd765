"""Observers of a training run: notes, TensorBoard, Weights & Biases, or your own. The library prints nothing.

An observer is any object with some of these methods; those it lacks are not called:

    on_start(config: dict, step: int)         before the first step; `step` is above 0 after a resume
    on_note(line: str)                        one line that the user should see
    on_step(stats: StepStats)                 about twice a second
    on_evaluate(step: int, scores: [Score])   after every evaluation
    on_checkpoint(step: int)                  after every saved checkpoint
    on_end(run: Run)                          when training is over

Example:
    >>> class Counter:
    ...     seen = 0
    ...     def on_note(self, line):
    ...         self.seen += 1
    >>> counter = Counter()
    >>> tell([counter], "on_note", "hello")
    >>> tell([counter], "on_checkpoint", 10)
    >>> counter.seen
    1
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ctlpp.files import UserError
from ctlpp.runs.history import TRAINING, Score


@dataclass(frozen=True, kw_only=True)
class StepStats:
    """Where a run stands."""

    step: int  # steps done
    steps: int  # steps in all
    rate: float  # learning rate
    steps_per_second: float  # since the run (or its resumption) began
    losses: tuple[float, ...]  # of the last batch, by seed
    norms: tuple[float, ...]  # of the gradients before clipping, by seed
    diverged: tuple[int, ...]  # seeds that are frozen

    @property
    def seconds_left(self) -> float:
        """At the present speed."""
        return (self.steps - self.step) / max(self.steps_per_second, 1e-9)


class Notes:
    """Prints the notes on stderr and nothing else; what a run has unless told otherwise."""

    def on_note(self, line: str) -> None:
        """Print it."""
        print(line, file=sys.stderr, flush=True)


def tell(observers: Sequence[object], event: str, *facts: object) -> None:
    """Call a method of every observer that has it."""
    for observer in observers:
        method = getattr(observer, event, None)
        if method is not None:
            method(*facts)


def curves(scores: Sequence[Score]) -> dict[str, float]:
    """One number per curve: each seed's accuracy, and the mean accuracy and loss, on every split."""
    whole = [score for score in scores if score.length == 0 and score.split != TRAINING]
    values = {f"{score.split}/accuracy/seed {score.seed}": score.accuracy for score in whole}
    for split in dict.fromkeys(score.split for score in whole):
        of_split = [score for score in whole if score.split == split]
        values[f"{split}/accuracy/mean"] = fmean(score.accuracy for score in of_split)
        values[f"{split}/loss/mean"] = fmean(score.loss for score in of_split)
    return values


class TensorBoard:
    """Writes event files into a folder; look at them with `tensorboard --logdir`."""

    def __init__(self, folder: Path | str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError("TensorBoard is not installed: pip install 'ctlpp[track]'") from error
        self.writer: Any = SummaryWriter(str(folder))

    def on_step(self, stats: StepStats) -> None:
        """The training loss and the learning rate."""
        self.writer.add_scalar("train/loss/mean", fmean(stats.losses), stats.step)
        self.writer.add_scalar("train/rate", stats.rate, stats.step)

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """All accuracies."""
        for name, value in curves(scores).items():
            self.writer.add_scalar(name, value, step)

    def on_end(self, run: object) -> None:
        """Flush."""
        self.writer.close()


class OfflineWandb:
    """Writes a Weights & Biases run into a folder, offline; `wandb sync` may upload it later."""

    def __init__(self, folder: Path | str, project: str = "ctlpp") -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError("Weights & Biases is not installed: pip install 'ctlpp[track]'") from error
        self.run: Any = wandb.init(project=project, dir=str(folder), mode="offline")

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """The settings of the run."""
        self.run.config.update(config, allow_val_change=True)

    def on_step(self, stats: StepStats) -> None:
        """The training loss and the learning rate."""
        self.run.log({"train/loss/mean": fmean(stats.losses), "train/rate": stats.rate}, step=stats.step)

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """All accuracies."""
        self.run.log(curves(scores), step=step)

    def on_end(self, run: object) -> None:
        """Close the files."""
        self.run.finish()
