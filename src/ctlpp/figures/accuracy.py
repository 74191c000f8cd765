"""Accuracy after two applications: by groups and clusters, and pair by pair."""

from __future__ import annotations

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.study import Analysis
from ctlpp.figures.style import (
    COLOURS,
    DOUBLE,
    SINGLE,
    colour_bar,
    group_colours,
    heat,
    label,
    new_figure,
    write_numbers,
)


def draw_accuracy(analysis: Analysis, rows: list[int], value: int, titles: list[str]) -> Figure:
    """For each seed: (group, group) over all symbols, and (cluster, group) for one symbol (as Fig. 6)."""
    inputs = analysis.inputs
    figure = new_figure(DOUBLE, 5.6)
    columns = 2 * len(rows)
    grid = figure.add_gridspec(1, columns, left=0.07, right=0.91, bottom=0.2, top=0.74, wspace=0.6)
    colours, image = group_colours(inputs.groups), None
    for i, (row, title) in enumerate(zip(rows, titles, strict=True)):
        by_groups, by_clusters = figure.add_subplot(grid[2 * i]), figure.add_subplot(grid[2 * i + 1])
        table = groups_by_groups(analysis.right[row], inputs)
        image = _table(by_groups, table, list(inputs.groups), list(inputs.groups), colours)
        for a, b in zip(*np.nonzero(inputs.by_groups(inputs.ood)), strict=True):
            frame(by_groups, b, a, 1, 1)
        by_groups.set_ylabel("group of the first function", labelpad=2)
        by_groups.set_title("all symbols", pad=3)
        if analysis.clusters is not None:
            labels = analysis.clusters[row][value].labels
            table = clusters_by_groups(analysis.right[row], labels, value, inputs)
            names = [f"{c + 1} ({(labels == c).sum()})" for c in range(len(table))]
            _table(by_clusters, table, names, list(inputs.groups), colours)
            by_clusters.set_ylabel("cluster (functions)", labelpad=2)
            by_clusters.set_title(f"symbol {inputs.task.symbols[value]}", pad=3)
        else:
            by_clusters.set_axis_off()
        middle = (by_groups.get_position().x0 + by_clusters.get_position().x1) / 2
        figure.text(middle, 0.94, title, ha="center", va="top", linespacing=1.35)
        for axes in (by_groups, by_clusters):
            axes.set_xlabel("group of the second", labelpad=2)
    colour_bar(figure, image, (0.928, 0.2, 0.012, 0.54), "accuracy")
    figure.text(0.5, 0.02, "framed: pairs that only the test has", ha="center", va="bottom", fontsize=6)
    return figure


def frame(axes: Axes, left: int, top: int, width: int, height: int) -> None:
    """A frame around some cells of a heat map."""
    corner = left - 0.5, top - 0.5
    patch = Rectangle(corner, width, height, fill=False, edgecolor=COLOURS[1], linewidth=1.6, clip_on=False)
    patch.set_zorder(5)  # above the lines between groups
    axes.add_patch(patch)


def draw_compatibility(analysis: Analysis, rows: list[int], value: int, titles: list[str]) -> Figure:
    """For one symbol in between: which second function understands which first one."""
    inputs = analysis.inputs
    order = np.argsort(inputs.group_of, kind="stable")
    symbol, width = inputs.task.symbols[value], DOUBLE if len(rows) > 1 else SINGLE
    known = f"pairs with symbol {symbol} in between: bright answered right, dark wrong; framed: only the test has them"
    lines = textwrap.wrap(known, int(width / 0.13))
    margin, top, bottom = 0.9, 0.95, 0.7 + 0.3 * len(lines)  # cm
    panel = (width - 0.5) / len(rows) - margin
    height = top + panel + bottom
    figure = new_figure(width, height)
    colours, names = group_colours(inputs.groups), list(inputs.task.functions)
    for i, (row, title) in enumerate(zip(rows, titles, strict=True)):
        axes = figure.add_axes(
            ((0.95 + i * (panel + margin)) / width, bottom / height, panel / width, panel / height)
        )
        axes.set_box_aspect(1)
        heat(axes, pairs_at(analysis.right[row], value, inputs)[np.ix_(order, order)].astype(float))
        size = min(6.0, 160 / len(names))
        axes.set_xticks(range(len(order)), [names[f] for f in order], fontsize=size)
        axes.set_yticks(range(len(order)), [names[f] for f in order], fontsize=size)
        axes.tick_params(length=0, pad=1)
        for texts in (axes.get_xticklabels(), axes.get_yticklabels()):
            for text, function in zip(texts, order, strict=True):
                text.set_color(colours[inputs.groups[inputs.group_of[function]]])
        for border in np.flatnonzero(np.diff(inputs.group_of[order])) + 0.5:
            axes.axhline(border, color="white", linewidth=0.9)
            axes.axvline(border, color="white", linewidth=0.9)
        for a, b in zip(*np.nonzero(inputs.by_groups(inputs.ood)), strict=True):
            down, across = (np.flatnonzero(inputs.group_of[order] == group) for group in (a, b))
            frame(axes, across[0], down[0], len(across), len(down))
        axes.set_title(title, linespacing=1.35)
        axes.set_xlabel("second function", labelpad=2)
        axes.set_ylabel("first function", labelpad=2)
    figure.text(0.5, 0.12 / height, "\n".join(lines), ha="center", va="bottom", fontsize=6)
    return figure


def groups_by_groups(right: Array, inputs: Inputs) -> Array:
    """Accuracy by (group of the first, group of the second). (F, F, symbols) -> (G, G)"""
    members = [inputs.members(group) for group in inputs.groups]
    return np.array([[right[np.ix_(a, b)].mean() for b in members] for a in members])


def pairs_at(right: Array, value: int, inputs: Inputs) -> Array:
    """Which pairs with this symbol in between are right. (F, F, symbols) -> (F, F)"""
    return np.asarray(right[np.arange(inputs.n_functions), :, inputs.start[:, value]])


def clusters_by_groups(right: Array, labels: Array, value: int, inputs: Inputs) -> Array:
    """Accuracy by (cluster of the first, group of the second) with this symbol in between. -> (clusters, G)"""
    pairs = pairs_at(right, value, inputs)
    members = [inputs.members(group) for group in inputs.groups]
    clusters = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    return np.array([[pairs[np.ix_(a, b)].mean() for b in members] for a in clusters])


def _table(axes: Axes, table: Array, rows: list[str], columns: list[str], colours: dict[str, str]) -> object:
    image = heat(axes, table)
    label(axes, rows, columns, colours)
    write_numbers(axes, table, [[f"{v:.2f}" for v in row] for row in table], 6 if len(columns) < 4 else 5)
    return image
