"""`train` and its run folder."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import RECIPE, Tiny, rows
from torch import nn

from ctlpp.training.recipe import recipe_for
from ctlpp.training.run import accuracy, load_run
from ctlpp.training.train import train


def test_a_run_folder_holds_what_the_interface_says(splits: Any, tmp_path: Path, heard: Any) -> None:
    out = tmp_path / "run"
    run = train(Tiny, splits, seeds=[3, 5], recipe=RECIPE, out=out, observers=[heard])
    names = {"config.json", "metrics.parquet", "result.json", "checkpoint", ".lock"}
    assert {path.name for path in out.iterdir()} == names
    config, result = (json.loads((out / f"{name}.json").read_text()) for name in ("config", "result"))
    assert config["seeds"] == [3, 5]
    assert config["recipe"]["lr"] == 0.01
    assert set(config["data"]) == {"train", "iid", "ood"}
    assert result == json.loads(json.dumps(run.result()))
    assert [row["seed"] for row in result["seeds"]] == [3, 5]
    assert set(result["seeds"][0]["accuracy"]) == {"iid", "ood"}
    assert set(result["seeds"][0]["by_length"]["ood"]) == {"1", "2", "3"}
    assert result["seeds"][0]["diverged"] is False
    assert 0 < result["seconds_aside"] < result["seconds"]
    table = rows(out)
    assert list(table[0]) == ["step", "seed", "split", "length", "accuracy", "loss"]
    assert sorted({row["step"] for row in table}) == [5, 10, 15, 20] == heard.evaluated
    assert len(table) == 4 * 2 * (2 * 4 + 1)  # evaluations, seeds, lengths 0 … 3 of two splits, training loss
    assert heard.saved == [4, 8, 12, 16, 20]
    kept = sorted(path.name for path in (out / "checkpoint").iterdir())
    assert kept == [f"step-0000000{n}.{kind}" for n in (16, 20) for kind in ("json", "safetensors")]


def test_a_saved_run_is_loaded_with_its_weights_settings_and_history(tmp_path: Path, splits: Any) -> None:
    how: Any = {"preset": "quick", "sizes": {"width": 8}, "recipe": replace(RECIPE, steps=6, eval_every=3)}
    run = train("gru", splits, seeds=[0, 2], **how, out=tmp_path / "r")
    again = load_run(tmp_path / "r")
    assert repr(again) == "<gru on own data: 2 seeds, 6 steps>"
    assert torch.equal(run.crowd.weights, again.crowd.weights)
    assert again.config["options"]["width"] == 8
    assert again.history.scores()[:8] == run.history.scores()[:8]
    assert again.table() == run.table()


def test_evaluation_is_in_float32_also_when_training_is_in_bf16(splits: Any) -> None:
    run = train(Tiny, splits, seeds=[0, 1], recipe=replace(RECIPE, precision="bf16"))
    losses = {(s.seed, s.length): s.loss for s in run.evaluate({"iid": splits["iid"]})}
    at_end = {(s.seed, s.length): s.loss for s in run.history.at_end() if s.split == "iid"}
    assert at_end == losses
    member, (tokens, targets) = run.crowd.member(1), splits["iid"][3]
    with torch.no_grad():
        plain = nn.functional.cross_entropy(member(tokens), targets).item()
    assert losses[1, 3] == pytest.approx(plain, rel=1e-6)


def test_accuracy_of_a_plain_module_is_that_of_its_crowd_and_leaves_its_mode(splits: Any) -> None:
    run = train(Tiny, splits, seeds=[2], recipe=replace(RECIPE, steps=1))
    model = run.crowd.member(2).train()
    empty = {4: (torch.zeros(0, 6, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))}
    splits = splits | {"iid": splits["iid"] | empty}
    expected = {score.length: score.accuracy for score in run.evaluate({"iid": splits["iid"]})}
    for batch in (5, 1024):
        assert accuracy(model, splits, ["iid"], batch=batch)["iid"] == pytest.approx(expected)
    assert model.training
    wrong = r"^the model returns \(5, 2\) for tokens of shape \(5, 3\); it should ret"
    with pytest.raises(ValueError, match=wrong):
        accuracy(lambda tokens: torch.zeros(len(tokens), 2), splits, ["iid"], batch=5)


class Misspelt:
    def on_evaluat(self, step: int, scores: object) -> None: ...


def test_bad_input_is_one_line_and_leaves_no_folder(splits: Any, tmp_path: Path) -> None:
    usual = {"model": Tiny, "data": splits, "seeds": [0], "recipe": RECIPE, "out": tmp_path / "run"}
    large, quick = replace(RECIPE, batch=1000), recipe_for("lstm", "quick")
    tokens, targets = splits["ood"][2]
    pair = "split 'train': give {length: (tokens, targets)} or (tokens, targets), of whole numbers"
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"model": 3}, "model of type int: give a name, package.module:factory or a callable"),
        ({"model": Tiny(13, 4)}, "model: one Tiny cannot be all seeds; give what makes it: Tiny"),
        ({"seeds": 3}, "seeds 3: give several numbers, such as range(5)"),
        ({"data": "data/R"}, "data/R does not exist; name a dataset folder, as `ctlpp generate` writes it"),
        ({"data": 5}, "data of type int: give a dataset or its folder, or a dictionary of splits"),
        ({"data": {"train": tokens}}, pair),
        ({"data": {"train": {2: (targets, tokens)}}}, pair),
        ({"data": {"train": (tokens.float(), targets)}}, pair),
        ({"data": splits["train"]}, "there is no split 'train' to learn from: the splits are 1, 2, 3"),
        ({"splits": ["iid", "odd"]}, "unknown split 'odd': choose from train, iid, ood"),
        ({"observers": [Misspelt()]}, "observer Misspelt has on_evaluat, which is never called: choose from"),
        ({"observers": print}, "observer builtin_function_or_method has no method that is called"),
        ({"device": "cuda:x"}, "device cuda:x: choose from auto, cpu, cuda, mps"),
        ({"device": "cuda"}, "device cuda: PyTorch finds no CUDA GPU on this machine; use cpu"),
        ({"device": "mps"}, "device mps: PyTorch finds no Apple GPU on this machine; use cpu"),
        ({"recipe": 5}, "recipe of type int: give a Recipe, as `recipe_for` makes it, or a dictionary"),
        ({"recipe": {"step": 5}}, "unknown setting 'step': choose from steps, batch, lr,"),
        ({"recipe": quick, "preset": "text"}, "preset text: the recipe is that of the preset quick; leave"),
        ({"recipe": large}, "larger than the data: there are 120 training examples; use at most 120, or the"),
    ]
    for wrong, text in mistakes:
        with pytest.raises(ValueError, match=re.escape(text)) as caught:
            train(**(usual | wrong))
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()
