"""Similarity matrices: one figure a seed with a panel for each symbol, and a failing seed beside a successful one.

All panels of a figure stand on one sheet that is measured in cm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.clusters import Clustering
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.study import Analysis
from ctlpp.figures.style import DOUBLE, HEAT, MISSING, colour_bar, group_colours, new_figure

STRIP = 0.045  # height of the strip of group colours, as a share of the matrix
LEGIBLE = 4.0  # points: smaller names are left out
POINT = 2.54 / 72  # cm


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
    sheet = _sheet(DOUBLE, height)
    for value in range(count):
        line, column = divmod(value, across)
        box = Box(0.1 + column * (panel + 0.4), height - top - line * (panel + gap) - panel, panel)
        _matrix(sheet, box, seed, value)
        _title(sheet, box, _of_symbol(seed, value))
    sheet.text(0.1, height - 0.3, seed.title, fontsize=8, va="center")
    _legend(sheet, inputs, 0.1, 0.3)
    _scale(sheet, (0.77 * DOUBLE, 0.42, 0.2 * DOUBLE, 0.14), "")
    sheet.text(0.755 * DOUBLE, 0.49, "cosine similarity", ha="right", va="center", fontsize=6)
    return _figure(sheet)


def draw_side_by_side(seeds: Sequence[Matrices], values: Sequence[int]) -> Figure:
    """One symbol of each seed; with the functions' names where they are legible."""
    top, bottom, margin = 1.35, 1.0, 0.6  # cm
    panel = min(6.55, (DOUBLE - 1.7) / len(seeds) - margin)
    width, height = 1.7 + len(seeds) * (panel + margin), top + panel + bottom
    sheet = _sheet(width, height)
    for i, (seed, value) in enumerate(zip(seeds, values, strict=True)):
        box = Box(0.35 + i * (panel + margin), bottom, panel)
        _matrix(sheet, box, seed, value)
        _name_functions(sheet, box, seed, value, min(6.0, panel * 23 / seed.inputs.n_functions))
        _title(sheet, box, f"{seed.title}\n{_of_symbol(seed, value)}")
    _legend(sheet, seeds[0].inputs, 0.35, 0.3)
    _scale(sheet, (0.2 + len(seeds) * (panel + margin), bottom, 0.18, panel), "cosine similarity")
    return _figure(sheet)


@dataclass(frozen=True)
class Box:
    """Where a matrix stands on its sheet, in cm: its lower left corner, and how long its sides are."""

    left: float
    low: float
    side: float

    @property
    def middle(self) -> float:
        """From the left."""
        return self.left + self.side / 2

    @property
    def top(self) -> float:
        """Its upper side."""
        return self.low + self.side


def _sheet(width: float, height: float) -> Axes:
    """A figure that is drawn on in cm, from its lower left corner."""
    sheet = new_figure(width, height).add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, width), ylim=(0, height), autoscale_on=False)
    sheet.set_axis_off()
    return sheet


def _figure(sheet: Axes) -> Figure:
    figure = sheet.get_figure(root=True)
    assert figure is not None
    return figure


def _matrix(sheet: Axes, box: Box, seed: Matrices, value: int) -> None:
    """A matrix in the order of its tree, with lines between clusters and a strip of group colours above.

    Colours go from 0 to 1, as on the page of `ctlpp report`; what is negative looks like 0.
    """
    one, inputs, cell = seed.clusters[value], seed.inputs, box.side / seed.inputs.n_functions
    cosines = np.ma.masked_invalid(seed.cosines[value][np.ix_(one.order, one.order)])
    extent = (box.left, box.left + box.side, box.low, box.top)
    sheet.imshow(
        cosines, cmap=colormaps[HEAT].with_extremes(bad=MISSING), vmin=0, vmax=1, aspect="auto", extent=extent
    )
    labels = one.labels[one.order]
    borders = cell * (np.flatnonzero(labels[1:] != labels[:-1]) + 1)
    across = [[(box.left, box.top - at), (box.left + box.side, box.top - at)] for at in borders]
    down = [[(box.left + at, box.low), (box.left + at, box.top)] for at in borders]
    sheet.add_collection(LineCollection(across + down, colors="white", linewidths=0.9))
    colours, low = group_colours(inputs.groups), box.low + 1.008 * box.side
    strip = [
        _rectangle(box.left + column * cell, low, cell, STRIP * box.side) for column in range(len(one.order))
    ]
    shades = [colours[inputs.groups[inputs.group_of[f]]] for f in one.order]
    sheet.add_collection(PolyCollection(strip, facecolors=shades))


def _name_functions(sheet: Axes, box: Box, seed: Matrices, value: int, size: float) -> None:
    """Names in the colours of their groups, unless they would be too small to read."""
    if size < LEGIBLE:
        return
    inputs, order, cell = seed.inputs, seed.clusters[value].order, box.side / seed.inputs.n_functions
    colours, names = group_colours(inputs.groups), list(inputs.task.functions)
    for at, function in enumerate(order):
        look: Any = {"fontsize": size, "color": colours[inputs.groups[inputs.group_of[function]]]}
        along = (at + 0.5) * cell
        sheet.text(box.left + along, box.low - POINT, names[function], ha="center", va="top", **look)
        sheet.text(
            box.left - POINT, box.top - along, names[function], ha="right", va="center_baseline", **look
        )


def _title(sheet: Axes, box: Box, text: str) -> None:
    sheet.text(
        box.middle, box.low + (1.008 + STRIP) * box.side + 4 * POINT, text, ha="center", linespacing=1.35
    )


def _of_symbol(seed: Matrices, value: int) -> str:
    count = seed.clusters[value].count
    return f"symbol {seed.inputs.task.symbols[value]}: {'one cluster' if count == 1 else f'{count} clusters'}"


def _legend(sheet: Axes, inputs: Inputs, left: float, middle: float) -> None:
    """The groups' names in their colours."""
    sheet.text(left, middle, "group", va="center", fontsize=6)
    for i, (group, colour) in enumerate(group_colours(inputs.groups).items()):
        at = left + 1.0 + 0.95 * i
        sheet.add_patch(Rectangle((at, middle - 0.09), 0.18, 0.18, color=colour, linewidth=0))
        sheet.text(at + 0.26, middle, group, va="center", fontsize=6)


def _scale(sheet: Axes, box: tuple[float, float, float, float], title: str) -> None:
    """The colour scale, at a place in cm (left, bottom, width, height)."""
    width, height = sheet.get_xlim()[1], sheet.get_ylim()[1]
    share = (box[0] / width, box[1] / height, box[2] / width, box[3] / height)
    colour_bar(_figure(sheet), sheet.images[-1], share, title)


def _rectangle(left: float, low: float, width: float, height: float) -> list[tuple[float, float]]:
    right, top = left + width, low + height
    return [(left, low), (right, low), (right, top), (left, top)]
