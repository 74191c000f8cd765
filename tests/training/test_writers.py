"""The writers against the real libraries."""

import math
import warnings
from pathlib import Path

import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.runs.observers import OfflineWandb, TensorBoard
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

RECIPE = Recipe(steps=6, batch=16, eval_every=3)


def run_with(observer: object) -> None:
    data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    train("rnn", data, seeds=[3, 4], preset="quick", recipe=RECIPE, observers=[observer], device="cpu")


def test_tensorboard_reads_back_the_curves_of_every_seed(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
