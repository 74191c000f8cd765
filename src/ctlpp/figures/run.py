"""One run: how its seeds learned, what its measures say, and everything that `ctlpp analyze` writes."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.analysis.analysis import Progress, Study, no_progress, study_run
from ctlpp.analysis.folder import ANALYSIS, MEASURES, PREDICTORS, write_analysis
from ctlpp.figures import DARK, DASHES, GREY, SEED, SPLITS
from ctlpp.figures.matrices import (
    Inside,
    draw_accuracy,
    draw_compatibility,
    draw_interchange,
    draw_places,
    draw_side_by_side,
    draw_symbols,
)
from ctlpp.figures.style import (
    DOUBLE,
    FORMATS,
    SINGLE,
    SIZE,
    accuracy_axis,
    label_ends,
    new_figure,
    new_panels,
    save,
    style,
    swarm,
)
from ctlpp.files import check_folder, write_folder
from ctlpp.runs.checkpoint import check_kept
from ctlpp.runs.folder import read_config
from ctlpp.runs.history import Array, History
from ctlpp.statistics.published import SOLVED
from ctlpp.statistics.summary import Correlation

Diverged = Mapping[int, int]  # seed -> the step at which it was frozen
Correlations = Mapping[str, Correlation]  # by measure
STEPS, LENGTHS = "training step (thousands)", "functions in the example"
DIVERGED: Any = {"color": GREY, "marker": "x", "markersize": 3, "markeredgewidth": 0.5, "linewidth": 0.5}
COUNTED = ("codes", "clusters")  # measures from 1 on; the others are shares
BEHAVIOUR = "codes"  # the measure that is read off the answers
PEARSON: Any = {"color": SEED, "marker": "o", "markersize": 4, "linewidth": 1.2}
SPEARMAN: Any = {"color": DARK, "marker": "d", "markersize": 3.4, "markerfacecolor": "white", "linestyle": ""}
MANY = 20  # figures: fewer are drawn before a second process has begun
START = "fork" if sys.platform == "linux" else "spawn"  # a fork has everything imported


def analyze_run(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    force: bool = False,
    figures: bool = True,
    formats: Sequence[str] = FORMATS,
    workers: int = 1,
    computing: Progress = no_progress,
    drawing: Progress = no_progress,
    **options: Any,
) -> Study:
    """Analyse a run folder and write numbers and figures to `out`, by default its folder `analysis`.

    figures: whether to draw them; without, there are the numbers alone.
    workers: processes that draw; except on Linux, several need a main program that may be imported again.
    options: seeds, data, bases, unfinished, device and factory, as `study_run` has them.
    """
    folder = Path(folder)
    usual = folder / "analysis"
    target = usual if out is None else Path(out)
    read_config(folder)
    analysed = (usual / ANALYSIS.mark).is_file()
    check_kept(folder, f"its analysis is in {usual}" if analysed else "train it again in a new folder")
    check_folder(ANALYSIS, target, force=force)
    study = study_run(folder, start=computing, **{"device": "auto", **options})
    with write_folder(ANALYSIS, target, force=force) as place:
        write_analysis(place, study)
        if figures:
            _draw_all(study, place / "figures", formats, workers, drawing)
    return study


def _draw_all(study: Study, folder: Path, formats: Sequence[str], workers: int, start: Progress) -> None:
    tasks = [(draw, folder / name, formats) for name, draw in drawings(study)]
    advance = start(len(tasks))
    with ProcessPoolExecutor(workers, multiprocessing.get_context(START)) as pool:
        run = map if workers == 1 or len(tasks) < MANY else pool.map
        for _ in run(_draw, *zip(*tasks, strict=True)):
            advance(1)


def _draw(draw: Callable[[], Figure], stem: Path, formats: Sequence[str]) -> None:
    with style():
        save(draw(), stem, formats)


def drawings(study: Study) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The figures that a study allows: file name without its ending, and the call that draws it."""
    found = study.analysis
    rows, value = examples(study)
    seeds = [inside(study, row) for row in range(len(found.seeds))]
    shown, chance = [seeds[row] for row in rows], 1 / found.inputs.n_symbols
    if shown_splits(study.history):
        yield "curves", partial(draw_run_learning, study.history, study.diverged, chance)
        yield "lengths", partial(draw_run_lengths, study.history, study.diverged, chance)
    yield "accuracy", partial(draw_accuracy, shown, value)
    yield "compatibility", partial(draw_compatibility, shown, value)
    if found.interchange is not None:
        counted = study.trained if study.trained.any() else ~study.trained
        yield "interchange", partial(draw_interchange, found.inputs, found.interchange, counted)
        yield "places", partial(draw_places, found.interchange, counted)
    if len(found.seeds) > 1:
        yield "measures", partial(draw_scatter, study)
    every = study.correlations.items()
    if known := {name: one for name, one in every if name in PREDICTORS and np.isfinite(one.pearson)}:
        yield "correlations", partial(draw_rankings, {"": known}, study.outcome)
    if found.similarity is not None:
        yield "similarity", partial(draw_side_by_side, shown, value)
        for number, seed in zip(found.seeds, seeds, strict=True):
            yield f"similarity-seed-{number}", partial(draw_symbols, seed)


def inside(study: Study, row: int) -> Inside:
    """One seed of a study."""
    found = study.analysis
    cosines = None if found.similarity is None else found.similarity[row]
    clusters = None if found.clusters is None else found.clusters[row]
    return Inside(found.inputs, title_of(study, row), found.right[row], cosines, clusters)


def examples(study: Study) -> tuple[list[int], int]:
    """The seeds with least and most OOD accuracy, and the symbol with which the first fails most."""
    trained = np.flatnonzero(study.trained) if study.trained.any() else np.arange(len(study.trained))
    ranked = sorted(trained.tolist(), key=lambda row: np.nan_to_num(study.ood[row]))
    rows = list(dict.fromkeys([ranked[0], ranked[-1]]))
    inputs = study.analysis.inputs
    pairs = inputs.ood if inputs.ood.any() else np.ones_like(inputs.ood)
    right, between = study.analysis.right[rows[0]], inputs.value[:, None, :]
    return rows, min(range(inputs.n_symbols), key=lambda symbol: right[pairs & (between == symbol)].mean())


def title_of(study: Study, row: int) -> str:
    """Seed and accuracies."""
    seed = study.analysis.seeds[row]
    numbers = {"IID": study.history.final("iid"), "OOD" if study.evaluated else "new pairs": study.ood}
    parts = [f"{name} {values[row]:.2f}" for name, values in numbers.items() if np.isfinite(values[row])]
    if seed in study.diverged:
        parts.append(f"diverged at step {study.diverged[seed]}")
    return ", ".join([f"seed {seed}", *parts])


def draw_run_learning(history: History, diverged: Diverged, chance: float = 0) -> Figure:
    """One run: accuracy over time, and below it the share of seeds above 95 %."""
    figure = new_figure(DOUBLE, 8.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.9, 1))
    plot_curves(above, history, diverged)
    accuracy_axis(above, "accuracy", chance=chance)
    ends = {}
    for split in shown_splits(history):
        look, rate = _look(split, history), history.success(split)
        below.plot(history.steps / 1000, rate, drawstyle="steps-post", linewidth=1.2, **look)
        ends[split.upper()] = rate[-1], look["color"]
    label_ends(below, ends, gap=0.2)
    accuracy_axis(below, f"seeds above {SOLVED:.0%}", solved=False)
    below.set_xlabel(STEPS)
    return figure


def draw_run_lengths(history: History, diverged: Diverged, chance: float = 0) -> Figure:
    """One run: accuracy at the end by number of functions."""
    figure = new_figure(SINGLE, 5.2)
    axes = figure.subplots()
    plot_lengths(axes, history, diverged)
    accuracy_axis(axes, "accuracy at the end", chance=chance)
    axes.set_xlabel(LENGTHS)
    return figure


def plot_curves(axes: Axes, history: History, diverged: Diverged) -> None:
    """Every seed thin, the mean of those that have not diverged thick, with its name at the end."""
    thousands, fine, ends = history.steps / 1000, _healthy(history, diverged), {}
    for split in shown_splits(history):
        curve, look = history.accuracy[split, 0], _look(split, history)
        for column in np.flatnonzero(~fine):
            end = np.searchsorted(history.steps, diverged[int(history.seeds[column])])
            last = min(int(end), len(thousands) - 1)
            axes.plot(thousands[: last + 1], curve[: last + 1, column], markevery=[last], **DIVERGED)
            axes.text(thousands[last], curve[last, column], " diverged", color=GREY, va="center")
        axes.plot(thousands, curve[:, fine], linewidth=0.4, alpha=0.35, **look | {"linestyle": "-"})
        mean = mean_of_seeds(curve[:, fine])
        axes.plot(thousands, mean, **look | {"color": "white", "linestyle": "-"}, linewidth=2.8)
        axes.plot(thousands, mean, **look, linewidth=1.6)
        if np.isfinite(mean[-1]):
            ends[split.upper()] = mean[-1], look["color"]
    label_ends(axes, ends)
    axes.set_xlim(0, thousands[-1] if len(thousands) > 1 else None)


def _look(split: str, history: History) -> Any:
    """A split's colour and dashes; a single evaluation is a dot, as a line of one point cannot be seen."""
    marker = "o" if len(history.steps) == 1 else ""
    return {"color": SPLITS.get(split, DARK), "linestyle": DASHES.get(split, "-"), "marker": marker}


def plot_lengths(axes: Axes, history: History, diverged: Diverged) -> None:
    """Every seed a dot, hollow for IID; the means are joined by a line, which has its split's name."""
    fine, ends = _healthy(history, diverged), {}
    for number, split in enumerate(shown_splits(history)):
        lengths, colour = history.lengths(split), SPLITS.get(split, DARK)
        places = np.array(lengths) + (number - 0.5) * 0.36
        inside = "none" if split == "iid" else colour
        dot = {"marker": "o", "color": colour, "markerfacecolor": inside, "alpha": 0.5, "markersize": 2.2}
        for at, length in zip(places, lengths, strict=True):
            final = history.final(split, length)
            for kept, look in ((fine, dot), (~fine, DIVERGED)):
                values = final[kept & np.isfinite(final)]
                axes.plot(at + swarm(values, 0.14), values, **{**DIVERGED, **look, "linestyle": ""})
        means = [mean_of_seeds(history.final(split, length)[None, fine])[0] for length in lengths]
        mark: Any = {"marker": "_", "markersize": 7, "markeredgewidth": 1.6}
        axes.plot(places, means, color=colour, linewidth=1.0, linestyle=DASHES.get(split, "-"), **mark)
        if means and np.isfinite(means[-1]):
            ends[split.upper()] = means[-1], colour
    label_ends(axes, ends)
    every = sorted({length for split in shown_splits(history) for length in history.lengths(split)})
    axes.set_xticks(every, [str(length) for length in every])


def _healthy(history: History, diverged: Diverged) -> Array:
    """Which seeds have not diverged, (S,) bool."""
    return np.array([int(seed) not in diverged for seed in history.seeds], dtype=bool)


def mean_of_seeds(curve: Array) -> Array:
    """The mean of the seeds at every evaluation; nan where there is none. (E, S) -> (E,)"""
    return np.asarray(np.ma.masked_invalid(curve).mean(axis=1).filled(np.nan))


def shown_splits(history: History) -> list[str]:
    """The splits worth a curve: iid and ood, or whatever there is."""
    known = [split for split in SPLITS if (split, 0) in history.accuracy]
    return known or [split for split in history.splits if (split, 0) in history.accuracy][:3]


def draw_scatter(study: Study) -> Figure:
    """A panel for each measure; one point is one seed, a cross one that diverged and is not part of r."""
    measures = study.analysis.measures
    names = [name for name in PREDICTORS if name in measures and np.isfinite(measures[name]).any()]
    figure, grid = new_panels(len(names), min(4, len(names)), 4.2, 0.5, sharey=True)
    trained = study.trained
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
        figure.supxlabel("cross: a seed that diverged, not part of r", fontsize=SIZE)
    return figure


def _text(one: Correlation) -> str:
    if not np.isfinite(one.pearson):
        return "r: not defined"
    return f"r = {one.pearson:.2f} [{one.low:.2f}, {one.high:.2f}]".replace("-", "−")


def draw_rankings(panels: Mapping[str, Correlations], outcome: str = "OOD accuracy") -> Figure:
    """Pearson's correlations with their intervals, Spearman's as hollow diamonds; a panel for each title.

    The measure of what is answered stands below those of inner states, for it is close to the outcome.
    """
    first = {name: one for found in reversed([*panels.values()]) for name, one in found.items()}
    order = sorted(first, key=lambda name: (name != BEHAVIOUR, abs(first[name].pearson)))
    lines = max(title.count("\n") for title in panels)
    figure = new_figure(SINGLE if len(panels) == 1 else DOUBLE, 2.8 + 0.4 * lines + 0.46 * len(order))
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, found) in zip(grid, panels.items(), strict=True):
        _rank(axes, found, order)
        axes.set_title(title)
        axes.set_xticks([-1, 0, 1] if len(panels) > 3 else [-1, -0.5, 0, 0.5, 1])
    join = "\n" if len(panels) == 1 else ": "
    marks = "● Pearson, 95 % interval   ◇ Spearman"
    figure.supxlabel(f"correlation with {outcome}{join}{marks}", fontsize=SIZE)
    return figure


def _rank(axes: Axes, found: Correlations, order: list[str]) -> None:
    """A row for each measure, from below; empty where it is not defined."""
    for row, name in enumerate(order):
        if one := found.get(name):
            axes.plot([one.low, one.pearson, one.high], [row] * 3, **PEARSON, markevery=[1])
            axes.plot([one.spearman], [row], **SPEARMAN)
    axes.axvline(0, color=DARK, linewidth=0.5)
    if BEHAVIOUR in order:
        axes.axhline(0.5, color=DARK, linestyle=":", linewidth=0.6)
    axes.set_yticks(range(len(order)), [MEASURES[name].label for name in order])
    axes.set(xlim=(-1.12, 1.12), ylim=(-0.6, len(order) - 0.4))
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.4)
    axes.set_axisbelow(True)
