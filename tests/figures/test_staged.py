"""The grid of variant S: what it reads, what it puts together, and that everything fits."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.figures.staged import Cell, draw_staged, read_cell
from ctlpp.figures.style import style
from ctlpp.models.zoo import MODELS
from ctlpp.storage.task_json import to_json

FIRST = ("ndr", "transformer", "lstm")
ZOO = (*FIRST, *(name for name in MODELS if name not in FIRST))


def texts(figure: Figure) -> str:
    inside = [text for axes in figure.axes for text in [*axes.texts, axes.title]]
    return "\n".join(text.get_text() for text in [*inside, *figure.texts])


def write_run(
    folder: Path,
    *,
    model: str = "ndr",
    seeds: tuple[int, ...] = (0, 1),
    diverged: tuple[int, ...] = (),
    task: dict[str, Any] | None = None,
    recipe: dict[str, Any] | None = None,
    **changed: Any,
) -> Path:
    """A finished run on S, whose seed n has the accuracy n / 10."""
    own: dict[str, Any] = {
        "functions": {"a": [0], "b": [0]},
        "symbols": ["0"],
        "seed": 0,
        "recipe": {"train": 100},
    }
    own |= {"order": "right-to-left", "shared_functions": 8, "shared_symbols": 4} | (task or {})
    config = {"model": model, "preset": "quick", "protocol": "paper", "options": {"width": 8}, "task": own}
    config["recipe"] = {"steps": 10, "eval_every": 5} | (recipe or {})
    found = [{"seed": n, "accuracy": {"ood": n / 10}, "diverged": n in diverged} for n in seeds]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config | changed))
    (folder / "result.json").write_text(json.dumps({"seeds": found}))
    return folder


def draw_runs(*folders: Path) -> Figure:
    cells = [read_cell(folder) for folder in folders]
    assert None not in cells
    with style():
        return draw_staged(cell for cell in cells if cell)


def test_the_staged_grid_shows_mean_and_std_of_all_seeds_of_a_cell_and_the_published_claims() -> None:
    cells = [
        Cell("ndr", 4, 2, {0: 0.2, 1: 0.4}),
        Cell("ndr", 4, 2, {2: 0.6}),
        Cell("ndr", 16, 6, {0: 1.0, 1: 1.0}),
        Cell("own:x", 4, 2, {0: 0.1}),
    ]
    with style():
        shown = texts(draw_staged(cells))
    assert "0.40\n± 0.20" in shown
    assert "1.00\n± 0.00" in shown
    assert "Published: 1.00 only" in shown.replace("\n", " ")
    assert "own:x" in shown
    assert "iverged" not in shown


def test_the_grid_reads_finished_runs_on_s_and_nothing_else(tmp_path: Path) -> None:
    finished = write_run(tmp_path / "one", seeds=(3, 5), diverged=(5,))
    cell = read_cell(finished)
    assert cell is not None
    assert (cell.model, cell.shared_functions, cell.shared_symbols) == ("ndr", 8, 4)
    assert (cell.accuracies, cell.diverged) == ({3: 0.3, 5: 0.5}, {5})
    (finished / "result.json").unlink()
    assert read_cell(finished) is None
    assert read_cell(write_run(tmp_path / "two", task={"shared_functions": None})) is None


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="no finished runs on variant S: nothing to put into the grid"):
        draw_staged([])


def test_a_seed_of_two_runs_of_one_setting_counts_once(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", seeds=(1, 3))
    other = write_run(tmp_path / "other", seeds=(3, 5), recipe={"eval_every": 2})
    shown = texts(draw_runs(one, other))
    assert "0.30\n± 0.20" in shown  # of 0.1, 0.3 and 0.5


def test_the_grid_says_how_many_seeds_diverged_each_once(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", seeds=(1, 3), diverged=(3,))
    other = write_run(tmp_path / "other", seeds=(3, 5), diverged=(3,))
    shown = texts(draw_runs(one, other))
    assert "0.30\n± 0.20" in shown
    assert "Diverged, and counted with the accuracy at which it was frozen: 1 of 3 seeds" in shown


def test_runs_of_other_shared_functions_and_symbols_make_one_grid(tmp_path: Path) -> None:
    places = [(4, 2), (4, 6), (16, 2), (16, 6)]
    for many, few in places:
        task = make_task(
            Settings(
                variant="S", symbols=8, functions=32, shared_functions=many, shared_symbols=few, train=100
            )
        )
        write_run(tmp_path / f"{many}-{few}", task=json.loads(to_json(task, {"train": 100}, {})))
    figure = draw_runs(*(tmp_path / f"{many}-{few}" for many, few in places))
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.05\n± 0.07"] * 4


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"preset": "released"}, "preset quick and released"),
        ({"protocol": "released"}, "protocol paper and released"),
        ({"options": {"width": 16}}, "width of ndr 8 and 16"),
        ({"recipe": {"steps": 20}}, "steps of ndr 10 and 20"),
        ({"task": {"symbols": ["0", "1"]}}, "symbols 1 and 2"),
        ({"task": {"seed": 4}}, "data seed 0 and 4"),
        ({"task": {"order": "left-to-right"}}, "order right-to-left and left-to-right"),
        ({"task": {"recipe": {"train": 200}}}, "train 100 and 200"),
        ({"task": {"recipe": {"distinct_sequences": 9}}}, "distinct_sequences all and 9"),
    ],
)
def test_runs_of_different_settings_are_refused(
    tmp_path: Path, changed: dict[str, Any], difference: str
) -> None:
    one, other = write_run(tmp_path / "one"), write_run(tmp_path / "other", **changed)
    line = f"^a grid shows runs of one setting, but these differ: {difference}; draw a grid for each$"
    with pytest.raises(ValueError, match=line):
        draw_runs(one, other)


def test_models_may_differ_in_what_is_their_own(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one")
    other = write_run(tmp_path / "other", model="lstm", options={"width": 16}, recipe={"steps": 20})
    assert {"NDR", "Bi-LSTM"} <= {axes.get_title() for axes in draw_runs(one, other).axes}


@pytest.mark.parametrize("symbols", [range(2, 7), range(1, 9), range(3, 4)])
@pytest.mark.parametrize("models", [1, 3, 4, 5, 7])
def test_whatever_the_models_all_texts_are_inside_and_apart(models: int, symbols: range) -> None:
    own, grid = {0: 0.1, 1: 0.9}, [(many, few) for many in (4, 8, 12, 16) for few in symbols]
    cells = [Cell(name, *place, own, diverged={1}) for name in ZOO[:models] for place in grid]
    with style():
        figure = draw_staged(cells)
        box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0
    every = [
        text for axes in figure.axes for text in (*axes.texts, axes.title, axes.xaxis.label)
    ] + figure.texts
    boxes = [text.get_window_extent() for text in every if text.get_text()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert all(float(text.get_fontsize()) >= 5 for text in every)
