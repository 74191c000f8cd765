"""How a cell learned: when its seeds had learned the training data, and whether its accuracy still moves at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ctlpp.analysis.history import History
from ctlpp.figures.crowds import mean_over
from ctlpp.report.published import SOLVED
from ctlpp.report.strangers import DamagedError, read_columns
from ctlpp.reproduce.cells import Cell

COLUMNS = ["step", "seed", "split", "length", "accuracy"]


@dataclass(frozen=True)
class Learning:
    """Of the seeds of a cell together."""

    half: int | None  # the first step at which half of them are above 0.95 IID
    settled: float | None  # how far their mean OOD accuracy moved over the last tenth of the steps


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


def learning_of(history: History | None) -> Learning:
    """What the curves say."""
    if history is None or not len(history.steps):
        return Learning(None, None)
    half = None
    if ("iid", 0) in history.accuracy:
        curve = np.nan_to_num(history.accuracy["iid", 0])
        reached = np.flatnonzero((curve > SOLVED).mean(axis=1) >= 0.5)
        half = int(history.steps[reached[0]]) if len(reached) else None
    means = np.asarray(mean_over(history.accuracy["ood", 0]))
    late = np.flatnonzero(history.steps <= 0.9 * history.steps[-1])
    settled = float(means[-1] - means[late[-1]]) if len(late) else None
    return Learning(half, None if settled is None or not np.isfinite(settled) else settled)
