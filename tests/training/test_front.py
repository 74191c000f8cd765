"""What a researcher does with a run from Python."""

import json
import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rich.console import Console
from tests.training.conftest import RECIPE, Tiny, rows
from torch.nn import functional as F
from torch.utils.data import DataLoader

import ctlpp
from ctlpp.files import UserError
from ctlpp.runs.history import Notes

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
    assert list(whole["accuracy"]) == [row["ood"] for row in run.table()]
    data.save(tmp_path / "data")
    assert ctlpp.evaluate(run, str(tmp_path / "data")).equals(frame)
    alone = ctlpp.evaluate(run, {"any": data.tensors("any")}, ["any"])
    assert alone.equals(frame[frame["split"] == "any"].reset_index(drop=True))


def test_what_is_plainly_meant_is_accepted(
    data: ctlpp.Dataset, run: ctlpp.Run, tmp_path: Path, heard: Any
) -> None:
    data.save(tmp_path / "data")
    sizes: Any = {"symbols": np.int64(4), "functions": np.int32(8)}
    numbers: Any = {"steps": np.int64(4), "eval_every": torch.tensor(2)}
    how: Any = {"seeds": (np.int64(seed) for seed in (0, 7)), "sizes": {"width": np.int64(8)}}
    how |= {"recipe": replace(RECIPE, **numbers), "device": torch.device("cpu")}
    assert ctlpp.generate("R", protocol="clean", **SMALL | sizes).texts("ood") == data.texts("ood")
    again = ctlpp.train(Tiny, tmp_path / "data", **how)
    assert again.table() == run.table()
    assert json.loads(json.dumps(again.config["seeds"])) == [0, 7]
    changes = {"steps": 3, "batch": 16, "warmup": 1}
    assert ctlpp.train("gru", data, seeds=[1], preset="quick", recipe=changes).config["recipe"]["batch"] == 16
    tokens, targets = data.tensors("train")[3]
    alone = {"train": (tokens, targets), "ood": (tokens[:9].numpy(), targets[:9].numpy())}
    one = ctlpp.train(Tiny, alone, seeds=[1], recipe=replace(RECIPE, steps=2), observers=heard)
    assert heard.started == [0]
    assert one.history.lengths("ood") == [5]
    assert ctlpp.accuracy(one.crowd.member(1), {"ood": alone["ood"]})["ood"][0] == one.table()[0]["ood"]
    found, expected = ctlpp.analyze(run, data), ctlpp.analyze(run.crowd, data.task)
    assert (found.answers == expected.answers).all()
    assert ctlpp.evaluate(run, data, "any").equals(ctlpp.evaluate(run, data, ["any"]))
    named = ctlpp.train(Tiny, data, seeds=[1], recipe=replace(RECIPE, steps=2), curriculum="short_first")
    assert named.config["recipe"]["curriculum"] == "short_first"


def test_what_cannot_be_meant_is_one_sentence_in_words_of_python(data: ctlpp.Dataset, run: Any) -> None:
    thing: Any = data
    tokens, targets = data.tensors("ood")[2]
    matrix: Any = tokens
    for call, line in (
        (lambda: ctlpp.generate("R", symbol=4), "unknown setting 'symbol': choose from symbols, functions,"),
        (lambda: ctlpp.accuracy(run, data), "this Run has many seeds: give run.crowd.member(seed)"),
        (lambda: ctlpp.analyze(thing, data.task), "model of type Dataset: give a run, a crowd, a module, or"),
        (lambda: ctlpp.accuracy(thing, data), "model of type Dataset: give a module or function of tokens"),
        (lambda: ctlpp.evaluate(thing, data), "this Dataset is neither a run nor the path of one"),
        (lambda: ctlpp.evaluate(run.crowd.member(7), data), "this Tiny is one model, not a run: use ctl"),
        (lambda: run.evaluate({"own": (tokens + 9, targets)}), "split 'own': tokens up to 21, the model has"),
        (lambda: ctlpp.load(run), "this Run is neither a dataset nor the path of one"),
        (lambda: data.task.vocabulary.decode([0, -1]), "no token has the id -1: use 0 to 12"),
        (lambda: data.task.vocabulary.decode(matrix), "the ids are no single sequence: "),
        (lambda: ctlpp.train(Tiny, {}), "there is no split 'train' to learn from: the splits are none"),
        (lambda: ctlpp.train(Tiny, {"train": (tokens - 1, targets)}), "split 'train': give {length: (tokens"),
        (lambda: ctlpp.train(Tiny, data, resume=True), "resume=True: name the run folder, too, as out"),
        (lambda: ctlpp.train(Tiny, data, observers=[Notes]), "observer Notes is a class: give Notes()"),
        (lambda: ctlpp.train("gru", data, sizes={"width": "8"}), "size width='8': use a whole number from"),
        (lambda: ctlpp.train("gru", data, recipe={"steps": "3"}), "steps '3': must be a whole number, 1 or"),
    ):
        with pytest.raises(UserError, match=f"^{re.escape(line)}"):
            call()


def test_sizes_and_recipe_come_from_one_preset(data: ctlpp.Dataset) -> None:
    by_recipe = ctlpp.train("lstm", data, seeds=[0], recipe=ctlpp.recipe_for("lstm", "quick", steps=2))
    by_preset = ctlpp.train("lstm", data, seeds=[0], preset="quick", recipe={"steps": 2})
    assert by_recipe.config["preset"] == "quick"
    for key in ("options", "recipe", "parameters"):
        assert by_recipe.config[key] == by_preset.config[key]


def test_a_warm_up_that_does_not_fit_is_shortened_and_told(data: ctlpp.Dataset, heard: Any) -> None:
    recipe = ctlpp.Recipe(steps=50, lr=1e-2, batch=10)
    assert recipe.rate(49) == recipe.rate(5) == 1e-2 > recipe.rate(3)
    ctlpp.train(Tiny, data, seeds=[0], recipe=recipe, observers=[heard])
    line = "a warm-up of 500 steps does not fit into 50: the learning rate rises over 5 steps"
    assert heard.notes == [line]


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
    (batch,) = DataLoader(view, batch_size=len(view), collate_fn=view.collate)
    for found, expected in zip(batch, data.padded("train"), strict=True):
        assert torch.equal(found, expected)
    assert view.collate([view[0]])[0].shape == (1, min(data["train"]) + 2), (
        "no wider than its longest example"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_in_python_and_the_last_table_stays(data: ctlpp.Dataset, terminal: bool) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    display = ctlpp.TrainingDisplay(console=console)
    for steps in (2, 4):
        recipe = replace(RECIPE, steps=steps, eval_every=2, warmup=0)
        ctlpp.train("gru", data, seeds=[0, 7], preset="quick", recipe=recipe, observers=[display])
    text = file.getvalue()
    assert "gru on R: 6,884 parameters per seed, 2 steps" in text
    last = text[text.rindex("parameters per seed") :]
    shown = ("step 4 of 4", "At step 4", "above 0.95") if terminal else ("step 2, iid", "step 4, iid")
    assert all(part in last for part in shown)


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
    cases: list[tuple[Any, str]] = [
        (3, "start of type int: give a run, its folder, a module or its state"),
        (run, "start: that run has no seed 3 to begin with: its seeds are 0,7"),
        (
            torch.nn.Linear(2, 2),
            "start: these weights are of another model: embed.weight is missing, in the model (13, 8)",
        ),
    ]
    for start, line in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
            ctlpp.train(Tiny, other, seeds=[3], **still, start=start)
