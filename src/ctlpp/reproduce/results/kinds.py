"""The kinds of data on which a published number is asked for: what is nearest to the authors' own data first."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from ctlpp.reproduce.plan import PlannedRun
from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.wording import listed, number, title
from ctlpp.statistics import published as paper


@dataclass(frozen=True)
class Kind:
    """A protocol, with repeated or with distinct function sequences."""

    name: str  # of its figures
    title: str
    about: str
    protocol: str
    repeated: bool = False


KINDS = (
    Kind(
        "repeats",
        "`released` with repeats",
        "nearest to the data behind the published numbers: the authors' generator repeats function sequences",
        "released",
        repeated=True,
    ),
    Kind(
        "released",
        "`released`",
        "the rules of the authors' code, every function sequence drawn anew",
        "released",
    ),
    Kind("paper", "`paper`", "what the paper's text says", "paper"),
)


def asked(found: Found, kind: Kind) -> list[PlannedRun]:
    """The cells of A and R that the plan has of a kind, in the order of the published table."""
    every = [
        planned
        for planned in found.plan
        if {"table1", "repeats"} & {*planned.experiments}
        and (planned.protocol, planned.repeated) == (kind.protocol, kind.repeated)
    ]
    order = [*paper.PUBLISHED]
    return sorted(every, key=lambda planned: order.index((planned.model, planned.variant)))


def run(found: Found, kind: Kind) -> dict[tuple[str, str], Cell]:
    """Those that have run, by model and variant."""
    return {
        (planned.model, planned.variant): cell
        for planned in asked(found, kind)
        if (cell := found.done(planned))
    }


def main_cells(found: Found) -> list[Cell]:
    """All that have run on A and R: those that are asked for the same published number stand together."""
    by_kind = [run(found, kind) for kind in KINDS]
    return [cells[place] for place in paper.PUBLISHED for cells in by_kind if place in cells]


def nearest(found: Found) -> str:
    """Which kind of data comes nearest to the published means, over what has run on several; empty if nothing has."""
    off: dict[str, dict[tuple[str, str], float]] = {}
    for kind in KINDS:
        for place, cell in run(found, kind).items():
            judged = found.row(cell, "ood").verdict
            if judged and judged.interval and judged.difference is not None:
                off.setdefault(kind.title, {})[place] = abs(judged.difference)
    if len(off) < 2 or not (common := set.intersection(*(set(own) for own in off.values()))):
        return ""
    means = sorted((number(fmean(own[place] for place in common)), name) for name, own in off.items())
    ordered = [place for place in paper.PUBLISHED if place in common]
    named = [f"{title(model)} on {variant}" for model, variant in ordered]
    each = {name: f" ({listed([number(own[place]) for place in ordered])})" for name, own in off.items()}
    which = "every model on A and R" if len(named) == len(paper.PUBLISHED) else listed(named)
    of = f"published OOD accurac{'ies' if len(common) > 1 else 'y'} of {which}"
    first = [name for mean, name in means if mean == means[0][0]]
    average = " on average" if len(common) > 1 else ""
    if len(first) == len(means):
        return f"All kinds of data are equally near to the {of}: {means[0][0]} off{average}."
    if len(common) == 1:
        each = dict.fromkeys(each, "")
    rest = listed([f"{mean}{each[name]} for {name}" for mean, name in means if name not in first])
    return f"Nearest to the {of}: **{listed(first)}**, {means[0][0]} off{average}{each[first[0]]}, against {rest}."
