"""A run without an analysis is told what would give it one, and nothing that would fail."""

import json
from pathlib import Path

import pytest
import torch
from tests.report.conftest import make_run

from ctlpp.report.advising import advice
from ctlpp.report.collecting import read_record
from ctlpp.report.page import pack
from ctlpp.training.checkpoint import newest, save


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Finished and not analysed, with two checkpoints."""
    made = make_run(tmp_path / "run", analysed=False)
    for step in (200, 300):
        save(made / "checkpoint", step, {"weights": torch.ones(2, 3)}, {})
    return made


def told(run: Path) -> str:
    return str(pack(read_record(run, "run")).facts["inside_missing"])


def damage(run: Path, step: int) -> None:
    path = run / "checkpoint" / f"step-{step:09d}.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def test_a_finished_run_can_be_analysed_as_long_as_one_checkpoint_is_whole(run: Path) -> None:
    expected = "not analysed: `ctlpp analyze` on this folder, then the report again"
    assert told(run) == expected
    damage(run, 300)
    assert told(run) == expected
    assert newest(run / "checkpoint") is not None


def test_damaged_checkpoints_cannot_be_analysed(run: Path) -> None:
    damage(run, 300)
    (run / "checkpoint" / "step-000000200.json").write_text("{")
    assert told(run) == "not analysed: its checkpoint is damaged; train it again in a new folder to analyse it"
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be read"):
        newest(run / "checkpoint")


def test_a_run_whose_checkpoint_was_not_kept_cannot_be_analysed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    expected = "not analysed, and its checkpoint was not kept: train it again in a new folder to analyse it"
    assert told(run) == expected
    assert newest(run / "checkpoint") is None


def test_an_unfinished_run_needs_its_option_and_a_checkpoint(run: Path) -> None:
    (run / "result.json").unlink()
    assert told(run) == "not analysed: `ctlpp analyze --unfinished` on this folder, then the report again"
    for path in (run / "checkpoint").iterdir():
        path.unlink()
    assert told(run) == "not analysed: the run is unfinished and has no checkpoint yet"


def test_a_run_that_does_not_name_its_task_needs_its_data(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"task": None}))
    assert "`ctlpp analyze --data DIR` on this folder" in told(run)


def test_a_damaged_run_is_called_so(run: Path) -> None:
    (run / "config.json").write_text("{")
    assert advice(read_record(run, "run")).startswith("not analysed: the run is damaged (config.json cannot be read")
