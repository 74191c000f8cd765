"""Several cells at once: how their seeds learn, and how accuracy falls with length; a panel for model and variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from ctlpp.figures.curves import colour_of, name_of
from ctlpp.figures.seeds import swarm
from ctlpp.figures.style import DARK, DOUBLE, new_figure
from ctlpp.figures.table1 import TITLES
from ctlpp.runs.history import History
from ctlpp.statistics.published import SOLVED

Panels = Mapping[tuple[str, str], History]  # (model, variant) -> its seeds' curves
SPLITS = ("iid", "ood")


def draw_learning(panels: Panels) -> Figure:
    """Accuracy over time: every seed thin, the mean of the seeds thick."""
    return _small_multiples(panels, _curves, "training step (thousands)", "accuracy")


def draw_by_length(panels: Panels) -> Figure:
    """Accuracy at the end by number of functions: every seed a dot, the mean of the seeds a line."""
    return _small_multiples(panels, _lengths, "functions in the example", "accuracy at the end")


def _small_multiples(panels: Panels, draw: Callable[[Axes, History], None], across: str, up: str) -> Figure:
    models = [model for model in TITLES if any(model == key[0] for key in panels)]
    variants = sorted({variant for _, variant in panels})
    height = 1.9 + 3.6 * len(models)
    figure = new_figure(DOUBLE, height)
    grid = figure.add_gridspec(
        len(models), len(variants), left=0.07, right=0.98, bottom=1.0 / height, top=1 - 0.95 / height, **_GAPS
    )
    for line, model in enumerate(models):
        for column, variant in enumerate(variants):
            _one(figure, grid, (line, column), panels.get((model, variant)), draw)
            axes = figure.axes[-1]
            axes.set_title(f"{TITLES[model]} on {variant}", loc="left", pad=3)
            if line == len(models) - 1:
                axes.set_xlabel(across)
            if column == 0:
                axes.set_ylabel(up)
            else:
                axes.tick_params(labelleft=False)
    first = figure.axes[0]
    handles = [first.plot([], [], color=colour_of(split), linewidth=1.6)[0] for split in SPLITS]
    labels = [f"{name_of(split)}: every seed, and their mean" for split in SPLITS]
    figure.legend(handles, labels, loc="upper center", ncols=2, bbox_to_anchor=(0.53, 1 - 0.02 / height))
    return figure


_GAPS = {"hspace": 0.3, "wspace": 0.07}


def _one(
    figure: Figure, grid: GridSpec, place: tuple[int, int], history: History | None, draw: Callable[..., None]
) -> None:
    """One panel; it says so if its cell has not run."""
    axes = figure.add_subplot(grid[place])
    axes.set_ylim(-0.03, 1.04)
    if history is None or not len(history.steps):
        axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color=DARK)
        axes.set_xticks([])
        return
    draw(axes, history)


def _curves(axes: Axes, history: History) -> None:
    thousands = history.steps / 1000
    for split in SPLITS:
        if (split, 0) in history.accuracy:
            curve = history.accuracy[split, 0]
            axes.plot(thousands, curve, color=colour_of(split), linewidth=0.4, alpha=0.35)
            axes.plot(thousands, mean_over(curve), color="white", linewidth=2.6)
            axes.plot(thousands, mean_over(curve), color=colour_of(split), linewidth=1.6)
    axes.axhline(SOLVED, color=DARK, linestyle=":", linewidth=0.6)
    axes.set_xlim(0, thousands[-1])


def _lengths(axes: Axes, history: History) -> None:
    for number, split in enumerate(SPLITS):
        own = history.lengths(split)
        shift = (number - 0.5) * 0.36
        points = [_known(history.final(split, length)) for length in own]
        for length, values in zip(own, points, strict=True):
            at = length + shift + swarm(values, 0.14)
            axes.plot(at, values, ".", color=colour_of(split), alpha=0.4, markersize=3, markeredgewidth=0)
        places = [length + shift for length in own]
        means = [float(np.mean(values)) if values else np.nan for values in points]
        axes.plot(places, means, "-", color=colour_of(split), linewidth=1.0, alpha=0.8)
        axes.plot(places, means, "_", color=colour_of(split), markersize=7, markeredgewidth=1.6)
    lengths = sorted({length for split in SPLITS for length in history.lengths(split)})
    axes.set_xticks(lengths, [str(length) for length in lengths])


def mean_over(curve: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Sequence[float]:
    """The mean of the seeds at every evaluation; nan where there is none. (E, S) -> (E,)"""
    known = np.isfinite(curve)
    sums, counts = np.where(known, curve, 0).sum(axis=1), known.sum(axis=1)
    found: Sequence[float] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).tolist()
    return found


def _known(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    return [float(value) for value in values if np.isfinite(value)]
