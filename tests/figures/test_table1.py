"""The main table as a figure."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ctlpp.figures.seeds import Dots
from ctlpp.figures.style import style
from ctlpp.figures.table1 import LABELS, Entry, draw_table1
from ctlpp.reproduce.results import CONDITIONS

DOTS = Dots((0.2, 0.9, 1.0, 1.0), 0.775, (0.4, 0.97))
ALL = [
    Entry(model, variant, kind, {"iid": DOTS, "ood": DOTS}, {"iid": (1.0, 0.0), "ood": (0.75, 0.27)})
    for model in ("lstm", "transformer", "ndr")
    for variant in ("A", "R")
    for kind in LABELS
]


def test_every_kind_of_data_has_a_colour_of_its_own() -> None:
    assert [*LABELS] == [*CONDITIONS]
    assert len({colour for _, colour in LABELS.values()}) == len(CONDITIONS)


@pytest.mark.parametrize("entries", [ALL, ALL[:1], ALL[2:5]])
def test_every_seed_is_a_dot_and_nothing_reaches_over_the_edge(entries: list[Entry]) -> None:
    with style():
        figure = draw_table1(entries)
        box = figure.get_tightbbox()
    drawn = [
        sorted(np.asarray(line.get_ydata(), dtype=float).tolist())
        for axes in figure.axes
        for line in axes.lines
        if line.get_marker() == "o"
    ]
    assert [values for values in drawn if values] == [sorted(DOTS.values)] * (2 * len(entries))
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


def test_dots_of_neighbouring_kinds_do_not_mix() -> None:
    entries = [entry for entry in ALL if entry.variant == "A"]
    axes = draw_table1(entries).axes[1]
    places = [np.asarray(line.get_xdata(), dtype=float) for line in axes.lines if line.get_marker() == "o"]
    spans = sorted((place.min(), place.max()) for place in places if len(place))
    assert len(spans) == 9
    assert all(before[1] < after[0] for before, after in pairwise(spans))


def test_a_published_number_without_runs_of_ours_says_so() -> None:
    nothing = dict.fromkeys(("iid", "ood"), Dots((), None))
    alone = Entry("transformer", "A", "released", nothing, {"iid": (1.0, 0.0), "ood": (0.21, 0.09)})
    figure = draw_table1([*ALL[:3], alone])
    assert [text.get_text() for axes in figure.axes for text in axes.texts] == ["not run"] * 2
