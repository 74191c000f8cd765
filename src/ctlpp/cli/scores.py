"""Accuracies of many seeds as tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from statistics import fmean, stdev

from rich.table import Table

from ctlpp.cli.tables import table
from ctlpp.statistics.published import SOLVED
from ctlpp.training.evaluate import Score


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds."""
    return f"{fmean(values):.2f} ± {stdev(values):.2f}" if len(values) > 1 else f"{fmean(values):.2f}"


def solved(values: Sequence[float]) -> str:
    """How many seeds are above `SOLVED`."""
    return f"{sum(value > SOLVED for value in values)} of {len(values)}"


def by_split(scores: Sequence[Score]) -> dict[str, dict[int, list[float]]]:
    """split -> length (0 for all) -> the accuracy of every seed; splits without accuracies are left out."""
    found: dict[str, dict[int, list[float]]] = {}
    for score in scores:
        if not isnan(score.accuracy):
            found.setdefault(score.split, {}).setdefault(score.length, []).append(score.accuracy)
    return found


def overview(scores: Sequence[Score], title: str = "") -> Table:
    """Accuracy on every split: mean, spread, worst and best seed, seeds above `SOLVED`."""
    rows = table(title, "split", "accuracy", "worst", "best", f"seeds above {SOLVED}")
    for split, lengths in by_split(scores).items():
        values = lengths[0]
        rows.add_row(split, spread(values), f"{min(values):.2f}", f"{max(values):.2f}", solved(values))
    return rows


def by_length(scores: Sequence[Score], title: str = "") -> Table:
    """Accuracy on every split and length, and how many seeds are above `SOLVED` on the whole split."""
    found = by_split(scores)
    lengths = sorted({length for split in found.values() for length in split} - {0})
    rows = table(title, "split", "all lengths", *(f"L={n}" for n in lengths), f"seeds above {SOLVED}")
    for split, values in found.items():
        cells = [spread(values[n]) if n in values else "" for n in (0, *lengths)]
        rows.add_row(split, *cells, solved(values[0]))
    return rows
