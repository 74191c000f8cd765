"""Rows of dots: the seeds of one run a row, what is said of them on the right.

Example:
    >>> row = Row("clean", Dots((0.5, 1.0), 0.75), "black", notes=("1 of 2",))
    >>> axes = draw_strips([Panel("NDR on R", [row], ("above 0.95",))]).axes[0]
    >>> {"above 0.95", "1 of 2"} <= {text.get_text() for text in axes.texts}
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.style import DARK, DOUBLE, PUBLISHED, new_figure, swarm
from ctlpp.statistics.published import SEEDS, SOLVED
from ctlpp.statistics.summary import spread_interval

ROW = 0.54  # cm
NOTE, FIRST = 42, 6  # points: between the columns on the right, and before the first
MEAN: Any = {"marker": "s", "markersize": 3.4, "markeredgecolor": DARK, "markeredgewidth": 0.6}


@dataclass(frozen=True)
class Dots:
    """Accuracies of the seeds of one run, their mean and its interval."""

    values: tuple[float, ...]
    mean: float | None
    interval: tuple[float, float] | None = None  # None for few seeds
    left_out: tuple[float, ...] = ()  # seeds that do not count


@dataclass(frozen=True)
class Row:
    """One run, or a published mean and its standard deviation; neither for a heading."""

    label: str
    dots: Dots | None = None
    colour: str = DARK
    marker: str = "o"
    notes: tuple[str, ...] = ()
    published: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """Rows with a title, and what stands above the columns on their right."""

    title: str
    rows: Sequence[Row]
    heads: tuple[str, ...] = ()


def draw_strips(panels: Sequence[Panel], x: str = "OOD accuracy", chance: float = 0) -> Figure:
    """Panels side by side, whose rows have the same labels; they stand left of the first."""
    figure = new_figure(DOUBLE, 1.9 + ROW * max(len(panel.rows) for panel in panels))
    for column, axes in enumerate(figure.subplots(1, len(panels), squeeze=False)[0]):
        panel = panels[column]
        axes.set_title(panel.title, loc="left", weight="bold", pad=12)
        for at, row in enumerate(panel.rows):
            _draw_row(axes, at, row)
        for at, head in enumerate(panel.heads):
            _write(axes, at, -0.75, head)
        for place, name in ((SOLVED, f"{SOLVED}"), (chance, "chance")):
            if place:
                axes.axvline(place, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
                axes.text(place, -0.75, name, va="center", ha="center", color=DARK)
        axes.set(xlim=(-0.03, 1.04), ylim=(len(panel.rows) - 0.4, -0.6), xlabel=x)
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(panel.rows)), [row.label if column == 0 else "" for row in panel.rows])
        for row, label in zip(panel.rows, axes.get_yticklabels(), strict=True):
            label.set_color(row.colour if row.dots else DARK)
            label.set_weight("normal" if row.dots or row.published else "bold")
    return figure


def _draw_row(axes: Axes, at: int, row: Row) -> None:
    """Dots, hollow if they do not count, above their mean with its interval; or a published mean."""
    for column, note in enumerate(row.notes):
        _write(axes, column, at, note)
    if row.published:
        axes.plot(spread_interval(row.published, SEEDS), [at, at], color=PUBLISHED, linewidth=0.9)
        axes.plot([row.published[0]], [at], color=PUBLISHED, **{**MEAN, "marker": "D"})
    if row.dots is None:
        return
    every, counted = (*row.dots.values, *row.dots.left_out), len(row.dots.values)
    heights = at - 0.1 + swarm(every, 0.26)
    look: Any = {"color": row.colour, "marker": row.marker, "linestyle": "", "markersize": 2.8, "alpha": 0.6}
    axes.plot(row.dots.values, heights[:counted], **look, markeredgewidth=0)
    axes.plot(row.dots.left_out, heights[counted:], **look, markerfacecolor="none", markeredgewidth=0.6)
    if row.dots.interval is not None:
        axes.plot(row.dots.interval, [at + 0.36] * 2, color=DARK, linewidth=0.9, zorder=3)
    if row.dots.mean is not None:
        axes.plot([row.dots.mean], [at + 0.36], color=row.colour, zorder=4, **MEAN)


def _write(axes: Axes, column: int, at: float, text: str) -> None:
    """A note right of the dots."""
    place: Any = {"xy": (1, at), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    axes.annotate(text, xytext=(FIRST + NOTE * column, 0), va="center", color=DARK, **place)
