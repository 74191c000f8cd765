"""What a researcher does with a run from Python."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from tests.training.conftest import RECIPE, Tiny, rows
from torch.nn import functional as F
from torch.utils.data import DataLoader

import ctlpp

SMALL: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}


@pytest.fixture(scope="module")
def data() -> ctlpp.Dataset:
    return ctlpp.generate("R", protocol="clean", **SMALL)


@pytest.fixture(scope="module")
def run(data: ctlpp.Dataset, tmp_path_factory: pytest.TempPathFactory) -> ctlpp.Run:
    out = tmp_path_factory.mktemp("front") / "run"
    return ctlpp.train(Tiny, data, seeds=[0, 7], recipe=replace(RECIPE, steps=4, eval_every=2), out=out)


def test_all_seeds_are_evaluated_in_one_call_from_memory_or_folders(
    data: ctlpp.Dataset, run: ctlpp.Run, tmp_path: Path
) -> None:
    frame = ctlpp.evaluate(run, data)
    assert set(frame["split"]) == {*data.splits} - {"train"}
    whole = frame[(frame["split"] == "ood") & (frame["length"] == 0)]
    assert dict(zip(whole["seed"], whole["accuracy"], strict=True)) == {
        row["seed"]: row["ood"] for row in run.table()
    }
    data.save(tmp_path / "data")
    assert ctlpp.evaluate(run, str(tmp_path / "data")).equals(frame)
    alone = ctlpp.evaluate(run, {"any": data.tensors("any")}, ["any"])
    assert alone.equals(frame[frame["split"] == "any"].reset_index(drop=True))
    with pytest.raises(ValueError, match=r"^unknown split 'x': choose from train, iid, ood"):
        ctlpp.evaluate(run, data, ["x"])
    with pytest.raises(
        ValueError, match=r"^the dataset has other functions than the run in .* \(a\); use its"
    ):
        ctlpp.evaluate(run, ctlpp.generate("R", protocol="clean", seed=1, **SMALL))


def test_tables_are_those_in_the_files_with_pandas_or_without(
    data: ctlpp.Dataset, run: ctlpp.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.folder is not None
    frame = run.frame()
    assert frame["accuracy"].isna().sum() == (frame["split"] == "training").sum() > 0
    inputs = list(data.frame("ood")["input"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = run.frame()
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == rows(run.folder)
    assert data.frame("ood")["input"].to_pylist() == inputs == [text for text, _ in data.texts("ood")]


def test_a_seed_of_a_run_can_be_trained_on(data: ctlpp.Dataset, run: ctlpp.Run) -> None:
    assert run.folder is not None
    module = ctlpp.load_seed(run.folder, 7, Tiny)
    tokens, targets = data.tensors("ood")[2]
    F.cross_entropy(module(tokens), targets).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in module.parameters())
    assert torch.equal(module(tokens), ctlpp.load_seed(run, 7)(tokens))
    assert not module.training


def test_a_split_is_a_dataset_of_pytorch(data: ctlpp.Dataset) -> None:
    view = data.view("train")
    loader = DataLoader(view, batch_size=7, shuffle=True, collate_fn=view.collate)
    seen = []
    for tokens, targets, lengths in loader:
        assert tokens.shape == (len(targets), int(lengths.max()) + 2)
        for own, target, length in zip(tokens, targets, lengths, strict=True):
            assert bool((own[int(length) + 1 :] == view.end).all())
            seen.append((*own[: int(length) + 1].tolist(), int(target)))
    expected = [
        (*own[:-1].tolist(), int(target))
        for tokens, targets in data.tensors("train").values()
        for own, target in zip(tokens, targets, strict=True)
    ]
    assert sorted(seen) == sorted(expected)


def test_training_begins_with_given_weights(data: ctlpp.Dataset, run: ctlpp.Run, tmp_path: Path) -> None:
    assert run.folder is not None
    other = ctlpp.generate("R", protocol="clean", seed=1, **SMALL)
    still: Any = {"recipe": replace(RECIPE, steps=1, warmup=0, lr=1e-9), "observers": ()}
    by_seed = ctlpp.train(Tiny, other, seeds=[7, 0], **still, start=run.folder, out=tmp_path / "run")
    assert torch.allclose(by_seed.crowd.weights, run.crowd.weights.flip(0), atol=1e-6)
    for same in (ctlpp.load_seed(run, 7), ctlpp.load_seed(run, 7).state_dict()):
        for_all = ctlpp.train(Tiny, other, seeds=[1, 2], **still, start=same)
        assert torch.allclose(for_all.crowd.weights, run.crowd.weights[1].expand(2, -1), atol=1e-6)
    with pytest.raises(ValueError, match=r"has start [0-9a-f]{16}, not none: resume with the same settings"):
        ctlpp.train(Tiny, other, seeds=[7, 0], **still, out=tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match=r"^no seed 3 in this crowd: choose from 0, 7$"):
        ctlpp.train(Tiny, other, seeds=[3], **still, start=run)
    wrong = r"^start: these weights are of another model: embed.weight is missing, in the model \(13, 8\)$"
    with pytest.raises(ValueError, match=wrong):
        ctlpp.train(Tiny, other, seeds=[3], **still, start=torch.nn.Linear(2, 2))
