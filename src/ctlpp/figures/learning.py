"""How seeds learn: accuracy over time and by length, for one run or for many side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.seeds import Dots, draw_dots, draw_published, legend_marks, swarm
from ctlpp.figures.style import DARK, DATA, DOUBLE, GREY, SINGLE, SPLITS, accuracy_axis, explain, new_figure
from ctlpp.runs.history import Array, History
from ctlpp.statistics.published import SOLVED, TITLES

Panels = Mapping[tuple[str, str], History]  # (model, variant) -> its seeds' curves
Diverged = Mapping[int, int]  # seed -> the step at which it was frozen
STEPS, LENGTHS = "training step (thousands)", "functions in the example"
SEQUENCES = {"distinct": DATA["released"], "repeated": DATA["repeats"]}
DIVERGED: Any = {"color": GREY, "marker": "x", "markersize": 3, "markeredgewidth": 0.5, "linewidth": 0.5}


@dataclass(frozen=True)
class Pair:
    """One model and variant, trained on data with distinct and with repeated sequences."""

    model: str
    variant: str
    dots: dict[str, Dots]  # OOD accuracies by "distinct", "repeated"
    curves: dict[str, History]
    published: tuple[float, float] | None = None


def draw_learning(panels: Panels) -> Figure:
    """Accuracy over time, a panel for model and variant: every seed thin, the mean of the seeds thick."""
    return _draw_panels(panels, _plot_curves, STEPS, "accuracy")


def draw_by_length(panels: Panels) -> Figure:
    """Accuracy at the end by number of functions: every seed a dot, the mean of the seeds a line."""
    return _draw_panels(panels, _plot_lengths, LENGTHS, "accuracy at the end")


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
                    mean = _mean(history.accuracy[split, 0])
                    axes.plot(history.steps / 1000, mean, line, color=SEQUENCES[kind], linewidth=1.2)
            axes.set_xlabel(STEPS)
        accuracy_axis(axes, "mean accuracy" if row else "OOD accuracy", solved=row == 0)
    named = {f"{kind} sequences": colour for kind, colour in SEQUENCES.items()}
    marks = legend_marks(named, published=any(pair.published for pair in pairs))
    for name, line in (("IID", "--"), ("OOD", "-")):
        marks[f"{name}, mean of the seeds over time"] = {"linestyle": line, "color": DARK, "linewidth": 1.2}
    explain(figure, marks)
    return figure


def draw_run_learning(history: History, diverged: Diverged) -> Figure:
    """One run: accuracy over time, and below it the share of seeds above 95 %."""
    figure = new_figure(DOUBLE, 8.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.9, 1))
    _plot_curves(above, history, diverged)
    accuracy_axis(above, "accuracy")
    for split in shown_splits(history):
        rate, look = history.success(split), _look(split, history)
        below.plot(history.steps / 1000, rate, drawstyle="steps-post", linewidth=1.2, **look)
    accuracy_axis(below, f"seeds above {SOLVED:.0%}", solved=False)
    below.set_xlabel(STEPS)
    _explain_splits(figure, shown_splits(history), diverged)
    return figure


def draw_run_lengths(history: History, diverged: Diverged) -> Figure:
    """One run: accuracy at the end by number of functions."""
    figure = new_figure(SINGLE, 5.2)
    axes = figure.subplots()
    _plot_lengths(axes, history, diverged)
    accuracy_axis(axes, "accuracy at the end")
    axes.set_xlabel(LENGTHS)
    _explain_splits(figure, shown_splits(history), diverged)
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
    _explain_splits(figure, list(SPLITS), {})
    return figure


def _plot_curves(axes: Axes, history: History, diverged: Diverged) -> None:
    thousands, fine = history.steps / 1000, _healthy(history, diverged)
    for split in shown_splits(history):
        curve, look = history.accuracy[split, 0], _look(split, history)
        for column in np.flatnonzero(~fine):
            end = np.searchsorted(history.steps, diverged[int(history.seeds[column])])
            last = min(int(end), len(thousands) - 1)
            axes.plot(thousands[: last + 1], curve[: last + 1, column], markevery=[last], **DIVERGED)
        axes.plot(thousands, curve[:, fine], linewidth=0.4, alpha=0.4, **look)
        axes.plot(thousands, _mean(curve[:, fine]), **look | {"color": "white"}, linewidth=2.6)
        axes.plot(thousands, _mean(curve[:, fine]), **look, linewidth=1.6)
    axes.set_xlim(0, thousands[-1] if len(thousands) > 1 else None)


def _look(split: str, history: History) -> Any:
    """A split's colour; a single evaluation is a dot, as a line of one point cannot be seen."""
    return {"color": SPLITS.get(split, DARK), "marker": "o" if len(history.steps) == 1 else ""}


def _plot_lengths(axes: Axes, history: History, diverged: Diverged) -> None:
    fine = _healthy(history, diverged)
    for number, split in enumerate(shown_splits(history)):
        lengths, colour = history.lengths(split), SPLITS.get(split, DARK)
        places = np.array(lengths) + (number - 0.5) * 0.36
        for at, length in zip(places, lengths, strict=True):
            final = history.final(split, length)
            for kept, look in ((fine, {"marker": ".", "color": colour, "alpha": 0.4}), (~fine, DIVERGED)):
                values = final[kept & np.isfinite(final)]
                axes.plot(at + swarm(values, 0.14), values, **{**DIVERGED, **look, "linestyle": ""})
        means = [_mean(history.final(split, length)[None, fine])[0] for length in lengths]
        axes.plot(places, means, "_-", color=colour, linewidth=1.0, markersize=7, markeredgewidth=1.6)
    every = sorted({length for split in shown_splits(history) for length in history.lengths(split)})
    axes.set_xticks(every, [str(length) for length in every])


def _explain_splits(figure: Figure, splits: list[str], diverged: Diverged) -> None:
    looks = {split: {"color": SPLITS.get(split, DARK), "linewidth": 1.6} for split in splits}
    marks = {f"{split.upper()}: every seed, and their mean": look for split, look in looks.items()}
    if diverged:
        marks["a seed that diverged, not part of the mean"] = DIVERGED
    explain(figure, marks, columns=3 if figure.get_figwidth() * 2.54 > SINGLE else 1)


def _healthy(history: History, diverged: Diverged) -> Array:
    """Which seeds have not diverged, (S,) bool."""
    return np.array([int(seed) not in diverged for seed in history.seeds], dtype=bool)


def _mean(curve: Array) -> Array:
    """The mean of the seeds at every evaluation; nan where there is none. (E, S) -> (E,)"""
    known = np.isfinite(curve)
    sums, counts = np.where(known, curve, 0).sum(axis=1), known.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def shown_splits(history: History) -> list[str]:
    """The splits worth a curve: iid and ood, or whatever there is."""
    known = [split for split in SPLITS if (split, 0) in history.accuracy]
    return known or [split for split in history.splits if (split, 0) in history.accuracy][:3]
