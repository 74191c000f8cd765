"""The table as a figure: every seed of each model on A and R under each protocol, beside the published mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.seeds import BANDS, Dots, draw_dots, draw_published, key
from ctlpp.figures.style import COLOURS, DARK, DOUBLE, new_figure

TITLES = {"lstm": "Bi-LSTM", "transformer": "Transformer", "ndr": "NDR"}
PROTOCOLS = {"released": COLOURS[0], "paper": COLOURS[3]}


@dataclass(frozen=True)
class Entry:
    """One cell of the table."""

    model: str
    variant: str
    protocol: str
    dots: dict[str, Dots]  # by split
    published: dict[str, tuple[float, float]] | None = None  # by split: mean and standard deviation
    published_seeds: int = 25


def draw_table1(entries: Sequence[Entry]) -> Figure:
    """A column of panels a variant: IID accuracy above, OOD accuracy below."""
    variants = sorted({entry.variant for entry in entries})
    models = [model for model in TITLES if any(entry.model == model for entry in entries)]
    protocols = [name for name in PROTOCOLS if any(entry.protocol == name for entry in entries)]
    figure = new_figure(DOUBLE, 8.6)
    grid = figure.add_gridspec(
        2, len(variants), left=0.07, right=0.99, bottom=0.065, top=0.87, hspace=0.1, wspace=0.1, height_ratios=(1, 2.6)
    )
    first: Axes | None = None
    for column, variant in enumerate(variants):
        for line, split in enumerate(("iid", "ood")):
            axes = figure.add_subplot(grid[line, column])
            first = first or axes
            chosen = [entry for entry in entries if entry.variant == variant]
            _panel(axes, chosen, split, models, protocols)
            axes.set_xticks(range(len(models)), [TITLES[model] for model in models] if line else [])
            if line == 0:
                axes.set_title(f"variant {variant}")
            if column == 0:
                axes.set_ylabel(f"{split.upper()} accuracy")
            else:
                axes.tick_params(labelleft=False)
    assert first is not None
    named = {f"a seed, protocol {name}": PROTOCOLS[name] for name in protocols}
    handles, labels = key(first, named, published=any(entry.published for entry in entries))
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), bbox_to_anchor=(0.53, 0.995))
    return figure


def _panel(axes: Axes, entries: Sequence[Entry], split: str, models: Sequence[str], protocols: Sequence[str]) -> None:
    slots = len(protocols) + 0.5  # the published mark takes half a place
    wide = 0.92 / slots
    for at, model in enumerate(models):
        if at % 2 == 0:
            axes.axvspan(at - 0.5, at + 0.5, color=BANDS, linewidth=0, zorder=0)
        own = {entry.protocol: entry for entry in entries if entry.model == model}
        left = at - 0.46
        known = next((entry for entry in own.values() if entry.published), None)
        if known and known.published:
            draw_published(axes, left + wide * 0.25, known.published[split], known.published_seeds)
        for number, protocol in enumerate(protocols):
            if protocol in own:
                middle = left + wide * (1.0 + number)
                draw_dots(axes, middle, own[protocol].dots[split], PROTOCOLS[protocol], wide * 0.46)
    if split == "ood":
        axes.axhline(0.95, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
    axes.set(xlim=(-0.5, len(models) - 0.5), ylim=(-0.03, 1.04 if split == "ood" else 1.12))
    axes.tick_params(axis="x", length=0)
