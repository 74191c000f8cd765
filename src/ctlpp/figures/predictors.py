"""Which measure predicts failure? Every measure against OOD accuracy, and the correlations side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.analysis.measures import MEASURES, PREDICTORS
from ctlpp.analysis.run import Study
from ctlpp.figures.style import DARK, DOUBLE, GREY, OOD, SEED, SINGLE, accuracy_axis, explain, new_figure
from ctlpp.statistics.correlation import Correlation

COUNTED = ("codes", "clusters")  # from 1 on; the others are shares
PEARSON: Any = {"color": SEED, "marker": "o", "markersize": 4, "linewidth": 1.2}
SPEARMAN: Any = {"color": OOD, "marker": "d", "markersize": 3.2, "markerfacecolor": "white", "linestyle": ""}
Correlations = Mapping[str, Correlation]  # by measure


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
