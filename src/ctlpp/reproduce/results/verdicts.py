"""Does a published mean hold? A verdict in one word, and what it rests on.

The interval is that of the difference of the two means: Welch's, 95 %, both sets of seeds being samples, and wider by
the rounding of what was published. Then

- *higher*, *lower*: the interval excludes 0 and reaches beyond ±0.02, below which a difference is not spoken of;
- *reproduced*: it lies within ±0.02; or it lies within ± three quarters of the published standard deviation between
  seeds (at least 0.02, and as precisely as it is printed), and even the 80 % interval has 0 in it;
- *undecided*: neither; more seeds may tell, unless it is the published ones that are too few. Also where the OOD
  accuracy would be reproduced and the IID accuracy is higher or lower: a mean over seeds that have learned their data
  and seeds that have not is another thing than the published one.

So if 25 of our seeds scatter as widely as the published ones, a mean that is off by up to 0.15 of that spread is
reproduced, and one that is off by 0.6 of it is higher or lower; with half as many it is hardly
ever reproduced. Among fewer than ten seeds a kind of seed that makes up a quarter of all may well be missing:
*reproduced* is then never said, and our spread is taken to be at least theirs.

Example:
    >>> from ctlpp.statistics.summary import summarise
    >>> judge(summarise([0.96, 0.93, 0.97, 0.9, 0.99, 0.94, 0.95, 0.98, 0.92, 0.96, 0.94, 0.95]), (0.95, 0.03)).word
    'reproduced'
    >>> judge(summarise([0.3, 1.0, 0.8]), (0.75, 0.27)).word
    'undecided'
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctlpp.statistics.published import ROUNDING, SEEDS
from ctlpp.statistics.summary import FEWEST, LEVEL, Interval, Summary, cautious, difference

REPRODUCED, HIGHER, LOWER, UNDECIDED = "reproduced", "higher", "lower", "undecided"
NEGLIGIBLE = 0.02  # of accuracy
MARGIN = (
    0.75  # of the published spread: the interval of the difference lies within it if a number is reproduced
)
USUAL = 0.8  # level of the interval in which 0 lies if a number is reproduced


@dataclass(frozen=True)
class Verdict:
    """One of the four words, the difference (ours less theirs) and its interval; None with fewer than two seeds."""

    word: str
    difference: float | None = None
    interval: Interval | None = None
    iid: str = (
        ""  # of the OOD accuracy: how the IID accuracy differs, if that alone keeps it from being reproduced
    )


def judge(ours: Summary, published: tuple[float, float], published_seeds: int = SEEDS) -> Verdict:
    """Our seeds against a published mean and standard deviation."""
    if ours.seeds < 2 or ours.mean is None:
        return Verdict(UNDECIDED, None if ours.mean is None else ours.mean - published[0])
    few = ours.seeds < FEWEST
    ours = cautious(ours, published[1])
    found, usual = (difference(ours, published, published_seeds, level=level) for level in (LEVEL, USUAL))
    assert found is not None
    assert usual is not None
    gap, (low, high) = found
    negligible, margin = max(-low, high) <= NEGLIGIBLE, max(NEGLIGIBLE, MARGIN * published[1]) + ROUNDING
    if not negligible and not low <= 0 <= high:
        return Verdict(HIGHER if low > 0 else LOWER, gap, (low, high))
    alike = negligible or (max(-low, high) <= margin and usual[1][0] <= 0 <= usual[1][1])
    return Verdict(REPRODUCED if alike and not few else UNDECIDED, gap, (low, high))


def beside(ood: Verdict, iid: Verdict) -> Verdict:
    """The verdict on OOD accuracy in the light of that on IID accuracy: seeds that learned otherwise reproduce nothing.

    >>> beside(Verdict(REPRODUCED, 0.04, (-0.1, 0.2)), Verdict(LOWER, -0.2, (-0.4, -0.1)))
    Verdict(word='undecided', difference=0.04, interval=(-0.1, 0.2), iid='lower')
    """
    if ood.word == REPRODUCED and iid.word in (HIGHER, LOWER):
        return replace(ood, word=UNDECIDED, iid=iid.word)
    return ood


def is_inside(value: float, interval: Interval | None) -> bool | None:
    """Whether a published number, known up to its rounding, lies in an interval; None without one."""
    return None if interval is None else interval[0] - ROUNDING <= value <= interval[1] + ROUNDING
