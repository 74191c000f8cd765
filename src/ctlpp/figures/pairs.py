"""Functions beside functions: which pairs are right, which groups can use each other's states, and which
readouts are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.analysis import Analysis, Interchange
from ctlpp.analysis.geometry import SILHOUETTE, Clustering
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.figures.style import (
    DARK,
    DOUBLE,
    IID,
    OOD,
    SINGLE,
    SIZE,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    function_colours,
    group_colours,
    new_figure,
    new_panels,
    swarm,
)

FRAMED = "framed: pairs that only the test has"
STRIP = 0.05  # height of the strip of group colours, as a share of the matrix
NAME = 0.33  # cm, for the name of a function beside a matrix


@dataclass(frozen=True, eq=False)
class Answers:
    """How often one seed is right with a symbol in between, by the second function's group."""

    inputs: Inputs
    title: str
    value: int  # the symbol
    groups: Array  # by the first function's group, (G, G); nan where no graph has such pairs
    clusters: Array | None  # by the cluster of its readout, (clusters, G)
    sizes: tuple[int, ...] = ()  # of the clusters

    @staticmethod
    def of(analysis: Analysis, row: int, value: int, title: str) -> Answers:
        """Those of one seed of an analysis."""
        inputs, right = analysis.inputs, asked_only(analysis.right[[row]], analysis.inputs)
        groups = inputs.means(right)[0][0, value]
        if analysis.clusters is None:
            return Answers(inputs, title, value, groups, None)
        labels = analysis.clusters[row][value].labels
        clusters = inputs.means(right, labels)[0][0, value]
        return Answers(inputs, title, value, groups, clusters, tuple(np.bincount(labels).tolist()))


def asked_only(right: Array, inputs: Inputs) -> Array:
    """Pairs that neither graph has are nan: nobody asks for them. (S, F, F, symbols)"""
    return np.where(inputs.train | inputs.ood, right.astype(float), np.nan)


def draw_accuracy(seeds: Sequence[Answers]) -> Figure:
    """For each seed and one symbol: cluster × group and group × group accuracy (as Fig. 6 of the paper)."""
    figure = new_figure(DOUBLE, 6.0)
    widths = [1.0] * (len(seeds) - 1) + [1.14]  # the last has the colour scale
    parts = figure.subfigures(1, len(seeds), squeeze=False, width_ratios=widths)[0]
    for part, seed in zip(parts, seeds, strict=True):
        left, right = part.subplots(1, 2)
        part.suptitle(seed.title)
        inputs, symbol = seed.inputs, f"symbol {seed.inputs.task.symbols[seed.value]}"
        image = _draw_table(right, seed.groups[None], inputs.groups, inputs)
        for a, b in zip(*np.nonzero(inputs.any_by_group(inputs.ood)), strict=True):
            _frame(right, b, a, 1, 1)
        right.set(ylabel="first function's group", xlabel="second's group", title=symbol)
        if seed.clusters is None:
            left.set_axis_off()
            continue
        names = [f"C{number + 1} ({size})" for number, size in enumerate(seed.sizes)]
        _draw_table(left, seed.clusters[None], names, inputs)
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


def draw_compatibility(analysis: Analysis, rows: Sequence[int], value: int, titles: Sequence[str]) -> Figure:
    """For one symbol in between: which second function understands which first one."""
    inputs = analysis.inputs
    order = np.argsort(inputs.group_of, kind="stable")
    names = np.array([*inputs.task.functions])[order].tolist()
    sizes = np.bincount(inputs.group_of, minlength=len(inputs.groups))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width = DOUBLE if len(rows) > 1 else SINGLE
    figure = new_figure(width, width / len(rows) + 1.2)
    grid = figure.subplots(1, len(rows), squeeze=False)[0]
    for axes, row, title in zip(grid, rows, titles, strict=True):
        asked = asked_only(analysis.right[[row]], inputs)
        right = inputs.by_value(asked)[0, value][np.ix_(order, order)]
        draw_matrix(axes, right, names, names, colours=function_colours(inputs.task.groups))
        axes.set_box_aspect(1)
        _name_groups(axes, inputs, sizes, width / len(rows) - 1.5)
        for at in starts[1:-1] - 0.5:
            axes.axhline(at, color="white", linewidth=0.8)
            axes.axvline(at, color="white", linewidth=0.8)
        for a, b in zip(*np.nonzero(inputs.any_by_group(inputs.ood)), strict=True):
            _frame(axes, starts[b], starts[a], sizes[b], sizes[a])
        axes.set(xlabel="second function", ylabel="first function", title=title)
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
    figure, grid = new_panels(count, min(4, count), 5.3, 1.6)
    for value, axes in enumerate(grid.flat[:count]):
        image = _draw_seed(axes, seed, value)
        axes.set_title(_name_symbol(seed, value), pad=14)
    colour_bar(figure, image, grid, "cosine similarity", location="bottom", shrink=0.3, aspect=25)
    figure.suptitle(seed.title)
    return figure


def draw_side_by_side(seeds: Sequence[Matrices], value: int) -> Figure:
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


def _draw_seed(axes: Axes, seed: Matrices, value: int, room: float = 0.0) -> object:
    """A matrix in the order of its tree, with lines between clusters and a strip of group colours above.

    Colours go from 0 to 1, as on the page of `ctlpp report`; what is negative looks like 0.
    room: cm for the functions' names, which are left out if they would stand too close.
    """
    one, inputs, size = seed.clusters[value], seed.inputs, seed.inputs.n_functions
    cosines, shades = seed.cosines[value][np.ix_(one.order, one.order)], group_colours(inputs.groups)
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


def _name_symbol(seed: Matrices, value: int) -> str:
    count = seed.clusters[value].count
    found = "no clear split" if count == 1 else f"{count} clusters"
    score = seed.clusters[value].silhouette
    measured = f"{floor(100 * score) / 100:.2f} < {SILHOUETTE}" if score < SILHOUETTE else f"{score:.2f}"
    measured = f"\n(silhouette {measured})" if np.isfinite(score) else ""
    return f"symbol {seed.inputs.task.symbols[value]}: {found}{measured}"
