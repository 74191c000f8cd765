"""The grid of variant S: OOD accuracy by shared functions and shared symbols, for any set of runs.

Example:
    >>> cells = [Cell("ndr", 16, 6, (1.0, 0.98)), Cell("ndr", 4, 2, (0.2, 0.3))]
    >>> figure = draw_staged(cells)
    >>> [axes.get_title() for axes in figure.axes][:1]
    ['NDR']
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ctlpp.figures.style import DOUBLE, colour_bar, heat, label, new_figure, write_numbers

TITLES = {"ndr": "NDR", "transformer": "Transformer", "lstm": "Bi-LSTM"}
CLAIMS = {  # what the paper says of its grid, whose numbers were never published
    "ndr": "published: 1.00 only with 16 shared functions and 6 shared symbols",
    "transformer": "published: below NDR with few shared functions, above it with 16",
    "lstm": "published: below NDR with few shared functions, far below with 16",
}


@dataclass(frozen=True)
class Cell:
    """The OOD accuracies of the seeds of one run on S."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: tuple[float, ...]


def read_cell(folder: Path) -> Cell | None:
    """The cell of a finished run folder; None if it is no run on S."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        task = config["task"]
        knobs = int(task["shared_functions"]), int(task["shared_symbols"])
        accuracies = tuple(float(seed["accuracy"]["ood"]) for seed in result["seeds"] if not seed["diverged"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Cell(str(config["model"]), *knobs, accuracies) if accuracies else None


def draw_staged(cells: Iterable[Cell]) -> Figure:
    """One panel a model: mean ± std of the seeds of all runs that fall into a cell, above the published claim."""
    cells = list(cells)
    if not cells:
        raise ValueError("no finished runs on variant S: nothing to put into the grid")
    models = sorted({cell.model for cell in cells}, key=lambda m: (list(TITLES).index(m) if m in TITLES else 9, m))
    functions = sorted({cell.shared_functions for cell in cells})
    symbols = sorted({cell.shared_symbols for cell in cells})
    height = 3.0 + 0.85 * len(functions)
    figure = new_figure(DOUBLE, height)
    grid = figure.add_gridspec(
        1, len(models), left=0.085, right=0.9, bottom=1.9 / height, top=1 - 0.6 / height, wspace=0.12
    )
    image = None
    for i, model in enumerate(models):
        axes = figure.add_subplot(grid[i])
        mean, texts = _fill(cells, model, functions, symbols)
        image = heat(axes, mean)
        label(axes, [str(n) for n in functions] if i == 0 else [""] * len(functions), [str(n) for n in symbols])
        write_numbers(axes, mean, texts, min(6.0, 40 / (len(models) * len(symbols)) + 2.8))
        axes.set_title(TITLES.get(model, model))
        axes.set_xlabel("shared symbols")
        claim = _wrap(CLAIMS.get(model, ""), 96 // len(models))
        middle = (axes.get_position().x0 + axes.get_position().x1) / 2
        figure.text(middle, 0.95 / height, claim, ha="center", va="top", fontsize=6, linespacing=1.4)
        if i == 0:
            axes.set_ylabel("shared functions")
    colour_bar(figure, image, (0.915, 1.9 / height, 0.012, 1 - 2.5 / height), "OOD accuracy")
    return figure


def _fill(
    cells: Sequence[Cell], model: str, functions: Sequence[int], symbols: Sequence[int]
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], list[list[str]]]:
    mean = np.full((len(functions), len(symbols)), np.nan)
    texts = [[""] * len(symbols) for _ in functions]
    for (i, many), (j, few) in ((a, b) for a in enumerate(functions) for b in enumerate(symbols)):
        same = [c for c in cells if (c.model, c.shared_functions, c.shared_symbols) == (model, many, few)]
        values = np.array([accuracy for cell in same for accuracy in cell.accuracies])
        if len(values):
            mean[i, j] = values.mean()
            spread = f"\n± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
            texts[i][j] = f"{values.mean():.2f}{spread}"
    return mean, texts


def _wrap(text: str, width: int) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, max(20, width)))
