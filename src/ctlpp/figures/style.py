"""One look for all figures: a paper's column widths, legible in print, safe for colour-blind readers, same bytes again.

Example:
    >>> figure = new_figure(SINGLE, 4)
    >>> figure.get_size_inches().round(2).tolist()
    [3.03, 1.57]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SINGLE, DOUBLE = 7.7, 16.0  # cm: one and two columns of the paper
FORMATS = ("pdf", "svg", "png")
GREY, DARK = "#999999", "#333333"
COLOURS = ("#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#009E73", "#CC79A7")  # Okabe and Ito
TRAINING, OOD = COLOURS[:2]  # what training has, and what only the test has
MISSING = "#dddddd"  # a cell without a number
HEAT = "viridis"  # brightness rises evenly: the same for every reader, and in grey

_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "legend.fontsize": 6,
    "figure.titlesize": 8,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "lines.linewidth": 0.8,
    "legend.frameon": False,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.hashsalt": "ctlpp",
    "svg.fonttype": "path",
    "image.interpolation": "none",
    "image.composite_image": False,  # else matrices that share their axes become one picture of many dots
    "axes.unicode_minus": True,
}
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "ctlpp", "Producer": None},
    "svg": {"Date": None, "Creator": "ctlpp"},
    "png": {"Software": None},
}


@contextmanager
def style() -> Iterator[None]:
    """Inside, matplotlib draws in our style, whatever the user's settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in cm."""
    return Figure(figsize=(width / 2.54, height / 2.54))


def save(figure: Figure, stem: Path, formats: Sequence[str] = FORMATS) -> None:
    """Write the figure in every format; the same figure gives the same bytes."""
    for kind in formats:
        render(figure, stem.with_suffix(f".{kind}"), kind)


def render(figure: Figure, file: Path | BinaryIO, kind: str, dots: float | None = None) -> None:
    """Write the figure in one format, to a path or an open file. dots: per inch, by default as for print."""
    figure.savefig(file, format=kind, metadata=_METADATA[kind], dpi=dots or _RC["savefig.dpi"])


def group_colours(groups: Sequence[str]) -> dict[str, str]:
    """A colour for each group; more groups than colours begin again."""
    return {group: COLOURS[i % len(COLOURS)] for i, group in enumerate(groups)}


def heat(axes: Axes, values: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """A matrix as colours, without ticks; cells without a number stay grey."""
    axes.set_facecolor(MISSING)
    image = axes.imshow(np.ma.masked_invalid(values), cmap=HEAT, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def write_numbers(axes: Axes, values: Any, texts: Any, size: float = 6) -> None:
    """A text in every cell of a heat map, white on dark and black on bright."""
    for (row, column), value in np.ndenumerate(np.asarray(values, dtype=float)):
        colour = "white" if np.isfinite(value) and value < 0.55 else "black"
        axes.text(column, row, str(texts[row][column]), ha="center", va="center", color=colour, fontsize=size)


def label(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], colours: dict[str, str] | None = None
) -> None:
    """Names of rows and columns, in their colours if they have some."""
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_color((colours or {}).get(text.get_text(), "black"))


def colour_bar(figure: Figure, image: Any, box: tuple[float, float, float, float], title: str) -> None:
    """A colour scale at a place of the figure (left, bottom, width, height, all as shares)."""
    bar = figure.colorbar(
        image, cax=figure.add_axes(box), orientation="vertical" if box[3] > box[2] else "horizontal"
    )
    bar.outline.set_visible(False)
    bar.set_label(title)
