"""Which measure predicts failure? Correlation with OOD accuracy over the seeds of a run, with an interval.

Example:
    >>> found = correlate(np.array([0.1, 0.4, 0.5, 0.8, 0.9]), np.array([0.2, 0.3, 0.6, 0.7, 1.0]))
    >>> found.pearson > 0.9, found.low < found.pearson <= found.high
    (True, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctlpp.analysis.inputs import Array

RESAMPLES = 4000
LEAST = 4  # seeds; fewer say nothing


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
    """Correlation over the seeds that have both numbers. The intervals are percentiles over resampled seeds."""
    from scipy.stats import rankdata

    both = np.isfinite(measure) & np.isfinite(accuracy)
    x, y = measure[both].astype(float), accuracy[both].astype(float)
    if len(x) < LEAST:
        return Correlation(len(x), *[float("nan")] * 6)
    rows = np.random.Generator(np.random.PCG64(0)).integers(len(x), size=(RESAMPLES, len(x)))
    numbers: list[float] = []
    for ranked in (False, True):
        whole, again = (
            _pearson(*(rankdata(v, axis=-1) if ranked else v for v in pair))
            for pair in ((x[None], y[None]), (x[rows], y[rows]))
        )
        again = again[np.isfinite(again)]
        bounds = (
            np.percentile(again, [2.5, 97.5]).tolist() if np.isfinite(whole[0]) and len(again) else [np.nan, np.nan]
        )
        numbers += [float(whole[0]), *bounds]
    return Correlation(len(x), *numbers)


def _pearson(x: Array, y: Array) -> Array:
    """Row by row; nan where a row is constant. (N, seeds) each -> (N,)"""
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    fine = scale > 1e-12
    return np.where(fine, (x * y).sum(axis=1) / np.where(fine, scale, 1), np.nan)
