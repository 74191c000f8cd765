"""Figures of an analysis: all drawn, deterministic, and only what the model allows."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from ctlpp.analysis import analyze
from ctlpp.analysis.history import History
from ctlpp.analysis.run import Study
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.figures.accuracy import clusters_by_groups, groups_by_groups, pairs_at
from ctlpp.figures.curves import draw_curves
from ctlpp.figures.style import DOUBLE, FORMATS, SINGLE, save, style
from ctlpp.figures.whole_run import draw_all, drawings, examples
from ctlpp.models.zoo import build
from ctlpp.training.crowd import gather


@pytest.fixture(scope="module")
def task() -> Task:
    return generate("R", symbols=3, functions=6, max_length=3, train=50, iid=5, ood=5).task


def history(seeds: tuple[int, ...]) -> History:
    random = np.random.default_rng(0)
    keys = [("iid", 0), ("ood", 0), ("iid", 1), ("iid", 2), ("ood", 2)]
    return History(np.array([10, 20, 30]), np.array(seeds), {key: random.uniform(size=(3, len(seeds))) for key in keys})


def study(task: Task, name: str = "ndr", seeds: tuple[int, ...] = (0, 1, 2, 5), **diverged: int) -> Study:
    crowd = gather(lambda v, c: build(name, v, c, "quick"), task.vocabulary.size, task.n_symbols, list(seeds))
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
            save(draw_curves(of_ndr.history), tmp_path / name, ["svg"])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_single_seed_a_recurrent_model_and_a_diverged_seed_have_their_figures(task: Task, tmp_path: Path) -> None:
    draw_all(study(task, "lstm", (4,)), tmp_path / "one", ["svg"])
    assert not (tmp_path / "one" / "correlations.svg").exists()
    frozen = study(task, "gru", (0, 1, 2, 3, 4), seed_2=17)
    draw_all(frozen, tmp_path / "frozen", ["svg"])
    assert 2 not in [frozen.analysis.seeds[row] for row in examples(frozen)[0]]
    assert frozen.correlations()["codes"].seeds == 4


def test_too_few_seeds_for_a_correlation_have_no_figure_of_it(task: Task) -> None:
    names = [name for name, _ in drawings(study(task, "gru", (0, 1, 2)))]
    assert "measures" in names
    assert "correlations" not in names


def test_a_single_evaluation_is_a_dot(of_ndr: Study) -> None:
    history = of_ndr.history
    last = {key: values[-1:] for key, values in history.accuracy.items()}
    curves = [
        line
        for axes in draw_curves(replace(history, steps=history.steps[-1:], accuracy=last)).axes
        for line in axes.lines
    ]
    assert {line.get_marker() for line in curves if len(np.atleast_1d(line.get_xdata())) == 1} == {"o"}


def test_without_recorded_activations_only_the_answers_are_drawn(task: Task, tmp_path: Path) -> None:
    crowd = gather(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, 3, [0])
    member = crowd.member(0)
    found = analyze(lambda tokens: member(tokens) * 1, task)
    found.similarity = found.clusters = found.layout = found.interchange = None
    empty = Study({"model": "own", "variant": ""}, found, History(np.array([]), np.array([0]), {}), {}, 0, True)
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
            (f, g, s) for f, g, s in cells if inputs.value[f, s] == 2 and (labels[f], inputs.group_of[g]) == (a, b)
        ]
        assert at_two[a, b] == pytest.approx(np.mean([right[cell] for cell in chosen]))
        assert all(pairs_at(right, 2, inputs)[f, g] == right[f, g, s] for f, g, s in chosen)
