"""The figures of a results folder, each drawn only if something of it has run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures import DARK, DASHES, DATA, GREY, IID, OOD, PUBLISHED, SEED
from ctlpp.figures.matrices import draw_accuracy, draw_side_by_side, draw_staged, draw_symbols
from ctlpp.figures.run import (
    LENGTHS,
    STEPS,
    Diverged,
    draw_rankings,
    mean_of_seeds,
    plot_curves,
    plot_lengths,
)
from ctlpp.figures.style import DOUBLE, accuracy_axis, label_ends, new_figure, render, style, swarm
from ctlpp.reproduce.examples import EXAMPLES, find_examples
from ctlpp.reproduce.plan import CONDITIONS
from ctlpp.reproduce.results import Results, RunResult
from ctlpp.runs.folder import read_run, run_folders
from ctlpp.runs.history import Array, History, accuracies, read_history
from ctlpp.runs.untrusted import as_dict, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import ENOUGH_SEEDS, spread_interval
from ctlpp.storage.folder import task_from_dict

FORMATS = ("png", "pdf")  # for the page, and for print
DOTS = 200  # an inch, of a PNG
WRITTEN = {  # data of runs in OUT/authors-data: of the authors' generator, or changed from such
    "A": "generator's files",
    "A-fresh-streams": "generator's, no nesting or twins",
    "A-single-pairs": "generator's, each pair once",
    "A-other-table": "generator's, our table 0",
    "A-n7-doubled": "clean, repeats, pairs twice",
    "A-clean-doubled": "clean, pairs twice",
}
NAMES = (
    "table1",
    *(f"{what}-{condition}" for what in ("curves", "lengths") for condition in CONDITIONS),
    *("repeats-A", "repeats-R", "data", "staged", "tables", "predictors", "similarity", "accuracy"),
    *(f"similarity-{name}" for name in EXAMPLES),
)  # all that may be drawn
ROW = 0.54  # cm: the height of a row of dots
NOTE, FIRST = 42, 6  # points: between the columns of notes on the right, and before the first
MEAN: Any = {"marker": "s", "markersize": 3.4, "markeredgecolor": DARK, "markeredgewidth": 0.6}
Drawings = Iterator[tuple[str, Figure]]  # name and figure
Line = tuple[str, History]  # the kind of data in a few words, and the curves of the seeds


def draw_all(results: Results, formats: Sequence[str] = FORMATS) -> Iterator[tuple[str, bytes]]:
    """Every figure in every format: file name and content."""
    with style():
        for name, figure in drawings(results):
            for kind in formats:
                yield f"{name}.{kind}", render(figure, kind, DOTS)


def drawings(results: Results) -> Drawings:
    """Every figure; call it inside `style()`."""
    for draw in (_table1, _curves, _data, _repeats, _staged, _function_tables, _predictors, _similarity):
        yield from draw(results)


def _chance(results: Results) -> float:
    """The accuracy of guessing."""
    return 1 / len(task_from_dict(results.finished[0].setting.first.task).symbols)


# Strips of dots


@dataclass(frozen=True)
class Strip:
    """A run, or a published mean and its standard deviation; neither for a heading, or what has not run."""

    label: str
    run: RunResult | None = None
    colour: str = DARK
    marker: str = "o"
    notes: tuple[str, ...] = ()
    published: tuple[float, float] | None = None
    bold: bool = False


def draw_strips(panels: Mapping[str, Sequence[Strip]], heads: Sequence[str], chance: float) -> Figure:
    """Panels side by side, whose rows have the same labels; they stand left of the first.

    heads: what stands above the columns of notes on the right.
    """
    figure = new_figure(DOUBLE, 1.9 + ROW * max(map(len, panels.values())))
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, rows) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, loc="left", weight="bold", pad=12)
        for at, row in enumerate(rows):
            for column, note in enumerate(row.notes):
                _write_note(axes, column, at, note)
            if row.published:
                axes.plot(
                    spread_interval(row.published, paper.SEEDS), [at, at], color=PUBLISHED, linewidth=0.9
                )
                axes.plot([row.published[0]], [at], color=PUBLISHED, **{**MEAN, "marker": "D"})
            if row.run:
                _draw_seeds(axes, at, row, row.run)
        for column, head in enumerate(heads):
            _write_note(axes, column, -0.75, head)
        for place, name in ((paper.SOLVED, f"{paper.SOLVED}"), (chance, "chance")):
            axes.axvline(place, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
            axes.text(place, -0.75, name, va="center", ha="center", color=DARK)
        axes.set(xlim=(-0.03, 1.04), ylim=(len(rows) - 0.4, -0.6), xlabel="OOD accuracy")
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(rows)), [row.label if axes is grid[0] else "" for row in rows])
        for row, label in zip(rows, axes.get_yticklabels(), strict=True):
            label.set(color=row.colour, weight="bold" if row.bold else "normal")
    return figure


def _draw_seeds(axes: Axes, at: int, row: Strip, run: RunResult) -> None:
    """Dots, hollow if the paper would not count them, above their mean with its interval."""
    kept, statistics = run.setting.as_published.seeds, run.row()
    tried = [seed for seed in run.setting.seeds if "ood" in seed.accuracy]
    counted, left_out = (
        [seed.accuracy["ood"] for seed in tried if (seed in kept) == own] for own in (True, False)
    )
    heights = at - 0.1 + swarm([*counted, *left_out], 0.26)
    look: Any = {"color": row.colour, "marker": row.marker, "linestyle": "", "markersize": 2.8, "alpha": 0.6}
    axes.plot(counted, heights[: len(counted)], **look, markeredgewidth=0)
    axes.plot(left_out, heights[len(counted) :], **look, markerfacecolor="none", markeredgewidth=0.6)
    if statistics["interval_low"] is not None:
        ends = statistics["interval_low"], statistics["interval_high"]
        axes.plot(ends, [at + 0.36] * 2, color=DARK, linewidth=0.9, zorder=3)
    if statistics["mean"] is not None:
        axes.plot([statistics["mean"]], [at + 0.36], color=row.colour, zorder=4, **MEAN)


def _write_note(axes: Axes, column: int, at: float, text: str) -> None:
    """A note right of the dots."""
    place: Any = {"xy": (1, at), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    axes.annotate(text, xytext=(FIRST + NOTE * column, 0), va="center", color=DARK, **place)


def _table1(results: Results) -> Drawings:
    """A panel for each variant: by model the published mean, then the seeds on each kind of data."""
    found = {condition: results.runs_on(condition) for condition in CONDITIONS}
    runs = [run for on_condition in found.values() for run in on_condition.values()]
    published = any(run.setting.published for run in runs)  # then also those of what has not run are shown
    places = [place for place in paper.PUBLISHED if published or any(place in own for own in found.values())]
    panels: dict[str, list[Strip]] = {}
    for variant in sorted({variant for _, variant in places}):
        rows = panels[f"Variant {variant}"] = []
        for model in dict.fromkeys(model for model, _ in places):
            rows.append(Strip(paper.TITLES[model], bold=True))
            if published:
                rows.append(Strip("published", published=paper.PUBLISHED[model, variant].ood))
            for condition, own in found.items():
                if any(model == other for other, _ in own):
                    rows.append(_strip_of(own.get((model, variant)), condition))
    if panels:
        yield "table1", draw_strips(panels, (f"> {paper.SOLVED}", "IID"), _chance(results))


def _strip_of(run: RunResult | None, condition: str) -> Strip:
    """A run with the number of seeds above 0.95, and with its IID accuracy where that is not 1.00."""
    notes: tuple[str, ...] = ("not run",)
    if run:
        tried, iid = len(run.setting.as_published.seeds), run.row("iid")["mean"]
        solved = f"{run.row()['above_95']} of {tried}" if tried else "none learned"
        notes = solved, f"{iid:.2f}" if iid is not None and iid < 0.995 else ""
    kind = DATA[condition]
    return Strip(kind.title, run, kind.colour, kind.marker, notes)


def _function_tables(results: Results) -> Drawings:
    """A panel for each group of runs that differ in their function tables, a row for each table."""
    panels = {}
    for runs in results.function_tables():
        first = runs[0].setting.first
        title = runs[0].title + ("" if first.protocol == "authors" else f", {first.protocol}")
        panels[title] = {run.setting.table: run for run in runs}
    numbers = sorted({number for runs in panels.values() for number in runs})
    if panels:
        rows = {title: [_strip_of_table(n, runs.get(n)) for n in numbers] for title, runs in panels.items()}
        yield "tables", draw_strips(rows, ("mean",), _chance(results))


def _strip_of_table(number: int, run: RunResult | None) -> Strip:
    mean = run.row()["mean"] if run else None
    note = "not run" if run is None else "" if mean is None else f"{mean:.2f}"
    return Strip(f"table {number}", run, SEED, notes=(note,))


# Curves


def _curves(results: Results) -> Drawings:
    """On each kind of data, accuracy over time, and at the end by number of functions."""
    for condition in CONDITIONS:
        curves = {place: run.history for place, run in results.runs_on(condition).items() if run.history}
        if curves:
            chance, at_end = _chance(results), "accuracy at the end"
            yield f"curves-{condition}", draw_panels(curves, plot_curves, STEPS, "accuracy", chance)
            yield f"lengths-{condition}", draw_panels(curves, plot_lengths, LENGTHS, at_end, chance)


def draw_panels(
    curves: Mapping[tuple[str, str], History],
    plot: Callable[[Axes, History, Diverged], None],
    x: str,
    y: str,
    chance: float,
) -> Figure:
    """A row for each model, a column for each variant; what has not run is said to be missing."""
    models = [model for model in paper.TITLES if any(model == own for own, _ in curves)]
    variants = sorted({variant for _, variant in curves})
    figure = new_figure(DOUBLE, 1.0 + 4.1 * len(models))
    grid = figure.subplots(len(models), len(variants), sharey=True, squeeze=False)
    for (row, column), axes in np.ndenumerate(grid):
        model, variant = models[row], variants[column]
        axes.set_title(f"{paper.TITLES[model]} on {variant}", loc="left", pad=3)
        if row == len(models) - 1:
            axes.set_xlabel(x)
        if (history := curves.get((model, variant))) is not None and len(history.steps):
            plot(axes, history, {})
            accuracy_axis(axes, y, chance=chance)
        else:
            axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color=DARK)
            axes.set_xticks([])
    return figure


def _repeats(results: Results) -> Drawings:
    """On each variant, runs with distinct and with repeated sequences: the mean of the seeds over time."""
    panels: dict[str, dict[str, dict[str, History]]] = {}  # by variant, title and kind of data
    for (_, variant), run in results.runs_on("repeats").items():
        plain = results.find_baseline(run)
        if plain and plain.history and run.history:
            panels.setdefault(variant, {})[run.title] = {"clean": plain.history, "repeats": run.history}
    for variant, pairs in panels.items():
        figure = new_figure(DOUBLE, 5.6)
        grid = figure.subplots(1, len(pairs), sharey=True, squeeze=False)[0]
        for axes, (title, histories) in zip(grid, pairs.items(), strict=True):
            _draw_means(axes, histories)
            axes.set(title=title, xlabel=STEPS, xlim=(0, None))
            accuracy_axis(axes, "mean accuracy", chance=_chance(results))
        yield f"repeats-{variant}", figure


def _draw_means(axes: Axes, histories: Mapping[str, History]) -> None:
    """For each kind of data the mean of the seeds over time, IID dashed and OOD in full."""
    ends = {}
    for name, history in histories.items():
        kind = DATA[name]
        for split, dashes in DASHES.items():
            mean = mean_of_seeds(history.accuracy[split, 0])
            axes.plot(history.steps / 1000, mean, dashes, color=kind.colour, linewidth=1.3)
            ends[f"{name}, {split.upper()}"] = mean[-1], kind.colour
    label_ends(axes, ends)


# What the data decide


def _data(results: Results) -> Drawings:
    """On A, for each model a block with a row for each kind of data; the published OOD accuracy in grey."""
    blocks = {} if results.is_miniature else find_lines(results)
    if not blocks:
        return
    figure = new_figure(DOUBLE, 1.6 + 0.55 * sum(map(len, blocks.values())) + 0.8 * len(blocks))
    figure.set_layout_engine("constrained", rect=(0.03, 0, 0.97, 1))  # long labels stand out on the left
    ratios: Any = {"height_ratios": [len(own) + 1 for own in blocks.values()], "width_ratios": (3, 2, 2)}
    grid = figure.subplots(len(blocks), 3, sharex="col", squeeze=False, **ratios)
    end = max(history.steps[-1] for lines in blocks.values() for _, history in lines) / 1000
    for row, (model, lines) in zip(grid, blocks.items(), strict=True):
        _draw_block(row, lines, end)
        row[0].set_title(f"{paper.TITLES[model]} on A", loc="left", weight="bold")
        mean, deviation = paper.PUBLISHED[model, "A"].ood
        row[2].axvspan(mean - deviation, min(1.0, mean + deviation), color=GREY, alpha=0.25, linewidth=0)
        row[2].axvline(mean, color=GREY, linewidth=0.9)
        row[2].set_title("published: grey", color=GREY)
    labels = "learned after so many thousand steps", "IID accuracy", "OOD accuracy"
    for axes, label in zip(grid[-1], labels, strict=True):
        axes.set_xlabel(label)
    yield "data", figure


def find_lines(results: Results) -> dict[str, list[Line]]:
    """What each model learns on A from each kind of data: from the authors' down to the paper's text."""
    first, *others = CONDITIONS
    found: dict[str, list[tuple[str, Line]]] = {name: [] for name in (first, *WRITTEN.values(), *others)}
    runs = {name: [*results.runs_on(name).values()] for name in CONDITIONS}
    for run in results.runs_of("data"):
        runs[run.setting.first.protocol].append(run)
    for name, own in runs.items():
        for run in own:
            record, special = run.setting.first, run.planned.special if run.planned else []
            words = ", ".join([record.protocol, *special]) if special else DATA[name].title
            if record.variant == "A" and run.history:
                found[name].append((record.model, (words, run.history)))
    for folder in run_folders(results.folder / "authors-data"):
        record = read_run(folder, with_history=True)
        words = WRITTEN.get(as_str(as_dict(record.config.get("about")).get("data")), "")
        if words and record.variant == "A" and record.state == "finished":
            found[words].append((record.model, (words, read_history(folder / "metrics.parquet"))))
    blocks: dict[str, list[Line]] = {}
    for model in paper.TITLES:
        lines = [line for own in found.values() for name, line in own if name == model]
        if shown := [line for line in lines if len(line[1].seeds) >= ENOUGH_SEEDS]:
            blocks[model] = shown
    return blocks


def _draw_block(row: Sequence[Axes], block: Sequence[Line], end: float) -> None:
    """When seeds learn, and how accurate they end: three panels, in which a line has the same height."""
    steps, iid, ood = row
    for at, (_, history) in enumerate(block):
        learned = history.learned_at(paper.LEARNED) / 1000
        _draw_dots(steps, at, learned, DARK, end)
        count = f"{np.isfinite(learned).sum()} of {len(learned)}"
        steps.text(end * 1.04, at, count, va="center", ha="left", color=DARK)
        _draw_dots(iid, at, history.final("iid"), IID)
        _draw_dots(ood, at, history.final("ood"), OOD)
    for axes in row:
        axes.set(xlim=(0, end) if axes is steps else (-0.03, 1.04), ylim=(len(block) - 0.4, -0.6))
        axes.set_yticks(range(len(block)), [words for words, _ in block] if axes is steps else [])
        axes.tick_params(axis="y", length=0)


def _draw_dots(axes: Axes, at: float, values: Array, colour: str, end: float = 1.0) -> None:
    """Every seed a dot, the mean a bar; equal ones stand beside each other. end: of the axis."""
    shown = values[np.isfinite(values)]
    heights = at + swarm(shown / end, 0.3)
    axes.plot(shown, heights, "o", color=colour, markersize=2.6, alpha=0.6, markeredgewidth=0)
    if len(shown):
        axes.plot([shown.mean()] * 2, [at - 0.32, at + 0.32], color=colour, linewidth=1.4)


# The grid of S


def _staged(results: Results) -> Drawings:
    settings = [run.setting for run in results.runs_of("staged")]
    published = [setting for setting in settings if setting.first.protocol == "authors"]
    grid: dict[str, dict[tuple[int, int], list[float]]] = {}
    diverged = 0
    for setting in published or settings:
        first, values = setting.first, accuracies(setting.seeds, "ood")
        if first.cell and values:
            grid.setdefault(first.model, {})[first.cell] = values
            diverged += setting.every.summaries["ood", 0].diverged
    if grid:
        yield "staged", draw_staged(grid, diverged)


# Inside the seeds


def _predictors(results: Results) -> Drawings:
    panels = {}
    conditions = {run.name: name for name in CONDITIONS for run in results.runs_on(name).values()}
    for run in results.main_runs():
        if found := run.correlations:
            first, seeds = run.setting.first, max(one.seeds for one in found.values())
            title = f"{paper.TITLES[first.model]}\n{first.variant}, {conditions[run.name]}\n{seeds} seeds"
            panels[title] = found
    if panels:
        yield "predictors", draw_rankings(panels)


def _similarity(results: Results) -> Drawings:
    """The seeds of the page: one symbol side by side, how often two of them are right, and all symbols."""
    if examples := find_examples(results):
        seeds = [one.inside for one in examples]
        failed = next((one.inside for one in examples if one.name.startswith("failure")), seeds[0])
        value = failed.least_alike  # the same symbol of all seeds
        yield "similarity", draw_side_by_side(seeds, value)
        yield "accuracy", draw_accuracy(seeds[:2], value)
        for one in examples:
            yield f"similarity-{one.name}", draw_symbols(one.inside)
