"""Interchange by groups and symbols, and where the models carry the value."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ctlpp.analysis.inputs import Array
from ctlpp.analysis.study import Analysis
from ctlpp.figures.style import (
    COLOURS,
    DARK,
    DOUBLE,
    SINGLE,
    colour_bar,
    group_colours,
    heat,
    label,
    new_figure,
    write_numbers,
)

MAPS = {"none": "as it is", "orthogonal": "rotated", "affine": "affine map"}


def by_groups(analysis: Analysis, right: Array) -> Array:
    """Accuracy by donor group, consumer group and value; nan where nothing was tried. -> (S, G, G, values)"""
    inputs = analysis.inputs
    functions = np.arange(inputs.n_functions)
    by_value = right[:, functions[:, None], :, inputs.start].transpose(
        2, 0, 3, 1
    )  # (S, first, second, values)
    tried = np.isfinite(by_value)
    member = (inputs.group_of == np.arange(len(inputs.groups))[:, None]).astype(float)  # (G, F)
    sums = np.einsum("af,bg,sfgv->sabv", member, member, np.where(tried, by_value, 0.0))
    counts = np.einsum("af,bg,sfgv->sabv", member, member, tried.astype(float))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def draw_interchange(analysis: Analysis, counted: Array) -> Figure:
    """Left: donor group × consumer group, mean ± std over the seeds. Right: by symbol, known and new pairs.

    counted: which seeds are shown, (S,) bool.
    """
    assert analysis.interchange is not None
    inputs = analysis.inputs
    right = analysis.interchange[counted]
    table = by_groups(analysis, right)  # (S, G, G, values)
    cells = np.nanmean(np.where(np.isfinite(table), table, np.nan), axis=3) if table.size else table
    figure = new_figure(DOUBLE, 6.2)
    grid = figure.add_gridspec(
        1, 2, left=0.06, right=0.98, bottom=0.2, top=0.88, width_ratios=(1, 1.5), wspace=0.38
    )
    axes, colours = figure.add_subplot(grid[0]), group_colours(inputs.groups)
    mean = cells.mean(axis=0)
    image = heat(axes, mean)
    label(axes, inputs.groups, inputs.groups, colours)
    small = len(inputs.groups) > 3
    join = "\n± " if small else " ± "
    texts = [[f"{m:.2f}" for m in row] for row in mean]
    if len(cells) > 1:
        spread = cells.std(axis=0, ddof=1)
        texts = [
            [f"{m}{join}{s:.2f}" for m, s in zip(*two, strict=True)]
            for two in zip(texts, spread, strict=True)
        ]
    write_numbers(axes, mean, texts, 6 if small else 7)
    axes.set_ylabel("donor's group")
    axes.set_xlabel("consumer's group")
    axes.set_title("interchange accuracy, all symbols")
    place = axes.get_position()
    colour_bar(figure, image, (place.x1 + 0.012, place.y0, 0.011, place.height), "")
    by_symbol = figure.add_subplot(grid[1])
    for number, (kind, pairs) in enumerate(
        {"known in training": inputs.train, "new in the test": inputs.ood}.items()
    ):
        if not pairs.any():
            continue
        points = _by_symbol(analysis, right, pairs)  # (S, values)
        at = np.arange(inputs.n_symbols) + (number - 0.5) * 0.36
        jitter = np.linspace(-0.1, 0.1, len(points))[:, None] if len(points) > 1 else np.zeros((1, 1))
        by_symbol.plot(
            at + jitter, points, ".", markersize=3, color=COLOURS[number], alpha=0.55, markeredgewidth=0
        )
        by_symbol.hlines(
            np.nanmean(points, axis=0), at - 0.15, at + 0.15, color=COLOURS[number], linewidth=1.6
        )
        by_symbol.plot([], [], "-", color=COLOURS[number], linewidth=1.6, label=f"pairs {kind}")
    by_symbol.axhline(1 / inputs.n_symbols, color=DARK, linestyle=":", linewidth=0.6)
    by_symbol.text(-0.72, 1 / inputs.n_symbols, "chance", ha="left", va="bottom", fontsize=6)
    by_symbol.set_xticks(range(inputs.n_symbols), inputs.task.symbols)
    by_symbol.set(xlabel="symbol the state stands for", ylabel="interchange accuracy", ylim=(-0.03, 1.03))
    by_symbol.set_xlim(-0.75, inputs.n_symbols - 0.5)
    by_symbol.set_title("\n".join(["every seed (dots) and their mean", *left_out(counted)]))
    by_symbol.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)
    return figure


def _by_symbol(analysis: Analysis, right: Array, pairs: Array) -> Array:
    """Accuracy over some pairs by the symbol in between. -> (S, values)"""
    inputs = analysis.inputs
    value = np.broadcast_to(inputs.value[:, None, :], pairs.shape)
    columns = []
    for symbol in range(inputs.n_symbols):
        chosen = right[:, pairs & (value == symbol)]
        tried = np.isfinite(chosen).sum(axis=1)
        columns.append(np.where(tried > 0, np.nansum(chosen, axis=1) / np.maximum(tried, 1), np.nan))
    return np.stack(columns, axis=1)


def left_out(counted: Array) -> list[str]:
    """A line that says how many seeds are not shown, if any."""
    return [] if counted.all() else [f"{(~counted).sum()} of {len(counted)} seeds diverged and are left out"]


def draw_places(analysis: Analysis, counted: Array) -> Figure:
    """The effect of changing the state at every place, mean over the seeds, and the place of each seed."""
    assert analysis.effect is not None
    assert analysis.place is not None
    assert analysis.layout is not None
    effect = analysis.effect[counted].mean(axis=0)  # (L, K)
    levels, parts = effect.shape
    lines = [
        "effect of changing the state there",
        "(in brackets: seeds whose place it is)",
        *left_out(counted),
    ]
    height = 1.2 + 0.35 * len(lines) + 0.5 * levels
    figure = new_figure(SINGLE, height)
    axes = figure.add_axes((0.14, 1.0 / height, 0.68, 0.5 * levels / height))
    image = heat(axes, effect)
    what = "layer" if analysis.layout.kind == "columns" else "token read"
    label(axes, [str(i + 1) for i in range(levels)], analysis.changed)
    counts = np.zeros((levels, parts), dtype=int)
    np.add.at(counts, tuple(analysis.place[counted].T), 1)
    texts = [
        [f"{e:.2f}" + (f" ({n})" if n else "") for e, n in zip(*two, strict=True)]
        for two in zip(effect, counts)
    ]  # noqa: B905
    write_numbers(axes, effect, texts, 5)
    axes.set_ylabel(what)
    axes.set_xlabel({"columns": "column", "steps": "", "directions": "direction"}[analysis.layout.kind])
    axes.set_title("\n".join(lines), linespacing=1.3)
    colour_bar(figure, image, (0.85, 1.0 / height, 0.025, 0.5 * levels / height), "")
    return figure
