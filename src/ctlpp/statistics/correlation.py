"""Which measure predicts failure? Correlation with OOD accuracy over the seeds of a run, with an interval.

Example:
    >>> found = correlate(np.array([0.1, 0.4, 0.5, 0.8, 0.9]), np.array([0.2, 0.3, 0.6, 0.7, 1.0]))
    >>> found.pearson > 0.9, found.low < found.pearson <= found.high
    (True, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RESAMPLES = 4000
LEAST = 4  # seeds; fewer say nothing
ENOUGH = 8  # seeds; with fewer the intervals look surer than they are


@dataclass(frozen=True)
class Correlation:
    """Pearson's and Spearman's coefficient and 95 % bootstrap intervals; nan where they are not defined."""

    seeds: int
    pearson: float
    low: float
    high: float
    spearman: float
    spearman_low: float
    spearman_high: float


def correlate(measure: Array, accuracy: Array) -> Correlation:
    """Correlation over the seeds that have both numbers; intervals are percentiles over resampled seeds."""
    both = np.isfinite(measure) & np.isfinite(accuracy)
    x, y = measure[both].astype(float), accuracy[both].astype(float)
    if len(x) < LEAST:
        return Correlation(len(x), *[float("nan")] * 6)
    times = np.vstack([np.ones(len(x)), _resampled(len(x))])  # how often each seed counts in each sample
    numbers: list[float] = []
    for x_values, y_values in ((x, y), (_ranks(x, times), _ranks(y, times))):
        found = _pearson(x_values, y_values, times)
        again = found[1:][np.isfinite(found[1:])]
        defined = np.isfinite(found[0]) and len(again)
        low, high = np.percentile(again, [2.5, 97.5]) if defined else (np.nan, np.nan)
        numbers += [float(found[0]), float(low), float(high)]
    return Correlation(len(x), *numbers)


def _resampled(seeds: int) -> Array:
    """How often a resample has each seed. (RESAMPLES, seeds)"""
    rows = np.random.Generator(np.random.PCG64(0)).integers(seeds, size=(RESAMPLES, seeds))
    numbered = rows + seeds * np.arange(RESAMPLES)[:, None]
    return np.bincount(numbered.ravel(), minlength=rows.size).reshape(rows.shape)


def _ranks(values: Array, times: Array) -> Array:
    """The rank of each value among those that count: how many are below it, and half of its equals.

    (seeds,), (N, seeds) -> (N, seeds)
    """
    below, equal = values[:, None] < values, values[:, None] == values  # (seeds, seeds)
    return np.asarray(times @ (below + equal / 2))


def _pearson(x: Array, y: Array, times: Array) -> Array:
    """Row by row, each seed as often as it counts; nan where a row is constant. (N, seeds) each -> (N,)"""
    weights = times / times.sum(axis=1, keepdims=True)
    x, y = (values - (weights * values).sum(axis=1, keepdims=True) for values in (x, y))
    scale = np.sqrt((weights * x**2).sum(axis=1) * (weights * y**2).sum(axis=1))
    fine = scale > 1e-12
    return np.where(fine, (weights * x * y).sum(axis=1) / np.where(fine, scale, 1), np.nan)
