"""One look for all figures: a paper's column widths, safe for colour-blind readers, the same bytes again.

Every figure is a function `draw_…(data) -> Figure`; call it inside `style()`.

Example:
    >>> figure = new_figure(SINGLE, 4)
    >>> figure.get_size_inches().round(2).tolist()
    [3.03, 1.57]
    >>> swarm([0.5, 1.0, 1.0, 1.0], 0.3).tolist()
    [0.0, -0.06, 0.0, 0.06]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ctlpp.figures import DARK, GROUPS
from ctlpp.files import write_atomically
from ctlpp.runs.history import Array
from ctlpp.statistics.published import SOLVED

SINGLE, DOUBLE = 7.7, 16.0  # cm: one and two columns of the paper
SIZE = 8  # points, of everything that is written
FORMATS = ("pdf", "svg", "png")
BIN, STEP = 0.025, 0.06  # of accuracy: dots nearer than this stand side by side; between them, at most

_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    **dict.fromkeys(("font.size", "axes.titlesize", "figure.titlesize"), SIZE),
    **dict.fromkeys(("axes.labelsize", "xtick.labelsize", "ytick.labelsize"), SIZE),
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "lines.linewidth": 0.8,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.hashsalt": "ctlpp",
    "svg.fonttype": "path",
    "image.interpolation": "none",
    "image.composite_image": False,  # else matrices that share their axes become one picture of many dots
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
    """An empty figure of a size in cm, whose parts find their places themselves."""
    return Figure(figsize=(width / 2.54, height / 2.54), layout="constrained")


def new_panels(count: int, across: int, height: float, more: float, **options: Any) -> tuple[Figure, Any]:
    """A figure as wide as the page with so many panels in rows; what is left over stays empty."""
    figure = new_figure(DOUBLE, height * -(-count // across) + more)
    grid = figure.subplots(-(-count // across), across, squeeze=False, **options)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return figure, grid


def render(figure: Figure, kind: str, dots: float | None = None) -> bytes:
    """The figure in one format, each time the same bytes. dots: per inch, by default as for print."""
    file = BytesIO()
    with style():
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):  # drawn again, parts would move
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure.savefig(file, format=kind, metadata=_METADATA[kind], dpi=dots or _RC["savefig.dpi"])
    return file.getvalue()


def save(figure: Figure, stem: Path, formats: Sequence[str] = FORMATS) -> None:
    """Write the figure in every format."""
    for kind in formats:
        write_atomically(stem.with_name(f"{stem.name}.{kind}"), render(figure, kind))


def accuracy_axis(axes: Axes, label: str = "", *, solved: bool = True, chance: float = 0) -> None:
    """From 0 to 1, with dotted lines for seeds that solved the task and for chance; they are named once."""
    axes.set_ylim(-0.03, 1.04)
    spec = axes.get_subplotspec()
    first = spec is None or spec.is_first_col()
    for name, height in {"solved": SOLVED if solved else 0, "chance": chance}.items():
        if height:
            axes.axhline(height, color=DARK, linestyle=":", linewidth=0.6, zorder=1)
        if height and (spec is None or (first and spec.is_first_row())):
            side: Any = {"transform": axes.get_yaxis_transform(), "ha": "left", "color": DARK}
            axes.text(0.01, height - 0.015, name, va="top", **side)
    if first:
        axes.set_ylabel(label)


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, str]], gap: float = 0.1) -> None:
    """Names right of the axes, each beside the end of its line and in its colour, none over another."""
    before = -np.inf
    for name, (height, colour) in sorted(ends.items(), key=lambda end: end[1][0]):
        before = max(height, before + gap)
        place: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        axes.annotate(name, (1, before), (3, 0), color=colour, va="center", **place)


def swarm(values: Sequence[float] | Array, width: float) -> Array:
    """A sideways shift of every dot, within ± width, so that equal ones can be told apart."""
    shifts, values = np.zeros(len(values)), np.asarray(values, dtype=float)
    bins = np.floor(values / BIN + 1e-9).astype(int)
    for one in np.unique(bins):
        places = np.flatnonzero(bins == one)
        places = places[np.argsort(values[places], kind="stable")]
        half = min(width, STEP * (len(places) - 1) / 2)
        shifts[places] = np.linspace(-half, half, len(places)) if len(places) > 1 else 0.0
    return shifts


def group_colours(groups: Sequence[str]) -> dict[str, str]:
    """A colour for each group; more groups than colours begin again."""
    return {group: GROUPS[i % len(GROUPS)] for i, group in enumerate(groups)}


def function_colours(groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Every function in the colour of its group."""
    return {name: colour for group, colour in group_colours([*groups]).items() for name in groups[group]}
