"""Figures of many runs: seeds as dots beside a published mean, the grid of variant S, and curves.

Example:
    >>> draw_staged([Cell("ndr", 16, 6, {0: 1.0, 1: 0.98})]).axes[0].get_title()
    'NDR'
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.run import LENGTHS, STEPS, Diverged, mean_of_seeds, plot_curves, plot_lengths
from ctlpp.figures.strips import Dots, Panel, Row, draw_strips
from ctlpp.figures.style import (
    DARK,
    DASHES,
    DATA,
    DATA_NAMES,
    DOUBLE,
    MARKERS,
    SEED,
    SIZE,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    label_ends,
    new_figure,
    new_panels,
)
from ctlpp.files import UserError
from ctlpp.runs.history import History
from ctlpp.statistics.published import SOLVED, STAGED, TITLES
from ctlpp.words import plural

ACROSS = 2  # panels of the grid of S, at most
Panels = Mapping[tuple[str, str], History]  # (model, variant) -> its seeds' curves
HEADS = (f"> {SOLVED}", "IID")


@dataclass(frozen=True)
class Entry:
    """A model on a variant, on one kind of data."""

    model: str
    variant: str
    kind: str  # a key of DATA
    dots: dict[str, Dots]  # by split
    published: dict[str, tuple[float, float]] | None = None  # by split: mean and standard deviation


@dataclass(frozen=True)
class Cell:
    """OOD accuracies of the seeds of one run on S."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: Mapping[int, float]  # by seed
    diverged: int = 0  # seeds besides


def draw_table1(entries: Sequence[Entry], chance: float = 0) -> Figure:
    """A panel for each variant: by model the published mean, then the seeds on each kind of data."""
    models = [model for model in TITLES if any(entry.model == model for entry in entries)]
    variants = sorted({entry.variant for entry in entries})
    panels = []
    for variant in variants:
        rows: list[Row] = []
        for model in models:
            rows += [Row(TITLES[model]), *_rows_of(model, variant, entries)]
        panels.append(Panel(f"Variant {variant}", rows, HEADS))
    return draw_strips(panels, chance=chance)


def _rows_of(model: str, variant: str, entries: Sequence[Entry]) -> list[Row]:
    """The published mean if any variant has one, and each kind of data on which any variant has run."""
    every = [entry for entry in entries if entry.model == model]
    own = {entry.kind: entry for entry in every if entry.variant == variant}
    rows = []
    if any(entry.published for entry in every):
        known = next((entry.published["ood"] for entry in own.values() if entry.published), None)
        rows.append(Row("published", published=known))
    for kind in (kind for kind in DATA if any(entry.kind == kind and _seeds(entry) for entry in every)):
        entry = own.get(kind)
        if entry is None or not _seeds(entry):
            rows.append(Row(DATA_NAMES[kind], Dots((), None), DATA[kind], notes=("not run",)))
            continue
        ood, iid = entry.dots["ood"], entry.dots["iid"]
        solved = f"{sum(value > SOLVED for value in ood.values)} of {len(ood.values)}"
        solved = solved if ood.values else "none learned"
        note = f"{iid.mean:.2f}" if iid.mean is not None and iid.mean < 0.995 else ""
        rows.append(Row(DATA_NAMES[kind], ood, DATA[kind], MARKERS[kind], (solved, note)))
    return rows


def _seeds(entry: Entry) -> int:
    return len(entry.dots["ood"].values) + len(entry.dots["ood"].left_out)


def draw_tables(panels: Mapping[str, Sequence[tuple[int, Dots]]], chance: float = 0) -> Figure:
    """By title: function tables by number with their seeds."""
    every = sorted({number for tables in panels.values() for number, _ in tables})
    parts = []
    for title, tables in panels.items():
        known = dict(tables)
        rows = [
            Row(f"table {number}", known.get(number, Dots((), None)), SEED, notes=(_mean(known.get(number)),))
            for number in every
        ]
        parts.append(Panel(title, rows, ("mean",)))
    return draw_strips(parts, chance=chance)


def _mean(dots: Dots | None) -> str:
    return "not run" if dots is None else "" if dots.mean is None else f"{dots.mean:.2f}"


def draw_staged(cells: Sequence[Cell]) -> Figure:
    """A panel for each model: mean ± std of the seeds of each cell, above the published claim."""
    if not cells:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    grid = {(cell.model, cell.shared_functions, cell.shared_symbols): cell for cell in cells}
    known = {cell.model for cell in cells}
    models = [model for model in TITLES if model in known] + sorted(known - {*TITLES})
    functions, symbols = sorted({many for _, many, _ in grid}), sorted({few for _, _, few in grid})
    across = min(ACROSS, len(models), max(1, int(15 / len(symbols))))
    figure, panels = new_panels(len(models), across, 3.2 + 0.95 * len(functions), 0.3)
    for model, axes in zip(models, panels.flat, strict=False):
        mean = np.full((len(functions), len(symbols)), np.nan)
        texts = np.full(mean.shape, "", dtype=object)
        for i, j in np.ndindex(mean.shape):
            if cell := grid.get((model, functions[i], symbols[j])):
                values = [*cell.accuracies.values()]
                mean[i, j] = np.mean(values)
                spread = f"\n± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
                texts[i, j] = f"{mean[i, j]:.2f}{spread}"
        image = draw_matrix(axes, mean, [*map(str, functions)], [*map(str, symbols)], texts=texts)
        if np.isnan(mean).any():
            axes.text(0.5, 0.5, "grey: not run", transform=axes.transAxes, ha="center", va="center")
        claim = textwrap.wrap(STAGED.get(model, ""), 84 // across)
        axes.set(title=TITLES.get(model, model), xlabel="\n".join(["shared symbols", "", *claim]))
    for axes in panels[:, 0]:
        axes.set_ylabel("shared functions")
    colour_bar(figure, image, panels, "OOD accuracy")
    if diverged := sum(cell.diverged for cell in cells):
        figure.supxlabel(f"{plural(diverged)} diverged, part of no mean", fontsize=SIZE)
    return figure


def draw_learning(panels: Panels, chance: float = 0) -> Figure:
    """Accuracy over time, a panel for model and variant: every seed thin, the mean of the seeds thick."""
    return _draw_panels(panels, plot_curves, STEPS, "accuracy", chance)


def draw_by_length(panels: Panels, chance: float = 0) -> Figure:
    """Accuracy at the end by number of functions: every seed a dot, the mean of the seeds a line."""
    return _draw_panels(panels, plot_lengths, LENGTHS, "accuracy at the end", chance)


def draw_repeats(pairs: Mapping[str, Mapping[str, History]], chance: float = 0) -> Figure:
    """By title and kind of data: the mean of the seeds over time, IID dashed and OOD in full."""
    figure = new_figure(DOUBLE, 5.6)
    for axes, (title, kinds) in zip(
        figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0], pairs.items(), strict=True
    ):
        ends = {}
        for kind, history in kinds.items():
            for split, dashes in DASHES.items():
                mean = mean_of_seeds(history.accuracy[split, 0])
                axes.plot(history.steps / 1000, mean, dashes, color=DATA[kind], linewidth=1.3)
                ends[f"{DATA_NAMES[kind].removeprefix('clean with ')}, {split.upper()}"] = (
                    mean[-1],
                    DATA[kind],
                )
        label_ends(axes, ends)
        axes.set(title=title, xlabel=STEPS, xlim=(0, None))
        accuracy_axis(axes, "mean accuracy", chance=chance)
    return figure


def _draw_panels(
    panels: Panels, plot: Callable[[Axes, History, Diverged], None], x: str, y: str, chance: float
) -> Figure:
    """A row for each model, a column for each variant; what has not run is said to be missing."""
    models = [model for model in TITLES if any(model == key[0] for key in panels)]
    variants = sorted({variant for _, variant in panels})
    figure = new_figure(DOUBLE, 1.0 + 4.1 * len(models))
    grid = figure.subplots(len(models), len(variants), sharey=True, squeeze=False)
    for (row, column), axes in np.ndenumerate(grid):
        model, variant = models[row], variants[column]
        axes.set_title(f"{TITLES[model]} on {variant}", loc="left", pad=3)
        if row == len(models) - 1:
            axes.set_xlabel(x)
        if (history := panels.get((model, variant))) is not None and len(history.steps):
            plot(axes, history, {})
            accuracy_axis(axes, y, chance=chance)
        else:
            axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color=DARK)
            axes.set_xticks([])
    return figure
