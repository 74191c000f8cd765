"""`train` and its run folder."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from ctlpp.training import checkpoint
from ctlpp.training.folder import locked
from ctlpp.training.inputs import find_device
from ctlpp.training.loop import Interrupted
from ctlpp.training.recipe import Recipe
from ctlpp.training.run import load_run, train

RECIPE = Recipe(steps=20, batch=10, lr=0.01, warmup=2, eval_every=5, checkpoint_every=4)


def rows(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "metrics.parquet").to_pylist()  # type: ignore[no-any-return]


def test_a_run_folder_holds_what_the_interface_says(tiny: Any, splits: Any, tmp_path: Path, heard: Any) -> None:
    out = tmp_path / "run"
    run = train(tiny, splits, seeds=[3, 5], recipe=RECIPE, out=out, observers=[heard])
    assert {path.name for path in out.iterdir()} == {
        "config.json", "metrics.parquet", "result.json", "checkpoint", ".lock"
    }  # fmt: skip
    config, result = json.loads((out / "config.json").read_text()), json.loads((out / "result.json").read_text())
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
    assert len(table) == 4 * 2 * (2 * 4 + 1)  # evaluations, seeds, lengths 0 … 3 of two splits and the training loss
    assert heard.saved == [4, 8, 12, 16, 20]
    kept = sorted(path.name for path in (out / "checkpoint").iterdir())
    assert kept == [f"step-0000000{n}.{kind}" for n in (16, 20) for kind in ("json", "safetensors")]


def test_it_works_without_a_folder_and_learns(tiny: Any, splits: Any) -> None:
    recipe = replace(RECIPE, steps=300, lr=0.05, eval_every=0)
    run = train(lambda v, c: tiny(v, c, dropout=0.0, width=32), splits, seeds=range(2), recipe=recipe, splits=["train"])
    assert [row["seed"] for row in run.table()] == [0, 1]
    assert all(row["train"] > 0.95 and row["diverged"] is None for row in run.table())


def test_a_seed_is_the_same_run_alone_and_among_others(tiny: Any, splits: Any) -> None:
    many = train(tiny, splits, seeds=[1, 7, 9], recipe=RECIPE, memory=1)
    alone = train(tiny, splits, seeds=[7], recipe=RECIPE)
    torch.testing.assert_close(many.crowd.weights[1], alone.crowd.weights[0], rtol=1e-4, atol=1e-6)


def test_a_saved_run_is_loaded_with_its_weights_settings_and_history(tmp_path: Path, splits: Any) -> None:
    recipe = replace(RECIPE, steps=6, eval_every=3)
    run = train("gru", splits, seeds=[0, 2], preset="quick", options={"width": 8}, recipe=recipe, out=tmp_path / "r")
    again = load_run(tmp_path / "r")
    assert repr(again) == "<gru on own data: 2 seeds, 6 steps>"
    assert torch.equal(run.crowd.weights, again.crowd.weights)
    assert again.config["options"]["width"] == 8
    assert again.metrics.splits == run.metrics.splits
    assert again.table() == run.table()
    scores = again.evaluate({"iid": splits["iid"]})
    assert [s.accuracy for s in scores if s.length == 0] == [row["iid"] for row in run.table()]
    member = again.crowd.member(2)
    tokens, targets = splits["iid"][3]
    right = (member(tokens).argmax(-1) == targets).float().mean().item()
    assert right == pytest.approx(next(s.accuracy for s in scores if (s.seed, s.length) == (2, 3)))


def test_the_result_says_how_long_evaluations_and_checkpoints_took(tiny: Any, splits: Any, tmp_path: Path) -> None:
    run = train(tiny, splits, recipe=replace(RECIPE, eval_every=1), seeds=[0], out=tmp_path)
    assert 0 < run.aside < run.seconds
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["seconds_aside"] == pytest.approx(run.aside, abs=0.001)
    assert load_run(tmp_path).aside <= run.aside, "all but the last checkpoint's own"


def test_a_finished_run_is_not_trained_again(tiny: Any, splits: Any, tmp_path: Path, heard: Any) -> None:
    first = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    again = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True, observers=[heard])
    assert heard.evaluated == heard.saved == []
    assert again.table() == first.table()


def test_a_finished_run_without_its_checkpoint_is_not_trained_again(tiny: Any, splits: Any, tmp_path: Path) -> None:
    train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(ValueError, match=r"is finished, and only its small files were kept, .* nothing to resume;"):
        train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True)
    assert (tmp_path / "result.json").read_bytes() == before


def test_resuming_a_finished_run_makes_up_for_files_that_were_lost(tiny: Any, splits: Any, tmp_path: Path) -> None:
    train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    history, result = rows(tmp_path), json.loads((tmp_path / "result.json").read_text())
    (tmp_path / "metrics.parquet").write_bytes(b"PAR1")
    (tmp_path / "result.json").unlink()
    train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True)
    assert rows(tmp_path) == history
    assert json.loads((tmp_path / "result.json").read_text())["seeds"] == result["seeds"]


class Stop:
    """Presses Ctrl-C when a step is reached."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_evaluate(self, step: int, scores: object) -> None:
        if step == self.step:
            raise KeyboardInterrupt


def test_ctrl_c_saves_and_says_how_to_resume_and_resuming_is_exact(tiny: Any, splits: Any, tmp_path: Path) -> None:
    whole = train(tiny, splits, recipe=RECIPE, seeds=[0, 1], out=tmp_path / "whole")
    with pytest.raises(Interrupted) as caught:
        train(tiny, splits, recipe=RECIPE, seeds=[0, 1], out=tmp_path / "cut", observers=[Stop(10)])
    text = f"interrupted: step 10 is saved in {tmp_path / 'cut'}; go on with --resume (resume=True)"
    assert str(caught.value) == text
    assert not (tmp_path / "cut" / "result.json").exists()
    resumed = train(tiny, splits, recipe=RECIPE, seeds=[0, 1], out=tmp_path / "cut", resume=True)
    assert torch.equal(resumed.crowd.weights, whole.crowd.weights)
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_a_run_that_goes_on_elsewhere_says_so(tiny: Any, splits: Any, tmp_path: Path, heard: Any) -> None:
    settings: Any = {"recipe": RECIPE, "seeds": [0], "out": tmp_path}
    with pytest.raises(Interrupted):
        train(tiny, splits, **settings, observers=[Stop(10)])
    config = json.loads((tmp_path / "config.json").read_text())
    config["engine"] |= {"device_name": "NVIDIA H200", "precision": "bf16"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(Interrupted):
        train(tiny, splits, **settings, resume=True, observers=[heard, Stop(15)])
    used = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    here = f"CPU, float32, {used}"
    (note,) = heard.notes
    assert note.startswith(f"the run was on NVIDIA H200, bf16, {used}; from step 10 on it is on {here}, so it may not")
    train(tiny, splits, **settings, resume=True, observers=[heard])
    assert heard.notes == [note], "it is told once"
    for name in ("config.json", "result.json"):
        assert json.loads((tmp_path / name).read_text())["continued"] == {"step 10": here}


def test_ctrl_c_without_a_folder_is_just_that(tiny: Any, splits: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tiny, splits, recipe=RECIPE, seeds=[0], observers=[Stop(10)])


def test_a_damaged_newest_checkpoint_falls_back_with_a_warning(
    tiny: Any, splits: Any, tmp_path: Path, heard: Any
) -> None:
    whole = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    newest = tmp_path / "checkpoint" / "step-000000020.safetensors"
    newest.write_bytes(newest.read_bytes()[:-5] + b"wrong")
    again = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True, observers=[heard])
    line = "checkpoint step-000000020 is damaged (its checksum is wrong): falling back to the one before"
    assert heard.notes == [f"warning: {line}"]
    assert torch.equal(again.crowd.weights, whole.crowd.weights)
    for path in (tmp_path / "checkpoint").glob("*.json"):
        path.write_text("{")
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be read: remove the folder"):
        load_run(tmp_path, tiny)


def test_a_second_process_in_the_same_folder_is_refused(tiny: Any, splits: Any, tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match=r"is in use by another process: wait for it, or choose"):
        train(tiny, splits, recipe=RECIPE, out=tmp_path)


def test_a_folder_with_a_run_is_not_overwritten(tiny: Any, splits: Any, tmp_path: Path) -> None:
    train(tiny, splits, recipe=replace(RECIPE, steps=1), seeds=[0], out=tmp_path)
    with pytest.raises(ValueError, match=r"already holds a run: continue it with --resume, or choose another folder$"):
        train(tiny, splits, recipe=replace(RECIPE, steps=1), seeds=[0], out=tmp_path)


def test_a_folder_with_other_files_is_left_alone(tiny: Any, splits: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"holds other files \(thesis.tex, …\): choose an empty or a new folder$"):
        train(tiny, splits, recipe=RECIPE, out=tmp_path)


def test_a_full_disk_is_one_line_and_leaves_the_older_checkpoint(
    tiny: Any, splits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def fills_up(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 14:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fills_up)
    text = r"^cannot write .*: No space left on device; what was saved before is still there: make room and resume$"
    with pytest.raises(ValueError, match=text):
        train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    monkeypatch.undo()
    found = checkpoint.newest(tmp_path / "checkpoint")
    assert found is not None
    assert found[1]["step"] == 8
    assert not list(tmp_path.rglob("*.part"))
    resumed = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True)
    assert torch.equal(resumed.crowd.weights, train(tiny, splits, recipe=RECIPE, seeds=[0]).crowd.weights)


def other_data(splits: Any) -> Any:
    tokens, targets = splits["train"][2]
    return splits | {"train": splits["train"] | {2: (tokens, (targets + 1) % 4)}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seeds": [0, 2]}, "has seeds [0, 1], not [0, 2]: resume with the same settings"),
        ({"recipe": replace(RECIPE, lr=0.5)}, "has lr 0.01, not 0.5: resume with the same settings"),
        ({"model": "gru"}, "has model "),
        ({"options": {"width": 4}}, 'has options {}, not {"width": 4}: '),
    ],
)
def test_resuming_with_other_settings_is_refused(
    tiny: Any, splits: Any, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    settings: dict[str, Any] = {"model": tiny, "data": splits, "seeds": [0, 1], "recipe": RECIPE, "out": tmp_path}
    train(**settings)
    with pytest.raises(ValueError, match=re.escape(text)):
        train(**(settings | change), resume=True)


def test_resuming_with_changed_data_or_another_version_is_refused(tiny: Any, splits: Any, tmp_path: Path) -> None:
    train(tiny, splits, seeds=[0], recipe=RECIPE, out=tmp_path)
    text = r"the data has changed since the run in .* began \(split train\): resume with the data it began with"
    with pytest.raises(ValueError, match=text):
        train(tiny, other_data(splits), seeds=[0], recipe=RECIPE, out=tmp_path, resume=True)
    config = json.loads((tmp_path / "config.json").read_text()) | {"format": 99, "versions": {"ctlpp": "9.9"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"was written by another version of ctlpp \(9.9\): train again in a new"):
        train(tiny, splits, seeds=[0], recipe=RECIPE, out=tmp_path, resume=True)


class Wide(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, :3].float()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"model": "gpt"}, "unknown model 'gpt': choose from lstm, transformer, ndr"),
        ({"model": 3}, "model of type int: give a name, package.module:factory or a callable"),
        ({"model": "nowhere:model"}, "model 'nowhere:model': cannot import nowhere"),
        ({"model": lambda v, c: Wide()}, "it should return"),
        ({"seeds": 3}, "seeds 3: give several numbers, such as range(3)"),
        ({"data": "data/R"}, "data of type str: give a dataset, as `ctlpp.load(folder)` reads it, or a dictionary of"),
        ({"preset": "slow"}, "unknown preset 'slow': choose from released, paper, quick"),
        ({"splits": ["iid", "odd"]}, "unknown split 'odd': choose from train, iid, ood"),
        ({"device": "cuda:x"}, "unknown device 'cuda:x': choose from auto, cpu, cuda"),
        ({"device": "tpu"}, "unknown device 'tpu': choose from auto, cpu, cuda"),
        (
            {"recipe": replace(RECIPE, batch=1000)},
            "batch 1000 is larger than the data: there are 120 training examples; use at most 120, or the preset quick",
        ),
        ({"options": {"depth": 2}}, "the factory raised TypeError"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(
    tiny: Any, splits: Any, tmp_path: Path, wrong: dict[str, Any], text: str
) -> None:
    settings: dict[str, Any] = {"model": tiny, "data": splits, "seeds": [0], "recipe": RECIPE, "out": tmp_path / "run"}
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        train(**(settings | wrong))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_the_number_of_a_gpu_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    for name, stand_in in {"is_available": lambda: True, "device_count": lambda: 2, "set_device": taken.append}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert taken == [1], "kernels are launched there, too"
    with pytest.raises(ValueError, match=r"^device 'cuda:2': this machine has cuda:0 to cuda:1$"):
        find_device("cuda:2")


def test_cuda_that_is_not_there_is_one_line(tiny: Any, splits: Any) -> None:
    with pytest.raises(ValueError, match=r"^device 'cuda': PyTorch finds no CUDA GPU on this machine; use cpu$"):
        train(tiny, splits, device="cuda")
