"""The grid of variant S: OOD accuracy by shared functions and shared symbols.

Example:
    >>> cells = [Cell("ndr", 16, 6, {0: 1.0, 1: 0.98}), Cell("ndr", 4, 2, {0: 0.2, 1: 0.3})]
    >>> draw_staged(cells).axes[0].get_title()
    'NDR'
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ctlpp.figures.style import DOUBLE, colour_bar, draw_matrix, new_figure
from ctlpp.files import UserError
from ctlpp.statistics.published import STAGED, TITLES
from ctlpp.words import plural

ACROSS = 3  # panels at most


@dataclass(frozen=True)
class Cell:
    """OOD accuracies of the seeds of one run on S; a seed that diverged has that at which it was frozen."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: Mapping[int, float]  # by seed
    diverged: AbstractSet[int] = frozenset()


def draw_staged(cells: Sequence[Cell]) -> Figure:
    """A panel for each model: mean ± std of the seeds of each cell, above the published claim.

    Seeds that diverged count, and a note below says how many they are.
    """
    if not cells:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    grid = {(cell.model, cell.shared_functions, cell.shared_symbols): cell for cell in cells}
    known = {cell.model for cell in cells}
    models = [model for model in TITLES if model in known] + sorted(known - {*TITLES})
    functions, symbols = sorted({many for _, many, _ in grid}), sorted({few for _, _, few in grid})
    across = min(ACROSS, len(models), max(1, int(15 / len(symbols))))
    down = -(-len(models) // across)
    figure = new_figure(DOUBLE, (2.6 + 0.85 * len(functions)) * down + 0.3)
    panels = figure.subplots(down, across, squeeze=False)
    for axes in panels.flat[len(models) :]:
        axes.set_axis_off()
    for model, axes in zip(models, panels.flat, strict=False):
        mean, texts = (
            np.full((len(functions), len(symbols)), np.nan),
            [[""] * len(symbols) for _ in functions],
        )
        for i, j in np.ndindex(mean.shape):
            if cell := grid.get((model, functions[i], symbols[j])):
                values = [*cell.accuracies.values()]
                mean[i, j] = np.mean(values)
                spread = f"\n± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
                texts[i][j] = f"{mean[i, j]:.2f}{spread}"
        image = draw_matrix(axes, mean, [*map(str, functions)], [*map(str, symbols)], texts=texts)
        claim = textwrap.wrap(STAGED.get(model, ""), 100 // across)
        axes.set(title=TITLES.get(model, model), xlabel="\n".join(["shared symbols", "", *claim]))
    for axes in panels[:, 0]:
        axes.set_ylabel("shared functions")
    colour_bar(figure, image, panels, "OOD accuracy")
    if diverged := sum(len(cell.diverged) for cell in cells):
        count = f"{diverged} of {plural(sum(len(cell.accuracies) for cell in cells))}"
        figure.supxlabel(
            f"diverged, and counted with the accuracy at which it was frozen: {count}", fontsize=6
        )
    return figure
