"""Two runs side by side: how far apart their means are, a permutation test, and how many seeds succeed.

Example:
    >>> found = contrast([0.9, 0.96, 0.99, 0.97, 0.98], [0.3, 0.5, 0.4, 0.2, 0.6])
    >>> round(found.difference, 2), found.p < 0.05, found.one.solved, found.other.solved
    (0.56, True, 4, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctlpp.files import UserError
from ctlpp.report.compare import group_by_setting, merge
from ctlpp.runs.folder import find_runs
from ctlpp.runs.history import SeedResult, accuracies
from ctlpp.statistics.summary import Interval, Summary, difference, permutation_p, summarise

if TYPE_CHECKING:
    from ctlpp.training.loop import Run

Seeds = Sequence[SeedResult]


@dataclass(frozen=True)
class Contrast:
    """One run less another; what needs more seeds is None. Diverged seeds are in the success rates only."""

    one: Summary
    other: Summary
    difference: float | None  # of the means
    interval: Interval | None  # of the difference: Welch's, 95 %
    p: float | None  # how often the means are as far apart if the seeds change places at random
    p_solved: float | None  # Fisher's exact test of the success rates


def compare(one: Run | Path | str, other: Run | Path | str) -> dict[tuple[str, int], Contrast]:
    """Contrast two runs on every split and length that both have: (split, length) -> contrast; length 0: all.

    Args:
        one: A run, or its folder. A folder with several runs will do if they differ in their seeds only.
        other: The run that is subtracted.

    Returns:
        For each split and length a `Contrast`, with statistics of both runs' seeds and how they differ.
    """
    ours, theirs = seeds_of(one), seeds_of(other)
    keys = [key for key in _keys(ours) if key in _keys(theirs)]
    if not keys:
        raise UserError(f"{one} and {other} have no split in common: evaluate both on the same splits")
    return {
        key: contrast(
            accuracies(ours, *key),
            accuracies(theirs, *key),
            sum(seed.diverged for seed in ours),
            sum(seed.diverged for seed in theirs),
        )
        for key in keys
    }


def seeds_of(run: Run | Path | str) -> Seeds:
    """The results of a run, or of the runs of one setting in a folder."""
    if not isinstance(run, Path | str):
        if not hasattr(run, "history"):
            raise UserError(f"run of type {type(run).__name__}: give a run, or its folder")
        return run.history.results(run.diverged)
    found = find_runs([Path(run)])
    same = group_by_setting(found)
    if not same:
        reason = found[0].reason or "nothing in it is finished"
        raise UserError(f"{run} has no finished run ({found[0].state}: {reason}): name one that is finished")
    if len(same) > 1:
        raise UserError(
            f"{run} has runs of {len(same)} settings: name one of them, such as {same[0][0].folder}"
        )
    return merge(same[0])


def _keys(seeds: Seeds) -> list[tuple[str, int]]:
    """Splits and lengths, in order of appearance."""
    found: dict[tuple[str, int], None] = {}
    for seed in seeds:
        for split in seed.accuracy:
            found |= dict.fromkeys((split, length) for length in (0, *sorted(seed.by_length.get(split, ()))))
    return list(found)


def contrast(
    one: Sequence[float], other: Sequence[float], diverged: int = 0, other_diverged: int = 0
) -> Contrast:
    """Set accuracies of two sets of seeds against each other."""
    from scipy.stats import fisher_exact  # late: it takes a second to import

    ours, theirs = summarise(one, diverged), summarise(other, other_diverged)
    apart = difference((ours.mean, ours.std, ours.seeds), (theirs.mean, theirs.std, theirs.seeds))
    tried = [[side.solved, side.seeds + side.diverged - side.solved] for side in (ours, theirs)]
    return Contrast(
        ours,
        theirs,
        None if ours.mean is None or theirs.mean is None else ours.mean - theirs.mean,
        apart[1] if apart else None,
        permutation_p([one, other]) if one and other and len(one) + len(other) > 2 else None,
        float(fisher_exact(tried).pvalue) if all(map(sum, tried)) else None,
    )
