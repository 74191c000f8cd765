"""Observers that write curves for other tools: TensorBoard, and Weights & Biases without an account."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ctlpp.files import UserError
from ctlpp.runs.metrics import TRAINING
from ctlpp.runs.observers import StepStats
from ctlpp.training.evaluate import Score


def curves(scores: Sequence[Score]) -> dict[str, float]:
    """One number a curve: each seed's accuracy, and the mean accuracy and loss, on every split that is evaluated."""
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
