"""Accuracies of seeds: as dots beside a published mean, as the grid of variant S, and beside measures.

Example:
    >>> swarm([0.5, 1.0, 1.0, 1.0], 0.3).tolist()
    [0.0, -0.06, 0.0, 0.06]
    >>> draw_staged([Cell("ndr", 16, 6, {0: 1.0, 1: 0.98})]).axes[0].get_title()
    'NDR'
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.analysis.folder import MEASURES, PREDICTORS
from ctlpp.analysis.run import Study
from ctlpp.figures.style import (
    DARK,
    DATA,
    DOUBLE,
    GREY,
    OOD,
    SEED,
    SINGLE,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    explain,
    new_figure,
)
from ctlpp.files import UserError
from ctlpp.runs.history import Array
from ctlpp.statistics.published import SEEDS, STAGED, TITLES
from ctlpp.statistics.summary import Correlation, spread_interval
from ctlpp.words import plural

BIN = 0.025  # of accuracy: dots nearer than this stand side by side
STEP = 0.06  # between them, at most
BANDS = "#f4f4f4"
ACROSS = 3  # panels of the grid of S, at most
DATA_NAMES = {"repeats": "released with repeats", "released": "released", "paper": "paper"}
BAR: Any = {"linewidth": 0.9, "solid_capstyle": "butt"}
MEAN: Any = {"marker": "s", "markersize": 3.6, "markeredgecolor": DARK, "markeredgewidth": 0.6}
PUBLISHED: Any = {**MEAN, "marker": "D", "markerfacecolor": "white"}
COUNTED = ("codes", "clusters")  # from 1 on; the others are shares
PEARSON: Any = {"color": SEED, "marker": "o", "markersize": 4, "linewidth": 1.2}
SPEARMAN: Any = {"color": OOD, "marker": "d", "markersize": 3.2, "markerfacecolor": "white", "linestyle": ""}
Correlations = Mapping[str, Correlation]  # by measure


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
    """OOD accuracies of the seeds of one run on S; a seed that diverged has that at which it was frozen."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: Mapping[int, float]  # by seed
    diverged: AbstractSet[int] = frozenset()


def swarm(values: Sequence[float] | Array, width: float) -> Array:
    """A sideways shift of every dot, within ± width, so that equal ones can be told apart."""
    shifts, values = np.zeros(len(values)), np.asarray(values, dtype=float)
    bins = np.floor(values / BIN + 1e-9).astype(int)
    for one in np.unique(bins):
        places = np.flatnonzero(bins == one)
        places = places[np.argsort(values[places], kind="stable")]
        half = min(width, STEP * (len(places) - 1) / 2)
        shifts[places] = np.linspace(-half, half, len(places)) if len(places) > 1 else 0.0
    return shifts


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
    """A panel for each model: mean ± std of the seeds of each cell, above the published claim.

    Seeds that diverged count, and a note below says how many they are.
    """
    if not cells:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    grid = {(cell.model, cell.shared_functions, cell.shared_symbols): cell for cell in cells}
    known = {cell.model for cell in cells}
    models = [model for model in TITLES if model in known] + sorted(known - {*TITLES})
    functions, symbols = sorted({many for _, many, _ in grid}), sorted({few for _, _, few in grid})
    across = min(ACROSS, len(models), max(1, int(15 / len(symbols))))
    down = -(-len(models) // across)
    figure = new_figure(DOUBLE, (2.6 + 0.85 * len(functions)) * down + 0.3)
    panels = figure.subplots(down, across, squeeze=False)
    for axes in panels.flat[len(models) :]:
        axes.set_axis_off()
    for model, axes in zip(models, panels.flat, strict=False):
        mean, texts = (
            np.full((len(functions), len(symbols)), np.nan),
            [[""] * len(symbols) for _ in functions],
        )
        for i, j in np.ndindex(mean.shape):
            if cell := grid.get((model, functions[i], symbols[j])):
                values = [*cell.accuracies.values()]
                mean[i, j] = np.mean(values)
                spread = f"\n± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
                texts[i][j] = f"{mean[i, j]:.2f}{spread}"
        image = draw_matrix(axes, mean, [*map(str, functions)], [*map(str, symbols)], texts=texts)
        claim = textwrap.wrap(STAGED.get(model, ""), 100 // across)
        axes.set(title=TITLES.get(model, model), xlabel="\n".join(["shared symbols", "", *claim]))
    for axes in panels[:, 0]:
        axes.set_ylabel("shared functions")
    colour_bar(figure, image, panels, "OOD accuracy")
    if diverged := sum(len(cell.diverged) for cell in cells):
        count = f"{diverged} of {plural(sum(len(cell.accuracies) for cell in cells))}"
        figure.supxlabel(
            f"diverged, and counted with the accuracy at which it was frozen: {count}", fontsize=6
        )
    return figure


def draw_scatter(study: Study) -> Figure:
    """A panel for each measure; one point is one seed."""
    measures = study.analysis.measures
    names = [name for name in PREDICTORS if name in measures and np.isfinite(measures[name]).any()]
    across = min(4, len(names))
    down = -(-len(names) // across)
    figure = new_figure(DOUBLE, 3.7 * down + 0.5)
    grid = figure.subplots(down, across, sharey=True, squeeze=False)
    trained = study.trained
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for name, axes in zip(names, grid.flat, strict=False):
        values = measures[name]
        look = {"markersize": 3, "color": SEED, "alpha": 0.75, "markeredgewidth": 0}
        axes.plot(values[trained], study.ood[trained], "o", **look)
        axes.plot(values[~trained], study.ood[~trained], "x", markersize=3, color=GREY)
        low, high = (1.0, 2.0) if name in COUNTED else (0.0, 1.0)
        low, high = min(low, float(np.nanmin(values))), max(high, float(np.nanmax(values)))
        axes.set_xlim(low - 0.04 * (high - low), high + 0.04 * (high - low))
        axes.set_title(f"{MEASURES[name].label}\n{_text(study.correlations[name])}")
        accuracy_axis(axes, study.outcome, solved=False)
    if not trained.all():
        cross = {"color": GREY, "marker": "x", "linestyle": "", "markersize": 3}
        explain(figure, {"a seed that diverged, not part of r": cross})
    return figure


def _text(one: Correlation) -> str:
    if not np.isfinite(one.pearson):
        return "no correlation defined"
    return f"r = {one.pearson:.2f} [{one.low:.2f}, {one.high:.2f}]".replace("-", "−")


def draw_ranking(study: Study) -> Figure:
    """Correlation of each measure with OOD accuracy with its interval, the strongest on top."""
    known = {
        name: c for name, c in study.correlations.items() if name in PREDICTORS and np.isfinite(c.pearson)
    }
    return draw_rankings({"": known}, study.outcome)


def draw_rankings(panels: Mapping[str, Correlations], outcome: str = "OOD accuracy") -> Figure:
    """Rankings of several runs side by side, by title; all in the order of the first."""
    first = {name: one for found in reversed([*panels.values()]) for name, one in found.items()}
    order = sorted(first, key=lambda name: abs(first[name].pearson))
    lines = max(title.count("\n") for title in panels)
    figure = new_figure(SINGLE if len(panels) == 1 else DOUBLE, 2.1 + 0.3 * lines + 0.42 * len(order))
    for axes, (title, found) in zip(
        np.ravel(figure.subplots(1, len(panels), sharey=True)), panels.items(), strict=True
    ):
        _rank(axes, found, order)
        axes.set_title(title)
        axes.set_xticks([-1, 0, 1] if len(panels) > 3 else [-1, -0.5, 0, 0.5, 1])
    figure.supxlabel(f"correlation with {outcome}", fontsize=7)
    explain(figure, {"Pearson, 95 % interval": PEARSON, "Spearman": SPEARMAN})
    return figure


def _rank(axes: Axes, found: Correlations, order: list[str]) -> None:
    """A row for each measure, from below; empty where it is not defined."""
    for row, name in enumerate(order):
        if one := found.get(name):
            axes.plot([one.low, one.pearson, one.high], [row] * 3, **PEARSON, markevery=[1])
            axes.plot([one.spearman], [row], **SPEARMAN)
    axes.axvline(0, color=DARK, linewidth=0.5)
    axes.set_yticks(range(len(order)), [MEASURES[name].label for name in order])
    axes.set(xlim=(-1.05, 1.05), ylim=(-0.6, len(order) - 0.4))
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.4)
    axes.set_axisbelow(True)
