"""The main table as a figure: every seed of each model on A and R, on each kind of data, beside the published mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.figures.seeds import BANDS, Dots, draw_dots, draw_published, key
from ctlpp.figures.style import COLOURS, DARK, DOUBLE, GREY, new_figure
from ctlpp.statistics.published import SOLVED

TITLES = {"lstm": "Bi-LSTM", "transformer": "Transformer", "ndr": "NDR"}
LABELS = {
    "repeats": ("released with repeats", COLOURS[1]),
    "released": ("released", COLOURS[0]),
    "paper": ("paper", COLOURS[4]),
}  # of the kinds of data, in the order in which they stand


@dataclass(frozen=True)
class Entry:
    """A model on a variant, on one kind of data."""

    model: str
    variant: str
    kind: str
    dots: dict[str, Dots]  # by split
    published: dict[str, tuple[float, float]] | None = None  # by split: mean and standard deviation
    published_seeds: int = 25


def draw_table1(entries: Sequence[Entry]) -> Figure:
    """A column of panels a variant: IID accuracy above, OOD accuracy below."""
    variants = sorted({entry.variant for entry in entries})
    models = [model for model in TITLES if any(entry.model == model for entry in entries)]
    kinds = [kind for kind in LABELS if any(entry.kind == kind for entry in entries)]
    figure = new_figure(DOUBLE, 9.4)
    grid = figure.add_gridspec(
        2,
        len(variants),
        left=0.07,
        right=0.99,
        bottom=0.06,
        top=0.84,
        hspace=0.1,
        wspace=0.06,
        height_ratios=(1, 2.6),
    )
    for column, variant in enumerate(variants):
        for line, split in enumerate(("iid", "ood")):
            axes = figure.add_subplot(grid[line, column])
            _panel(axes, [entry for entry in entries if entry.variant == variant], split, models, kinds)
            axes.set_xticks(range(len(models)), [TITLES[model] for model in models] if line else [])
            if line == 0:
                axes.set_title(f"variant {variant}")
            if column == 0:
                axes.set_ylabel(f"{split.upper()} accuracy")
            else:
                axes.tick_params(labelleft=False)
    named = {f"a seed, {label}": colour for label, colour in (LABELS[kind] for kind in kinds)}
    handles, labels = key(figure.axes[0], named, published=any(entry.published for entry in entries))
    figure.legend(handles, labels, loc="upper center", ncols=3, bbox_to_anchor=(0.53, 0.995))
    return figure


def _panel(
    axes: Axes, entries: Sequence[Entry], split: str, models: Sequence[str], kinds: Sequence[str]
) -> None:
    wide = 0.92 / (len(kinds) + 0.4)  # the published mark takes less than half a place
    for at, model in enumerate(models):
        if at % 2 == 0:
            axes.axvspan(at - 0.5, at + 0.5, color=BANDS, linewidth=0, zorder=0)
        own = {entry.kind: entry for entry in entries if entry.model == model}
        left = at - 0.46
        known = next((entry for entry in own.values() if entry.published), None)
        if own and not any(entry.dots[split].values or entry.dots[split].left_out for entry in own.values()):
            axes.text(at + 0.1, 0.5, "not run", ha="center", va="center", color=GREY, fontsize=6)
        if known and known.published:
            draw_published(axes, left + wide * 0.2, known.published[split], known.published_seeds)
        for number, kind in enumerate(kinds):
            if kind in own:
                middle = left + wide * (0.9 + number)
                draw_dots(
                    axes,
                    middle,
                    own[kind].dots[split],
                    LABELS[kind][1],
                    wide * 0.46,
                    3.2 if len(models) < 3 else 2.6,
                )
    if split == "ood":
        axes.axhline(SOLVED, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
    axes.set(xlim=(-0.5, len(models) - 0.5), ylim=(-0.03, 1.04 if split == "ood" else 1.12))
    axes.tick_params(axis="x", length=0)
