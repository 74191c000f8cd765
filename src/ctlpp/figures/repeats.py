"""Do repeated sequences in the training data change what is learned? Distinct against repeated, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from ctlpp.figures.crowds import mean_over
from ctlpp.figures.seeds import Dots, draw_dots, draw_published, key
from ctlpp.figures.style import COLOURS, DARK, DOUBLE, new_figure
from ctlpp.figures.table1 import TITLES
from ctlpp.runs.history import History
from ctlpp.statistics.published import SEEDS, SOLVED

KINDS = {"distinct": COLOURS[0], "repeated": COLOURS[1]}


@dataclass(frozen=True)
class Pair:
    """One cell, trained on data with distinct and with repeated sequences."""

    model: str
    variant: str
    dots: dict[str, Dots]  # OOD accuracies by kind
    curves: dict[str, History]
    published: tuple[float, float] | None = None
    published_seeds: int = SEEDS


def draw_repeats(pairs: Sequence[Pair]) -> Figure:
    """A column a cell: OOD accuracy of every seed above, mean accuracies over time below."""
    figure = new_figure(DOUBLE, 8.8)
    grid = figure.add_gridspec(
        2, len(pairs), left=0.07, right=0.985, bottom=0.105, top=0.83, hspace=0.28, wspace=0.1
    )
    for column, pair in enumerate(pairs):
        above, below = (figure.add_subplot(grid[line, column]) for line in (0, 1))
        above.set_title(f"{TITLES.get(pair.model, pair.model)} on {pair.variant}")
        for at, (kind, colour) in enumerate(KINDS.items()):
            draw_dots(above, at, pair.dots[kind], colour)
            history = pair.curves.get(kind)
            if history is not None:
                for split, line in (("iid", "--"), ("ood", "-")):
                    if (split, 0) in history.accuracy:
                        curve = mean_over(history.accuracy[split, 0])
                        below.plot(history.steps / 1000, curve, line, color=colour, linewidth=1.2)
        if pair.published:
            draw_published(above, -0.6, pair.published, pair.published_seeds)
        above.axhline(SOLVED, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
        above.set_xticks(range(len(KINDS)), list(KINDS))
        above.set(xlim=(-0.9, 1.5), ylim=(-0.03, 1.04))
        below.set(ylim=(-0.03, 1.04), xlabel="training step (thousands)")
        for axes, name in ((above, "OOD accuracy"), (below, "mean accuracy")):
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel(name)
    named = {f"a seed, {kind} sequences": colour for kind, colour in KINDS.items()}
    handles, labels = key(figure.axes[0], named, published=any(pair.published for pair in pairs))
    for name, line in (("IID", "--"), ("OOD", "-")):
        handles += figure.axes[1].plot([], [], line, color=DARK, linewidth=1.2)
        labels.append(f"{name}, mean of the seeds over time")
    figure.legend(handles, labels, loc="upper center", ncols=3, bbox_to_anchor=(0.53, 0.995))
    return figure
