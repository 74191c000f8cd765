"""What the data decide: a line for each kind of data, with when seeds learn and how accurate they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.style import DARK, DOUBLE, GREY, IID, OOD, new_figure, swarm
from ctlpp.runs.history import Array, History
from ctlpp.statistics.published import LEARNED, TITLES

PANELS = ("learned after so many thousand steps", "IID accuracy", "OOD accuracy")


@dataclass(frozen=True)
class Line:
    """Seeds of a model on one kind of data."""

    model: str
    data: str  # in a few words
    history: History


def draw_data(lines: Sequence[Line], published: dict[str, tuple[float, float]]) -> Figure:
    """A block for each model. published: mean and standard deviation of the OOD accuracy, by model."""
    models = [model for model in TITLES if any(line.model == model for line in lines)]
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
    for axes, label in zip(grid[-1], PANELS, strict=True):
        axes.set_xlabel(label)
    return figure


def _draw_block(row: Sequence[Axes], block: Sequence[Line]) -> None:
    """Three panels, in which a line's seeds have the same height."""
    steps, iid, ood = row
    end = max(line.history.steps[-1] for line in block) / 1000
    for at, line in enumerate(block):
        learned = line.history.learned_at(LEARNED) / 1000
        _dots(steps, at, learned[np.isfinite(learned)], DARK, end / 40)
        count = f"{np.isfinite(learned).sum()} of {len(learned)}"
        steps.text(end * 1.04, at, count, va="center", ha="left", color=DARK)
        _dots(iid, at, line.history.final("iid"), IID)
        _dots(ood, at, line.history.final("ood"), OOD)
    for axes in row:
        axes.set_ylim(len(block) - 0.4, -0.6)
        axes.set_yticks(range(len(block)), [line.data for line in block] if axes is steps else [])
        axes.tick_params(axis="y", length=0)
    steps.set_xlim(0, end)
    for axes in (iid, ood):
        axes.set_xlim(-0.03, 1.04)


def _dots(axes: Axes, at: float, values: Array, colour: str, bins: float = 0.025) -> None:
    """Every seed a dot, the mean a bar; equal ones stand beside each other."""
    shown = values[np.isfinite(values)]
    places = at + swarm(shown * 0.025 / bins, 0.3)
    axes.plot(shown, places, "o", color=colour, markersize=2.6, alpha=0.6, markeredgewidth=0)
    if len(shown):
        axes.plot([shown.mean()] * 2, [at - 0.32, at + 0.32], color=colour, linewidth=1.4)
