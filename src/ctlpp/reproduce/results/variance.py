"""How much of the spread comes from the function table and how much from the seed: one-way random effects.

Every table is trained with the same number of seeds. `within` is the spread between seeds on one table, `between` that
between tables (0 where the tables' means differ by no more than the seeds explain). Intervals are those of normal
theory: exact for `within` and for the share of the variance that is the table's, Williams and Tukey's for `between`.
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

import numpy as np

from ctlpp.statistics.summary import LEVEL, Interval

PERMUTATIONS = 4000


@dataclass(frozen=True)
class Components:
    """Standard deviations between and within tables, the tables' share of the variance, all with 95 % intervals."""

    tables: int
    seeds: int  # on each table
    between: float
    between_interval: Interval
    within: float
    within_interval: Interval
    share: float
    share_interval: Interval
    chance: float  # of means that lie as far apart, if the table does not matter


def components(groups: Sequence[Sequence[float]]) -> Components:
    """From one list of accuracies a table, all of the same length, at least two by two."""
    from scipy.stats import chi2, f

    table = np.array(groups, dtype=float)  # (tables, seeds)
    assert table.ndim == 2
    k, n = table.shape
    assert min(k, n) > 1
    ssb = float(n * ((table.mean(axis=1) - table.mean()) ** 2).sum())
    ssw = float(((table - table.mean(axis=1, keepdims=True)) ** 2).sum())
    msb, msw = ssb / (k - 1), ssw / (k * (n - 1))
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    ratios = [float(q) for q in f.ppf(tails, k - 1, k * (n - 1))]
    squares = [float(q) for q in chi2.ppf(tails, k - 1)]
    within = [float(q) for q in chi2.ppf(tails, k * (n - 1))]
    between = [max(0.0, ssb - (k - 1) * msw * r) / (n * q) for r, q in zip(ratios, squares, strict=True)]
    shares = [_share(msb, msw * r, n) for r in ratios]
    return Components(
        tables=k,
        seeds=n,
        between=sqrt(max(0.0, msb - msw) / n),
        between_interval=(sqrt(between[1]), sqrt(between[0])),
        within=sqrt(msw),
        within_interval=(sqrt(ssw / within[1]), sqrt(ssw / within[0])),
        share=_share(msb, msw, n),
        share_interval=(shares[1], shares[0]),
        chance=_permute(table, ssb),
    )


def _share(msb: float, msw: float, n: int) -> float:
    """The intraclass correlation, at least 0."""
    whole = msb + (n - 1) * msw
    return max(0.0, msb - msw) / whole if whole > 0 else 0.0


def _permute(table: np.ndarray[tuple[int, int], np.dtype[np.float64]], ssb: float) -> float:
    """How often means of tables lie at least as far apart if seeds are dealt out anew."""
    draw = np.random.Generator(np.random.PCG64(0))
    dealt = draw.permuted(np.tile(table.ravel(), (PERMUTATIONS, 1)), axis=1).reshape(PERMUTATIONS, *table.shape)
    found = table.shape[1] * ((dealt.mean(axis=2) - table.mean()) ** 2).sum(axis=1)
    return float((1 + (found >= ssb - 1e-12).sum()) / (1 + PERMUTATIONS))
