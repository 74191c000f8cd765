"""Statistics of seeds: mean and spread, differences of means, correlations, and intervals that few allow.

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
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.statistics.published import SOLVED

RESAMPLES = 20_000  # for the interval of a mean
DRAWS = 4000  # for that of a correlation, and permutations for a p
LEVEL = 0.95
MIN_SEEDS = 4  # for an interval or a correlation
ENOUGH_SEEDS = 8  # for the interval of a correlation; with fewer it is too narrow
MANY_SEEDS = 10  # whose own spread is believed
SAME = 1e-9  # of accuracy: what differs less does so by rounding

Interval = tuple[float, float]
Spread = tuple[float | None, float | None, int]  # mean, standard deviation (None for one seed), seeds
Difference = tuple[float, Interval]
Array = NDArray[Any]


@dataclass(frozen=True)
class Summary:
    """Accuracies of the seeds of one setting."""

    seeds: int  # that have not diverged
    diverged: int  # part of `solved_share`, as not solved, and of nothing else
    mean: float | None
    std: float | None  # of a sample; None for one seed
    median: float | None
    interval: Interval | None  # of the mean, bootstrap; None for fewer than four seeds
    solved: int
    solved_share: Interval | None  # Wilson


def summarise(values: Sequence[float], diverged: int = 0, interval: Interval | None = None) -> Summary:
    """Everything about one set of seeds; the interval of the mean is computed here unless given."""
    solved, tried = sum(value > SOLVED for value in values), len(values) + diverged
    return Summary(
        seeds=len(values),
        diverged=diverged,
        mean=fmean(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        median=median(values) if values else None,
        interval=interval if interval else mean_intervals([values])[0],
        solved=solved,
        solved_share=share_interval(solved, tried) if tried else None,
    )


def share_interval(hits: int, tried: int) -> Interval:
    """Wilson's 95 % interval of a share."""
    from scipy.stats import binomtest  # late: it takes a second to import

    found = binomtest(hits, tried).proportion_ci(LEVEL, "wilson")
    return float(found.low), float(found.high)


def mean_intervals(rows: Sequence[Sequence[float]]) -> list[Interval | None]:
    """The 95 % bootstrap interval (BCa) of each row's mean; None for rows of fewer than four seeds.

    Rows whose values are all the same get an interval without width: resampling cannot tell more.
    """
    from scipy.stats import bootstrap

    found: list[Interval | None] = [None] * len(rows)
    by_size: dict[int, list[int]] = {}  # rows of one size are resampled together, which is faster
    for at, row in enumerate(rows):
        if len(row) >= MIN_SEEDS and max(row) - min(row) < SAME:
            found[at] = row[0], row[0]
        elif len(row) >= MIN_SEEDS:
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


def difference(
    ours: Spread, theirs: Spread, rounding: float = 0.0, level: float = LEVEL
) -> Difference | None:
    """Our mean less theirs, with Welch's interval, wider by the rounding; None for fewer than four seeds."""
    from scipy.stats import t

    (mean, std, seeds), (other_mean, other_std, other_seeds) = ours, theirs
    if mean is None or other_mean is None or std is None or other_std is None:
        return None
    if min(seeds, other_seeds) < MIN_SEEDS:
        return None
    own, other = std**2 / seeds, other_std**2 / other_seeds
    gap, error, half = mean - other_mean, sqrt(own + other), rounding
    if error > SAME:
        freedom = error**4 / (own**2 / (seeds - 1) + other**2 / (other_seeds - 1))
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
    if len(x) < MIN_SEEDS:
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


def spread_of_tables(groups: Sequence[Sequence[float]]) -> tuple[float, float, float] | None:
    """How much accuracy varies with the function table, and how much with the seed.

    The standard deviation between tables, beyond what the seeds explain; that between the seeds of a table;
    and how often means lie as far apart if seeds are dealt out to tables at random. None for one table, or
    for one seed on every table.

    >>> between, within, p = spread_of_tables([[0.9, 0.92, 0.94], [0.5, 0.52, 0.54], [0.7, 0.72, 0.74]])
    >>> round(between, 2), round(within, 2), p < 0.01
    (0.2, 0.02, True)
    """
    groups = [own for own in groups if len(own)]
    sizes = np.array([len(own) for own in groups])
    if len(groups) < 2 or sizes.sum() == len(groups):
        return None
    every = np.concatenate([np.asarray(own, float) for own in groups])
    means = np.array([np.mean(own) for own in groups])
    within = float(((every - means.repeat(sizes)) ** 2).sum()) / (len(every) - len(groups))
    between = float(np.var(means, ddof=1)) - within * float(np.mean(1 / sizes))
    return sqrt(max(0.0, between)), sqrt(within), permutation_p(groups)


def permutation_p(groups: Sequence[Sequence[float]]) -> float:
    """How often means lie as far apart as here if values are dealt out to the groups at random."""
    sizes = np.array([len(own) for own in groups])
    every = np.concatenate([np.asarray(own, float) for own in groups])
    shuffled = np.random.Generator(np.random.PCG64(0)).permuted(np.tile(every, (DRAWS, 1)), axis=1)
    as_far = (_between_tables(shuffled, sizes) >= _between_tables(every, sizes) - 1e-12).sum()
    return float((1 + as_far) / (1 + DRAWS))


def _between_tables(every: Array, sizes: Array) -> Array:
    """The sum of squares between tables. Accuracies of all seeds, table by table: (…, seeds) -> (…)"""
    means = np.add.reduceat(every, np.cumsum(sizes) - sizes, axis=-1) / sizes
    return np.asarray((sizes * (means - every.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1))
