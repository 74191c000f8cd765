"""Which measure predicts failure? Every measure against OOD accuracy, and the correlations side by side."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.analysis.measures import MEASURES, PREDICTORS
from ctlpp.analysis.run import Study
from ctlpp.figures.style import COLOURS, DARK, DOUBLE, GREY, SINGLE, new_figure
from ctlpp.statistics.correlation import Correlation

AXIS = "correlation with OOD accuracy"
COUNTED = ("codes", "clusters")  # from 1 on; the others are shares


def draw_scatter(study: Study) -> Figure:
    """A panel for each measure; one point is one seed."""
    names = [
        name
        for name in PREDICTORS
        if np.isfinite(study.analysis.measures.get(name, np.array([np.nan]))).any()
    ]
    across = min(4, max(1, len(names)))
    down = -(-max(1, len(names)) // across)
    height = 3.5 * down + 0.9
    figure = new_figure(DOUBLE, height)
    grid = figure.add_gridspec(
        down,
        across,
        left=0.075,
        right=0.985,
        bottom=1.0 / height,
        top=1 - 0.75 / height,
        hspace=0.62,
        wspace=0.28,
    )
    found, ood = study.correlations, study.ood
    frozen = ~study.trained
    for i, name in enumerate(names):
        axes, values = figure.add_subplot(grid[divmod(i, across)]), study.analysis.measures[name]
        axes.plot(
            values[~frozen], ood[~frozen], "o", markersize=3, color=COLOURS[0], alpha=0.75, markeredgewidth=0
        )
        crosses = axes.plot(values[frozen], ood[frozen], "x", markersize=3, color=GREY)
        axes.set_ylim(-0.04, 1.04)
        low, high = (1.0, 2.0) if name in COUNTED else (0.0, 1.0)
        low, high = min(low, float(np.nanmin(values))), max(high, float(np.nanmax(values)))
        axes.set_xlim(low - 0.04 * (high - low), high + 0.04 * (high - low))
        axes.set_title(f"{MEASURES[name].label}\n{_text(found[name])}", linespacing=1.35, pad=3)
        if i % across == 0:
            axes.set_ylabel(study.outcome)
    if names and frozen.any():
        figure.legend(crosses, ["a seed that diverged, not part of r"], loc="lower center")
    return figure


def _text(found: Correlation) -> str:
    if not np.isfinite(found.pearson):
        return "no correlation defined"
    return f"r = {found.pearson:.2f} [{found.low:.2f}, {found.high:.2f}]".replace("-", "−")


def draw_ranking(study: Study) -> Figure:
    """Correlation of each measure with OOD accuracy with its interval, the strongest on top."""
    found = {
        name: c for name, c in study.correlations.items() if name in PREDICTORS and np.isfinite(c.pearson)
    }
    height = _height(found)
    figure = new_figure(SINGLE, height)
    axes = figure.add_axes((0.37, 1.05 / height, 0.58, 1 - 1.9 / height))
    _rank(axes, found, _ranked(found))
    axes.set_xlabel(f"correlation with {study.outcome}")
    figure.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    return figure


def draw_rankings(panels: dict[str, dict[str, Correlation]]) -> Figure:
    """The same for several crowds side by side, by title; all in the order of the first."""
    known = {
        name: one for found in reversed(panels.values()) for name, one in found.items()
    }  # the first counts
    lines = max(title.count("\n") for title in panels)
    order, height = _ranked(known), _height(known) + 0.2 + 0.3 * lines
    figure = new_figure(DOUBLE, height)
    left, width = 0.175, 0.81 / len(panels)
    for i, (title, found) in enumerate(panels.items()):
        axes = figure.add_axes(
            (left + i * width, 1.05 / height, width - 0.02, 1 - (2.1 + 0.3 * lines) / height)
        )
        _rank(axes, found, order)
        axes.set_title(title, pad=3)
        axes.set_xticks([-1, 0, 1] if len(panels) > 3 else [-1, -0.5, 0, 0.5, 1])
        axes.set_xlabel("")
        if i:
            axes.set_yticklabels([])
    figure.text(left + 0.405, 0.35 / height, AXIS, ha="center", va="center")
    figure.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    return figure


def _ranked(found: dict[str, Correlation]) -> list[str]:
    return sorted(found, key=lambda name: abs(found[name].pearson))


def _height(found: dict[str, Correlation]) -> float:
    return 1.9 + 0.42 * max(1, len(found))


def _rank(axes: Axes, found: dict[str, Correlation], order: list[str]) -> None:
    """A row for each measure, from below; empty where it is not defined."""
    for row, name in enumerate(order):
        if (one := found.get(name)) is None:
            continue
        axes.plot([one.low, one.high], [row, row], "-", color=COLOURS[0], linewidth=1.2)
        axes.plot(one.pearson, row, "o", color=COLOURS[0], markersize=4)
        axes.plot(
            one.spearman,
            row,
            "d",
            color=COLOURS[1],
            markersize=3.2,
            markerfacecolor="white",
            markeredgewidth=0.8,
        )
    axes.axvline(0, color=DARK, linewidth=0.5)
    axes.set_yticks(range(len(order)), [MEASURES[name].label for name in order])
    axes.set(xlim=(-1.05, 1.05), ylim=(-0.6, max(1, len(order)) - 0.4), xlabel=AXIS)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.4)
    axes.set_axisbelow(True)
    axes.plot([], [], "o-", color=COLOURS[0], markersize=4, label="Pearson, 95 % interval")
    axes.plot([], [], "d", color=COLOURS[1], markersize=3.2, markerfacecolor="white", label="Spearman")
