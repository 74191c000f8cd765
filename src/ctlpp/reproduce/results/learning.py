"""How a cell learned: when its seeds had learned the training data, and whether its accuracy still moves at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ctlpp.figures.crowds import mean_over
from ctlpp.reproduce.results.cells import Cell
from ctlpp.runs.history import History
from ctlpp.runs.untrusted import DamagedError, read_columns
from ctlpp.statistics.published import LEARNED

LATE = 0.9  # of the steps: what comes after is the last tenth
COLUMNS = ["step", "seed", "split", "length", "accuracy"]


@dataclass(frozen=True)
class Learning:
    """Of the seeds of a cell together; a seed has learned its data once it is above `LEARNED` IID to stay."""

    steps: int  # at the last evaluation
    learned: tuple[int, ...]  # for each seed that has: the step from which on it is, in ascending order
    seeds: int
    moved: float | None  # how far the mean OOD accuracy went over the last tenth of the steps

    @property
    def half(self) -> int | None:
        """The step by which half of the seeds have learned."""
        place = -(-self.seeds // 2) - 1
        return self.learned[place] if 0 <= place < len(self.learned) else None

    @property
    def late(self) -> int:
        """Seeds that learned in the last tenth of the steps."""
        return sum(step > LATE * self.steps for step in self.learned)


def history_of(cell: Cell) -> History | None:
    """The curves of all seeds of a cell; None if no run has any."""
    parts = []
    for record in cell.records:
        try:
            parts.append(read_columns(record.folder / "metrics.parquet", COLUMNS))
        except DamagedError:
            continue
    try:
        history = History.of(pa.concat_tables(parts)) if parts else None
    except (pa.ArrowException, TypeError, ValueError):  # columns of other kinds
        return None
    return history if history is not None and ("ood", 0) in history.accuracy else None


def learning_of(history: History | None) -> Learning | None:
    """What the curves say; None without any."""
    if history is None or not len(history.steps) or ("iid", 0) not in history.accuracy:
        return None
    above = np.nan_to_num(history.accuracy["iid", 0]) > LEARNED  # (E, S)
    lasting = np.logical_and.accumulate(above[::-1])[::-1]
    learned = [int(history.steps[column.argmax()]) for column in lasting.T if column.any()]
    means = np.asarray(mean_over(history.accuracy["ood", 0]))
    before = np.flatnonzero(history.steps <= LATE * history.steps[-1])
    moved = float(means[-1] - means[before[-1]]) if len(before) else np.nan
    return Learning(
        steps=int(history.steps[-1]),
        learned=tuple(sorted(learned)),
        seeds=above.shape[1],
        moved=moved if np.isfinite(moved) else None,
    )
