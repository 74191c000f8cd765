"""Does a published mean hold? A verdict in one word, and what it rests on.

The interval is that of the difference of the two means: Welch's, 95 %, both sets of seeds being samples, and wider by
the rounding of what was published. Then

- *higher*, *lower*: the interval excludes 0 and reaches beyond ±0.02, below which a difference is not spoken of;
- *reproduced*: the whole interval lies within ± one published standard deviation between seeds (at least 0.02, and as
  precisely as it is printed), from at least ten seeds;
- *undecided*: neither; more seeds may tell.

So if our seeds scatter as widely as the published ones, 25 of them reproduce a mean that is off by up to 0.4 of that
spread, and are higher or lower from 0.6 of it on. Among fewer than ten seeds a kind of seed that makes up a quarter of
all may well be missing: *reproduced* is then never said, and our spread is taken to be at least the published one.

Example:
    >>> judge([0.96, 0.93, 0.97, 0.9, 0.99, 0.94, 0.95, 0.98, 0.92, 0.96, 0.94, 0.95], (0.95, 0.03)).word
    'reproduced'
    >>> judge([0.3, 1.0, 0.8], (0.75, 0.27)).word
    'undecided'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctlpp.report.published import ROUNDING, SEEDS
from ctlpp.report.statistics import Interval, difference, summarise

REPRODUCED, HIGHER, LOWER, UNDECIDED = "reproduced", "higher", "lower", "undecided"
WORDS = (REPRODUCED, HIGHER, LOWER, UNDECIDED)
NEGLIGIBLE = 0.02  # of accuracy
FEWEST = 10  # seeds behind the word reproduced


@dataclass(frozen=True)
class Verdict:
    """One of the four words, the difference (ours less theirs) and its interval; None with fewer than two seeds."""

    word: str
    difference: float | None = None
    interval: Interval | None = None


def judge(values: Sequence[float], published: tuple[float, float], published_seeds: int = SEEDS) -> Verdict:
    """Our seeds' accuracies against a published mean and standard deviation."""
    ours = summarise(values, interval=(0, 0))
    if ours.seeds and ours.seeds < FEWEST:
        ours = replace(ours, std=max(ours.std or 0.0, published[1]))
    found = difference(ours, published, published_seeds) if ours.seeds > 1 else None
    if found is None:
        return Verdict(UNDECIDED, None if ours.mean is None else ours.mean - published[0])
    gap, (low, high) = found
    return Verdict(_word(low, high, published[1], ours.seeds), gap, (low, high))


def _word(low: float, high: float, spread: float, seeds: int) -> str:
    margin = max(NEGLIGIBLE, spread) + ROUNDING
    negligible = low >= -NEGLIGIBLE and high <= NEGLIGIBLE
    if low > 0 and not negligible:
        return HIGHER
    if high < 0 and not negligible:
        return LOWER
    return REPRODUCED if -margin <= low and high <= margin and seeds >= FEWEST else UNDECIDED


def is_inside(value: float, interval: Interval | None) -> bool | None:
    """Whether a published number, known up to its rounding, lies in an interval; None without one."""
    return None if interval is None else interval[0] - ROUNDING <= value <= interval[1] + ROUNDING
