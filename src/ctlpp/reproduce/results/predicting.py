"""Which measure predicts failure? Over the seeds of a cell, all its runs together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctlpp.analysis.measures import MEASURES, PREDICTORS
from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.kinds import main_cells
from ctlpp.reproduce.results.tables import name_of
from ctlpp.reproduce.results.wording import NONE, between, listed, number, table
from ctlpp.runs.folder import SeedResult
from ctlpp.runs.untrusted import DamagedError, as_dict, as_float, as_int, as_list, read_json
from ctlpp.statistics.correlation import Correlation, correlate
from ctlpp.statistics.published import LEARNED

SEEDS = 8  # that have learned their data and are analysed; fewer say little
APART = (
    0.1  # of OOD accuracy, between the second worst and the second best seed: less leaves nothing to predict
)
ANSWERS = (
    "codes",
)  # measures that are read off answers, new pairs among them: near to OOD accuracy by themselves
PICTURE = "cosine_across"  # what the paper's similarity matrices show

ABOUT = (
    "Pearson's correlation of each measure with OOD accuracy over the analysed seeds that have learned their data (IID"
    f" above {LEARNED}), with its 95 % bootstrap interval. Only cells with at least {SEEDS} such seeds, of which the"
    f" second worst and the second best are at least {APART} apart. The codes are read off the answers to pairs of"
    " functions, new ones among them, so that they are near to OOD accuracy by themselves; the other measures are made"
    " of inner states."
)


@dataclass(frozen=True)
class Predicted:
    """The correlations in one cell."""

    cell: Cell
    seeds: int
    found: dict[str, Correlation]  # by measure; where it is defined

    @property
    def ranked(self) -> list[str]:
        """Measures of inner states, the best predictor first, then those of answers."""
        return sorted(self.found, key=lambda name: (name in ANSWERS, -abs(self.found[name].pearson)))

    @property
    def inner(self) -> list[str]:
        """Those of inner states."""
        return [name for name in self.ranked if name not in ANSWERS]


def predictions(found: Found) -> list[Predicted]:
    """Of every cell on A and R that says something."""
    return [one for cell in main_cells(found) if (one := _predict(cell))]


def _predict(cell: Cell) -> Predicted | None:
    accuracy = {seed.number: seed.accuracy["ood"] for seed in cell.seeds if _learned(seed)}
    values = {number: own for number, own in _measured(cell).items() if number in accuracy}
    ood = np.array([accuracy[number] for number in values])
    if len(ood) < SEEDS or np.ptp(np.sort(ood)[1:-1]) < APART:
        return None
    found = {
        name: correlate(np.array([own.get(name, np.nan) for own in values.values()]), ood)
        for name in PREDICTORS
    }
    return Predicted(cell, len(ood), {name: one for name, one in found.items() if np.isfinite(one.pearson)})


def _learned(seed: SeedResult) -> bool:
    return not seed.diverged and seed.accuracy.get("iid", 0) > LEARNED and "ood" in seed.accuracy


def _measured(cell: Cell) -> dict[int, dict[str, float]]:
    """The measures of every analysed seed by its number; a damaged analysis counts as none."""
    every: dict[int, dict[str, float]] = {}
    for record in cell.records:
        try:
            content = read_json(record.folder / "analysis" / "analysis.json")
        except DamagedError:
            continue
        values = {
            name: as_list(as_dict(as_dict(content.get("measures")).get(name)).get("values"))
            for name in MEASURES
        }
        for at, seed in enumerate(as_int(seed) for seed in as_list(content.get("seeds"))):
            own = {name: as_float(each[at]) for name, each in values.items() if at < len(each)}
            if seed is not None:
                every[seed] = {name: value for name, value in own.items() if value is not None}
    return every


def predictors_table(every: list[Predicted]) -> str:
    """A row for each measure, a column for each cell."""
    head = ["", *(f"{name_of(one.cell)} ({one.seeds} seeds)" for one in every)]
    measures = list(dict.fromkeys(name for one in every for name in one.ranked))
    rows = [[MEASURES[name].label, *(_shown(one.found.get(name)) for one in every)] for name in measures]
    return table(head, rows)


def _shown(one: Correlation | None) -> str:
    return NONE if one is None else f"{number(one.pearson)} ({between((one.low, one.high))})"


def sentence(one: Predicted) -> str:
    """What predicts best in a cell, and what the paper's picture does."""
    sure = [name for name in one.inner[:3] if one.found[name].low * one.found[name].high > 0]
    best = [f"{MEASURES[name].label} ({number(one.found[name].pearson)})" for name in sure]
    said = f"{name_of(one.cell)}: "
    if not best:
        said += "no measure is sure to predict anything"
    else:
        said += f"the best predictor{'s are' if len(best) > 1 else ' is'} {listed(best)}"
        said += " alone: the intervals of the next have 0 in them" if len(sure) < len(one.inner[:3]) else ""
    if PICTURE not in sure and PICTURE in one.found:
        place, size = one.inner.index(PICTURE) + 1, len(one.inner)
        said += (
            f"; the similarity of readouts across groups, what the matrices show, is number {place} of {size}"
        )
        said += f" ({number(one.found[PICTURE].pearson)})"
    for name in ANSWERS:
        if name in one.found:
            said += f"; {MEASURES[name].label}, read off the answers: {number(one.found[name].pearson)}"
    return f"{said}."
