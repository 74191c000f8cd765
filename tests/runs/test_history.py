"""The history of a run: rules over it, its columns, and the tools it is written for."""

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.runs.history import History, Metrics, Score, read_history
from ctlpp.runs.observers import OfflineWandb, TensorBoard, curves
from ctlpp.runs.untrusted import DamagedError
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train


def history(*accuracies: float) -> Metrics:
    metrics = Metrics()
    for step, accuracy in enumerate(accuracies):
        metrics.add(step, [Score(0, "iid", 0, accuracy, 0.0), Score(1, "iid", 0, 1.0, 0.0)])
    return metrics


def test_a_crowd_is_settled_when_all_its_seeds_are_good_and_still() -> None:
    rule = (2, 0.99, 0.005)
    assert history(0.5, 0.995, 0.999, 1.0).settled(*rule, [])
    assert not history(0.995, 1.0).settled(*rule, [])  # too few evaluations
    assert not history(1.0, 1.0, 0.9, 0.9, 0.9).settled(*rule, [])  # still, but not good
    assert not history(1.0, 0.993, 1.0).settled(*rule, [])  # good, but not still
    assert history(0.1, 0.5, 0.1).settled(*rule, [0])  # frozen seeds do not count
    assert not history(1.0, 1.0, 1.0, 1.0).settled(0, 0.99, 0.005, [])  # off unless asked for


def test_a_history_comes_back_from_its_file_by_split_length_and_seed(tmp_path: Path) -> None:
    metrics = history(0.25, 0.5)
    metrics.add(1, [Score(1, "ood", 3, 0.75, 0.0), Score(1, "training", 0, math.nan, 2.0)])
    (tmp_path / "metrics.parquet").write_bytes(metrics.parquet())
    found = read_history(tmp_path / "metrics.parquet")
    assert (found.steps.tolist(), found.seeds.tolist(), found.splits) == ([0, 1], [0, 1], ["iid", "ood"])
    assert found.accuracy["iid", 0].tolist() == [[0.25, 1.0], [0.5, 1.0]]
    assert found.lengths("ood") == [3]
    np.testing.assert_equal(found.final("ood", 3), [np.nan, 0.75])
    assert read_history(tmp_path / "metrics.parquet", seeds=[1]).final("iid").tolist() == [1.0]
    assert np.isnan(History.of(Metrics().table(), [4]).final("iid")).all()


def test_a_file_of_other_values_is_damaged(tmp_path: Path) -> None:
    good: dict[str, list[Any]] = {
        "step": [1],
        "seed": [0],
        "split": ["iid"],
        "length": [0],
        "accuracy": [0.5],
    }
    for name in ("step", "seed", "length", "accuracy"):
        pq.write_table(pa.table(good | {name: ["many"]}), tmp_path / "metrics.parquet")
        with pytest.raises(DamagedError, match=r"metrics.parquet holds values of the wrong kind"):
            read_history(tmp_path / "metrics.parquet")


def test_curves_have_a_mean_and_a_line_for_every_seed() -> None:
    values = curves(history(0.5).at_end())
    names = ["iid/accuracy/seed 0", "iid/accuracy/seed 1", "iid/accuracy/mean", "iid/loss/mean"]
    assert values == dict(zip(names, [0.5, 1.0, 0.75, 0.0], strict=True))


def run_with(observer: object) -> None:
    data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    recipe = Recipe(steps=6, batch=16, eval_every=3)
    train("rnn", data, seeds=[3, 4], preset="quick", recipe=recipe, observers=[observer], device="cpu")


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_back_the_curves_of_every_seed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_with(TensorBoard(tmp_path))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = events.Tags()["scalars"]
    assert {"iid/accuracy/seed 3", "ood/accuracy/seed 4", "ood/accuracy/mean"} <= set(names)
    assert [event.step for event in events.Scalars("ood/accuracy/mean")] == [3, 6]
    assert {name.partition("/")[0] for name in names} == {"iid", "ood", "train"}
    assert all(math.isfinite(event.value) for name in names for event in events.Scalars(name))


def test_weights_and_biases_leaves_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("wandb")
        run_with(OfflineWandb(tmp_path))
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))


def test_a_tool_that_is_missing_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers: dict[str, Any] = {"torch.utils.tensorboard": TensorBoard, "wandb": OfflineWandb}
    for package, writer in writers.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ValueError, match=r"is not installed: pip install 'ctlpp\[track\]'$"):
            writer(tmp_path)
