"""Pairs of functions: which pairs seeds answer right, and which functions understand each other's states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.analysis import Analysis
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.figures.seeds import swarm
from ctlpp.figures.style import (
    DARK,
    DOUBLE,
    OOD,
    SINGLE,
    TRAINING,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    explain,
    function_colours,
    group_colours,
    new_figure,
)

FRAMED = "framed: pairs that only the test has"


def draw_accuracy(analysis: Analysis, rows: Sequence[int], value: int, titles: Sequence[str]) -> Figure:
    """For each seed: (group, group) over all symbols, and (cluster, group) for one symbol (as Fig. 6)."""
    inputs = analysis.inputs
    figure = new_figure(DOUBLE, 5.6)
    widths = [1.0] * (len(rows) - 1) + [1.14]  # the last has the colour scale
    parts = figure.subfigures(1, len(rows), squeeze=False, width_ratios=widths)[0]
    for part, row, title in zip(parts, rows, titles, strict=True):
        left, right = part.subplots(1, 2)
        part.suptitle(title)
        table = groups_by_groups(analysis.right[row], inputs)
        image = _draw_table(left, table[None], inputs.groups, inputs)
        for a, b in zip(*np.nonzero(inputs.by_groups(inputs.ood)), strict=True):
            _frame(left, b, a, 1, 1)
        left.set(ylabel="group of the first function", xlabel="group of the second", title="all symbols")
        if analysis.clusters is None:
            right.set_axis_off()
            continue
        labels = analysis.clusters[row][value].labels
        table = clusters_by_groups(analysis.right[row], labels, value, inputs)
        _draw_table(
            right, table[None], [f"{c + 1} ({(labels == c).sum()})" for c in range(len(table))], inputs
        )
        symbol = f"symbol {inputs.task.symbols[value]}"
        right.set(ylabel="cluster (functions)", xlabel="group of the second", title=symbol)
    colour_bar(parts[-1], image, parts[-1].axes, "accuracy")
    figure.supxlabel(FRAMED, fontsize=6)
    return figure


def _draw_table(axes: Axes, seeds: Array, rows: Sequence[str], inputs: Inputs) -> Any:
    """Accuracies by group of the second function, with the standard deviation over several seeds."""
    mean, small = seeds.mean(axis=0), len(inputs.groups) > 3
    texts = [[f"{value:.2f}" for value in row] for row in mean]
    if len(seeds) > 1:
        join, spread = "\n± " if small else " ± ", seeds.std(axis=0, ddof=1)
        texts = [
            [f"{texts[a][b]}{join}{spread[a, b]:.2f}" for b in range(mean.shape[1])] for a in range(len(mean))
        ]
    colours = group_colours(inputs.groups)
    return draw_matrix(axes, mean, rows, inputs.groups, texts=texts, size=5 if small else 6, colours=colours)


def _frame(axes: Axes, left: int, top: int, width: int, height: int) -> None:
    """A frame around some cells of a matrix, above the lines between groups."""
    look: Any = {"fill": False, "edgecolor": OOD, "linewidth": 1.6, "clip_on": False, "zorder": 5}
    axes.add_patch(Rectangle((left - 0.5, top - 0.5), width, height, **look))


def draw_compatibility(analysis: Analysis, rows: Sequence[int], value: int, titles: Sequence[str]) -> Figure:
    """For one symbol in between: which second function understands which first one."""
    inputs = analysis.inputs
    order = np.argsort(inputs.group_of, kind="stable")
    names = [list(inputs.task.functions)[f] for f in order]
    sizes = np.bincount(inputs.group_of, minlength=len(inputs.groups))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width = DOUBLE if len(rows) > 1 else SINGLE
    figure = new_figure(width, width / len(rows) + 1.2)
    grid = figure.subplots(1, len(rows), squeeze=False)[0]
    for axes, row, title in zip(grid, rows, titles, strict=True):
        right = pairs_at(analysis.right[row], value, inputs)[np.ix_(order, order)]
        draw_matrix(axes, right, names, names, colours=function_colours(inputs.task.groups))
        axes.set_box_aspect(1)
        axes.tick_params(labelsize=min(6.0, 160 / len(names)), pad=1)
        for at in starts[1:-1] - 0.5:
            axes.axhline(at, color="white", linewidth=0.8)
            axes.axvline(at, color="white", linewidth=0.8)
        for a, b in zip(*np.nonzero(inputs.by_groups(inputs.ood)), strict=True):
            _frame(axes, starts[b], starts[a], sizes[b], sizes[a])
        axes.set(xlabel="second function", ylabel="first function", title=title)
    between = f"symbol {inputs.task.symbols[value]} in between; bright: answered right"
    figure.supxlabel(f"{between}\n{FRAMED}", fontsize=6)
    return figure


def groups_by_groups(right: Array, inputs: Inputs) -> Array:
    """Accuracy by (group of the first, group of the second). (F, F, symbols) -> (G, G)"""
    members = [inputs.members(group) for group in inputs.groups]
    return np.array([[right[np.ix_(a, b)].mean() for b in members] for a in members])


def pairs_at(right: Array, value: int, inputs: Inputs) -> Array:
    """Which pairs with this symbol in between are right. (F, F, symbols) -> (F, F)"""
    return np.asarray(right[np.arange(inputs.n_functions), :, inputs.start[:, value]])


def clusters_by_groups(right: Array, labels: Array, value: int, inputs: Inputs) -> Array:
    """Accuracy by (cluster of the first, group of the second), one symbol in between. -> (clusters, G)"""
    pairs = pairs_at(right, value, inputs)
    members = [inputs.members(group) for group in inputs.groups]
    clusters = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    return np.array([[pairs[np.ix_(a, b)].mean() for b in members] for a in clusters])


def draw_interchange(analysis: Analysis, counted: Array) -> Figure:
    """Left: donor group × consumer group, mean ± std over the seeds. Right: by symbol, known and new pairs.

    counted: which seeds are shown, (S,) bool.
    """
    assert analysis.interchange is not None
    inputs, exchanged = analysis.inputs, analysis.interchange[counted]
    cells = np.stack([groups_by_groups(one, inputs) for one in exchanged])  # (S, G, G)
    figure = new_figure(DOUBLE, 6.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    image = _draw_table(left, cells, inputs.groups, inputs)
    left.set(ylabel="donor's group", xlabel="consumer's group", title="interchange accuracy, all symbols")
    colour_bar(figure, image, left)
    kinds = {"known in training": (inputs.train, TRAINING), "new in the test": (inputs.ood, OOD)}
    for shift, (pairs, colour) in zip((-0.18, 0.18), kinds.values(), strict=True):
        for symbol in range(inputs.n_symbols) if pairs.any() else ():
            at, chosen = symbol + shift, pairs & (inputs.value[:, None, :] == symbol)
            values = exchanged[:, chosen].mean(axis=1)  # (S,)
            look: Any = {"color": colour, "markersize": 3, "alpha": 0.6, "markeredgewidth": 0}
            right.plot(at + swarm(values, 0.12), values, ".", **look)
            right.hlines(values.mean(), at - 0.15, at + 0.15, color=colour, linewidth=1.6)
    right.axhline(1 / inputs.n_symbols, color=DARK, linestyle=":", linewidth=0.6)
    right.text(-1.25, 1 / inputs.n_symbols, "chance", va="bottom", fontsize=6)
    right.set_xticks(range(inputs.n_symbols), inputs.task.symbols)
    right.set(xlim=(-1.3, inputs.n_symbols - 0.5), xlabel="symbol the state stands for")
    right.set_title("\n".join(["every seed (dots) and their mean", *_left_out(counted)]))
    accuracy_axis(right, solved=False)
    right.set_ylabel("interchange accuracy")
    explain(figure, {f"pairs {name}": {"color": colour} for name, (_, colour) in kinds.items()})
    return figure


def _left_out(counted: Array) -> Iterator[str]:
    if not counted.all():
        yield f"{(~counted).sum()} of {len(counted)} seeds diverged and are left out"


def draw_places(analysis: Analysis, counted: Array) -> Figure:
    """The effect of changing the state at every place, mean over the seeds, and the place of each seed."""
    assert analysis.effect is not None
    assert analysis.position is not None
    assert analysis.layout is not None
    effect = analysis.effect[counted].mean(axis=0)  # (L, K)
    counts = np.zeros(effect.shape, dtype=int)
    np.add.at(counts, tuple(analysis.position[counted].T), 1)
    texts = np.array(
        [f"{e:.2f}" + f" ({n})" * bool(n) for e, n in zip(effect.flat, counts.flat, strict=True)]
    )
    figure = new_figure(SINGLE, 2.4 + 0.5 * len(effect))
    axes = figure.subplots()
    levels, texts = [str(i + 1) for i in range(len(effect))], texts.reshape(effect.shape)
    image = draw_matrix(axes, effect, levels, analysis.changed, texts=texts, size=5)
    kind = analysis.layout.kind
    axes.set_ylabel("layer" if kind == "columns" else "token read")
    axes.set_xlabel({"columns": "column", "steps": "", "directions": "direction"}[kind])
    lines = [
        "effect of changing the state there",
        "(in brackets: seeds whose place it is)",
        *_left_out(counted),
    ]
    axes.set_title("\n".join(lines))
    colour_bar(figure, image, axes)
    return figure
