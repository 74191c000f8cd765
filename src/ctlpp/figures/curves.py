"""Training curves: every seed over time, the success rate, and accuracy per length at the end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.analysis.inputs import Array
from ctlpp.figures.style import COLOURS, DARK, DOUBLE, GREY, SINGLE, new_figure
from ctlpp.runs.history import History
from ctlpp.statistics.published import SOLVED
from ctlpp.words import plural

SPLIT_COLOURS = {"iid": COLOURS[0], "ood": COLOURS[1]}
NAMES = {"iid": "IID", "ood": "OOD"}


def draw_curves(history: History, diverged: Mapping[int, int]) -> Figure:
    """Accuracy of every seed (thin) and their mean (thick) over time; the success rate below.

    diverged: seed -> the step at which it was frozen; its curve is grey and ends there.
    """
    splits = shown(history)
    figure = new_figure(DOUBLE, 8.2)
    grid = figure.add_gridspec(
        2,
        max(1, len(splits)),
        left=0.075,
        right=0.985,
        bottom=0.115,
        top=0.93,
        hspace=0.28,
        height_ratios=(1.9, 1),
    )
    top: Axes | None = None
    dot = "o" if len(history.steps) == 1 else ""  # a line of one point cannot be seen
    for i, split in enumerate(splits):
        axes = figure.add_subplot(grid[0, i], sharey=top)
        top = top or axes
        curve = history.accuracy[split, 0]
        fine = healthy(history, diverged)
        _ended(axes, history, curve, diverged)
        if fine.any():
            axes.plot(
                history.steps, curve[:, fine], color=colour_of(split), linewidth=0.5, alpha=0.45, marker=dot
            )
            mean = np.nanmean(curve[:, fine], axis=1)
            named = "mean of the seeds" if fine.all() else "mean of the others"
            axes.plot(history.steps, mean, color=DARK, linewidth=1.5, marker=dot, label=named)
        axes.axhline(SOLVED, color=DARK, linestyle=":", linewidth=0.6)
        axes.set(ylim=(-0.03, 1.03))
        axes.set_title(f"{name_of(split)} accuracy of {plural(curve.shape[1])}")
        axes.tick_params(labelbottom=False)
        if i == 0:
            axes.set_ylabel("accuracy")
            axes.legend(loc="lower right")
        below = figure.add_subplot(grid[1, i], sharex=axes)
        rate, colour = history.success(split), colour_of(split)
        below.plot(history.steps, rate, color=colour, drawstyle="steps-post", linewidth=1.2, marker=dot)
        below.set(ylim=(-0.03, 1.03), xlabel="training step")
        if i == 0:
            below.set_ylabel(f"seeds above {SOLVED:.0%}")
    return figure


def healthy(history: History, diverged: Mapping[int, int]) -> Array:
    """Which seeds of a history have not diverged, (S,) bool."""
    return np.array([int(seed) not in diverged for seed in history.seeds], dtype=bool)


def _ended(axes: Axes, history: History, curve: Array, diverged: Mapping[int, int]) -> None:
    """The curves of diverged seeds, each up to the evaluation after its end."""
    ends = {row: diverged[int(seed)] for row, seed in enumerate(history.seeds) if int(seed) in diverged}
    for number, (row, step) in enumerate(ends.items()):
        last = min(int(np.searchsorted(history.steps, step)), len(history.steps) - 1)
        label = "" if number else f"{plural(len(ends))} that diverged"
        steps, accuracy = history.steps[: last + 1], curve[: last + 1, row]
        axes.plot(
            steps, accuracy, "x-", color=GREY, linewidth=0.5, markersize=3, markevery=[last], label=label
        )


def draw_lengths(history: History, diverged: Mapping[int, int]) -> Figure:
    """Accuracy by number of functions: every seed a dot, and the mean; seeds that diverged are grey crosses."""
    figure = new_figure(SINGLE, 5.2)
    axes = figure.add_axes((0.14, 0.19, 0.83, 0.66))
    splits, fine = shown(history), healthy(history, diverged)
    lengths = sorted({length for split in splits for length in history.lengths(split)})
    for i, split in enumerate(splits):
        own = history.lengths(split)
        if not own:
            continue
        shift = (i - (len(splits) - 1) / 2) * 0.3
        points = np.stack([history.final(split, length) for length in own])  # (lengths, S)
        jitter = np.linspace(-0.09, 0.09, points.shape[1])[None] if points.shape[1] > 1 else np.zeros((1, 1))
        at = np.array([lengths.index(length) for length in own]) + shift
        places, colour = at[:, None] + jitter, colour_of(split)
        axes.plot(places[:, ~fine], points[:, ~fine], "x", color=GREY, markersize=2.5, markeredgewidth=0.6)
        if fine.any():
            dots, mean = points[:, fine], np.nanmean(points[:, fine], axis=1)
            axes.plot(places[:, fine], dots, ".", color=colour, alpha=0.45, markersize=3, markeredgewidth=0)
            axes.plot(at, mean, "_", color=colour, markersize=8, markeredgewidth=1.6)
        axes.plot(
            [], [], "_", color=colour_of(split), markersize=8, markeredgewidth=1.6, label=name_of(split)
        )
    if not fine.all():
        axes.plot([], [], "x", color=GREY, markersize=2.5, label="a seed that diverged")
    axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
    axes.set(ylim=(-0.03, 1.03), xlabel="functions in the example", ylabel="accuracy at the end")
    figure.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=4, bbox_to_anchor=(0.55, 1.0))
    return figure


def shown(history: History) -> list[str]:
    """The splits worth a curve: iid and ood, or whatever there is."""
    known = [split for split in ("iid", "ood") if (split, 0) in history.accuracy]
    return known or [split for split in history.splits if (split, 0) in history.accuracy][:3]


def colour_of(split: str) -> str:
    """A split's colour."""
    return SPLIT_COLOURS.get(split, COLOURS[4])


def name_of(split: str) -> str:
    """A split's name in a figure."""
    return NAMES.get(split, split)
