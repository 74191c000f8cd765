"""The history of a run: rules over it, its columns, and the tools it is written for."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.runs import history as module
from ctlpp.runs.history import COLUMNS, TRAINING, History, Score, Tracker, read_history
from ctlpp.runs.untrusted import DamagedError
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train


def history(*accuracies: float) -> History:
    made = History.empty([0, 1])
    for step, accuracy in enumerate(accuracies):
        made.add([Score(step, 0, "iid", 0, accuracy, 0.0), Score(step, 1, "iid", 0, 1.0, 0.0)])
    return made


def test_a_crowd_is_settled_when_all_its_seeds_are_good_and_still() -> None:
    rule = (2, 0.99, 0.005)
    assert history(0.5, 0.996, 0.999, 1.0).settled(*rule, [])
    assert not history(0.995, 1.0).settled(*rule, [])  # too few evaluations
    assert not history(1.0, 1.0, 0.9, 0.9, 0.9).settled(*rule, [])  # still, but not good
    assert not history(1.0, 0.993, 1.0).settled(*rule, [])  # good, but not still
    assert history(0.1, 0.5, 0.1).settled(*rule, [0])  # frozen seeds do not count
    assert not history(1.0, 1.0, 1.0, 1.0).settled(0, 0.99, 0.005, [])  # off unless asked for


def test_a_seed_has_learned_from_the_step_on_that_it_stays_above_a_level() -> None:
    first, second = history(0.1, 1.0, 0.2, 1.0, 1.0).learned_at(0.95)
    assert (first, second) == (3, 0)
    assert math.isnan(history(0.1, 1.0, 0.2).learned_at(0.95)[0])


def test_of_restarts_the_lowest_training_loss_is_chosen_whatever_the_accuracies() -> None:
    made = History.empty(range(2, 8))
    losses = {2: 0.4, 3: 0.5, 4: 0.3, 5: 0.1, 6: float("nan"), 7: 0.2}
    scores = [Score(9, seed, "ood", 0, 1 - loss / 2, 0.0) for seed, loss in losses.items()]
    made.add([*scores, *(Score(9, seed, TRAINING, 0, float("nan"), x) for seed, x in losses.items())])
    for restarts, chosen in ((1, [2, 3, 4, 5, 6, 7]), (2, [2, 5, 7]), (3, [2, 5, 7]), (4, [2, 5])):
        assert made.chosen(restarts) == chosen


def test_a_history_comes_back_from_its_files_by_split_length_and_seed(tmp_path: Path) -> None:
    path, other = tmp_path / "metrics.parquet", tmp_path / "other.parquet"
    rows = [
        (5, 7, "iid", 0, 0.25, 1.5),
        (5, 7, "ood", 3, 0.75, 1.0),
        (5, 7, "training", 0, math.nan, 2.0),
        (9, 7, "iid", 0, 0.5, 0.5),
        (9, 7, "ood", 3, math.nan, math.nan),
        (9, 7, "training", 0, math.nan, 1.0),
    ]
    History.of(rows).write(path)
    History.of([(9, 3, "iid", 0, 1.0, 0.0)]).write(other)
    assert pq.read_table(path).column_names == COLUMNS
    assert str([tuple(row) for row in read_history(path).scores()]) == str(rows)
    both = read_history(path, other)
    assert (both.steps.tolist(), both.seeds.tolist(), both.splits) == ([5, 9], [3, 7], ["iid", "ood"])
    np.testing.assert_equal(both.accuracy["iid", 0], [[np.nan, 0.25], [1.0, 0.5]])
    assert both.lengths("ood") == [3]
    assert History.of(rows, [7]).final("iid").tolist() == [0.5]
    assert np.isnan(History.of(rows, [4]).final("iid")).all()
    first, second = both.results({7: 6})
    assert (first.accuracy, first.loss, first.diverged) == ({"iid": 1.0}, {"iid": 0.0}, False)
    assert (second.accuracy, second.by_length, second.diverged_at) == ({"iid": 0.5}, {}, 6)


def test_a_file_of_other_values_is_damaged(tmp_path: Path) -> None:
    path, good = tmp_path / "metrics.parquet", dict(zip(COLUMNS, (1, 0, "iid", 0, 0.5, 0.1), strict=True))
    for name in ("step", "seed", "length", "accuracy"):
        pq.write_table(pa.Table.from_pylist([good | {name: "many"}]), path)
        with pytest.raises(DamagedError, match=r"metrics.parquet holds values of the wrong kind"):
            read_history(path)


def run_with(tool: str, folder: Path) -> None:
    data = generate("R", protocol="text", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    recipe, tracker = Recipe(steps=6, batch=16, eval_every=3), Tracker(tool, folder)
    train("rnn", data, seeds=[3, 4], preset="quick", recipe=recipe, observers=[tracker], device="cpu")


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_back_the_curves_of_every_seed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_with("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    names = events.Tags()["scalars"]
    of_split = ["accuracy/seed 3", "accuracy/seed 4", "accuracy/mean", "loss/mean"]
    curves = {f"{split}/{name}" for split in ("iid", "ood") for name in of_split}
    assert set(names) == {*curves, "train/loss/mean", "train/rate"}
    assert [event.step for event in events.Scalars("ood/accuracy/mean")] == [3, 6]
    one, two, mean = (events.Scalars(f"iid/{name}")[-1].value for name in of_split[:3])
    assert mean == pytest.approx((one + two) / 2)
    assert all(math.isfinite(event.value) for name in names for event in events.Scalars(name))


@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_leaves_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    pytest.importorskip("wandb")
    run_with("wandb", tmp_path)
    assert list(tmp_path.glob("wandb/wandb/offline-run-*/run-*.wandb"))


def test_a_tool_that_is_missing_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    line = r"^track wandb: wandb is not installed; pip install 'ctlpp\[track\]'$"
    with pytest.raises(ValueError, match=line):
        Tracker("wandb", tmp_path)
