"""Similarity matrices on paper: what stands where, in which colours."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from ctlpp.analysis.clusters import Clustering
from ctlpp.analysis.inputs import Inputs
from ctlpp.benchmark.dataset import generate
from ctlpp.figures.similarity import Matrices, draw_side_by_side, draw_symbols
from ctlpp.figures.style import COLOURS, DOUBLE, HEAT, MISSING, render, save, style

LEGEND = 0.3  # cm from the bottom: groups may be called like functions
HALF = np.array([0, 0, 0, 1, 1, 1])


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return Inputs.of(generate("R", symbols=3, functions=6, max_length=3, train=50, iid=5, ood=5).task)


def matrices(inputs: Inputs, cosines: float = 1.0) -> Matrices:
    """Two clusters, for every symbol; all functions are as similar as told, but one pair is unknown."""
    values = np.full((3, 6, 6), cosines)
    values[:, 0, 5] = np.nan
    return Matrices(inputs, values, [Clustering(HALF, np.arange(6), 0.9)] * 3, "seed 0")


def colour_at(figure: Figure, left: float, low: float) -> list[float]:
    """The colour of a point, in cm from the lower left corner."""
    with style():
        render(figure, file := BytesIO(), "png", dots=254)
    picture = imread(BytesIO(file.getvalue()))
    return list(picture[len(picture) - 1 - round(100 * low), round(100 * left), :3])


def test_a_cell_has_the_colour_of_its_similarity_and_one_without_a_number_is_grey(inputs: Inputs) -> None:
    with style():
        figure = draw_symbols(matrices(inputs, 0.5))
    height, cell = figure.get_figheight() * 2.54, 3.55 / 6
    top = height - 1.25  # of the first row of panels
    middle = top - cell / 2
    assert colour_at(figure, 0.1 + cell / 2, middle) == pytest.approx(colormaps[HEAT](0.5)[:3], abs=0.01)
    assert colour_at(figure, 0.1 + 5.5 * cell, middle) == pytest.approx(to_rgb(MISSING), abs=0.01)
    assert colour_at(figure, 0.1 + 3 * cell, middle) == pytest.approx(
        (1, 1, 1), abs=0.01
    )  # between the clusters
    first = COLOURS[int(inputs.group_of[0])]
    assert colour_at(figure, 0.1 + cell / 2, top + 0.1) == pytest.approx(to_rgb(first), abs=0.01)


def test_names_are_written_in_the_colours_of_their_groups_unless_they_would_be_too_small(
    inputs: Inputs,
) -> None:
    with style():
        one, many = (draw_side_by_side([matrices(inputs)] * count, [0] * count) for count in (1, 9))
    names = set(inputs.task.functions)
    shown, too_small = (
        [
            text
            for text in figure.axes[0].texts
            if text.get_text() in names and text.get_position()[1] > LEGEND
        ]
        for figure in (one, many)
    )
    assert {text.get_text() for text in shown} == names
    assert len(shown) == 2 * len(names)
    for text in shown:
        group = inputs.group_of[list(inputs.task.functions).index(text.get_text())]
        assert text.get_color() == COLOURS[int(group)]
    assert not too_small
    assert many.get_figwidth() * 2.54 == pytest.approx(DOUBLE)


def test_in_vector_files_a_matrix_is_a_picture_of_one_dot_a_cell(inputs: Inputs, tmp_path: Path) -> None:
    with style():
        save(draw_symbols(matrices(inputs)), tmp_path / "similarity", ["svg", "pdf"])
    assert (tmp_path / "similarity.svg").read_text().count("<image") == 3 + 1  # and the colour scale
    assert (tmp_path / "similarity.pdf").read_bytes().count(b"/Height 6") == 3
