"""Training curves of a run, thinned and quantised for the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.report.packing import Package, quantise
from ctlpp.runs.untrusted import DamagedError, read_columns

MOST_POINTS = 100  # of a curve
MOST_SEEDS = 1000
SPLITS = ("iid", "ood")  # whose accuracy is drawn
TRAINING = "training"  # the split name of the training loss


def add_curves(package: Package, path: Path) -> None:
    """Accuracy on iid and ood and the training loss (its logarithm), arrays (points, seeds) each.

    The facts get "curves": the steps, the seeds and the range of the loss; or "curves_missing" with a reason.
    """
    if not path.is_file():
        package.facts["curves_missing"] = "the run has no metrics.parquet"
        return
    try:
        table = read_columns(path, ["step", "seed", "split", "length", "accuracy", "loss"])
        columns = [_numbers(table, name) for name in ("step", "seed", "length", "accuracy", "loss")]
        split = np.array(table["split"].to_pylist(), dtype=object)
    except DamagedError as error:
        package.facts["curves_missing"] = str(error)
        return
    step, seed, length, accuracy, loss = columns
    whole = (length == 0) & np.isfinite(step) & np.isfinite(seed)
    shown = whole & np.isin(split, [*SPLITS, TRAINING])
    steps, seeds = np.unique(step[shown]), np.unique(seed[shown])
    if not len(steps) or len(seeds) > MOST_SEEDS:
        package.facts["curves_missing"] = "metrics.parquet has no evaluations that can be drawn"
        return
    kept = steps[np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).round().astype(int))]
    facts: dict[str, Any] = {"steps": kept.astype(int).tolist(), "seeds": seeds.astype(int).tolist()}
    axes = (step, seed, kept, seeds)
    for name in SPLITS:
        if (rows := shown & (split == name)).any():
            package.add(f"curve_{name}", quantise(_table(axes, accuracy, rows), 0, 1))
    if (rows := shown & (split == TRAINING) & (loss > 0)).any():
        values = np.log10(_table(axes, loss, rows))
        known = values[np.isfinite(values)]
        if len(known):
            facts["loss"] = [round(float(known.min()), 6), round(float(known.max()), 6)]
            package.add("curve_loss", quantise(values, known.min(), known.max()))
    package.facts["curves"] = facts


def _numbers(table: Any, name: str) -> NDArray[np.float64]:
    """A column as floats, nan where it is empty."""
    try:
        return np.asarray(table[name].to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DamagedError(f"metrics.parquet: the column {name} holds no numbers") from error


def _table(
    axes: tuple[NDArray[Any], ...], values: NDArray[np.float64], rows: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Long form to (points, seeds), nan where there is nothing."""
    step, seed, kept, seeds = axes
    rows = rows & np.isin(step, kept)
    found = np.full((len(kept), len(seeds)), np.nan)
    found[np.searchsorted(kept, step[rows]), np.searchsorted(seeds, seed[rows])] = values[rows]
    return found
