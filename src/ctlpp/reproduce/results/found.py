"""A results folder as it stands: what was planned, what has run, and the statistics of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.reproduce.pieces import first_mismatch
from ctlpp.reproduce.plan import PlannedRun, Scale, plan
from ctlpp.reproduce.results.cells import Cell, make_cell, read_cells
from ctlpp.reproduce.results.rows import Row, Rows, make_rows, selection_for


@dataclass(frozen=True)
class Found:
    """The plan, the cells that have a run, and their rows."""

    out: Path
    plan: tuple[PlannedRun, ...]
    cells: dict[str, Cell]  # those of the plan in its order, then the others
    rows: Rows

    def asked(self, experiment: str) -> list[PlannedRun]:
        """The cells that an experiment asks for."""
        return [planned for planned in self.plan if experiment in planned.experiments]

    def done(self, planned: PlannedRun) -> Cell | None:
        """A cell of which at least one seed is finished."""
        cell = self.cells.get(planned.name)
        return cell if cell is not None and cell.seeds else None

    def missing(self, planned: PlannedRun) -> list[int]:
        """Its seeds that are still to be trained."""
        cell = self.cells.get(planned.name)
        have = {seed.number for seed in cell.seeds} if cell else set()
        return [seed for seed in planned.seeds if seed not in have]

    def row(self, cell: Cell, split: str, selection: str | None = None) -> Row:
        """Its statistics; counted as the paper did, unless another way is named."""
        return self.rows[cell.name, selection or selection_for(cell), split]

    @property
    def beside(self) -> list[Cell]:
        """Cells that are not in the plan."""
        names = {planned.name for planned in self.plan}
        return [cell for name, cell in self.cells.items() if name not in names]


def find(out: Path, whole: Sequence[PlannedRun] | None = None) -> Found:
    """Read a results folder. whole: the plan to hold it against; by default the one that fits what is there best."""
    cells = read_cells(out)
    planned = tuple(fitting_plan(cells) if whole is None else whole)
    cells |= {each.name: _as_planned(cells[each.name], each) for each in planned if each.name in cells}
    order = {each.name: at for at, each in enumerate(planned)}
    ordered = {
        name: cells[name] for name in sorted(cells, key=lambda name: (order.get(name, len(order)), name))
    }
    return Found(out, planned, ordered, make_rows(ordered))


def _as_planned(cell: Cell, planned: PlannedRun) -> Cell:
    """The cell without finished runs that are not what their folder says."""
    why = {record.name: first_mismatch(record.config, planned) for record in cell.records}
    aside = [
        replace(record, state="different", reason=why[record.name])
        for record in cell.records
        if why[record.name]
    ]
    if not aside:
        return cell
    return make_cell(
        cell.name, [record for record in (*cell.records, *cell.others) if not why.get(record.name)] + aside
    )


def fitting_plan(names: Sequence[str] | dict[str, Cell]) -> list[PlannedRun]:
    """The whole plan of the scale to which most of these cells belong, the full one in doubt, and those beside it."""
    scales: tuple[Scale, ...] = ("full", "quick")
    plans = [[*plan("all", scale), *_under_other_protocols(scale, names)] for scale in scales]
    return max(plans, key=lambda one: sum(planned.name in names for planned in one))


def _under_other_protocols(scale: Scale, names: Sequence[str] | dict[str, Cell]) -> list[PlannedRun]:
    """What there is of the cells that only `--protocol` asks for."""
    known = {planned.name for planned in plan("all", scale)}
    every = [planned for protocol in PROTOCOLS for planned in plan("all", scale, protocol=protocol)]
    return [planned for planned in every if planned.name in names and planned.name not in known]


def repeats(found: Found) -> list[tuple[PlannedRun, Cell, Cell]]:
    """Cells with repeated sequences, each with its plain counterpart, where both have run: planned, plain, repeated."""
    pairs = []
    for planned in found.asked("repeats"):
        if planned.repeated:
            one, other = found.done(planned.without("distinct_sequences")), found.done(planned)
            if one and other:
                pairs.append((planned, one, other))
    return pairs


def tables(found: Found) -> dict[PlannedRun, list[Cell]]:
    """The cells of each function table that has run, under the cell of table 0."""
    by_cell: dict[PlannedRun, dict[int, Cell]] = {}
    for planned in found.asked("tables"):
        first = replace(planned.without("seed"), experiments=(), seeds=())
        for one in (first, planned):
            if cell := found.done(one):
                by_cell.setdefault(first, {})[cell.table] = cell
    return {planned: [cells[table] for table in sorted(cells)] for planned, cells in by_cell.items()}
