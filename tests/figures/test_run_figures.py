"""Figures of an analysed run: all drawn, deterministic, and only what the model allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from tests.analysis.conftest import make_crowd
from tests.figures.conftest import assert_inside

from ctlpp.analysis.analysis import Study, analyze
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.figures import GREY, SPLITS
from ctlpp.figures.matrices import (
    MISSING,
    Inside,
    draw_interchange,
    draw_places,
    draw_side_by_side,
    draw_staged,
    draw_symbols,
)
from ctlpp.figures.run import draw_run_learning, draw_run_lengths, drawings, examples, inside, mean_of_seeds
from ctlpp.figures.style import DOUBLE, SINGLE, group_colours, save, style, swarm
from ctlpp.models.zoo import MODELS
from ctlpp.runs.history import History


@pytest.fixture(scope="module")
def task() -> Task:
    return make_task(Settings(variant="R", symbols=3, functions=6, max_length=3))


def history(seeds: Sequence[int]) -> History:
    random = np.random.default_rng(0)
    keys = [("iid", 0), ("ood", 0), ("iid", 1), ("iid", 2), ("ood", 2)]
    accuracy = {key: random.uniform(size=(3, len(seeds))) for key in keys}
    return History(np.array([10, 20, 30]), np.array(seeds), accuracy)


def study(task: Task, name: str = "ndr", seeds: tuple[int, ...] = (0, 1, 2, 5)) -> Study:
    found = analyze(make_crowd(name, task, list(seeds)), task)
    return Study({"model": name}, found, history(seeds), {}, step=30, finished=True)


@pytest.fixture(scope="module")
def ndr(task: Task) -> Study:
    return study(task)


def all_drawn(study: Study) -> dict[str, Figure]:
    """All figures; of those that every seed has, only the first seed's."""
    with style():
        first = f"similarity-seed-{study.analysis.seeds[0]}"
        return {n: draw() for n, draw in drawings(study) if n == first or "similarity-seed" not in n}


def lines(axes: Axes, **wanted: str) -> list[list[float]]:
    """The heights of all lines of some look."""
    chosen = [one for one in axes.lines if all(getattr(one, f"get_{k}")() == v for k, v in wanted.items())]
    return [heights for one in chosen if (heights := np.asarray(one.get_ydata(), dtype=float).tolist())]


def test_every_figure_is_drawn_at_a_columns_width_with_nothing_over_the_edge(ndr: Study) -> None:
    seeds = {f"similarity-seed-{seed}" for seed in ndr.analysis.seeds}
    plain = {"curves", "lengths", "accuracy", "compatibility", "interchange", "places", "similarity"}
    assert {name for name, _ in drawings(ndr)} == plain | seeds | {"measures", "correlations"}
    for name, figure in all_drawn(ndr).items():
        single = name in ("correlations", "places", "lengths")
        assert figure.get_figwidth() * 2.54 <= (SINGLE if single else DOUBLE) + 0.1
        assert_inside(figure)


def test_the_users_own_settings_of_matplotlib_change_nothing(ndr: Study, tmp_path: Path) -> None:
    for size, name in ((10, "a"), (30, "b")):
        with mpl.rc_context({"font.size": size, "axes.facecolor": "red"}), style():
            save(draw_run_lengths(ndr.history, {}), tmp_path / name, ["svg"])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_one_seed_a_recurrent_model_and_diverged_seeds_have_their_figures(task: Task) -> None:
    assert {"measures", "correlations"}.isdisjoint(all_drawn(study(task, "lstm", (4,))))
    few = {name for name, _ in drawings(study(task, "gru", (0, 1, 2)))}
    assert ("measures" in few, "correlations" in few) == (True, False)
    frozen = replace(study(task, "gru", (0, 1, 2, 3, 4)), diverged={2: 17})
    assert 2 not in [frozen.analysis.seeds[row] for row in examples(frozen)[0]]
    figures = all_drawn(frozen)
    assert "cross: a seed that diverged, not part of r" in [t.get_text() for t in figures["measures"].texts]
    for name in ("measures", "interchange", "places", "curves"):
        assert_inside(figures[name])
    all_drawn(replace(frozen, diverged=dict.fromkeys(range(5), 17)))


def test_with_the_groups_and_functions_of_s_what_is_printed_is_inside_and_not_too_small() -> None:
    sizes: dict[str, Any] = {"symbols": 5, "functions": 32, "max_length": 4}
    task = make_task(Settings(variant="S", **sizes, shared_functions=16, shared_symbols=2))
    drawn = dict(drawings(study(task, "gru", (0, 1))))
    for name in ("accuracy", "interchange", "compatibility"):
        with style():
            figure = drawn[name]()
        assert_inside(figure)
        texts = [text for axes in figure.axes for text in (*axes.texts, *axes.get_xticklabels())]
        assert min(float(text.get_fontsize()) for text in texts) >= 5, name


def test_curves_of_diverged_seeds_are_grey_end_where_they_diverged_and_are_not_part_of_the_mean() -> None:
    seeds = history((0, 1, 2, 5))
    axes = draw_run_learning(seeds, {1: 12, 5: 30}).axes[0]
    for split in ("iid", "ood"):
        accuracy = seeds.accuracy[split, 0]
        assert accuracy[:2, 1].tolist() in lines(axes, color=GREY)
        assert accuracy[:, 3].tolist() in lines(axes, color=GREY)
        assert pytest.approx(accuracy[:, [0, 2]].mean(axis=1)) in lines(axes)
    words = [text.get_text().strip() for text in axes.texts]
    assert sorted(words) == ["IID", "OOD", *["diverged"] * 4, "solved"]
    missing = np.array([[0.0, 1.0], [np.nan, 0.5], [np.nan, np.nan]])
    np.testing.assert_array_equal(mean_of_seeds(missing), [0.5, 0.5, np.nan])


def test_lengths_show_diverged_seeds_as_crosses_beside_the_mean_of_the_others() -> None:
    seeds = history((0, 1, 2))
    axes = draw_run_lengths(seeds, {1: 12}).axes[0]
    assert [seeds.final("ood", 2)[1]] in lines(axes, color=GREY, marker="x")
    assert [pytest.approx(seeds.final("ood", 2)[[0, 2]].mean())] in lines(axes, marker="_")
    draw_run_lengths(seeds, dict.fromkeys((0, 1, 2), 5))


def test_a_single_evaluation_is_a_dot() -> None:
    seeds = history((0, 1))
    last = {key: values[-1:] for key, values in seeds.accuracy.items()}
    figure = draw_run_learning(replace(seeds, steps=seeds.steps[-1:], accuracy=last), {})
    curves = [line for axes in figure.axes for line in axes.lines if line.get_color() in SPLITS.values()]
    assert {line.get_marker() for line in curves} == {"o"}


def test_interchange_has_mean_and_sample_deviation_of_the_seeds_that_have_not_diverged(ndr: Study) -> None:
    inputs, found, counted = ndr.analysis.inputs, ndr.analysis.interchange, np.array([1, 0, 1, 1], dtype=bool)
    assert found is not None
    with style():
        axes = draw_interchange(inputs, found, counted).axes
        alone = draw_interchange(inputs, found, np.arange(4) == 0).axes
        places = draw_places(found, counted).axes[0]
    members = inputs.members("a")
    cells = found.right["none"][counted][:, members][:, :, members].mean(axis=(1, 2, 3))
    assert axes[0].texts[0].get_text() == f"{cells.mean():.2f} ± {cells.std(ddof=1):.2f}"
    assert "±" not in alone[0].texts[0].get_text()
    shown = [text.get_text() for text in places.texts]
    assert sum(int(text.split("(")[1][:-1]) for text in shown if "(" in text) == 3
    for title in (axes[1].get_title(), places.get_title()):
        assert "1 of 4 seeds diverged" in title


@pytest.mark.parametrize("draw", [draw_symbols, lambda seed: draw_side_by_side([seed], 0)])
def test_a_similarity_matrix_has_a_strip_of_groups_lines_between_clusters_and_grey_unknown_cells(
    ndr: Study, draw: Callable[[Inside], Figure], tmp_path: Path
) -> None:
    seed = inside(ndr, 0)
    (cosines, one), colours = seed.readouts(0), [*group_colours(seed.inputs.groups).values()]
    cosines[one.order[0], one.order[1]] = np.nan
    with style():
        figure = draw(seed)
        save(figure, tmp_path / "figure", ["svg"])
    drawn: Any = figure.axes[0]
    matrix, strip = drawn.images
    shown = np.ma.filled(matrix.get_array(), np.nan)
    np.testing.assert_array_equal(shown, cosines[np.ix_(one.order, one.order)])
    assert matrix.to_rgba(matrix.get_array())[0, 1, :3] == pytest.approx(to_rgb(MISSING))
    groups = [to_rgb(colours[seed.inputs.group_of[f]]) for f in one.order]
    np.testing.assert_allclose(strip.get_array()[0], groups)
    assert len(drawn.collections[0].get_segments()) == one.count - 1
    assert (tmp_path / "figure.svg").read_text().count("<image") == 2 * (len(figure.axes) - 1) + 1


def test_a_silhouette_just_below_the_limit_is_not_written_as_the_limit(ndr: Study) -> None:
    seed = inside(ndr, 0)
    _, first = seed.readouts(0)
    seed = replace(seed, clusters=[replace(first, labels=0 * first.labels, silhouette=0.3996)])
    with style():
        figure = draw_side_by_side([seed], 0)
    assert "no clear split\n(silhouette 0.39 < 0.4)" in figure.axes[0].get_title()


def test_functions_are_named_in_the_colours_of_their_groups_unless_the_names_would_be_too_small(
    ndr: Study,
) -> None:
    seed = inside(ndr, 0)
    _, clusters = seed.readouts(0)
    with style():
        one, many = (draw_side_by_side([seed] * count, 0).axes[0] for count in (1, 9))
    names, colours = [*seed.inputs.task.functions], [*group_colours(seed.inputs.groups).values()]
    expected = [(names[f], colours[seed.inputs.group_of[f]]) for f in clusters.order]
    for labels in (one.get_xticklabels(), one.get_yticklabels()):
        assert [(text.get_text(), text.get_color()) for text in labels] == expected
    assert not many.get_xticklabels()


def shown(figure: Figure) -> list[Any]:
    """The texts of all matrices, and those around them."""
    inside = [text for axes in figure.axes for text in (*axes.texts, axes.title, axes.xaxis.label)]
    return [*inside, *figure.texts]


def test_the_grid_of_s_has_mean_and_std_of_the_seeds_of_a_cell_and_the_published_claims() -> None:
    grid = {"own:x": {(8, 2): [0.1]}, "ndr": {(4, 2): [0.2, 0.4, 0.6]}}
    words = "\n".join(text.get_text() for text in shown(draw_staged(grid, diverged=1)))
    for text in ("0.40\n± 0.20", "0.10", "own:x", "Published: 1.00 only", "1 seed diverged, part of no mean"):
        assert text in words
    assert "diverged" not in "".join(text.get_text() for text in shown(draw_staged(grid)))


@pytest.mark.parametrize(("models", "symbols"), [(1, 1), (3, 5), (7, 5)])
def test_whatever_the_models_all_texts_of_the_grid_are_inside_and_apart(models: int, symbols: int) -> None:
    cells = {(many, few): [0.1, 0.9] for many in (4, 8, 12, 16) for few in range(1, symbols + 1)}
    with style():
        figure = draw_staged(
            dict.fromkeys(["ndr", *(name for name in MODELS if name != "ndr")][:models], cells), 9
        )
    assert_inside(figure)
    boxes = [text.get_window_extent() for text in shown(figure) if text.get_text()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=60), width=st.floats(0.01, 0.5))
def test_dots_of_a_swarm_stay_near_and_equal_ones_stand_side_by_side(
    values: list[float], width: float
) -> None:
    shift = swarm(values, width)
    assert np.abs(shift).max() <= width + 1e-12
    assert len({*zip(values, shift.tolist(), strict=True)}) == len(values)
