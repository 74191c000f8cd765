"""Functions beside functions: which pairs are right, who understands whom, and whose readouts are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ctlpp.analysis.analysis import Analysis, Interchange
from ctlpp.analysis.geometry import Clustering
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.figures.style import (
    DARK,
    DOUBLE,
    IID,
    OOD,
    SINGLE,
    accuracy_axis,
    colour_bar,
    draw_matrix,
    explain,
    function_colours,
    group_colours,
    new_figure,
    new_panels,
    swarm,
)
from ctlpp.words import plural

FRAMED = "framed: pairs that only the test has"
STRIP = 0.05  # height of the strip of group colours, as a share of the matrix
LEGIBLE = 4.0  # points: smaller names are left out


def draw_accuracy(analysis: Analysis, rows: Sequence[int], value: int, titles: Sequence[str]) -> Figure:
    """For each seed: (group, group) over all symbols, and (cluster, group) for one symbol (as Fig. 6)."""
    inputs = analysis.inputs
    figure = new_figure(DOUBLE, 5.6)
    widths = [1.0] * (len(rows) - 1) + [1.14]  # the last has the colour scale
    parts = figure.subfigures(1, len(rows), squeeze=False, width_ratios=widths)[0]
    for part, row, title in zip(parts, rows, titles, strict=True):
        left, right = part.subplots(1, 2)
        part.suptitle(title)
        image = _draw_table(left, mean_by_groups(analysis.right[[row]], inputs), inputs.groups, inputs)
        for a, b in zip(*np.nonzero(inputs.any_by_group(inputs.ood)), strict=True):
            _frame(left, b, a, 1, 1)
        left.set(ylabel="group of the first function", xlabel="group of the second", title="all symbols")
        if analysis.clusters is None:
            right.set_axis_off()
            continue
        labels = analysis.clusters[row][value].labels
        table = inputs.means(analysis.right[[row]], labels)[0][:, value]  # (1, clusters, G)
        _draw_table(right, table, [f"{c + 1} ({many})" for c, many in enumerate(np.bincount(labels))], inputs)
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
        right = inputs.by_value(analysis.right[[row]])[0, value][np.ix_(order, order)]
        draw_matrix(axes, right, names, names, colours=function_colours(inputs.task.groups))
        axes.set_box_aspect(1)
        axes.tick_params(labelsize=min(6.0, 160 / len(names)), pad=1)
        for at in starts[1:-1] - 0.5:
            axes.axhline(at, color="white", linewidth=0.8)
            axes.axvline(at, color="white", linewidth=0.8)
        for a, b in zip(*np.nonzero(inputs.any_by_group(inputs.ood)), strict=True):
            _frame(axes, starts[b], starts[a], sizes[b], sizes[a])
        axes.set(xlabel="second function", ylabel="first function", title=title)
    between = f"symbol {inputs.task.symbols[value]} in between; bright: answered right"
    figure.supxlabel(f"{between}\n{FRAMED}", fontsize=6)
    return figure


def mean_by_groups(shares: Array, inputs: Inputs) -> Array:
    """Means over all symbols by group of the first and of the second. (S, F, F, symbols) -> (S, G, G)"""
    return np.asarray(inputs.means(shares)[0].mean(axis=1))


def draw_interchange(inputs: Inputs, found: Interchange, counted: Array) -> Figure:
    """Left: donor group × consumer group, mean ± std over the seeds. Right: by symbol, known and new pairs.

    counted: which seeds are shown, (S,) bool.
    """
    exchanged = found.right["none"][counted]
    figure = new_figure(DOUBLE, 6.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    image = _draw_table(left, mean_by_groups(exchanged, inputs), inputs.groups, inputs)
    left.set(ylabel="donor's group", xlabel="consumer's group", title="interchange accuracy, all symbols")
    colour_bar(figure, image, left)
    kinds = {"known in training": (inputs.train, IID), "new in the test": (inputs.ood, OOD)}
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


def draw_places(found: Interchange, counted: Array) -> Figure:
    """The effect of changing the state at every place, mean over the seeds, and the place of each seed."""
    effect = found.effect[counted].mean(axis=0)  # (L, K)
    counts = np.zeros(effect.shape, dtype=int)
    np.add.at(counts, tuple(found.position[counted].T), 1)
    texts = [
        [f"{e:.2f}" + f" ({n})" * bool(n) for e, n in zip(*both, strict=True)]
        for both in zip(effect, counts, strict=True)
    ]
    figure = new_figure(SINGLE, 2.4 + 0.5 * len(effect))
    axes = figure.subplots()
    levels = [str(i + 1) for i in range(len(effect))]
    image = draw_matrix(axes, effect, levels, found.changed, texts=texts, size=5)
    axes.set_ylabel("layer" if found.kind == "columns" else "token read")
    axes.set_xlabel({"columns": "column", "steps": "", "directions": "direction"}[found.kind])
    lines = ["effect of changing the state there", "(in brackets: seeds whose place it is)"]
    axes.set_title("\n".join([*lines, *_left_out(counted)]))
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
    figure, grid = new_panels(count, min(4, count), 4.5, 1.6)
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
