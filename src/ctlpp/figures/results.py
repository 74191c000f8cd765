"""Figures of many runs: seeds as rows of dots, the grid of variant S, and curves.

Example:
    >>> row = Row("clean", Dots((0.5, 1.0), 0.75), "black", notes=("1 of 2",))
    >>> axes = draw_strips([Panel("NDR on R", [row], ("above 0.95",))]).axes[0]
    >>> {"above 0.95", "1 of 2"} <= {text.get_text() for text in axes.texts}
    True
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.run import LENGTHS, STEPS, Diverged, mean_of_seeds, plot_curves, plot_lengths
from ctlpp.figures.style import (
    DARK,
    DASHES,
    DATA,
    DATA_NAMES,
    DOUBLE,
    GREY,
    IID,
    MARKERS,
    OOD,
    PUBLISHED,
    SEED,
    SIZE,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    label_ends,
    new_figure,
    new_panels,
    swarm,
)
from ctlpp.files import UserError
from ctlpp.runs.history import Array, History
from ctlpp.statistics.published import LEARNED, SEEDS, SOLVED, STAGED, TITLES
from ctlpp.statistics.summary import spread_interval
from ctlpp.words import plural

ROW = 0.54  # cm: the height of a row of dots
NOTE, FIRST = 42, 6  # points: between the columns of notes on the right, and before the first
MEAN: Any = {"marker": "s", "markersize": 3.4, "markeredgecolor": DARK, "markeredgewidth": 0.6}
ACROSS = 2  # panels of the grid of S, at most
Panels = Mapping[tuple[str, str], History]  # (model, variant) -> its seeds' curves


@dataclass(frozen=True)
class Dots:
    """Accuracies of the seeds of one run, their mean and its interval."""

    values: tuple[float, ...]
    mean: float | None
    interval: tuple[float, float] | None = None  # None for few seeds
    left_out: tuple[float, ...] = ()  # seeds that do not count


NO_DOTS = Dots((), None)


@dataclass(frozen=True)
class Row:
    """One run, or a published mean and its standard deviation; neither for a heading."""

    label: str
    dots: Dots | None = None
    colour: str = DARK
    marker: str = "o"
    notes: tuple[str, ...] = ()
    published: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """Rows with a title, and what stands above the columns of notes on their right."""

    title: str
    rows: Sequence[Row]
    heads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A model on a variant, on one kind of data."""

    model: str
    variant: str
    kind: str  # a key of DATA
    dots: dict[str, Dots]  # by split
    published: dict[str, tuple[float, float]] | None = None  # by split: mean and standard deviation

    @property
    def has_run(self) -> bool:
        return bool(self.dots["ood"].values or self.dots["ood"].left_out)


@dataclass(frozen=True)
class Line:
    """Seeds of a model on one kind of data of variant A."""

    model: str
    data: str  # in a few words
    history: History


@dataclass(frozen=True)
class Cell:
    """OOD accuracies of the seeds of one run on S."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: Mapping[int, float]  # by seed
    diverged: int = 0  # seeds besides


def draw_strips(panels: Sequence[Panel], chance: float = 0) -> Figure:
    """Panels side by side, whose rows have the same labels; they stand left of the first."""
    figure = new_figure(DOUBLE, 1.9 + ROW * max(len(panel.rows) for panel in panels))
    for column, axes in enumerate(figure.subplots(1, len(panels), squeeze=False)[0]):
        panel = panels[column]
        axes.set_title(panel.title, loc="left", weight="bold", pad=12)
        for at, row in enumerate(panel.rows):
            _draw_row(axes, at, row)
        for at, head in enumerate(panel.heads):
            _write_note(axes, at, -0.75, head)
        for place, name in ((SOLVED, f"{SOLVED}"), (chance, "chance")):
            if place:
                axes.axvline(place, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
                axes.text(place, -0.75, name, va="center", ha="center", color=DARK)
        axes.set(xlim=(-0.03, 1.04), ylim=(len(panel.rows) - 0.4, -0.6), xlabel="OOD accuracy")
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(panel.rows)), [row.label if column == 0 else "" for row in panel.rows])
        for row, label in zip(panel.rows, axes.get_yticklabels(), strict=True):
            label.set_color(row.colour if row.dots else DARK)
            label.set_weight("normal" if row.dots or row.published else "bold")
    return figure


def _draw_row(axes: Axes, at: int, row: Row) -> None:
    """Dots, hollow if they do not count, above their mean with its interval; or a published mean."""
    for column, note in enumerate(row.notes):
        _write_note(axes, column, at, note)
    if row.published:
        axes.plot(spread_interval(row.published, SEEDS), [at, at], color=PUBLISHED, linewidth=0.9)
        axes.plot([row.published[0]], [at], color=PUBLISHED, **{**MEAN, "marker": "D"})
    if row.dots is None:
        return
    every, counted = (*row.dots.values, *row.dots.left_out), len(row.dots.values)
    heights = at - 0.1 + swarm(every, 0.26)
    look: Any = {"color": row.colour, "marker": row.marker, "linestyle": "", "markersize": 2.8, "alpha": 0.6}
    axes.plot(row.dots.values, heights[:counted], **look, markeredgewidth=0)
    axes.plot(row.dots.left_out, heights[counted:], **look, markerfacecolor="none", markeredgewidth=0.6)
    if row.dots.interval is not None:
        axes.plot(row.dots.interval, [at + 0.36] * 2, color=DARK, linewidth=0.9, zorder=3)
    if row.dots.mean is not None:
        axes.plot([row.dots.mean], [at + 0.36], color=row.colour, zorder=4, **MEAN)


def _write_note(axes: Axes, column: int, at: float, text: str) -> None:
    """A note right of the dots."""
    place: Any = {"xy": (1, at), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    axes.annotate(text, xytext=(FIRST + NOTE * column, 0), va="center", color=DARK, **place)


def draw_table1(entries: Sequence[Entry], chance: float = 0) -> Figure:
    """A panel for each variant: by model the published mean, then the seeds on each kind of data."""
    panels = []
    for variant in sorted({entry.variant for entry in entries}):
        rows: list[Row] = []
        for model in _known_models(entry.model for entry in entries):
            rows += [Row(TITLES[model]), *_rows_of(model, variant, entries)]
        panels.append(Panel(f"Variant {variant}", rows, (f"> {SOLVED}", "IID")))
    return draw_strips(panels, chance)


def _rows_of(model: str, variant: str, entries: Sequence[Entry]) -> list[Row]:
    """The published mean if any variant has one, and each kind of data on which any variant has run."""
    every = [entry for entry in entries if entry.model == model]
    own = {entry.kind: entry for entry in every if entry.variant == variant}
    rows = []
    if any(entry.published for entry in every):
        known = next((entry.published["ood"] for entry in own.values() if entry.published), None)
        rows.append(Row("published", published=known))
    for kind in (kind for kind in DATA if any(entry.kind == kind and entry.has_run for entry in every)):
        if kind not in own or not own[kind].has_run:
            rows.append(Row(DATA_NAMES[kind], NO_DOTS, DATA[kind], notes=("not run",)))
            continue
        ood, iid = own[kind].dots["ood"], own[kind].dots["iid"]
        solved = f"{sum(value > SOLVED for value in ood.values)} of {len(ood.values)}"
        solved = solved if ood.values else "none learned"
        note = f"{iid.mean:.2f}" if iid.mean is not None and iid.mean < 0.995 else ""
        rows.append(Row(DATA_NAMES[kind], ood, DATA[kind], MARKERS[kind], (solved, note)))
    return rows


def draw_tables(panels: Mapping[str, Sequence[tuple[int, Dots]]], chance: float = 0) -> Figure:
    """By title: function tables by number with their seeds."""
    every = sorted({number for tables in panels.values() for number, _ in tables})
    parts = []
    for title, tables in panels.items():
        known, rows = dict(tables), []
        for number in every:
            dots = known.get(number, NO_DOTS)
            mean = "" if dots.mean is None else f"{dots.mean:.2f}"
            rows.append(Row(f"table {number}", dots, SEED, notes=(mean if number in known else "not run",)))
        parts.append(Panel(title, rows, ("mean",)))
    return draw_strips(parts, chance)


def draw_data(lines: Sequence[Line], published: dict[str, tuple[float, float]]) -> Figure:
    """What the data decide: for each model a block with a row for each kind of data.

    published: mean and standard deviation of the OOD accuracy, by model.
    """
    models = _known_models(line.model for line in lines)
    blocks = [[line for line in lines if line.model == model] for model in models]
    figure = new_figure(DOUBLE, 1.6 + 0.55 * len(lines) + 0.8 * len(models))
    figure.set_layout_engine("constrained", rect=(0.03, 0, 0.97, 1))  # long labels stand out on the left
    heights = [len(block) + 1 for block in blocks]
    grid = figure.subplots(
        len(models), 3, sharex="col", squeeze=False, height_ratios=heights, width_ratios=(3, 2, 2)
    )
    for row, model, block in zip(grid, models, blocks, strict=True):
        _draw_block(row, block)
        row[0].set_title(f"{TITLES[model]} on A", loc="left", weight="bold")
        if model in published:
            mean, deviation = published[model]
            row[2].axvspan(mean - deviation, min(1.0, mean + deviation), color=GREY, alpha=0.25, linewidth=0)
            row[2].axvline(mean, color=GREY, linewidth=0.9)
            row[2].set_title("published: grey", color=GREY)
    labels = "learned after so many thousand steps", "IID accuracy", "OOD accuracy"
    for axes, label in zip(grid[-1], labels, strict=True):
        axes.set_xlabel(label)
    return figure


def _draw_block(row: Sequence[Axes], block: Sequence[Line]) -> None:
    """When seeds learn, and how accurate they end: three panels, in which a line has the same height."""
    steps, iid, ood = row
    end = max(line.history.steps[-1] for line in block) / 1000
    for at, line in enumerate(block):
        learned = line.history.learned_at(LEARNED) / 1000
        _draw_dots(steps, at, learned, DARK, end)
        count = f"{np.isfinite(learned).sum()} of {len(learned)}"
        steps.text(end * 1.04, at, count, va="center", ha="left", color=DARK)
        _draw_dots(iid, at, line.history.final("iid"), IID)
        _draw_dots(ood, at, line.history.final("ood"), OOD)
    for axes in row:
        axes.set(xlim=(0, end) if axes is steps else (-0.03, 1.04), ylim=(len(block) - 0.4, -0.6))
        axes.set_yticks(range(len(block)), [line.data for line in block] if axes is steps else [])
        axes.tick_params(axis="y", length=0)


def _draw_dots(axes: Axes, at: float, values: Array, colour: str, end: float = 1.0) -> None:
    """Every seed a dot, the mean a bar; equal ones stand beside each other. end: of the axis."""
    shown = values[np.isfinite(values)]
    heights = at + swarm(shown / end, 0.3)
    axes.plot(shown, heights, "o", color=colour, markersize=2.6, alpha=0.6, markeredgewidth=0)
    if len(shown):
        axes.plot([shown.mean()] * 2, [at - 0.32, at + 0.32], color=colour, linewidth=1.4)


def draw_staged(cells: Sequence[Cell]) -> Figure:
    """A panel for each model: mean ± std of the seeds of each cell, above the published claim."""
    if not cells:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    grid = {(cell.model, cell.shared_functions, cell.shared_symbols): cell for cell in cells}
    own = sorted({cell.model for cell in cells} - {*TITLES})
    models = [*_known_models(cell.model for cell in cells), *own]
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


def _draw_panels(
    panels: Panels, plot: Callable[[Axes, History, Diverged], None], x: str, y: str, chance: float
) -> Figure:
    """A row for each model, a column for each variant; what has not run is said to be missing."""
    models = _known_models(model for model, _ in panels)
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


def draw_repeats(pairs: Mapping[str, Mapping[str, History]], chance: float = 0) -> Figure:
    """By title and kind of data: the mean of the seeds over time, IID dashed and OOD in full."""
    figure = new_figure(DOUBLE, 5.6)
    grid = figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0]
    for axes, (title, kinds) in zip(grid, pairs.items(), strict=True):
        ends = {}
        for kind, history in kinds.items():
            for split, dashes in DASHES.items():
                mean = mean_of_seeds(history.accuracy[split, 0])
                axes.plot(history.steps / 1000, mean, dashes, color=DATA[kind], linewidth=1.3)
                name = DATA_NAMES[kind].removeprefix("clean with ")
                ends[f"{name}, {split.upper()}"] = mean[-1], DATA[kind]
        label_ends(axes, ends)
        axes.set(title=title, xlabel=STEPS, xlim=(0, None))
        accuracy_axis(axes, "mean accuracy", chance=chance)
    return figure


def _known_models(models: Iterable[str]) -> list[str]:
    """The paper's models among these, in its order."""
    found = set(models)
    return [model for model in TITLES if model in found]
