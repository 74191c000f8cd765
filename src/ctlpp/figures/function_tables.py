"""Does the function table matter? OOD accuracy of seeds on several tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from ctlpp.figures.seeds import Dots, draw_dots
from ctlpp.figures.style import COLOURS, DARK, DOUBLE, new_figure
from ctlpp.statistics.published import SOLVED


def draw_tables(panels: Mapping[str, Sequence[tuple[int, Dots]]]) -> Figure:
    """A panel for each title: (number of the table, its seeds) side by side; the line is the mean of the tables."""
    figure = new_figure(DOUBLE, 5.6)
    grid = figure.add_gridspec(1, len(panels), left=0.07, right=0.985, bottom=0.17, top=0.9, wspace=0.08)
    for column, (title, tables) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[column])
        for at, (_, dots) in enumerate(tables):
            draw_dots(axes, at, dots, COLOURS[0])
        means = [dots.mean for _, dots in tables if dots.mean is not None]
        if means:
            axes.axhline(sum(means) / len(means), color=COLOURS[1], linewidth=0.8, zorder=1)
        axes.axhline(SOLVED, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
        axes.set_xticks(range(len(tables)), [str(number) for number, _ in tables])
        axes.set(xlim=(-0.6, len(tables) - 0.4), ylim=(-0.03, 1.04), xlabel="function table (data seed)")
        axes.set_title(title)
        if column:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("OOD accuracy")
    return figure
