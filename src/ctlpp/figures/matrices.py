"""Matrices: pairs that are right, groups that can use each other's states, alike readouts, the grid of S.

Example:
    >>> axes = draw_staged({"ndr": {(16, 6): [1.0, 0.98], (4, 2): [0.5]}}).axes[0]
    >>> [text.get_text() for text in axes.texts]
    ['0.50', '0.99\\n± 0.01', 'grey: not run']
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.analysis import Interchange
from ctlpp.analysis.geometry import SILHOUETTE, Clustering
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.figures import DARK, IID, OOD
from ctlpp.figures.style import (
    DOUBLE,
    SINGLE,
    SIZE,
    accuracy_axis,
    function_colours,
    group_colours,
    new_figure,
    new_panels,
    swarm,
)
from ctlpp.statistics.published import STAGED, TITLES
from ctlpp.words import plural

HEAT = "viridis"  # brightness rises evenly: the same for every reader, and in grey
MISSING = "#dddddd"  # a cell without a number
FRAMED = "framed: pairs that only the test has"
STRIP = 0.05  # height of the strip of group colours, as a share of the matrix
NAME = 0.33  # cm, for the name of a function beside a matrix


def draw_matrix(
    axes: Axes,
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    texts: Any = None,
    colours: Mapping[str, str] | None = None,
) -> Any:
    """A matrix as colours from 0 to 1 with names and texts; cells without a number stay grey."""
    values = np.asarray(values, dtype=float)
    heat = mpl.colormaps[HEAT].with_extremes(bad=MISSING)
    image = axes.imshow(np.ma.masked_invalid(values), cmap=heat, vmin=0, vmax=1, aspect="auto")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    for name in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        name.set_color((colours or {}).get(name.get_text(), "black"))
    for (row, column), value in np.ndenumerate(values):
        if texts is not None and np.isfinite(value):
            shade = "white" if value < 0.55 else "black"
            axes.text(column, row, texts[row][column], ha="center", va="center", color=shade)
    return image


def colour_bar(figure: Figure, image: Any, axes: Any, label: str = "", **more: Any) -> None:
    """A colour scale beside some axes."""
    bar = figure.colorbar(image, ax=axes, label=label, **{"aspect": 30, "pad": 0.01, **more})
    bar.outline.set_visible(False)


@dataclass(frozen=True, eq=False)
class Inside:
    """What figures show of one seed."""

    inputs: Inputs
    title: str
    right: Array  # which pairs are answered right, (F, F, symbols)
    cosines: Array | None = None  # similarity of the readouts of all functions, (values, F, F)
    clusters: Sequence[Clustering] | None = None  # of them, one for each value

    def readouts(self, value: int) -> tuple[Array, Clustering]:
        """Similarity of the readouts for one symbol, (F, F), and their clusters."""
        assert self.cosines is not None
        assert self.clusters is not None
        return self.cosines[value], self.clusters[value]

    @property
    def least_alike(self) -> int:
        """The symbol for which the groups' readouts are least alike."""
        assert self.cosines is not None
        group = self.inputs.group_of
        return int(np.argmin([cosines[group[:, None] != group].mean() for cosines in self.cosines]))

    @property
    def asked(self) -> Array:
        """`right` as numbers; nan for pairs that no graph has: nobody asks for them. (1, F, F, symbols)"""
        return np.where(self.inputs.train | self.inputs.ood, self.right.astype(float), np.nan)[None]


def draw_accuracy(seeds: Sequence[Inside], value: int) -> Figure:
    """For each seed and one symbol: cluster × group and group × group accuracy (as Fig. 6 of the paper)."""
    figure = new_figure(DOUBLE, 6.0)
    widths = [1.0] * (len(seeds) - 1) + [1.14]  # the last has the colour scale
    parts = figure.subfigures(1, len(seeds), squeeze=False, width_ratios=widths)[0]
    for part, seed in zip(parts, seeds, strict=True):
        left, right = part.subplots(1, 2)
        part.suptitle(seed.title)
        inputs, symbol = seed.inputs, f"symbol {seed.inputs.task.symbols[value]}"
        image = _draw_table(right, inputs.means(seed.asked)[0][:, value], inputs.groups, inputs)
        for a, b in zip(*np.nonzero(inputs.any_by_group(inputs.ood)), strict=True):
            _frame(right, b, a, 1, 1)
        right.set(ylabel="first function's group", xlabel="second's group", title=symbol)
        if seed.clusters is None:
            left.set_axis_off()
            continue
        labels = seed.clusters[value].labels
        names = [f"C{number} ({size})" for number, size in enumerate(np.bincount(labels), start=1)]
        _draw_table(left, inputs.means(seed.asked, labels)[0][:, value], names, inputs)
        left.set(ylabel="first function's cluster", xlabel="second's group", title=symbol)
    colour_bar(parts[-1], image, parts[-1].axes, "accuracy")
    figure.supxlabel(FRAMED, fontsize=SIZE)
    return figure


def _draw_table(axes: Axes, seeds: Array, rows: Sequence[str], inputs: Inputs) -> Any:
    """Accuracies by group of the second function, with the standard deviation over several seeds."""
    mean = seeds.mean(axis=0)
    texts = np.array([[f"{value:.2f}" for value in row] for row in mean], dtype=object)
    if len(seeds) > 1:
        join = "\n± " if len(inputs.groups) > 3 else " ± "
        texts += [[f"{join}{deviation:.2f}" for deviation in row] for row in seeds.std(axis=0, ddof=1)]
    colours = group_colours(inputs.groups)
    return draw_matrix(axes, mean, rows, inputs.groups, texts=texts, colours=colours)


def _frame(axes: Axes, left: int, top: int, width: int, height: int) -> None:
    """A frame around some cells of a matrix, above the lines between groups."""
    look: Any = {"fill": False, "edgecolor": OOD, "linewidth": 1.6, "clip_on": False, "zorder": 5}
    axes.add_patch(Rectangle((left - 0.5, top - 0.5), width, height, **look))


def draw_compatibility(seeds: Sequence[Inside], value: int) -> Figure:
    """For one symbol in between: which second function understands which first one."""
    inputs = seeds[0].inputs
    order = np.argsort(inputs.group_of, kind="stable")
    names = np.array([*inputs.task.functions])[order].tolist()
    sizes = np.bincount(inputs.group_of, minlength=len(inputs.groups))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width = DOUBLE if len(seeds) > 1 else SINGLE
    figure = new_figure(width, width / len(seeds) + 1.2)
    grid = figure.subplots(1, len(seeds), squeeze=False)[0]
    for axes, seed in zip(grid, seeds, strict=True):
        right = inputs.by_value(seed.asked)[0, value][np.ix_(order, order)]
        draw_matrix(axes, right, names, names, colours=function_colours(inputs.task.groups))
        axes.set_box_aspect(1)
        _name_groups(axes, inputs, sizes, width / len(seeds) - 1.5)
        for at in starts[1:-1] - 0.5:
            axes.axhline(at, color="white", linewidth=0.8)
            axes.axvline(at, color="white", linewidth=0.8)
        for a, b in zip(*np.nonzero(inputs.any_by_group(inputs.ood)), strict=True):
            _frame(axes, starts[b], starts[a], sizes[b], sizes[a])
        axes.set(xlabel="second function", ylabel="first function", title=seed.title)
    between = f"symbol {inputs.task.symbols[value]} in between; bright: answered right"
    figure.supxlabel(f"{between}\n{FRAMED}", fontsize=SIZE)
    return figure


def _name_groups(axes: Axes, inputs: Inputs, sizes: Array, room: float) -> None:
    """Groups in place of functions, if these have not enough room."""
    if room >= NAME * sizes.sum():
        return
    middles, colours = np.cumsum(sizes) - (sizes + 1) / 2, group_colours(inputs.groups)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(middles, inputs.groups)
        for label, group in zip(axis.get_ticklabels(), inputs.groups, strict=True):
            label.set_color(colours[group])


def draw_interchange(inputs: Inputs, found: Interchange, counted: Array) -> Figure:
    """Left: donor group × consumer group, mean ± std over the seeds. Right: by symbol, known and new pairs.

    counted: which seeds are shown, (S,) bool.
    """
    exchanged = found.right["none"][counted]
    figure = new_figure(DOUBLE, 6.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    by_groups = inputs.means(exchanged)[0].mean(axis=1)  # (S, G, G)
    image = _draw_table(left, by_groups, inputs.groups, inputs)
    left.set(ylabel="donor's group", xlabel="consumer's group", title="interchange accuracy, all symbols")
    colour_bar(figure, image, left)
    kinds = {"known in training": (inputs.train, IID), "new in the test": (inputs.ood, OOD)}
    for number, (name, (pairs, colour)) in enumerate(kinds.items()):
        inside, shift = ("none", -0.18) if number == 0 else (colour, 0.18)
        place: Any = {"transform": right.transAxes, "ha": ("left", "right")[number], "va": "bottom"}
        right.text(number, 1.02, f"pairs {name}", color=colour, **place)
        for symbol in range(inputs.n_symbols) if pairs.any() else ():
            at, chosen = symbol + shift, pairs & (inputs.value[:, None, :] == symbol)
            values = exchanged[:, chosen].mean(axis=1)  # (S,)
            look: Any = {"color": colour, "markersize": 2.4, "alpha": 0.6, "markerfacecolor": inside}
            right.plot(at + swarm(values, 0.12), values, "o", markeredgewidth=0.6, **look)
            right.hlines(values.mean(), at - 0.15, at + 0.15, color=colour, linewidth=1.6)
    right.axhline(1 / inputs.n_symbols, color=DARK, linestyle=":", linewidth=0.6)
    right.text(-1.25, 1 / inputs.n_symbols, "chance", va="bottom")
    right.set_xticks(range(inputs.n_symbols), inputs.task.symbols)
    right.set(xlim=(-1.3, inputs.n_symbols - 0.5), xlabel="symbol the state stands for")
    right.set_title(_title("every seed (dots) and their mean", counted), pad=16)
    accuracy_axis(right, solved=False)
    right.set_ylabel("interchange accuracy")
    return figure


def _title(line: str, counted: Array) -> str:
    """A title that says how many seeds are left out, if any."""
    left_out = f"\n{(~counted).sum()} of {len(counted)} seeds diverged and are left out"
    return line if counted.all() else line + left_out


def draw_places(found: Interchange, counted: Array) -> Figure:
    """The effect of changing the state at every place, mean over the seeds, and the place of each seed."""
    effect = found.effect[counted].mean(axis=0)  # (L, K)
    counts = Counter(map(tuple, found.position[counted].tolist()))
    texts = np.array([[f"{one:.2f}" for one in row] for row in effect], dtype=object)
    for place, count in counts.items():
        texts[place] += f"\n({count})"
    figure = new_figure(SINGLE, 2.8 + 0.85 * len(effect))
    axes = figure.subplots()
    levels = [str(i + 1) for i in range(len(effect))]
    image = draw_matrix(axes, effect, levels, found.changed, texts=texts)
    axes.set_ylabel("layer" if found.kind == "columns" else "token read")
    axes.set_xlabel({"columns": "column", "steps": "", "directions": "direction"}[found.kind])
    about = "effect of changing the state there\n(in brackets: seeds whose place it is)"
    axes.set_title(_title(about, counted))
    colour_bar(figure, image, axes)
    return figure


def draw_symbols(seed: Inside) -> Figure:
    """The matrices of all symbols of one seed (as Figs. 9 – 11 of the paper)."""
    count = seed.inputs.n_symbols
    figure, grid = new_panels(count, min(4, count), 5.3, 1.6)
    for value, axes in enumerate(grid.flat[:count]):
        image = _draw_seed(axes, seed, value)
        axes.set_title(_name_symbol(seed, value), pad=14)
    colour_bar(figure, image, grid, "cosine similarity", location="bottom", shrink=0.3, aspect=25)
    figure.suptitle(seed.title)
    return figure


def draw_side_by_side(seeds: Sequence[Inside], value: int) -> Figure:
    """The matrices of one symbol of some seeds (as Fig. 3 of the paper)."""
    panel = min(6.55, (DOUBLE - 1.7) / len(seeds) - 0.6)
    figure = new_figure(1.7 + len(seeds) * (panel + 0.6), panel + 3.0)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 0.95))  # titles stand over the letters of groups
    grid = figure.subplots(1, len(seeds), squeeze=False)[0]
    for axes, seed in zip(grid, seeds, strict=True):
        image = _draw_seed(axes, seed, value, panel)
        axes.set_title(f"{seed.title}\n{_name_symbol(seed, value)}", pad=14)
    colour_bar(figure, image, grid, "cosine similarity", shrink=0.8)
    return figure


def _draw_seed(axes: Axes, seed: Inside, value: int, room: float = 0.0) -> object:
    """A matrix in the order of its tree, with lines between clusters and a strip of group colours above.

    Colours go from 0 to 1, as on the page of `ctlpp report`; what is negative looks like 0.
    room: cm for the functions' names, which are left out if they would stand too close.
    """
    (cosines, one), inputs, size = seed.readouts(value), seed.inputs, seed.inputs.n_functions
    cosines, shades = cosines[np.ix_(one.order, one.order)], group_colours(inputs.groups)
    names = np.array([*inputs.task.functions])[one.order].tolist() if room >= NAME * size else []
    image = draw_matrix(axes, cosines, names, names, colours=function_colours(inputs.task.groups))
    labels, groups = one.labels[one.order], inputs.group_of[one.order]
    borders = np.flatnonzero(labels[1:] != labels[:-1]) + 0.5
    axes.hlines(borders, -0.5, size - 0.5, color="white", linewidth=0.9)
    axes.vlines(borders, -0.5, size - 0.5, color="white", linewidth=0.9)
    top = -0.5 - (STRIP + 0.01) * size
    strip = (-0.5, size - 0.5, -0.5 - 0.01 * size, top)
    colours = [shades[inputs.groups[group]] for group in groups]
    axes.imshow([[to_rgb(colour) for colour in colours]], extent=strip, aspect="auto")
    ends = np.flatnonzero(np.diff([-1, *groups, -1]))  # where another group begins
    for start, end in pairwise(ends):
        if end - start >= STRIP * size:  # there is room for a letter or two
            name, middle = inputs.groups[groups[start]], (start + end - 1) / 2
            axes.text(middle, top - 0.01 * size, name, color=colours[start], ha="center", va="bottom")
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, top))
    axes.set_box_aspect(1 + STRIP + 0.01)
    axes.set_anchor("S")  # below its title
    return image


def _name_symbol(seed: Inside, value: int) -> str:
    _, own = seed.readouts(value)
    found, score = "no clear split" if own.count == 1 else f"{own.count} clusters", own.silhouette
    measured = f"{floor(100 * score) / 100:.2f} < {SILHOUETTE}" if score < SILHOUETTE else f"{score:.2f}"
    measured = f"\n(silhouette {measured})" if np.isfinite(score) else ""
    return f"symbol {seed.inputs.task.symbols[value]}: {found}{measured}"


def draw_staged(
    grid: Mapping[str, Mapping[tuple[int, int], Sequence[float]]], diverged: int = 0, across: int = 2
) -> Figure:
    """A panel for each model: mean ± std of the seeds of each cell, above the published claim.

    grid: OOD accuracies by model and cell (shared functions, shared symbols). diverged: seeds besides.
    """
    models = sorted(grid, key=lambda model: [*TITLES, model].index(model))
    cells = {cell for own in grid.values() for cell in own}
    functions, symbols = (sorted({cell[axis] for cell in cells}) for axis in (0, 1))
    across = min(across, len(models), max(1, int(15 / len(symbols))))
    figure, panels = new_panels(len(models), across, 3.2 + 0.95 * len(functions), 0.3)
    for model, axes in zip(models, panels.flat, strict=False):
        mean = np.full((len(functions), len(symbols)), np.nan)
        texts = np.full(mean.shape, "", dtype=object)
        for (many, few), values in grid[model].items():
            place = functions.index(many), symbols.index(few)
            mean[place] = np.mean(values)
            spread = f"\n± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
            texts[place] = f"{mean[place]:.2f}{spread}"
        image = draw_matrix(axes, mean, [*map(str, functions)], [*map(str, symbols)], texts=texts)
        if np.isnan(mean).any():
            axes.text(0.5, 0.5, "grey: not run", transform=axes.transAxes, ha="center", va="center")
        claim = textwrap.wrap(STAGED.get(model, ""), 84 // across)
        axes.set(title=TITLES.get(model, model), xlabel="\n".join(["shared symbols", "", *claim]))
    for axes in panels[:, 0]:
        axes.set_ylabel("shared functions")
    colour_bar(figure, image, panels, "OOD accuracy")
    if diverged:
        figure.supxlabel(f"{plural(diverged)} diverged, part of no mean", fontsize=SIZE)
    return figure
