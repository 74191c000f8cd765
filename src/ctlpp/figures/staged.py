"""The grid of variant S: OOD accuracy by shared functions and shared symbols.

Example:
    >>> cells = [Cell("ndr", 16, 6, {0: 1.0, 1: 0.98}), Cell("ndr", 4, 2, {0: 0.2, 1: 0.3})]
    >>> draw_staged(cells).axes[0].get_title()
    'NDR'
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ctlpp.figures.style import DOUBLE, colour_bar, draw_matrix, new_figure
from ctlpp.files import UserError
from ctlpp.statistics.published import STAGED, TITLES
from ctlpp.words import plural

ACROSS = 3  # panels at most
Seeds = dict[int, tuple[float, bool]]  # seed -> OOD accuracy, and whether it diverged
Grid = dict[tuple[str, int, int], Seeds]  # by model, shared functions and shared symbols


@dataclass(frozen=True)
class Cell:
    """OOD accuracies of the seeds of one run on S; a seed that diverged has that at which it was frozen."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: Mapping[int, float]  # by seed
    diverged: AbstractSet[int] = frozenset()


def draw_staged(cells: Iterable[Cell]) -> Figure:
    """A panel for each model: mean ± std of all seeds of a cell, each once, above the published claim.

    Seeds that diverged count, and a note below says how many they are.
    """
    grid: Grid = {}
    for cell in cells:
        seeds = grid.setdefault((cell.model, cell.shared_functions, cell.shared_symbols), {})
        for seed, accuracy in cell.accuracies.items():
            seeds.setdefault(seed, (accuracy, seed in cell.diverged))
    if not grid:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    found = {model for model, _, _ in grid}
    models = [model for model in TITLES if model in found] + sorted(found - {*TITLES})
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
            if values := [one for one, _ in grid.get((model, functions[i], symbols[j]), {}).values()]:
                mean[i, j] = np.mean(values)
                spread = f"\n± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
                texts[i][j] = f"{mean[i, j]:.2f}{spread}"
        image = draw_matrix(axes, mean, [*map(str, functions)], [*map(str, symbols)], texts=texts)
        claim = textwrap.wrap(STAGED.get(model, ""), 100 // across)
        axes.set(title=TITLES.get(model, model), xlabel="\n".join(["shared symbols", "", *claim]))
    for axes in panels[:, 0]:
        axes.set_ylabel("shared functions")
    colour_bar(figure, image, panels, "OOD accuracy")
    every = [diverged for seeds in grid.values() for _, diverged in seeds.values()]
    if any(every):
        count = f"{sum(every)} of {plural(len(every))}"
        figure.supxlabel(
            f"diverged, and counted with the accuracy at which it was frozen: {count}", fontsize=6
        )
    return figure
