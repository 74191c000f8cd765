"""What the paper says in words about its grid of S, asked of our own grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from ctlpp.reproduce.plan import PlannedRun
from ctlpp.reproduce.results.cells import ALL, Cell
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.wording import between, listed, signed, title
from ctlpp.statistics.published import ROUNDING
from ctlpp.statistics.summary import Interval

PUBLISHED = "released"  # the protocol of the published grid
HOLDS, FAILS, OPEN = "as published", "not as published", "undecided"
FEW, MANY, WIDEST = 4, 16, 6  # shared functions, and the most shared symbols


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, what our runs say of it, and whether they agree."""

    text: str
    ours: str
    word: str


def claims(found: Found) -> list[Claim]:
    """Those about which our runs say something, under the protocol of the published grid."""
    grids = {model: grid_of(found, model) for model in ("ndr", "transformer", "lstm")}
    asked = _planned(found, "ndr")
    every = [_only_corner(grids["ndr"], len(asked))]
    for model, few, many in (("transformer", -1, 1), ("lstm", -1, -1)):
        for functions, sign in ((FEW, few), (MANY, many)):
            row = sum(planned.options.get("shared_functions") == functions for planned in asked)
            every.append(_beside_ndr(grids, model, functions, sign, row))
    return [claim for claim in every if claim]


def grid_of(found: Found, model: str) -> dict[tuple[int, int], Cell]:
    """The cells of a model's grid that have run; those of the miniature say nothing of the paper."""
    asked = [planned for planned in _planned(found, model) if planned.preset != "quick"]
    return {cell.grid: cell for planned in asked if (cell := found.done(planned)) and cell.grid}


def _planned(found: Found, model: str) -> list[PlannedRun]:
    every = found.asked("staged")
    return [planned for planned in every if (planned.model, planned.protocol) == (model, PUBLISHED)]


def _only_corner(grid: Mapping[tuple[int, int], Cell], asked: int) -> Claim | None:
    """NDR reaches 1.00 in one corner only."""
    means = {
        place: sum(values) / len(values) for place, cell in grid.items() if (values := cell.values("ood"))
    }
    if not means:
        return None
    perfect = sorted(place for place, mean in means.items() if mean >= 1 - ROUNDING)
    corner = (MANY, WIDEST)
    words = [f"{many} and {few}" for many, few in perfect]
    ours = f"1.00 with {listed(words)}" if words else "1.00 nowhere"
    ours += _so_far(len(means), asked)
    others = [place for place in perfect if place != corner]
    failed = bool(others) or (corner in means and corner not in perfect)
    word = FAILS if failed else HOLDS if len(means) == asked else OPEN
    return Claim(
        f"NDR reaches 1.00 only with {MANY} shared functions and {WIDEST} shared symbols", ours, word
    )


def _beside_ndr(
    grids: Mapping[str, Mapping[tuple[int, int], Cell]], model: str, functions: int, sign: int, asked: int
) -> Claim | None:
    """A model above or below the NDR in one row of the grid; decided when both have all its columns."""
    own, ndr = grids[model], grids["ndr"]
    both = sorted(place for place in own.keys() & ndr.keys() if place[0] == functions)
    if not (found := mean_difference([(own[place], ndr[place]) for place in both])):
        return None
    gap, (low, high) = found
    agrees = low > 0 if sign > 0 else high < 0
    against = high < 0 if sign > 0 else low > 0
    text = f"{title(model)} {'above' if sign > 0 else 'below'} the NDR with {functions} shared functions"
    ours = f"{signed(gap)} ({between((low, high), sign=True)}){_so_far(len(both), asked)}"
    whole = len(both) == asked
    return Claim(text, ours, HOLDS if whole and agrees else FAILS if whole and against else OPEN)


def _so_far(run: int, asked: int) -> str:
    return "" if run == asked else f", in {run} of {asked} cells so far"


def mean_difference(pairs: list[tuple[Cell, Cell]]) -> tuple[float, Interval] | None:
    """The mean difference of OOD accuracy over pairs of cells, and its interval from the spread of the seeds."""
    from scipy.stats import t

    gaps, errors, freedom = [], [], 0
    for one, other in pairs:
        values = one.values("ood", ALL), other.values("ood", ALL)
        if min(map(len, values)) < 2:
            continue
        means = [sum(own) / len(own) for own in values]
        gaps.append(means[0] - means[1])
        errors.append(
            sum(
                sum((x - mean) ** 2 for x in own) / (len(own) - 1) / len(own)
                for own, mean in zip(values, means, strict=True)
            )
        )
        freedom += min(map(len, values)) - 1
    if not gaps:
        return None
    gap, error = sum(gaps) / len(gaps), sqrt(sum(errors)) / len(gaps)
    half = error * float(t.ppf(0.975, freedom))
    return gap, (gap - half, gap + half)
