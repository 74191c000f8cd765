"""The history of a run: every score of every evaluation, in long form.

Example:
    >>> history = Metrics()
    >>> history.add(100, [Score(0, "iid", 0, 0.5, 1.2), Score(0, "iid", 2, 0.5, 1.2)])
    >>> Metrics.from_tensors(history.tensors(), history.splits).rows == history.rows
    True
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from math import isnan

import torch
from torch import Tensor

from ctlpp.training.evaluate import Score
from ctlpp.training.recipe import Recipe

TRAINING = (
    "training"  # the split name of the mean loss on the batches since the last evaluation; it has no accuracy
)


class Metrics:
    """Rows (step, score) in the order they came."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Score]] = []

    @property
    def splits(self) -> list[str]:
        """The names of the splits, in order of appearance."""
        return list(dict.fromkeys(score.split for _, score in self.rows))

    def add(self, step: int, scores: Sequence[Score]) -> None:
        """Append the scores of one evaluation."""
        self.rows += [(step, score) for score in scores]

    def at_end(self) -> list[Score]:
        """The scores of the last evaluation."""
        return [score for step, score in self.rows if step == self.rows[-1][0]]

    def tensors(self) -> dict[str, Tensor]:
        """As columns, for a checkpoint."""
        number = {split: i for i, split in enumerate(self.splits)}
        whole = [(step, s.seed, number[s.split], s.length) for step, s in self.rows]
        real = [(s.accuracy, s.loss) for _, s in self.rows]
        return {
            "whole": torch.tensor(whole, dtype=torch.int64).view(-1, 4),
            "real": torch.tensor(real, dtype=torch.float64).view(-1, 2),
        }

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], splits: Sequence[str]) -> "Metrics":
        """The inverse of `tensors`."""
        metrics = Metrics()
        for (step, seed, split, length), (accuracy, loss) in zip(
            tensors["whole"].tolist(), tensors["real"].tolist(), strict=True
        ):
            metrics.rows.append((step, Score(seed, splits[split], length, accuracy, loss)))
        return metrics

    def parquet(self) -> bytes:
        """As a Parquet file: step, seed, split, length (0: all lengths together), accuracy, loss."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {
            "step": pa.array([step for step, _ in self.rows], pa.int64()),
            "seed": pa.array([score.seed for _, score in self.rows], pa.int64()),
            "split": pa.array([score.split for _, score in self.rows], pa.string()),
            "length": pa.array([score.length for _, score in self.rows], pa.int32()),
            "accuracy": pa.array(
                [None if isnan(s.accuracy) else s.accuracy for _, s in self.rows], pa.float64()
            ),
            "loss": pa.array([score.loss for _, score in self.rows], pa.float64()),
        }
        file = BytesIO()
        pq.write_table(pa.table(columns), file)
        return file.getvalue()

    def settled(self, recipe: Recipe, diverged: Sequence[int]) -> bool:
        """Whether every seed that trains has kept still for `recipe.early_stop` evaluations."""
        if not recipe.early_stop:
            return False
        by_step: dict[int, dict[tuple[int, str], float]] = {}
        for step, score in self.rows:
            if score.length == 0 and score.split != TRAINING and score.seed not in diverged:
                by_step.setdefault(step, {})[score.seed, score.split] = score.accuracy
        last = [by_step[step] for step in sorted(by_step)[-recipe.early_stop - 1 :]]
        if len(last) <= recipe.early_stop:
            return False
        names = [split for split in self.splits if split != TRAINING]
        judge = "iid" if "iid" in names else names[0]
        good = all(
            value >= recipe.settled_accuracy
            for now in last[1:]
            for (_, s), value in now.items()
            if s == judge
        )
        return good and all(
            abs(now[key] - old[key]) <= recipe.settled_change for old, now in pairwise(last) for key in now
        )
