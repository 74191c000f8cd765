"""Figures of many runs: seeds as dots beside a published mean, the grid of variant S, curves, and predictors.

Example:
    >>> draw_staged([Cell("ndr", 16, 6, {0: 1.0, 1: 0.98})]).axes[0].get_title()
    'NDR'
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.run import (
    LENGTHS,
    STEPS,
    Diverged,
    explain_splits,
    mean_of_seeds,
    plot_curves,
    plot_lengths,
)
from ctlpp.figures.style import (
    DARK,
    DATA,
    DATA_NAMES,
    DOUBLE,
    GREY,
    OOD,
    SEED,
    SPLITS,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    explain,
    new_figure,
    new_panels,
    swarm,
)
from ctlpp.files import UserError
from ctlpp.runs.history import History
from ctlpp.statistics.published import SEEDS, STAGED, TITLES
from ctlpp.statistics.summary import spread_interval
from ctlpp.words import plural

BANDS = "#f4f4f4"
ACROSS = 3  # panels of the grid of S, at most
SEQUENCES = {"distinct": DATA["clean"], "repeated": DATA["repeats"]}
BAR: Any = {"linewidth": 0.9, "solid_capstyle": "butt"}
MEAN: Any = {"marker": "s", "markersize": 3.6, "markeredgecolor": DARK, "markeredgewidth": 0.6}
PUBLISHED: Any = {**MEAN, "marker": "D", "markerfacecolor": "white"}
Panels = Mapping[tuple[str, str], History]  # (model, variant) -> its seeds' curves


@dataclass(frozen=True)
class Dots:
    """Accuracies of the seeds of one run, their mean and its interval."""

    values: tuple[float, ...]
    mean: float | None
    interval: tuple[float, float] | None = None  # None for one seed
    left_out: tuple[float, ...] = ()  # seeds that do not count


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


@dataclass(frozen=True)
class Pair:
    """One model and variant, trained on data with distinct and with repeated sequences."""

    model: str
    variant: str
    dots: dict[str, Dots]  # OOD accuracies by "distinct", "repeated"
    curves: dict[str, History]
    published: tuple[float, float] | None = None


def draw_dots(axes: Axes, at: float, dots: Dots, colour: str, width: float = 0.28, size: float = 3.2) -> None:
    """Dots around a place, hollow if they do not count; right of them the mean with its interval."""
    every = (*dots.values, *dots.left_out)
    places, counted = at - width * 0.3 + swarm(every, width * 0.62), len(dots.values)
    look: Any = {"color": colour, "markersize": size, "alpha": 0.6}
    axes.plot(places[:counted], dots.values, "o", **look, markeredgewidth=0)
    axes.plot(places[counted:], dots.left_out, "o", **look, markerfacecolor="none", markeredgewidth=0.6)
    beside = at + width * 0.78
    if dots.interval is not None:
        axes.plot([beside, beside], dots.interval, color=DARK, zorder=3, **BAR)
    if dots.mean is not None:
        axes.plot([beside], [dots.mean], color=colour, zorder=4, **MEAN)


def draw_published(axes: Axes, at: float, row: tuple[float, float]) -> None:
    """A published mean with the 95 % interval that its standard deviation allows."""
    axes.plot([at, at], spread_interval(row, SEEDS), color=GREY, **BAR)
    axes.plot([at], [row[0]], zorder=4, **PUBLISHED)


def legend_marks(colours: Mapping[str, str], published: bool) -> dict[str, dict[str, Any]]:
    """The entries of a legend."""
    seed: Any = {"marker": "o", "linestyle": "", "markersize": 3.2, "alpha": 0.8, "markeredgewidth": 0}
    marks = {f"a seed, {name}": {"color": colour, **seed} for name, colour in colours.items()}
    marks["mean, 95 % interval"] = {"color": DARK, **MEAN, "markerfacecolor": "white", **BAR}
    if published:
        marks["published"] = {"color": GREY, **PUBLISHED, **BAR}
    return marks


def draw_table1(entries: Sequence[Entry]) -> Figure:
    """A column of panels for each variant: IID accuracy above, OOD accuracy below."""
    variants = sorted({entry.variant for entry in entries})
    models = [model for model in TITLES if any(entry.model == model for entry in entries)]
    kinds = [kind for kind in DATA if any(entry.kind == kind for entry in entries)]
    figure = new_figure(DOUBLE, 9.4)
    grid = figure.subplots(2, len(variants), sharey="row", sharex=True, squeeze=False, height_ratios=(1, 2.6))
    for (row, column), axes in np.ndenumerate(grid):
        split, variant = ("iid", "ood")[row], variants[column]
        for at, model in enumerate(models):
            own = [entry for entry in entries if (entry.model, entry.variant) == (model, variant)]
            _draw_entries(axes, at, own, split, kinds)
        axes.set_title("" if row else f"variant {variant}")
        accuracy_axis(axes, f"{split.upper()} accuracy", solved=split == "ood")
        axes.set_xticks(range(len(models)), [TITLES[model] for model in models])
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.5, len(models) - 0.5)
    named = {DATA_NAMES[kind]: DATA[kind] for kind in kinds}
    explain(figure, legend_marks(named, published=any(entry.published for entry in entries)))
    return figure


def _draw_entries(axes: Axes, at: int, entries: Sequence[Entry], split: str, kinds: Sequence[str]) -> None:
    """One model in its place: the published mean, then the seeds on each kind of data."""
    wide = 0.92 / (len(kinds) + 0.4)  # the published mark takes less than half a place
    left = at - 0.46
    if at % 2 == 0:
        axes.axvspan(at - 0.5, at + 0.5, color=BANDS, linewidth=0, zorder=0)
    if entries and not any(one.dots[split].values or one.dots[split].left_out for one in entries):
        axes.text(at + 0.1, 0.5, "not run", ha="center", va="center", color=GREY, fontsize=6)
    for entry in entries:
        middle = left + wide * (0.9 + kinds.index(entry.kind))
        draw_dots(axes, middle, entry.dots[split], DATA[entry.kind], wide * 0.46, 2.6)
    known = next((entry for entry in entries if entry.published), None)
    if known and known.published:
        draw_published(axes, left + wide * 0.2, known.published[split])


def draw_tables(panels: Mapping[str, Sequence[tuple[int, Dots]]]) -> Figure:
    """By title: function tables by number with their seeds; the line is the mean of the tables."""
    figure = new_figure(DOUBLE, 5.6)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, tables) in zip(grid, panels.items(), strict=True):
        for at, (_, dots) in enumerate(tables):
            draw_dots(axes, at, dots, SEED)
        means = [dots.mean for _, dots in tables if dots.mean is not None]
        if means:
            axes.axhline(sum(means) / len(means), color=OOD, linewidth=0.8, zorder=1)
        axes.set_xticks(range(len(tables)), [str(number) for number, _ in tables])
        axes.set(xlim=(-0.6, len(tables) - 0.4), xlabel="function table (data seed)", title=title)
        accuracy_axis(axes, "OOD accuracy")
    return figure


def draw_staged(cells: Sequence[Cell]) -> Figure:
    """A panel for each model: mean ± std of the seeds of each cell, above the published claim."""
    if not cells:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    grid = {(cell.model, cell.shared_functions, cell.shared_symbols): cell for cell in cells}
    known = {cell.model for cell in cells}
    models = [model for model in TITLES if model in known] + sorted(known - {*TITLES})
    functions, symbols = sorted({many for _, many, _ in grid}), sorted({few for _, _, few in grid})
    across = min(ACROSS, len(models), max(1, int(15 / len(symbols))))
    figure, panels = new_panels(len(models), across, 2.6 + 0.85 * len(functions), 0.3)
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
        claim = textwrap.wrap(STAGED.get(model, ""), 100 // across)
        axes.set(title=TITLES.get(model, model), xlabel="\n".join(["shared symbols", "", *claim]))
    for axes in panels[:, 0]:
        axes.set_ylabel("shared functions")
    colour_bar(figure, image, panels, "OOD accuracy")
    if diverged := sum(cell.diverged for cell in cells):
        figure.supxlabel(f"{plural(diverged)} diverged, part of no mean", fontsize=6)
    return figure


def draw_learning(panels: Panels) -> Figure:
    """Accuracy over time, a panel for model and variant: every seed thin, the mean of the seeds thick."""
    return _draw_panels(panels, plot_curves, STEPS, "accuracy")


def draw_by_length(panels: Panels) -> Figure:
    """Accuracy at the end by number of functions: every seed a dot, the mean of the seeds a line."""
    return _draw_panels(panels, plot_lengths, LENGTHS, "accuracy at the end")


def draw_repeats(pairs: Sequence[Pair]) -> Figure:
    """A column for each pair: OOD accuracy of every seed above, mean accuracies over time below."""
    figure = new_figure(DOUBLE, 8.8)
    for (row, column), axes in np.ndenumerate(figure.subplots(2, len(pairs), sharey=True, squeeze=False)):
        pair = pairs[column]
        if row == 0:
            axes.set_title(f"{TITLES.get(pair.model, pair.model)} on {pair.variant}")
            for at, (kind, colour) in enumerate(SEQUENCES.items()):
                draw_dots(axes, at, pair.dots[kind], colour)
            if pair.published:
                draw_published(axes, -0.6, pair.published)
            axes.set_xticks(range(len(SEQUENCES)), list(SEQUENCES))
            axes.set_xlim(-0.9, 1.5)
        else:
            for kind, history in pair.curves.items():
                for split, line in (("iid", "--"), ("ood", "-")):
                    mean = mean_of_seeds(history.accuracy[split, 0])
                    axes.plot(history.steps / 1000, mean, line, color=SEQUENCES[kind], linewidth=1.2)
            axes.set_xlabel(STEPS)
        accuracy_axis(axes, "mean accuracy" if row else "OOD accuracy", solved=row == 0)
    named = {f"{kind} sequences": colour for kind, colour in SEQUENCES.items()}
    marks = legend_marks(named, published=any(pair.published for pair in pairs))
    for name, line in (("IID", "--"), ("OOD", "-")):
        marks[f"{name}, mean of the seeds over time"] = {"linestyle": line, "color": DARK, "linewidth": 1.2}
    explain(figure, marks)
    return figure


def _draw_panels(panels: Panels, plot: Callable[[Axes, History, Diverged], None], x: str, y: str) -> Figure:
    models = [model for model in TITLES if any(model == key[0] for key in panels)]
    variants = sorted({variant for _, variant in panels})
    figure = new_figure(DOUBLE, 1.0 + 3.9 * len(models))
    grid = figure.subplots(len(models), len(variants), sharey=True, squeeze=False)
    for (row, column), axes in np.ndenumerate(grid):
        model, variant = models[row], variants[column]
        axes.set_title(f"{TITLES[model]} on {variant}", loc="left", pad=3)
        if row == len(models) - 1:
            axes.set_xlabel(x)
        if (history := panels.get((model, variant))) is not None and len(history.steps):
            plot(axes, history, {})
            accuracy_axis(axes, y)
        else:
            axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color=DARK)
            axes.set_xticks([])
    explain_splits(figure, list(SPLITS), {})
    return figure
