"""Run folders that are taken up again, or must not be."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import RECIPE, rows

from ctlpp.runs import checkpoint
from ctlpp.runs.folder import locked
from ctlpp.training.loop import Interrupted
from ctlpp.training.train import load_run, train


def test_a_finished_run_is_not_trained_again(tiny: Any, splits: Any, tmp_path: Path, heard: Any) -> None:
    first = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    again = train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True, observers=[heard])
    assert heard.evaluated == heard.saved == []
    assert again.table() == first.table()


def test_a_finished_run_without_its_checkpoint_is_not_trained_again(
    tiny: Any, splits: Any, tmp_path: Path
) -> None:
    train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(
        ValueError, match=r"is finished, and only its small files were kept, .* nothing to resume;"
    ):
        train(tiny, splits, recipe=RECIPE, seeds=[0], out=tmp_path, resume=True)
    assert (tmp_path / "result.json").read_bytes() == before


def test_resuming_a_finished_run_makes_up_for_files_that_were_lost(
    tiny: Any, splits: Any, tmp_path: Path
) -> None:
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


def test_ctrl_c_saves_and_says_how_to_resume_and_resuming_is_exact(
    tiny: Any, splits: Any, tmp_path: Path
) -> None:
    whole = train(tiny, splits, recipe=RECIPE, seeds=[0, 1], out=tmp_path / "whole")
    with pytest.raises(Interrupted) as caught:
        train(tiny, splits, recipe=RECIPE, seeds=[0, 1], out=tmp_path / "cut", observers=[Stop(10)])
    text = f"interrupted: step 10 is saved in {tmp_path / 'cut'}; go on with resume=True"
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
    assert note.startswith(
        f"the run was on NVIDIA H200, bf16, {used}; from step 10 on it is on {here}, so it may not"
    )
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
    line = f"{newest} is damaged (its checksum is wrong): falling back to the checkpoint before"
    assert heard.notes == [f"warning: {line}"]
    assert torch.equal(again.crowd.weights, whole.crowd.weights)
    assert torch.equal(load_run(tmp_path, tiny).crowd.weights, whole.crowd.weights), "it is mended"


def test_a_second_process_in_the_same_folder_is_refused(tiny: Any, splits: Any, tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(ValueError, match=r"is in use by another process: wait for it, or choose"),
    ):
        train(tiny, splits, recipe=RECIPE, out=tmp_path)


def test_a_folder_with_a_run_is_not_overwritten(tiny: Any, splits: Any, tmp_path: Path) -> None:
    train(tiny, splits, recipe=replace(RECIPE, steps=1), seeds=[0], out=tmp_path)
    with pytest.raises(
        ValueError, match=r"already holds a run: continue it with resume=True, or choose another folder$"
    ):
        train(tiny, splits, recipe=replace(RECIPE, steps=1), seeds=[0], out=tmp_path)


def test_a_folder_with_other_files_is_left_alone(tiny: Any, splits: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        ValueError, match=r"holds other files \(thesis.tex, …\): choose an empty or a new folder$"
    ):
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
    text = r"^cannot write .*: No space left on device; what was there before is unchanged: make room"
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
        ({"sizes": {"width": 4}}, 'has options {}, not {"width": 4}: '),
    ],
)
def test_resuming_with_other_settings_is_refused(
    tiny: Any, splits: Any, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    settings: dict[str, Any] = {
        "model": tiny,
        "data": splits,
        "seeds": [0, 1],
        "recipe": RECIPE,
        "out": tmp_path,
    }
    train(**settings)
    with pytest.raises(ValueError, match=re.escape(text)):
        train(**(settings | change), resume=True)


def test_resuming_with_changed_data_or_another_version_is_refused(
    tiny: Any, splits: Any, tmp_path: Path
) -> None:
    train(tiny, splits, seeds=[0], recipe=RECIPE, out=tmp_path)
    text = (
        r"the data has changed since the run in .* began \(split train\): resume with the data it began with"
    )
    with pytest.raises(ValueError, match=text):
        train(tiny, other_data(splits), seeds=[0], recipe=RECIPE, out=tmp_path, resume=True)
    config = json.loads((tmp_path / "config.json").read_text()) | {"format": 99, "versions": {"ctlpp": "9.9"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match=r"was written by another version of ctlpp \(9.9\): train again in a new"
    ):
        train(tiny, splits, seeds=[0], recipe=RECIPE, out=tmp_path, resume=True)
