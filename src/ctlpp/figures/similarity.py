"""Similarity matrices: one figure a seed with a panel for each symbol, and a failing seed beside a successful one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.clusters import Clustering
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.study import Analysis
from ctlpp.figures.style import DOUBLE, colour_bar, group_colours, heat, new_figure

STRIP = 0.045  # height of the strip of group colours, as a share of the matrix
LEGIBLE = 4.0  # points: smaller names are left out


@dataclass(frozen=True, eq=False)
class Matrices:
    """One seed: similarity and clusters of the functions for every symbol."""

    inputs: Inputs
    cosines: Array  # (values, F, F)
    clusters: Sequence[Clustering]  # one a value
    title: str

    @staticmethod
    def of(analysis: Analysis, row: int, title: str) -> Matrices:
        """Those of one seed of an analysis."""
        assert analysis.similarity is not None
        assert analysis.clusters is not None
        return Matrices(analysis.inputs, analysis.similarity[row], analysis.clusters[row], title)


def draw_contrast(analysis: Analysis, rows: list[int], value: int, titles: list[str]) -> Figure:
    """One symbol in one or two seeds, with the functions' names (as Fig. 3 of the paper)."""
    seeds = [Matrices.of(analysis, row, title) for row, title in zip(rows, titles, strict=True)]
    return draw_side_by_side(seeds, [value] * len(seeds))


def draw_symbols(seed: Matrices) -> Figure:
    """The matrices of all symbols of one seed (as Figs. 9 – 11 of the paper)."""
    inputs, count = seed.inputs, seed.inputs.n_symbols
    across = min(4, count)
    down = -(-count // across)
    panel, gap, top, bottom = 3.55, 0.75, 1.25, 0.45  # cm
    height = top + down * (panel + gap) + bottom
    figure = new_figure(DOUBLE, height)
    image = None
    for value in range(count):
        line, column = divmod(value, across)
        left = (0.1 + column * (panel + 0.4)) / DOUBLE
        low = 1 - (top + line * (panel + gap) + panel) / height
        box = (left, low, panel / DOUBLE, panel / height)
        one = seed.clusters[value]
        axes, image = _matrix(figure, box, seed.cosines[value], one, inputs)
        axes.set_title(f"symbol {inputs.task.symbols[value]}: {_count(one)}", pad=7)
    figure.text(0.1 / DOUBLE, 1 - 0.3 / height, seed.title, fontsize=8, va="center")
    _legend(figure, inputs, 0.1 / DOUBLE, 0.3 / height)
    colour_bar(figure, image, (0.77, 0.42 / height, 0.2, 0.14 / height), "")
    figure.text(0.755, 0.49 / height, "cosine similarity", ha="right", va="center", fontsize=6)
    return figure


def draw_side_by_side(seeds: Sequence[Matrices], values: Sequence[int]) -> Figure:
    """One symbol of each seed; with the functions' names where they are legible."""
    top, bottom, margin = 1.35, 1.0, 0.6  # cm
    panel = min(6.55, (DOUBLE - 1.7) / len(seeds) - margin)
    width, height = 1.7 + len(seeds) * (panel + margin), top + panel + bottom
    figure = new_figure(width, height)
    image = None
    for i, (seed, value) in enumerate(zip(seeds, values, strict=True)):
        one, inputs = seed.clusters[value], seed.inputs
        box = ((0.35 + i * (panel + margin)) / width, bottom / height, panel / width, panel / height)
        axes, image = _matrix(figure, box, seed.cosines[value], one, inputs)
        _name_functions(axes, one, inputs, min(6.0, panel * 23 / inputs.n_functions))
        symbol = f"symbol {inputs.task.symbols[value]}: {_count(one)}"
        axes.set_title(f"{seed.title}\n{symbol}", pad=5 + panel * 72 / 2.54 * STRIP, linespacing=1.35)
    _legend(figure, seeds[0].inputs, 0.35 / width, 0.3 / height)
    at = (0.45 + len(seeds) * (panel + margin)) / width
    colour_bar(figure, image, (at - 0.25 / width, bottom / height, 0.18 / width, panel / height), "cosine similarity")
    return figure


def _name_functions(axes: Axes, one: Clustering, inputs: Inputs, size: float) -> None:
    """Names in the colours of their groups, unless they would be too small to read."""
    if size < LEGIBLE:
        return
    colours, names = group_colours(inputs.groups), [list(inputs.task.functions)[f] for f in one.order]
    axes.set_xticks(range(len(names)), names, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    axes.tick_params(length=0, pad=1)
    for texts in (axes.get_xticklabels(), axes.get_yticklabels()):
        for text, function in zip(texts, one.order, strict=True):
            text.set_color(colours[inputs.groups[inputs.group_of[function]]])


def _matrix(
    figure: Figure, box: tuple[float, float, float, float], cosines: Array, one: Clustering, inputs: Inputs
) -> tuple[Axes, object]:
    """A matrix in the order of its tree, with lines between clusters and a strip of group colours above.

    Colours go from 0 to 1, as on the page of `ctlpp report`; what is negative looks like 0.
    """
    axes = figure.add_axes(box)
    image = heat(axes, cosines[np.ix_(one.order, one.order)])
    labels = one.labels[one.order]
    for border in np.flatnonzero(labels[1:] != labels[:-1]) + 0.5:
        axes.axhline(border, color="white", linewidth=0.9)
        axes.axvline(border, color="white", linewidth=0.9)
    colours = group_colours(inputs.groups)
    strip = [colours[inputs.groups[inputs.group_of[f]]] for f in one.order]
    cells = [(column - 0.5, 1) for column in range(len(strip))]
    above = axes.get_xaxis_transform()  # from the axes' bottom to its top is 1
    axes.broken_barh(cells, (1.008, STRIP), facecolors=strip, transform=above, clip_on=False)
    return axes, image


def _count(one: Clustering) -> str:
    return "one cluster" if one.count == 1 else f"{one.count} clusters"


def _legend(figure: Figure, inputs: Inputs, left: float, bottom: float) -> None:
    """The groups' names in their colours."""
    width, height = figure.get_size_inches() * 2.54
    figure.text(left, bottom, "group", va="center", fontsize=6)
    for i, (group, colour) in enumerate(group_colours(inputs.groups).items()):
        at = left + (1.0 + 0.95 * i) / width
        figure.add_artist(_square(figure, at, bottom - 0.09 / height, colour))
        figure.text(at + 0.26 / width, bottom, group, va="center", fontsize=6)


def _square(figure: Figure, left: float, bottom: float, colour: str) -> Rectangle:
    width, height = figure.get_size_inches() * 2.54
    shape = (0.18 / width, 0.18 / height)
    return Rectangle((left, bottom), *shape, color=colour, transform=figure.transFigure, linewidth=0)
