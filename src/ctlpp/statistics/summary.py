"""Statistics of a set of seeds: mean, spread, median, correlation, and intervals that few seeds allow.

Example:
    >>> found = summarise([0.2, 0.6, 1.0, 1.0])
    >>> found.mean, found.median, found.solved
    (0.7, 0.8, 2)
    >>> which = correlate(np.array([0.1, 0.4, 0.5, 0.8, 0.9]), np.array([0.2, 0.3, 0.6, 0.7, 1.0]))
    >>> which.pearson > 0.9, which.low < which.pearson <= which.high
    (True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.statistics.published import ROUNDING, SOLVED

RESAMPLES = 20_000  # for the interval of a mean
DRAWS = 4000  # for that of a correlation
LEVEL = 0.95
FEWEST = 10  # seeds whose own spread is believed
LEAST = 4  # seeds with a correlation; fewer say nothing
ENOUGH = 8  # seeds; with fewer the intervals of a correlation look surer than they are
SAME = 1e-9  # of accuracy: what differs less does so by rounding

Interval = tuple[float, float]
Array = NDArray[Any]


@dataclass(frozen=True)
class Summary:
    """Accuracies of the seeds of one setting.

    Whether a diverged seed is one of them is for the caller to say. `ctlpp report` leaves it out: it is one
    of `diverged`, not solved. `ctlpp reproduce` counts it with the accuracy at which it was frozen.
    """

    seeds: int  # with a number
    diverged: int  # left out of everything but `solved_share`
    mean: float | None
    std: float | None  # of a sample; None for one seed
    median: float | None
    interval: Interval | None  # of the mean, bootstrap; None for one or two seeds
    solved: int
    solved_share: Interval | None  # Wilson


def summarise(values: Sequence[float], diverged: int = 0, interval: Interval | None = None) -> Summary:
    """Everything about one set of seeds; the interval of the mean is computed here unless given."""
    from scipy.stats import binomtest  # late: it takes a second to import

    solved = sum(value > SOLVED for value in values)
    tried = len(values) + diverged
    share = binomtest(solved, tried).proportion_ci(LEVEL, "wilson") if tried else None
    return Summary(
        seeds=len(values),
        diverged=diverged,
        mean=fmean(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        median=median(values) if values else None,
        interval=interval if interval else mean_intervals([values])[0],
        solved=solved,
        solved_share=(float(share.low), float(share.high)) if share else None,
    )


def mean_intervals(rows: Sequence[Sequence[float]]) -> list[Interval | None]:
    """The 95 % bootstrap interval (BCa) of each row's mean; None for rows of one or two seeds.

    Rows whose values are all the same get an interval without width: resampling cannot tell more.
    """
    from scipy.stats import bootstrap

    found: list[Interval | None] = [None] * len(rows)
    by_size: dict[int, list[int]] = {}  # rows of one size are resampled together, which is faster
    for at, row in enumerate(rows):
        if len(row) > 2 and max(row) - min(row) < SAME:
            found[at] = row[0], row[0]
        elif len(row) > 2:
            by_size.setdefault(len(row), []).append(at)
    for places in by_size.values():
        again = bootstrap(
            (np.array([rows[at] for at in places]),),
            np.mean,
            axis=-1,
            n_resamples=RESAMPLES,
            confidence_level=LEVEL,
            random_state=np.random.Generator(np.random.PCG64(0)),
        ).confidence_interval
        for at, low, high in zip(places, again.low, again.high, strict=True):
            found[at] = float(low), float(high)
    return found


def spread_interval(published: tuple[float, float], seeds: int) -> Interval:
    """The 95 % interval of a mean of which only the standard deviation is known (Student's t)."""
    from scipy.stats import t

    mean, std = published
    half = std / sqrt(seeds) * float(t.ppf((1 + LEVEL) / 2, seeds - 1))
    return mean - half, mean + half


def cautious(ours: Summary, published_std: float) -> Summary:
    """Our seeds as they are compared: the spread of fewer than ten is at least the published one.

    >>> cautious(summarise([1.0] * 9), 0.27).std, cautious(summarise([1.0] * 10), 0.27).std
    (0.27, 0.0)
    """
    if ours.std is None or ours.seeds >= FEWEST:
        return ours
    return replace(ours, std=max(ours.std, published_std))


def difference(
    ours: Summary,
    published: tuple[float, float],
    published_seeds: int,
    rounding: float = ROUNDING,
    level: float = LEVEL,
) -> tuple[float, Interval] | None:
    """Our mean less the published one, with Welch's interval, widened by the published rounding."""
    from scipy.stats import t

    if ours.mean is None or ours.std is None or min(ours.seeds, published_seeds) < 2:
        return None
    own, other = ours.std**2 / ours.seeds, published[1] ** 2 / published_seeds
    gap, error = ours.mean - published[0], sqrt(own + other)
    half = rounding
    if error > SAME:
        freedom = error**4 / (own**2 / (ours.seeds - 1) + other**2 / (published_seeds - 1))
        half += error * float(t.ppf((1 + level) / 2, freedom))
    return gap, (gap - half, gap + half)


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
    from scipy.stats import rankdata

    both = np.isfinite(measure) & np.isfinite(accuracy)
    x, y = measure[both].astype(float), accuracy[both].astype(float)
    if len(x) < LEAST:
        return Correlation(len(x), *[float("nan")] * 6)
    drawn = np.random.Generator(np.random.PCG64(0)).integers(len(x), size=(DRAWS, len(x)))
    rows = np.vstack([np.arange(len(x)), drawn])  # the seeds themselves, then resampled
    numbers: list[float] = []
    for x_rows, y_rows in ((x[rows], y[rows]), (rankdata(x[rows], axis=1), rankdata(y[rows], axis=1))):
        found = _pearson(x_rows, y_rows)
        again = found[1:][np.isfinite(found[1:])]
        defined = np.isfinite(found[0]) and len(again)
        low, high = np.percentile(again, [2.5, 97.5]) if defined else (np.nan, np.nan)
        numbers += [float(found[0]), float(low), float(high)]
    return Correlation(len(x), *numbers)


def _pearson(x: Array, y: Array) -> Array:
    """Row by row; nan where a row is constant. (N, seeds) each -> (N,)"""
    x, y = (values - values.mean(axis=1, keepdims=True) for values in (x, y))
    scale = np.sqrt((x**2).mean(axis=1) * (y**2).mean(axis=1))
    fine = scale > 1e-12
    return np.where(fine, (x * y).mean(axis=1) / np.where(fine, scale, 1), np.nan)
