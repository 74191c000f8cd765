"""The training curves of a run: accuracy of every seed over time, accuracy per length, success rate.

Example:
    >>> columns = {"step": [10, 10, 20, 20], "seed": [0, 1, 0, 1], "split": ["ood"] * 4, "length": [0] * 4}
    >>> history = History.of(pa.table(columns | {"accuracy": [0.1, 0.5, 0.96, 0.99], "loss": [1.0] * 4}))
    >>> history.success("ood").tolist()
    [0.0, 1.0]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ctlpp.analysis.inputs import Array
from ctlpp.statistics.published import SOLVED


@dataclass(frozen=True, eq=False)
class History:
    """Accuracies at every evaluation. E evaluations, S seeds."""

    steps: Array  # (E,)
    seeds: Array  # (S,)
    accuracy: dict[tuple[str, int], Array]  # (split, length) -> (E, S); length 0 is all together

    @staticmethod
    def of(metrics: pa.Table, seeds: tuple[int, ...] | None = None) -> History:
        """From the rows of `metrics.parquet`; of some seeds only, if given."""
        columns = {name: np.array(metrics[name].to_pylist(), dtype=object) for name in metrics.column_names}
        known = np.array([value is not None for value in columns["accuracy"]], dtype=bool)
        columns = {name: column[known] for name, column in columns.items()}
        steps, at = np.unique(columns["step"].astype(np.int64), return_inverse=True)
        wanted = np.unique(columns["seed"].astype(np.int64)) if seeds is None else np.array(seeds)
        accuracy: dict[tuple[str, int], Array] = {}
        column = {int(seed): i for i, seed in enumerate(wanted)}
        rows = zip(at, columns["seed"], columns["split"], columns["length"], columns["accuracy"], strict=True)
        for row, seed, split, length, value in rows:
            if seed in column:
                curve = accuracy.setdefault((split, int(length)), np.full((len(steps), len(wanted)), np.nan))
                curve[row, column[seed]] = value
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
