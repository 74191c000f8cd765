"""Figures of a results folder: what is in them, and that they stay within their borders.

That they are those of the committed runs, pixel for pixel, is tested in `test_committed_results.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.figures.conftest import assert_inside
from tests.reproduce.making import make_piece

from ctlpp.figures import DATA
from ctlpp.figures.style import FORMATS, SIZE, render, style
from ctlpp.reproduce.drawings import drawings
from ctlpp.reproduce.results import load_results
from ctlpp.statistics.published import PUBLISHED

OOD = [0.2, 0.9, 1.0, 1.0, 0.3, 0.4, 0.5, 0.6]
DATA_OF_RUNS = ("authors", "clean-repeats", "clean", "text")


def draw(out: Path) -> dict[str, Figure]:
    with style():
        return dict(drawings(load_results(out)))


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """All of a folder in which every kind of run is finished."""
    out = tmp_path_factory.mktemp("results")
    for data in DATA_OF_RUNS:
        for model, variant in PUBLISHED:
            analysed = (model, data) == ("ndr", "authors")
            make_piece(out, f"{model}-{variant}-{data}", OOD, analysed=analysed)
    make_piece(out, "lstm-A-authors-table0", OOD)
    make_piece(out, "ndr-R-clean-seed1", OOD)
    for name in ("lstm-S-clean-o4-s2", "ndr-S-clean-o16-s6"):
        make_piece(out, name, OOD[:3], diverged=[0])
    return draw(out)


def texts(figure: Figure) -> list[str]:
    inside = [text for axes in figure.axes for text in (axes.title, *axes.texts, axes.xaxis.label)]
    left = [axes.get_title(loc="left") for axes in figure.axes]
    return [text.get_text() for text in (*inside, *figure.texts)] + left


def test_nothing_is_over_the_edge_or_too_small(figures: dict[str, Figure]) -> None:
    plain = {"table1", "data", "repeats-A", "repeats-R", "staged", "tables", "predictors", "similarity"}
    assert figures.keys() >= plain | {"accuracy", "curves-text", "lengths-authors", "similarity-failure-A"}
    for figure in figures.values():
        assert_inside(figure)
        for axes in figure.axes:
            every = (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels(), axes.title)
            assert all(float(text.get_fontsize()) >= SIZE for text in every)


def test_drawn_twice_a_figure_has_the_same_bytes(tmp_path: Path) -> None:
    make_piece(tmp_path, "ndr-R-clean", OOD)
    one, two = (draw(tmp_path)["table1"] for _ in range(2))
    for kind in FORMATS:
        assert render(one, kind, 60) == render(two, kind, 60)


def test_what_has_not_run_is_said_to_be_missing(tmp_path: Path) -> None:
    make_piece(tmp_path, "lstm-A-authors", [0.5])
    make_piece(tmp_path, "lstm-R-clean", [0.5])
    for name in ("ndr-R-clean", "ndr-R-clean-seed1", "ndr-R-clean-seed4"):
        make_piece(tmp_path, name, [0.5])
    make_piece(tmp_path, "lstm-A-clean-repeats", [0.5])
    make_piece(tmp_path, "lstm-A-clean-seed2-repeats", [0.5])
    found = draw(tmp_path)
    assert texts(found["table1"]).count("not run") == 4
    assert texts(found["tables"]).count("not run") == 3
    assert "not run" not in texts(found["curves-authors"])


def test_every_seed_of_the_table_is_a_dot_and_kinds_of_data_differ_in_colour_and_in_grey(
    figures: dict[str, Figure],
) -> None:
    axes, markers = figures["table1"].axes[0], {kind.marker for kind in DATA.values()}
    marks = [line for line in axes.lines if line.get_marker() in markers and line.get_alpha()]
    assert [np.asarray(line.get_xdata()).tolist() for line in marks] == [OOD, []] * 12
    assert len({line.get_color() for line in marks}) == len({line.get_marker() for line in marks}) == 4


def test_seeds_that_diverged_are_part_of_no_cell_of_the_grid(figures: dict[str, Figure]) -> None:
    words = texts(figures["staged"])
    assert "0.95\n± 0.07" in words
    assert "2 seeds diverged, part of no mean" in words
