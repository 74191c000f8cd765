"""`ctlpp compare`: two runs, with a test."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from ctlpp.cli.output import make_table, print_next, print_table

if TYPE_CHECKING:
    from ctlpp.statistics.summary import Interval, Summary

Run = Annotated[
    Path, Argument(metavar="RUN", help="A run folder; or one with runs that differ in seeds only.")
]


def compare(one: Run, other: Run) -> None:
    """Compare two runs: the difference of their means, and how many of their seeds succeed.

    `ctlpp compare runs/lstm-R runs/ndr-R`

    p of a difference: how often the means are as far apart if the seeds are dealt out to the runs at random.
    """
    from ctlpp.report.compare import compare as contrast
    from ctlpp.statistics.published import SOLVED
    from ctlpp.statistics.summary import FEWEST

    found = contrast(one, other)
    means = make_table("Accuracy", "split", "length", "first", "second", "difference [95 %]", "p", left=2)
    rates = make_table(f"Seeds above {SOLVED}", "split", "first [95 %]", "second [95 %]", "p (Fisher)")
    for (split, length), row in found.items():
        gap = "–" if row.difference is None else f"{row.difference:+.2f}{_interval(row.interval, '+.2f')}"
        sides = [_mean(side) for side in (row.one, row.other)]
        means.add_row(split, str(length or "all"), *sides, gap, _chance(row.p))
        if not length:
            rates.add_row(split, _solved(row.one), _solved(row.other), _chance(row.p_solved))
    few = min(side.seeds for row in found.values() for side in (row.one, row.other)) < FEWEST
    note = f"With fewer than {FEWEST} seeds in a run the intervals are not to be trusted."
    print_table(f"First: {one}", f"Second: {other}", means, rates, *[note] * few)
    print_next(f"ctlpp report {quote(str(one))} {quote(str(other))} --out report.html")


def _mean(side: Summary) -> str:
    if side.mean is None:
        return "–"
    return f"{side.mean:.2f}" if side.std is None else f"{side.mean:.2f} ± {side.std:.2f}"


def _solved(side: Summary) -> str:
    return f"{side.solved} of {side.seeds + side.diverged}{_interval(side.solved_share, '.2f')}"


def _interval(interval: Interval | None, form: str) -> str:
    return f" [{interval[0]:{form}}, {interval[1]:{form}}]" if interval else ""


def _chance(p: float | None) -> str:
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
