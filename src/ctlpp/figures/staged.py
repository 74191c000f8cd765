"""The grid of variant S: OOD accuracy by shared functions and shared symbols, for any set of runs.

Example:
    >>> cells = [Cell("ndr", 16, 6, {0: 1.0, 1: 0.98}), Cell("ndr", 4, 2, {0: 0.2, 1: 0.3})]
    >>> figure = draw_staged(cells)
    >>> [axes.get_title() for axes in figure.axes][:1]
    ['NDR']
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ctlpp.figures.style import DOUBLE, colour_bar, heat, label, new_figure, write_numbers
from ctlpp.files import UserError
from ctlpp.statistics.published import STAGED, TITLES
from ctlpp.training.recipe import watching
from ctlpp.words import plural

ABOVE, LINE, BELOW = (
    0.6,
    0.33,
    1.1,
)  # cm: a panel's title, a line of its claim or of the note on all, its axis
CELL = 0.85  # cm: a cell's height
NARROWEST = 0.8  # cm: the width that "± 0.27" needs
LEFT, RIGHT, GAP = 1.35, 1.6, 0.45  # cm


@dataclass(frozen=True)
class Cell:
    """The OOD accuracies of the seeds of one run on S; of a seed that diverged, that at which it was frozen."""

    model: str
    shared_functions: int
    shared_symbols: int
    accuracies: Mapping[int, float]  # by seed; one that two runs of a place have counts once
    diverged: AbstractSet[int] = frozenset()  # those of them that did
    setting: dict[str, Any] = field(default_factory=dict)  # what the runs of a grid must have in common


def read_cell(folder: Path) -> Cell | None:
    """The cell of a finished run folder; None if it is no run on S."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        task = config["task"]
        knobs = int(task["shared_functions"]), int(task["shared_symbols"])
        scored = [seed for seed in result["seeds"] if "ood" in seed["accuracy"]]
        accuracies = {int(seed["seed"]): float(seed["accuracy"]["ood"]) for seed in scored}
        diverged = {int(seed["seed"]) for seed in scored if seed["diverged"]}
        setting = _setting(config)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Cell(str(config["model"]), *knobs, accuracies, diverged, setting) if accuracies else None


def _setting(config: dict[str, Any]) -> dict[str, Any]:
    """Preset and data, which all runs of a grid share, and what those of one model share."""
    task = config["task"]
    sizes = {"functions": len(task["functions"]), "symbols": len(task["symbols"])}
    data = {
        "data seed": task["seed"],
        "order": task["order"],
        "distinct_sequences": "all",
        **task.get("recipe", {}),
    }
    free = watching(config["recipe"])
    own = {k: v for k, v in (config["options"] | config["recipe"]).items() if k not in free}
    return {
        "preset": config["preset"],
        "protocol": config["protocol"],
        **sizes,
        **data,
        **{f"{name} of {config['model']}": value for name, value in own.items()},
    }


def check_settings(cells: Iterable[Cell]) -> None:
    """Raise UserError if the runs are not of one setting."""
    known: dict[str, Any] = {}
    for cell in cells:
        for name, value in cell.setting.items():
            if known.setdefault(name, value) != value:
                raise UserError(
                    f"a grid shows runs of one setting, but these differ: {name} {known[name]} and {value};"
                    " draw a grid for each"
                )


def draw_staged(cells: Iterable[Cell]) -> Figure:
    """One panel a model: mean ± std of the seeds of all runs that fall into a cell, above the published claim.

    Seeds that diverged count, and a note below says how many they are.
    """
    cells = list(cells)
    if not cells:
        raise UserError("no finished runs on variant S: nothing to put into the grid")
    check_settings(cells)
    models = sorted(
        {cell.model for cell in cells}, key=lambda m: (list(TITLES).index(m) if m in TITLES else 9, m)
    )
    functions = sorted({cell.shared_functions for cell in cells})
    symbols = sorted({cell.shared_symbols for cell in cells})
    room = DOUBLE - LEFT - RIGHT
    across = min(3, len(models), max(1, int((room + GAP) / (NARROWEST * len(symbols) + GAP))))
    wide, high = (room + GAP) / across - GAP, CELL * len(functions)
    claims = [textwrap.wrap(STAGED.get(model, ""), int(wide / 0.128)) for model in models]
    rows = [max(map(len, claims[i : i + across])) for i in range(0, len(models), across)]  # lines below each
    note = _note(cells)
    height = sum(ABOVE + high + BELOW + LINE * lines for lines in rows) + 2 * LINE * bool(note)
    figure = new_figure(DOUBLE, height)
    image, top = None, height
    for i, model in enumerate(models):
        row, column = divmod(i, across)
        if column == 0:
            bottom = top - ABOVE - high
            top = bottom - BELOW - LINE * rows[row]
        left = LEFT + column * (wide + GAP)
        axes = figure.add_axes((left / DOUBLE, bottom / height, wide / DOUBLE, high / height))
        mean, texts = _fill(cells, model, functions, symbols)
        image = heat(axes, mean)
        label(
            axes,
            [str(n) for n in functions] if column == 0 else [""] * len(functions),
            [str(n) for n in symbols],
        )
        write_numbers(axes, mean, texts, min(6.0, 6.5 * wide / len(symbols)))
        axes.set_title(TITLES.get(model, model))
        axes.set_xlabel("shared symbols")
        if column == 0:
            axes.set_ylabel("shared functions")
        place = (left + wide / 2) / DOUBLE, (bottom - BELOW + 0.15) / height
        figure.text(*place, "\n".join(claims[i]), ha="center", va="top", fontsize=6, linespacing=1.4)
    box = ((DOUBLE - RIGHT + 0.25) / DOUBLE, (height - ABOVE - high) / height, 0.012, high / height)
    colour_bar(figure, image, box, "OOD accuracy")
    if note:
        figure.text(LEFT / DOUBLE, LINE / 2 / height, note, va="bottom", fontsize=6)
    return figure


def _fill(
    cells: Sequence[Cell], model: str, functions: Sequence[int], symbols: Sequence[int]
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], list[list[str]]]:
    mean = np.full((len(functions), len(symbols)), np.nan)
    texts = [[""] * len(symbols) for _ in functions]
    for (i, many), (j, few) in ((a, b) for a in enumerate(functions) for b in enumerate(symbols)):
        same = [c for c in cells if (c.model, c.shared_functions, c.shared_symbols) == (model, many, few)]
        values = np.array([*_by_seed(same).values()])
        if len(values):
            mean[i, j] = values.mean()
            spread = f"\n± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
            texts[i][j] = f"{values.mean():.2f}{spread}"
    return mean, texts


def _by_seed(cells: Sequence[Cell]) -> dict[int, float]:
    """The accuracies of the runs of one place; those of a seed that several have are those of the first."""
    return {seed: own for cell in reversed(cells) for seed, own in cell.accuracies.items()}


def _note(cells: Sequence[Cell]) -> str:
    """How many seeds diverged, and how they count; nothing if none did."""
    places = {
        (cell.model, cell.shared_functions, cell.shared_symbols, seed): seed in cell.diverged
        for cell in reversed(cells)
        for seed in cell.accuracies
    }
    few, many = sum(places.values()), plural(len(places), "seed")
    return f"Diverged, and counted with the accuracy at which it was frozen: {few} of {many}" if few else ""
