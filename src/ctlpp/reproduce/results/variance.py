"""How much of the spread comes from the function table and how much from the seed: one-way random effects.

`within` is the spread between seeds on one table, `between` that between tables (0 where the tables' means differ by no
more than the seeds explain). Intervals are those of normal theory: exact for `within` and, with as many seeds on every
table, for the share of the variance that is the table's; Williams and Tukey's for `between`. If tables differ in seeds,
they still count alike, with the harmonic mean of the numbers (Thomas and Hultquist), and intervals are not exact.
Accuracies of seeds are far from normal, so the question whether the table matters at all is also asked without that
assumption, by permuting seeds among tables.

Example:
    >>> found = components([[0.9, 0.92, 0.94], [0.5, 0.52, 0.54], [0.7, 0.72, 0.74]])
    >>> round(found.between, 2), round(found.within, 2), round(found.share, 2)
    (0.2, 0.02, 0.99)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.statistics.summary import LEVEL, Interval

PERMUTATIONS = 4000
Array = NDArray[Any]


@dataclass(frozen=True)
class Components:
    """Standard deviations between and within tables, the tables' share of the variance, all with 95 % intervals."""

    seeds: tuple[int, ...]  # on each table
    between: float
    between_interval: Interval
    within: float
    within_interval: Interval
    share: float
    share_interval: Interval
    chance: float  # of means that lie as far apart, if the table does not matter

    @property
    def tables(self) -> int:
        """How many there are."""
        return len(self.seeds)


def components(groups: Sequence[Sequence[float] | Array]) -> Components:
    """From one list of accuracies a table: at least two tables, and a seed more than there are tables."""
    from scipy.stats import chi2, f

    seeds, every = (
        np.array([len(own) for own in groups]),
        np.concatenate([np.asarray(own, float) for own in groups]),
    )
    k, total = len(seeds), len(every)
    assert k > 1
    assert total > k
    assert seeds.min() > 0
    n = k / float((1 / seeds).sum())
    means = np.array([np.mean(own) for own in groups])
    ssb = n * float(((means - means.mean()) ** 2).sum())
    ssw = float(((every - means.repeat(seeds)) ** 2).sum())
    msb, msw = ssb / (k - 1), ssw / (total - k)
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    ratios = [float(q) for q in f.ppf(tails, k - 1, total - k)]
    squares = [float(q) for q in chi2.ppf(tails, k - 1)]
    within = [float(q) for q in chi2.ppf(tails, total - k)]
    between = [max(0.0, ssb - (k - 1) * msw * r) / (n * q) for r, q in zip(ratios, squares, strict=True)]
    shares = [_share(msb, msw * r, n) for r in ratios]
    return Components(
        seeds=tuple(seeds.tolist()),
        between=sqrt(max(0.0, msb - msw) / n),
        between_interval=(sqrt(between[1]), sqrt(between[0])),
        within=sqrt(msw),
        within_interval=(sqrt(ssw / within[1]), sqrt(ssw / within[0])),
        share=_share(msb, msw, n),
        share_interval=(shares[1], shares[0]),
        chance=_permute(every, seeds),
    )


def _between(every: Array, seeds: Array) -> Array:
    """The sum of squares between tables. Accuracies, table by table, (…, seeds of all) -> (…)"""
    starts = np.cumsum(seeds) - seeds
    means = np.add.reduceat(every, starts, axis=-1) / seeds
    return np.asarray((seeds * (means - every.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1))


def _share(msb: float, msw: float, n: float) -> float:
    """The intraclass correlation, at least 0."""
    whole = msb + (n - 1) * msw
    return max(0.0, msb - msw) / whole if whole > 0 else 0.0


def _permute(every: Array, seeds: Array) -> float:
    """How often means of tables lie at least as far apart if seeds are dealt out anew."""
    draw = np.random.Generator(np.random.PCG64(0))
    found = _between(draw.permuted(np.tile(every, (PERMUTATIONS, 1)), axis=1), seeds)
    return float((1 + (found >= _between(every, seeds) - 1e-12).sum()) / (1 + PERMUTATIONS))
