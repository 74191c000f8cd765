"""Figures of an analysis: all drawn, deterministic, and only what the model allows."""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctlpp.analysis import analyze
from ctlpp.analysis.run import Study
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.figures.accuracy import clusters_by_groups, draw_compatibility, groups_by_groups, pairs_at
from ctlpp.figures.curves import draw_curves, draw_lengths
from ctlpp.figures.exchange import draw_interchange, draw_places
from ctlpp.figures.predictors import draw_scatter
from ctlpp.figures.style import DOUBLE, FORMATS, GREY, SINGLE, save, style
from ctlpp.figures.whole_run import draw_all, drawings, examples
from ctlpp.models.zoo import build
from ctlpp.runs.history import History
from ctlpp.training.crowd import init_crowd


@pytest.fixture(scope="module")
def task() -> Task:
    return generate("R", symbols=3, functions=6, max_length=3, train=50, iid=5, ood=5).task


def history(seeds: tuple[int, ...]) -> History:
    random = np.random.default_rng(0)
    keys = [("iid", 0), ("ood", 0), ("iid", 1), ("iid", 2), ("ood", 2)]
    return History(
        np.array([10, 20, 30]), np.array(seeds), {key: random.uniform(size=(3, len(seeds))) for key in keys}
    )


def study(task: Task, name: str = "ndr", seeds: tuple[int, ...] = (0, 1, 2, 5), **diverged: int) -> Study:
    crowd = init_crowd(lambda v, c: build(name, v, c, "quick"), task.vocabulary.size, task.n_symbols, list(seeds))
    config = {"model": name, "preset": "quick", "variant": "R", "protocol": "paper", "parameters": 1}
    frozen = {int(seed.removeprefix("seed_")): step for seed, step in diverged.items()}
    return Study(config, analyze(crowd, task), history(seeds), frozen, step=30, finished=True)


@pytest.fixture(scope="module")
def of_ndr(task: Task) -> Study:
    return study(task)


@pytest.fixture(scope="module")
def drawn(of_ndr: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    draw_all(of_ndr, folder)
    return folder


def test_every_figure_is_drawn_in_every_format_at_a_columns_width(of_ndr: Study, drawn: Path) -> None:
    names = [name for name, _ in drawings(of_ndr)]
    assert {path.name for path in drawn.iterdir()} == {f"{name}.{kind}" for name in names for kind in FORMATS}
    assert {
        "curves",
        "lengths",
        "accuracy",
        "compatibility",
        "interchange",
        "places",
        "measures",
        "correlations",
    } < set(names)
    assert [name for name in names if name.startswith("similarity-seed")] == [
        f"similarity-seed-{s}" for s in of_ndr.analysis.seeds
    ]
    with style():
        widths = {name: draw().get_size_inches()[0] * 2.54 for name, draw in drawings(of_ndr)}
    assert all(width <= DOUBLE + 0.1 for width in widths.values()), widths
    assert widths["compatibility"] == pytest.approx(DOUBLE)
    assert widths["correlations"] == widths["places"] == widths["lengths"] == pytest.approx(SINGLE)


def test_drawn_again_the_files_are_the_same_byte_for_byte(of_ndr: Study, drawn: Path, tmp_path: Path) -> None:
    draw_all(of_ndr, tmp_path)
    for path in sorted(drawn.iterdir()):
        other = (tmp_path / path.name).read_bytes()
        assert sha256(path.read_bytes()).digest() == sha256(other).digest(), path.name


def test_the_users_own_settings_of_matplotlib_change_nothing(of_ndr: Study, tmp_path: Path) -> None:
    import matplotlib as mpl

    for size, name in ((10, "a"), (30, "b")):
        with mpl.rc_context({"font.size": size, "axes.facecolor": "red"}), style():
            save(draw_curves(of_ndr.history, {}), tmp_path / name, ["svg"])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_single_seed_a_recurrent_model_and_a_diverged_seed_have_their_figures(
    task: Task, tmp_path: Path
) -> None:
    draw_all(study(task, "lstm", (4,)), tmp_path / "one", ["svg"])
    assert not (tmp_path / "one" / "correlations.svg").exists()
    frozen = study(task, "gru", (0, 1, 2, 3, 4), seed_2=17)
    draw_all(frozen, tmp_path / "frozen", ["svg"])
    assert 2 not in [frozen.analysis.seeds[row] for row in examples(frozen)[0]]
    assert frozen.correlations["codes"].seeds == 4


def lines(axes: Axes, **wanted: str) -> list[list[float]]:
    """The heights of all lines of some look that have any."""
    chosen = [
        one
        for one in axes.lines
        if all(getattr(one, f"get_{name}")() == look for name, look in wanted.items())
    ]
    return [heights for one in chosen if (heights := np.asarray(one.get_ydata(), dtype=float).tolist())]


def legends(figure: Figure) -> set[str]:
    every = [axes.get_legend() for axes in figure.axes] + figure.legends
    return {text.get_text() for legend in every if legend for text in legend.get_texts()}


def test_curves_of_diverged_seeds_are_grey_end_where_they_diverged_and_are_not_part_of_the_mean() -> None:
    seeds = history((0, 1, 2, 5))
    figure = draw_curves(seeds, {1: 12, 5: 30})
    accuracy = seeds.accuracy["iid", 0]
    assert lines(figure.axes[0], color=GREY) == [accuracy[:2, 1].tolist(), accuracy[:, 3].tolist()]
    assert lines(figure.axes[0], label="mean of the others") == [
        pytest.approx(accuracy[:, [0, 2]].mean(axis=1))
    ]
    assert legends(figure) == {"2 seeds that diverged", "mean of the others"}
    assert legends(draw_curves(seeds, {})) == {"mean of the seeds"}
    assert legends(draw_curves(seeds, dict.fromkeys((0, 1, 2, 5), 5))) == {"4 seeds that diverged"}


def test_lengths_show_diverged_seeds_as_crosses_beside_the_mean_of_the_others() -> None:
    seeds = history((0, 1, 2))
    figure = draw_lengths(seeds, {1: 12})
    at_two = seeds.final("ood", 2)
    assert [at_two[1]] in lines(figure.axes[0], color=GREY, marker="x")
    assert [pytest.approx(at_two[[0, 2]].mean())] in lines(figure.axes[0], marker="_")
    assert legends(figure) == {"IID", "OOD", "a seed that diverged"}
    assert legends(draw_lengths(seeds, {})) == {"IID", "OOD"}
    draw_lengths(seeds, dict.fromkeys((0, 1, 2), 5))


def test_the_crosses_of_diverged_seeds_are_explained(of_ndr: Study) -> None:
    assert legends(draw_scatter(of_ndr)) == set()
    assert legends(draw_scatter(replace(of_ndr, diverged={2: 17}))) == {"a seed that diverged, not part of r"}


def test_interchange_has_mean_and_sample_deviation_of_the_seeds_that_have_not_diverged(of_ndr: Study) -> None:
    counted = np.array([True, False, True, True])
    assert of_ndr.analysis.interchange is not None
    figure = draw_interchange(of_ndr.analysis, counted)
    members = of_ndr.analysis.inputs.members("a")
    cells = of_ndr.analysis.interchange[counted][:, members][:, :, members].mean(axis=(1, 2, 3))
    assert figure.axes[0].texts[0].get_text() == f"{cells.mean():.2f} ± {cells.std(ddof=1):.2f}"
    assert "1 of 4 seeds diverged and are left out" in figure.axes[2].get_title()
    alone = draw_interchange(of_ndr.analysis, np.array([True, False, False, False]))
    assert "±" not in alone.axes[0].texts[0].get_text()
    places = draw_places(of_ndr.analysis, counted).axes[0]
    assert (
        sum(int(text.get_text().split("(")[1][:-1]) for text in places.texts if "(" in text.get_text()) == 3
    )
    assert "1 of 4 seeds diverged and are left out" in places.get_title()


@pytest.mark.parametrize("rows", [[0], [0, 2]])
def test_diverged_seeds_and_few_seeds_leave_every_text_inside(
    task: Task, of_ndr: Study, rows: list[int]
) -> None:
    frozen = replace(of_ndr, diverged={2: 17})
    drawn = {name: draw for name, draw in drawings(frozen) if not name.startswith("similarity")}
    drawn["compatibility"] = partial(
        draw_compatibility, frozen.analysis, rows, 0, ["seed 0, IID 1.00"] * len(rows)
    )
    for name, draw in drawn.items():
        with style():
            figure = draw()
            box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -0.01, name


def test_numbers_and_names_are_printed_in_five_points_or_more_with_the_groups_and_functions_of_s() -> None:
    sizes = {"symbols": 8, "functions": 32, "max_length": 4, "train": 300, "iid": 5, "ood": 5}
    staged = generate("S", shared_functions=16, shared_symbols=6, **sizes).task
    every = dict(drawings(study(staged, "gru", (0, 1))))
    for name in ("accuracy", "interchange", "compatibility"):
        with style():
            figure = every[name]()
        texts = [text for axes in figure.axes for text in (*axes.texts, *axes.get_xticklabels())]
        assert min(float(text.get_fontsize()) for text in texts) >= 5, name


def test_too_few_seeds_for_a_correlation_have_no_figure_of_it(task: Task) -> None:
    names = [name for name, _ in drawings(study(task, "gru", (0, 1, 2)))]
    assert "measures" in names
    assert "correlations" not in names


def test_a_single_evaluation_is_a_dot(of_ndr: Study) -> None:
    history = of_ndr.history
    last = {key: values[-1:] for key, values in history.accuracy.items()}
    curves = [
        line
        for axes in draw_curves(replace(history, steps=history.steps[-1:], accuracy=last), {}).axes
        for line in axes.lines
    ]
    assert {line.get_marker() for line in curves if len(np.atleast_1d(line.get_xdata())) == 1} == {"o"}


def test_without_recorded_activations_only_the_answers_are_drawn(task: Task, tmp_path: Path) -> None:
    crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, 3, [0])
    member = crowd.member(0)
    found = analyze(lambda tokens: member(tokens) * 1, task)
    found.similarity = found.clusters = found.layout = found.interchange = None
    empty = Study(
        {"model": "own", "variant": ""}, found, History(np.array([]), np.array([0]), {}), {}, 0, True
    )
    draw_all(empty, tmp_path, ["svg"])
    assert {path.stem for path in tmp_path.iterdir()} == {"accuracy", "compatibility"}


def test_the_tables_hold_the_accuracies_of_all_pairs_counted_one_by_one(of_ndr: Study) -> None:
    inputs, right = of_ndr.analysis.inputs, of_ndr.analysis.right[1]
    table = groups_by_groups(right, inputs)
    labels = np.arange(inputs.n_functions) % 2
    at_two = clusters_by_groups(right, labels, 2, inputs)
    cells = list(np.ndindex(right.shape))
    for a, b in np.ndindex(2, 2):
        group = [right[f, g, s] for f, g, s in cells if (inputs.group_of[f], inputs.group_of[g]) == (a, b)]
        assert table[a, b] == pytest.approx(np.mean(group))
        chosen = [
            (f, g, s)
            for f, g, s in cells
            if inputs.value[f, s] == 2 and (labels[f], inputs.group_of[g]) == (a, b)
        ]
        assert at_two[a, b] == pytest.approx(np.mean([right[cell] for cell in chosen]))
        assert all(pairs_at(right, 2, inputs)[f, g] == right[f, g, s] for f, g, s in chosen)
