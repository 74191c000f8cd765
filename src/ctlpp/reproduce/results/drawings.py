"""The figures of a results folder, each drawn only if something of it has run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO

from matplotlib.figure import Figure

from ctlpp.figures.crowds import draw_by_length, draw_learning
from ctlpp.figures.function_tables import draw_tables
from ctlpp.figures.predictors import draw_rankings
from ctlpp.figures.repeats import Pair, draw_repeats
from ctlpp.figures.seeds import Dots
from ctlpp.figures.similarity import draw_side_by_side, draw_symbols
from ctlpp.figures.staged import Cell as Staged
from ctlpp.figures.staged import draw_staged
from ctlpp.figures.style import render, style
from ctlpp.figures.table1 import Entry, draw_table1
from ctlpp.report.compare import SPLITS
from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.claims import PUBLISHED
from ctlpp.reproduce.results.found import Found, repeats, tables
from ctlpp.reproduce.results.kinds import KINDS, run
from ctlpp.reproduce.results.learning import history_of
from ctlpp.reproduce.results.predicting import predictions
from ctlpp.reproduce.results.similar import Example
from ctlpp.reproduce.results.tables import name_of
from ctlpp.reproduce.results.wording import title
from ctlpp.statistics.published import PUBLISHED as PAPER

FORMATS = ("png", "pdf")  # for the page, and for print
DOTS = 200  # an inch, of a PNG
VARIANTS = ("A", "R")
SIMILAR = ("success-R", "failure-R", "failure-A")
NAMES = (
    "table1",
    *(f"{what}-{kind.name}" for what in ("curves", "lengths") for kind in KINDS),
    *(f"repeats-{variant}" for variant in VARIANTS),
    *("staged", "tables", "predictors", "similarity"),
    *(f"similarity-{name}" for name in SIMILAR),
)  # all that may be drawn
Drawing = tuple[str, Callable[[], Figure]]


def draw_all(found: Found, seen: Sequence[Example]) -> Iterator[tuple[str, bytes]]:
    """Every figure in every format: file name and content."""
    for name, draw in drawings(found, seen):
        with style():
            figure = draw()
            for kind in FORMATS:
                file = BytesIO()
                render(figure, file, kind, DOTS)
                yield f"{name}.{kind}", file.getvalue()


def drawings(found: Found, seen: Sequence[Example]) -> Iterator[Drawing]:
    """The figures by name, each with the call that draws it."""
    by_kind = {kind.name: run(found, kind) for kind in KINDS}
    if entries := [_entry(found, cell, kind) for kind, own in by_kind.items() for cell in own.values()]:
        yield "table1", partial(draw_table1, [*entries, *_not_run(entries)])
    for kind, own in by_kind.items():
        curves = {key: history for key, cell in own.items() if (history := history_of(cell))}
        if curves:
            yield f"curves-{kind}", partial(draw_learning, curves)
            yield f"lengths-{kind}", partial(draw_by_length, curves)
    if staged := _one_protocol(
        [cell for one in found.asked("staged") if (cell := found.done(one)) and cell.grid]
    ):
        yield "staged", partial(draw_staged, [_staged(cell) for cell in staged])
    for variant in VARIANTS:
        beside = {one.name: other for _, one, other in repeats(found) if one.variant == variant}
        if pairs := [
            _pair(found, one, beside[one.name]) for one in _one_protocol([found.cells[n] for n in beside])
        ]:
            yield f"repeats-{variant}", partial(draw_repeats, pairs)
    several = {_title(cells[0]): cells for cells in tables(found).values() if len(cells) > 1}
    if several:
        by_table = {
            name: [(cell.table, dots(found, cell)) for cell in cells] for name, cells in several.items()
        }
        yield "tables", partial(draw_tables, by_table)
    if every := predictions(found):
        yield (
            "predictors",
            partial(draw_rankings, {_in_lines(one.cell, one.seeds): one.found for one in every}),
        )
    if seen:
        yield (
            "similarity",
            partial(draw_side_by_side, [one.matrices for one in seen], [one.value for one in seen]),
        )
        for one in seen:
            yield f"similarity-{one.name}", partial(draw_symbols, one.matrices)


def _in_lines(cell: Cell, seeds: int) -> str:
    """Its name and the number of seeds, for a narrow panel."""
    name, *rest = name_of(cell).split(", ")
    return "\n".join([name, " ".join(rest).replace("repeated sequences", "with repeats"), f"{seeds} seeds"])


def dots(found: Found, cell: Cell, split: str = "ood") -> Dots:
    """The seeds of a cell, counted as the paper did."""
    row = found.row(cell, split)
    counted = cell.select(row.selection)
    left_out = [seed.accuracy[split] for seed in cell.seeds if seed not in counted and split in seed.accuracy]
    values = tuple(cell.values(split, row.selection))
    return Dots(values, row.summary.mean, row.summary.interval, tuple(left_out))


def _title(cell: Cell) -> str:
    return f"{title(cell.model)} on {cell.variant}" + (
        "" if cell.protocol == PUBLISHED else f", {cell.protocol}"
    )


def _one_protocol(cells: Sequence[Cell]) -> list[Cell]:
    """Those of the protocol of the published numbers; if there are none, those of the other."""
    return [cell for cell in cells if cell.protocol == PUBLISHED] or list(cells)


def _entry(found: Found, cell: Cell, kind: str) -> Entry:
    known = {split: getattr(cell.published, split) for split in SPLITS} if cell.published else None
    return Entry(cell.model, cell.variant, kind, {split: dots(found, cell, split) for split in SPLITS}, known)


def _not_run(entries: Sequence[Entry]) -> list[Entry]:
    """The published numbers beside which nothing of ours stands, if any are compared."""
    if not any(entry.published for entry in entries):
        return []
    have, nothing = {(entry.model, entry.variant) for entry in entries}, dict.fromkeys(SPLITS, Dots((), None))
    return [
        Entry(*place, entries[0].kind, nothing, {split: getattr(known, split) for split in SPLITS})
        for place, known in PAPER.items()
        if place not in have
    ]


def _staged(cell: Cell) -> Staged:
    assert cell.grid is not None
    accuracies = {seed.number: seed.accuracy["ood"] for seed in cell.seeds if "ood" in seed.accuracy}
    diverged = frozenset(seed.number for seed in cell.seeds if seed.diverged and seed.number in accuracies)
    return Staged(cell.model, *cell.grid, accuracies, diverged)


def _pair(found: Found, one: Cell, other: Cell) -> Pair:
    both = {"distinct": one, "repeated": other}
    return Pair(
        model=one.model,
        variant=one.variant,
        dots={kind: dots(found, cell) for kind, cell in both.items()},
        curves={kind: history for kind, cell in both.items() if (history := history_of(cell))},
        published=one.published.ood if one.published else None,
    )
