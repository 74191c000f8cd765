"""Verdicts: one word says whether a published mean holds.

Its interval is that of the difference of the two means: Welch's, 95 %, both sets of seeds being samples,
widened by the rounding of what was published. Then

- *higher*, *lower*: the interval excludes 0 and reaches beyond ±0.02, below which no difference matters;
- *reproduced*: it lies within ±0.02; or it lies within ± three quarters of the published standard deviation
  between seeds, and even the 80 % interval contains 0;
- *undecided*: neither. Also where the OOD accuracy would be reproduced but the IID accuracy is higher or
  lower: a mean over seeds that have learned their data and seeds that have not is not what was published.

Among fewer than ten seeds a kind of seed that makes up a quarter of all may be missing: they never reproduce
a number, and their spread is taken to be at least the published one. Fewer than four decide nothing.

Example:
    >>> from ctlpp.statistics.summary import summarise
    >>> judge(summarise([0.96, 0.93, 0.97, 0.91, 0.99] * 5), (0.95, 0.03)).word
    'reproduced'
    >>> judge(summarise([0.3, 1.0, 0.8]), (0.75, 0.27)).word
    'undecided'
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctlpp.statistics.published import ROUNDING, SEEDS, Published
from ctlpp.statistics.summary import LEVEL, MANY_SEEDS, MIN_SEEDS, Interval, Summary, difference

REPRODUCED, HIGHER, LOWER, UNDECIDED = "reproduced", "higher", "lower", "undecided"
NEGLIGIBLE = 0.02  # of accuracy
MARGIN = 0.75  # of the published spread: a reproduced number's difference lies within it, with its interval
USUAL = 0.8  # level of the interval that contains 0 if a number is reproduced


@dataclass(frozen=True)
class Verdict:
    """One of the four words, and what it rests on."""

    word: str
    difference: float | None = None  # our mean less theirs
    interval: Interval | None = None  # None with too few seeds
    iid_differs: str | None = None  # how, if this alone keeps an OOD accuracy from being reproduced


def judge(ours: Summary, published: tuple[float, float]) -> Verdict:
    """Our seeds against a published mean and standard deviation."""
    if ours.std is None or ours.mean is None or ours.seeds < MIN_SEEDS:
        return Verdict(UNDECIDED, None if ours.mean is None else ours.mean - published[0])
    few = ours.seeds < MANY_SEEDS
    own = ours.mean, max(ours.std, published[1]) if few else ours.std, ours.seeds
    sure, usual = (difference(own, (*published, SEEDS), ROUNDING, level) for level in (LEVEL, USUAL))
    assert sure is not None
    assert usual is not None
    gap, (low, high) = sure
    negligible = max(-low, high) <= NEGLIGIBLE
    if not negligible and not low <= 0 <= high:
        return Verdict(HIGHER if low > 0 else LOWER, gap, (low, high))
    margin = max(NEGLIGIBLE, MARGIN * published[1]) + ROUNDING
    alike = negligible or (max(-low, high) <= margin and usual[1][0] <= 0 <= usual[1][1])
    return Verdict(REPRODUCED if alike and not few else UNDECIDED, gap, (low, high))


def judge_splits(iid: Summary, ood: Summary, published: Published) -> dict[str, Verdict]:
    """Both verdicts on a run: seeds that learned unlike the published ones reproduce no OOD accuracy."""
    found = {"iid": judge(iid, published.iid), "ood": judge(ood, published.ood)}
    if found["ood"].word == REPRODUCED and found["iid"].word in (HIGHER, LOWER):
        found["ood"] = replace(found["ood"], word=UNDECIDED, iid_differs=found["iid"].word)
    return found


def is_inside(value: float, interval: Interval | None) -> bool | None:
    """Whether a published number, known up to its rounding, lies in an interval; None without one."""
    return None if interval is None else interval[0] - ROUNDING <= value <= interval[1] + ROUNDING
