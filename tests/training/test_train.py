"""`train` and its run folder."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import RECIPE, rows
from torch import Tensor, nn

from ctlpp.training.engine import find_device
from ctlpp.training.train import load_run, train


def test_a_run_folder_holds_what_the_interface_says(
    tiny: Any, splits: Any, tmp_path: Path, heard: Any
) -> None:
    out = tmp_path / "run"
    run = train(tiny, splits, seeds=[3, 5], recipe=RECIPE, out=out, observers=[heard])
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
    table = rows(out)
    assert list(table[0]) == ["step", "seed", "split", "length", "accuracy", "loss"]
    assert sorted({row["step"] for row in table}) == [5, 10, 15, 20] == heard.evaluated
    assert len(table) == 4 * 2 * (2 * 4 + 1)  # evaluations, seeds, lengths 0 … 3 of two splits, training loss
    assert heard.saved == [4, 8, 12, 16, 20]
    kept = sorted(path.name for path in (out / "checkpoint").iterdir())
    assert kept == [f"step-0000000{n}.{kind}" for n in (16, 20) for kind in ("json", "safetensors")]


def test_it_works_without_a_folder_and_learns(tiny: Any, splits: Any) -> None:
    recipe = replace(RECIPE, steps=300, lr=0.05, eval_every=0)
    sizes = {"dropout": 0.0, "width": 32}
    run = train(tiny, splits, seeds=range(2), recipe=recipe, sizes=sizes, splits=["train"])
    assert [row["seed"] for row in run.table()] == [0, 1]
    assert all(row["train"] > 0.95 and row["diverged"] is None for row in run.table())


def test_a_seed_is_the_same_run_alone_and_among_others(tiny: Any, splits: Any) -> None:
    many = train(tiny, splits, seeds=[1, 7, 9], recipe=RECIPE, memory=1)
    alone = train(tiny, splits, seeds=[7], recipe=RECIPE)
    torch.testing.assert_close(many.crowd.weights[1], alone.crowd.weights[0], rtol=1e-4, atol=1e-6)


def test_a_saved_run_is_loaded_with_its_weights_settings_and_history(tmp_path: Path, splits: Any) -> None:
    how: Any = {"preset": "quick", "sizes": {"width": 8}, "recipe": replace(RECIPE, steps=6, eval_every=3)}
    run = train("gru", splits, seeds=[0, 2], **how, out=tmp_path / "r")
    again = load_run(tmp_path / "r")
    assert repr(again) == "<gru on own data: 2 seeds, 6 steps>"
    assert torch.equal(run.crowd.weights, again.crowd.weights)
    assert again.config["options"]["width"] == 8
    assert again.metrics.rows[0] == run.metrics.rows[0]
    assert again.table() == run.table()
    scores = again.evaluate({"iid": splits["iid"]})
    assert [s.accuracy for s in scores if s.length == 0] == [row["iid"] for row in run.table()]
    tokens, targets = splits["iid"][3]
    right = (again.crowd.member(2)(tokens).argmax(-1) == targets).float().mean().item()
    assert right == pytest.approx(next(s.accuracy for s in scores if (s.seed, s.length) == (2, 3)))


def test_the_result_says_how_long_evaluations_and_checkpoints_took(
    tiny: Any, splits: Any, tmp_path: Path
) -> None:
    run = train(tiny, splits, recipe=replace(RECIPE, eval_every=1), seeds=[0], out=tmp_path)
    assert 0 < run.overhead_seconds < run.seconds
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["seconds_aside"] == pytest.approx(run.overhead_seconds, abs=0.001)
    assert load_run(tmp_path, tiny).overhead_seconds <= run.overhead_seconds, (
        "all but the last checkpoint's own"
    )


class Wide(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, :3].float()


def test_bad_input_is_one_line_and_leaves_no_folder(tiny: Any, splits: Any, tmp_path: Path) -> None:
    usual = {"model": tiny, "data": splits, "seeds": [0], "recipe": RECIPE, "out": tmp_path / "run"}
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"model": "gpt"}, "unknown model 'gpt': choose from lstm, transformer, ndr"),
        ({"model": 3}, "model of type int: give a name, package.module:factory or a callable"),
        ({"model": "nowhere:model"}, "model 'nowhere:model': cannot import nowhere"),
        ({"model": lambda v, c: Wide()}, "it should return"),
        ({"seeds": 3}, "seeds 3: give several numbers, such as range(3)"),
        ({"seeds": []}, "no seeds: give at least one"),
        ({"data": "data/R"}, "data of type str: give a dataset, as `ctlpp.load(folder)` reads it, or a dict"),
        ({"preset": "slow"}, "preset slow: choose from released, paper, quick"),
        ({"splits": ["iid", "odd"]}, "unknown split 'odd': choose from train, iid, ood"),
        ({"device": "cuda:x"}, "device cuda:x: choose from auto, cpu, cuda"),
        ({"device": "cuda"}, "device cuda: PyTorch finds no CUDA GPU on this machine; use cpu"),
        (
            {"recipe": replace(RECIPE, batch=1000)},
            "batch 1000 is larger than the data: there are 120 training",
        ),
        ({"sizes": {"depth": 2}}, "the factory raised TypeError"),
    ]
    for wrong, text in mistakes:
        with pytest.raises(ValueError, match=re.escape(text)) as caught:
            train(**(usual | wrong))
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()


def test_the_number_of_a_gpu_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    stand_ins = {"is_available": lambda: True, "device_count": lambda: 2, "set_device": taken.append}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert taken == [1], "kernels are launched there, too"
    with pytest.raises(ValueError, match=r"^device cuda:2: this machine has cuda:0 to cuda:1$"):
        find_device("cuda:2")
