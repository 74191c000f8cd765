"""Seeds as dots: every one of a set, with their mean, its interval, and a published mean beside them.

Example:
    >>> swarm([0.5, 1.0, 1.0, 1.0], 0.3).tolist()
    [0.0, -0.06, 0.0, 0.06]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ctlpp.figures.style import DARK, GREY
from ctlpp.statistics.summary import spread_interval

BIN = 0.025  # of accuracy: dots nearer than this stand side by side
STEP = 0.06  # between them, at most
BANDS = "#f4f4f4"


@dataclass(frozen=True)
class Dots:
    """Accuracies of the seeds of one cell, their mean and its interval."""

    values: tuple[float, ...]
    mean: float | None
    interval: tuple[float, float] | None = None  # None for one seed
    left_out: tuple[float, ...] = ()  # seeds that do not count


def swarm(values: Sequence[float], width: float) -> NDArray[Any]:
    """A sideways shift of every dot, within ± width, so that equal ones can be told apart."""
    found = np.zeros(len(values))
    bins = np.floor(np.asarray(values, dtype=float) / BIN + 1e-9).astype(int)
    for one in np.unique(bins):
        places = np.flatnonzero(bins == one)
        places = places[np.argsort(np.asarray(values)[places], kind="stable")]
        half = min(width, STEP * (len(places) - 1) / 2)
        found[places] = np.linspace(-half, half, len(places)) if len(places) > 1 else 0.0
    return found


def draw_dots(axes: Axes, at: float, dots: Dots, colour: str, width: float = 0.28, size: float = 3.2) -> None:
    """Dots around a place, hollow if they do not count, and right of them the mean (a bar) with its interval."""
    every = (*dots.values, *dots.left_out)
    places, counted = at - width * 0.3 + swarm(every, width * 0.62), len(dots.values)
    full: Any = {"color": colour, "markersize": size, "alpha": 0.55}
    axes.plot(places[:counted], dots.values, "o", **full, markeredgewidth=0)
    axes.plot(places[counted:], dots.left_out, "o", **full, markerfacecolor="none", markeredgewidth=0.6)
    if dots.mean is None:
        return
    beside = at + width * 0.78
    if dots.interval is not None:
        axes.plot(
            [beside, beside], dots.interval, "-", color=DARK, linewidth=0.9, solid_capstyle="butt", zorder=3
        )
    axes.plot(
        [beside],
        [dots.mean],
        "s",
        color=colour,
        markersize=3.6,
        markeredgecolor=DARK,
        markeredgewidth=0.6,
        zorder=4,
    )


def draw_published(axes: Axes, at: float, row: tuple[float, float], seeds: int) -> None:
    """A published mean with the 95 % interval that its standard deviation allows."""
    axes.plot([at, at], spread_interval(row, seeds), "-", color=GREY, linewidth=0.9, solid_capstyle="butt")
    axes.plot(
        [at],
        [row[0]],
        "D",
        color="white",
        markersize=3.6,
        markeredgecolor=DARK,
        markeredgewidth=0.7,
        zorder=4,
    )


def key(axes: Axes, colours: dict[str, str], published: bool = True) -> tuple[list[Any], list[str]]:
    """What the marks mean, for a legend."""
    handles, labels = [], []
    for name, colour in colours.items():
        handles += axes.plot([], [], "o", color=colour, markersize=3.2, alpha=0.7, markeredgewidth=0)
        labels.append(name)
    handles += axes.plot([], [], "s-", color=DARK, markersize=3.4, markerfacecolor="white", linewidth=0.9)
    labels.append("mean, 95 % interval")
    if published:
        handles += axes.plot(
            [],
            [],
            "D-",
            color=GREY,
            markersize=3.4,
            markerfacecolor="white",
            markeredgecolor=DARK,
            linewidth=0.9,
        )
        labels.append("published")
    return handles, labels
