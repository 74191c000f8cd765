"""The history of a run, `metrics.parquet`: accuracy and loss by step, seed, split and length (0: all).

Example:
    >>> metrics = Metrics()
    >>> metrics.add(10, [Score(0, "ood", 0, 0.1, 1.5), Score(1, "ood", 0, 0.5, 1.2)])
    >>> metrics.add(20, [Score(0, "ood", 0, 0.96, 0.2), Score(1, "ood", 0, 0.99, 0.1)])
    >>> Metrics.from_columns(metrics.columns(), metrics.splits).rows == metrics.rows
    True
    >>> History.of(metrics.table()).success("ood").tolist()
    [0.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.runs.untrusted import DamagedError, read_columns
from ctlpp.statistics.published import SOLVED

TRAINING = (
    "training"  # as a split: the mean loss on the batches since the last evaluation, without an accuracy
)
COLUMNS = ["step", "seed", "split", "length", "accuracy"]  # that a history needs
Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """What one seed reaches on the examples of one length, or on all of a split (length 0)."""

    seed: int
    split: str
    length: int
    accuracy: float
    loss: float


class Metrics:
    """The history as it grows: rows (step, score) in the order they came."""

    def __init__(self, rows: Sequence[tuple[int, Score]] = ()) -> None:
        self.rows = list(rows)

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

    def columns(self) -> dict[str, Array]:
        """As arrays, for a checkpoint."""
        number = {split: i for i, split in enumerate(self.splits)}
        whole = [(step, score.seed, number[score.split], score.length) for step, score in self.rows]
        real = [(score.accuracy, score.loss) for _, score in self.rows]
        return {
            "whole": np.array(whole, dtype=np.int64).reshape(-1, 4),
            "real": np.array(real, dtype=np.float64).reshape(-1, 2),
        }

    @staticmethod
    def from_columns(columns: Mapping[str, Any], splits: Sequence[str]) -> Metrics:
        """The inverse of `columns`."""
        both = zip(columns["whole"].tolist(), columns["real"].tolist(), strict=True)
        return Metrics(
            [(step, Score(seed, splits[n], length, *real)) for (step, seed, n, length), real in both]
        )

    def table(self) -> Any:
        """As an Arrow table: step, seed, split, length, accuracy, loss."""
        import pyarrow as pa

        whole, real = pa.int64(), pa.float64()
        kinds = [("step", whole), ("seed", whole), ("split", pa.string()), ("length", pa.int32())]
        rows = [{"step": step, **asdict(score)} for step, score in self.rows]
        for row in rows:
            row["accuracy"] = None if isnan(row["accuracy"]) else row["accuracy"]
        return pa.Table.from_pylist(rows, pa.schema([*kinds, ("accuracy", real), ("loss", real)]))

    def parquet(self) -> bytes:
        """As a Parquet file."""
        import pyarrow.parquet as pq

        file = BytesIO()
        pq.write_table(self.table(), file)
        return file.getvalue()

    def settled(self, times: int, accuracy: float, change: float, diverged: Sequence[int]) -> bool:
        """Whether every seed that trains kept still for the last `times` evaluations.

        accuracy: what each needs on iid (or else the first split); change: how much any split's may move.
        """
        by_step: dict[int, dict[tuple[int, str], float]] = {}
        for step, score in self.rows:
            if score.length == 0 and score.split != TRAINING and score.seed not in diverged:
                by_step.setdefault(step, {})[score.seed, score.split] = score.accuracy
        last = [by_step[step] for step in sorted(by_step)[-times - 1 :]]
        if not times or len(last) <= times:
            return False
        names = [split for split in self.splits if split != TRAINING]
        judge = "iid" if "iid" in names else names[0]
        good = all(now[key] >= accuracy for now in last[1:] for key in now if key[1] == judge)
        return good and all(abs(now[key] - old[key]) <= change for old, now in pairwise(last) for key in now)


def read_history(path: Path, seeds: Sequence[int] | None = None) -> History:
    """The history in a Parquet file; DamagedError says why there is none."""
    table = read_columns(path, COLUMNS)
    try:
        return History.of(table, seeds)
    except (TypeError, ValueError) as error:
        raise DamagedError(f"{path.name} holds values of the wrong kind") from error


@dataclass(frozen=True, eq=False)
class History:
    """Accuracies at every evaluation. E evaluations, S seeds."""

    steps: Array  # (E,)
    seeds: Array  # (S,)
    accuracy: dict[tuple[str, int], Array]  # (split, length) -> (E, S); length 0 is all together

    @staticmethod
    def of(table: Any, seeds: Sequence[int] | None = None) -> History:
        """From the rows of `metrics.parquet`; of some seeds only, if given."""
        rows = [row for row in table.to_pylist() if row["accuracy"] is not None]
        steps = np.unique(np.array([row["step"] for row in rows], dtype=np.int64))
        known = np.unique(np.array([row["seed"] for row in rows], dtype=np.int64))
        wanted = known if seeds is None else np.array(seeds)
        at = {step: i for i, step in enumerate(steps.tolist())}
        column = {seed: i for i, seed in enumerate(wanted.tolist())}
        accuracy: dict[tuple[str, int], Array] = {}
        for row in rows:
            if row["seed"] in column:
                key = row["split"], int(row["length"])
                if key not in accuracy:
                    accuracy[key] = np.full((len(steps), len(wanted)), np.nan)
                accuracy[key][at[row["step"]], column[row["seed"]]] = row["accuracy"]
        return History(steps, wanted, accuracy)

    @property
    def splits(self) -> list[str]:
        """The splits, in order of appearance."""
        return list(dict.fromkeys(split for split, _ in self.accuracy))

    def lengths(self, split: str) -> list[int]:
        """The lengths that a split has."""
        return sorted(length for name, length in self.accuracy if name == split and length)

    def success(self, split: str = "ood") -> Array:
        """The share of seeds above 95 % over time, (E,)"""
        curve = self.accuracy[split, 0]
        known = np.isfinite(curve).sum(axis=1)
        return np.asarray((np.nan_to_num(curve) > SOLVED).sum(axis=1) / np.maximum(known, 1))

    def final(self, split: str, length: int = 0) -> Array:
        """The last accuracy of every seed, (S,); nan where there is none."""
        curve = self.accuracy.get((split, length))
        return np.full(len(self.seeds), np.nan) if curve is None or not len(curve) else np.asarray(curve[-1])
