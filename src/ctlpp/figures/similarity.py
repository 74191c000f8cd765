"""Similarity matrices: all symbols of one seed, or one symbol of several seeds side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ctlpp.analysis.analysis import Analysis
from ctlpp.analysis.geometry import Clustering
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.figures.style import (
    DOUBLE,
    colour_bar,
    draw_matrix,
    explain,
    function_colours,
    group_colours,
    new_figure,
)
from ctlpp.words import plural

STRIP = 0.05  # height of the strip of group colours, as a share of the matrix
LEGIBLE = 4.0  # points: smaller names are left out


@dataclass(frozen=True, eq=False)
class Matrices:
    """One seed: similarity and clusters of the functions for every symbol."""

    inputs: Inputs
    cosines: Array  # (values, F, F)
    clusters: Sequence[Clustering]  # one per value
    title: str

    @staticmethod
    def of(analysis: Analysis, row: int, title: str) -> Matrices:
        """Those of one seed of an analysis."""
        assert analysis.similarity is not None
        assert analysis.clusters is not None
        return Matrices(analysis.inputs, analysis.similarity[row], analysis.clusters[row], title)


def draw_symbols(seed: Matrices) -> Figure:
    """The matrices of all symbols of one seed (as Figs. 9 – 11 of the paper)."""
    count = seed.inputs.n_symbols
    across = min(4, count)
    down = -(-count // across)
    figure = new_figure(DOUBLE, 1.6 + 4.5 * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    for value, axes in enumerate(grid.flat[:count]):
        image = _draw_seed(axes, seed, value)
        axes.set_title(_name_symbol(seed, value))
    colour_bar(figure, image, grid, "cosine similarity", location="bottom", shrink=0.3, aspect=25)
    _explain_groups(figure, seed.inputs, seed.title)
    return figure


def draw_side_by_side(seeds: Sequence[Matrices], values: Sequence[int]) -> Figure:
    """One symbol of each seed, with the functions' names where they are legible (as Fig. 3 of the paper)."""
    panel = min(6.55, (DOUBLE - 1.7) / len(seeds) - 0.6)
    figure = new_figure(1.7 + len(seeds) * (panel + 0.6), panel + 2.3)
    grid = figure.subplots(1, len(seeds), squeeze=False)[0]
    for axes, seed, value in zip(grid, seeds, values, strict=True):
        image = _draw_seed(axes, seed, value, min(6.0, panel * 23 / seed.inputs.n_functions))
        axes.set_title(f"{seed.title}\n{_name_symbol(seed, value)}")
    colour_bar(figure, image, grid, "cosine similarity")
    _explain_groups(figure, seeds[0].inputs)
    return figure


def _draw_seed(axes: Axes, seed: Matrices, value: int, points: float = 0.0) -> object:
    """A matrix in the order of its tree, with lines between clusters and a strip of group colours above.

    Colours go from 0 to 1, as on the page of `ctlpp report`; what is negative looks like 0.
    points: size of the functions' names, which are left out if they would be too small.
    """
    one, inputs, size = seed.clusters[value], seed.inputs, seed.inputs.n_functions
    every = list(inputs.task.functions)
    names = [every[f] for f in one.order] if points >= LEGIBLE else []
    cosines, shades = seed.cosines[value][np.ix_(one.order, one.order)], function_colours(inputs.task.groups)
    image = draw_matrix(axes, cosines, names, names, colours=shades)
    axes.tick_params(labelsize=points, pad=1)
    labels = one.labels[one.order]
    borders = np.flatnonzero(labels[1:] != labels[:-1]) + 0.5
    axes.hlines(borders, -0.5, size - 0.5, color="white", linewidth=0.9)
    axes.vlines(borders, -0.5, size - 0.5, color="white", linewidth=0.9)
    top = -0.5 - (STRIP + 0.01) * size
    strip = (-0.5, size - 0.5, -0.5 - 0.01 * size, top)
    axes.imshow([[to_rgb(shades[every[f]]) for f in one.order]], extent=strip, aspect="auto")
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, top))
    axes.set_box_aspect(1 + STRIP + 0.01)
    return image


def _name_symbol(seed: Matrices, value: int) -> str:
    return f"symbol {seed.inputs.task.symbols[value]}: {plural(seed.clusters[value].count, 'cluster')}"


def _explain_groups(figure: Figure, inputs: Inputs, title: str = "") -> None:
    square = {"marker": "s", "linestyle": "", "markersize": 4}
    marks = {
        f"group {name}": {"color": colour, **square} for name, colour in group_colours(inputs.groups).items()
    }
    explain(figure, marks, columns=6, title=title)
