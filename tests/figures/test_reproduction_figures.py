"""Figures of a reproduction: what is in them, and that they stay within their borders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from ctlpp.figures.crowds import draw_by_length, draw_learning, mean_over
from ctlpp.figures.function_tables import draw_tables
from ctlpp.figures.predictors import draw_rankings
from ctlpp.figures.repeats import Pair, draw_repeats
from ctlpp.figures.seeds import Dots, swarm
from ctlpp.figures.style import FORMATS, save, style
from ctlpp.figures.table1 import Entry, draw_table1
from ctlpp.runs.history import History
from ctlpp.statistics.correlation import Correlation

DOTS = Dots((0.2, 0.9, 1.0, 1.0), 0.775, (0.4, 0.97))


def history(seeds: int = 3) -> History:
    rows = [
        (step, seed, split, length, min(1.0, step / 100 + 0.1 * seed))
        for step in (10, 50, 100)
        for seed in range(seeds)
        for split in ("iid", "ood")
        for length in (0, 2, 3)
    ]
    names = ("step", "seed", "split", "length", "accuracy")
    return History.of(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))


def entry(model: str, variant: str, protocol: str = "released") -> Entry:
    return Entry(
        model, variant, protocol, {"iid": DOTS, "ood": DOTS}, {"iid": (1.0, 0.0), "ood": (0.75, 0.27)}
    )


def pair(model: str) -> Pair:
    return Pair(
        model, "R", dict.fromkeys(("distinct", "repeated"), DOTS), {"distinct": history()}, (0.75, 0.27)
    )


CORRELATION = Correlation(25, 0.8, 0.5, 0.9, 0.7, 0.4, 0.9)
DRAWINGS = {
    "table1": lambda: draw_table1([entry("ndr", "A"), entry("ndr", "R", "paper"), entry("lstm", "R")]),
    "one cell": lambda: draw_table1([entry("transformer", "R")]),
    "curves": lambda: draw_learning({("ndr", "R"): history(), ("lstm", "A"): history(1)}),
    "lengths": lambda: draw_by_length({("ndr", "R"): history(), ("lstm", "A"): history(1)}),
    "repeats": lambda: draw_repeats([pair("ndr"), pair("lstm")]),
    "one repeat": lambda: draw_repeats([pair("ndr")]),
    "predictors": lambda: draw_rankings(
        {"NDR on A": {"codes": CORRELATION}, "NDR on R": {"cka": CORRELATION}}
    ),
    "tables": lambda: draw_tables({"NDR on R": [(0, DOTS), (3, DOTS)]}),
}


def texts(figure: Figure) -> list[str]:
    return [
        text.get_text() for axes in figure.axes for text in (axes.title, *axes.texts, axes.xaxis.label)
    ] + [axes.get_title(loc="left") for axes in figure.axes]


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawn_twice_a_figure_has_the_same_bytes(tmp_path: Path, name: str) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        with style():
            save(DRAWINGS[name](), tmp_path / folder / "figure")
    for kind in FORMATS:
        one, two = ((tmp_path / folder / f"figure.{kind}").read_bytes() for folder in ("one", "two"))
        assert one == two


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_reaches_over_the_edge(name: str) -> None:
    with style():
        figure = DRAWINGS[name]()
        box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


def test_a_cell_that_has_not_run_is_said_to_be_missing() -> None:
    figure = draw_learning({("ndr", "R"): history(), ("lstm", "A"): history()})
    assert texts(figure).count("not run") == 2
    assert "NDR on R" in texts(figure)


def test_every_seed_is_a_dot() -> None:
    figure = draw_table1([entry("ndr", "R")])
    lines = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "o"]
    drawn = [sorted(np.asarray(line.get_ydata(), dtype=float).tolist()) for line in lines]
    assert [values for values in drawn if values] == [sorted(DOTS.values)] * 2


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=60), width=st.floats(0.01, 0.5))
def test_dots_of_a_swarm_stay_near_and_equal_ones_stand_side_by_side(
    values: list[float], width: float
) -> None:
    shift = swarm(values, width)
    assert np.abs(shift).max() <= width + 1e-12
    assert len({*zip(values, shift.tolist(), strict=True)}) == len(values)


def test_the_mean_of_curves_leaves_out_what_is_missing() -> None:
    assert mean_over(np.array([[0.0, 1.0], [np.nan, 0.5]])) == [0.5, 0.5]
    assert np.isnan(mean_over(np.array([[np.nan]]))[0])
