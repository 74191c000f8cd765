"""Figures of many runs: what is in them, and that they stay within their borders.

That they are those of the committed runs, pixel for pixel, is tested in `tests/reproduce`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from tests.figures.conftest import assert_inside

from ctlpp.figures.results import (
    Cell,
    Dots,
    Entry,
    Line,
    draw_by_length,
    draw_data,
    draw_learning,
    draw_repeats,
    draw_staged,
    draw_table1,
    draw_tables,
)
from ctlpp.figures.run import draw_rankings
from ctlpp.figures.style import DATA, FORMATS, MARKERS, SIZE, render, style, swarm
from ctlpp.models.zoo import MODELS
from ctlpp.runs.history import History
from ctlpp.statistics.summary import Correlation

DOTS = Dots((0.2, 0.9, 1.0, 1.0), 0.775, (0.4, 0.97))
BOTH = {"iid": DOTS, "ood": DOTS}
PUBLISHED = {"iid": (1.0, 0.0), "ood": (0.75, 0.27)}
ENTRIES = [
    Entry(model, variant, kind, BOTH, PUBLISHED)
    for model in ("lstm", "transformer", "ndr")
    for variant in ("A", "R")
    for kind in DATA
]
ZOO = ("ndr", *(name for name in MODELS if name != "ndr"))


def history(seeds: int = 3) -> History:
    steps = np.array([10, 50, 100])
    curve = np.minimum(1.0, steps[:, None] / 100 + 0.1 * np.arange(seeds))
    keys = [(split, length) for split in ("iid", "ood") for length in (0, 2, 3)]
    return History(steps, np.arange(seeds), dict.fromkeys(keys, curve))


PANELS = {("ndr", "R"): history(), ("lstm", "A"): history(1)}
CORRELATION = Correlation(25, 0.8, 0.5, 0.9, 0.7, 0.4, 0.9)
LINES = [Line(model, data, history()) for model in ("lstm", "ndr") for data in ("authors", "clean")]
PREDICTORS = {"NDR on A": {"codes": CORRELATION}, "NDR on R": {"cka": CORRELATION}}
CELLS = [Cell("ndr", 4, 2, {0: 0.2, 1: 0.4, 2: 0.6}, diverged=1), Cell("own:x", 8, 2, {0: 0.1})]
DRAWINGS: dict[str, Callable[[], Figure]] = {
    "data": lambda: draw_data(LINES, {"ndr": (0.34, 0.26)}),
    "table1": lambda: draw_table1(ENTRIES, 0.125),
    "curves": lambda: draw_learning(PANELS),
    "lengths": lambda: draw_by_length(PANELS),
    "repeats": lambda: draw_repeats({"NDR on R": {"clean": history(), "repeats": history()}}, 0.125),
    "predictors": lambda: draw_rankings(PREDICTORS),
    "tables": lambda: draw_tables({"NDR on R": [(0, DOTS), (3, DOTS)], "NDR on A": [(3, DOTS)]}),
    "staged": lambda: draw_staged(CELLS),
}


def texts(figure: Figure) -> list[str]:
    inside = [text for axes in figure.axes for text in (axes.title, *axes.texts, axes.xaxis.label)]
    left = [axes.get_title(loc="left") for axes in figure.axes]
    return [text.get_text() for text in (*inside, *figure.texts)] + left


def test_nothing_is_over_the_edge_or_too_small_and_drawn_twice_a_figure_has_the_same_bytes() -> None:
    for draw in DRAWINGS.values():
        with style():
            figure = draw()
        assert_inside(figure)
        for axes in figure.axes:
            every = (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels(), axes.title)
            assert all(float(text.get_fontsize()) >= SIZE for text in every)
    with style():
        one, two = draw(), draw()
        for kind in FORMATS:
            assert render(one, kind, 60) == render(two, kind, 60)


def test_what_has_not_run_is_said_to_be_missing() -> None:
    assert texts(DRAWINGS["curves"]()).count("not run") == 2
    assert texts(DRAWINGS["tables"]()).count("not run") == 1
    one = Entry("lstm", "A", "authors", BOTH, PUBLISHED)
    other = Entry("lstm", "R", "clean", BOTH, PUBLISHED)
    assert texts(draw_table1([one, other])).count("not run") == 2


def test_every_seed_of_the_table_is_a_dot_and_kinds_of_data_differ_in_colour_and_in_grey() -> None:
    axes = draw_table1([entry for entry in ENTRIES if entry.variant == "A"]).axes[0]
    marks = [line for line in axes.lines if line.get_marker() in MARKERS.values() and line.get_alpha()]
    assert [np.sort(line.get_xdata()).tolist() for line in marks] == [[*DOTS.values], []] * 12
    assert len({line.get_color() for line in marks}) == len({line.get_marker() for line in marks}) == 4


def test_the_grid_of_s_has_mean_and_std_of_the_seeds_of_a_cell_and_the_published_claims() -> None:
    shown = "\n".join(texts(draw_staged(CELLS)))
    for text in ("0.40\n± 0.20", "0.10", "own:x", "Published: 1.00 only", "1 seed diverged, part of no mean"):
        assert text in shown
    assert "diverged" not in "".join(texts(draw_staged(CELLS[1:])))
    with pytest.raises(ValueError, match=r"^no finished runs on variant S: nothing to put into the grid$"):
        draw_staged([])


@pytest.mark.parametrize(("models", "symbols"), [(1, 1), (3, 5), (7, 5)])
def test_whatever_the_models_all_texts_of_the_grid_are_inside_and_apart(models: int, symbols: int) -> None:
    places = [(many, few) for many in (4, 8, 12, 16) for few in range(1, symbols + 1)]
    cells = [Cell(name, *place, {0: 0.1, 1: 0.9}, 1) for name in ZOO[:models] for place in places]
    with style():
        figure = draw_staged(cells)
    assert_inside(figure)
    every = [text for axes in figure.axes for text in (*axes.texts, axes.title, axes.xaxis.label)]
    boxes = [text.get_window_extent() for text in (*every, *figure.texts) if text.get_text()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=60), width=st.floats(0.01, 0.5))
def test_dots_of_a_swarm_stay_near_and_equal_ones_stand_side_by_side(
    values: list[float], width: float
) -> None:
    shift = swarm(values, width)
    assert np.abs(shift).max() <= width + 1e-12
    assert len({*zip(values, shift.tolist(), strict=True)}) == len(values)
