"""A run without an analysis is told what would give it one, and nothing that would fail."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.report.conftest import make_run

from ctlpp.figures.run import analyze_run
from ctlpp.report.advising import advice
from ctlpp.report.page import pack
from ctlpp.runs.checkpoint import newest, save
from ctlpp.runs.folder import read_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Finished and not analysed, with two checkpoints."""
    made = make_run(tmp_path / "run", analysed=False)
    for step in (200, 300):
        save(made / "checkpoint", step, {"weights": torch.ones(2, 3)}, {})
    return made


def told(run: Path) -> str:
    return str(pack(read_run(run, "run")).facts["inside_missing"])


def damage(run: Path, step: int) -> None:
    path = run / "checkpoint" / f"step-{step:09d}.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def change(run: Path, **entries: object) -> None:
    """Other entries of a config."""
    path = run / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_a_finished_run_can_be_analysed_as_long_as_one_checkpoint_is_whole(run: Path) -> None:
    expected = "not analysed: `ctlpp analyze` on this folder, then the report again"
    assert told(run) == expected
    damage(run, 300)
    assert told(run) == expected
    assert newest(run / "checkpoint") is not None


def test_damaged_checkpoints_cannot_be_analysed(run: Path) -> None:
    damage(run, 300)
    (run / "checkpoint" / "step-000000200.json").write_text("{")
    assert (
        told(run) == "not analysed: its checkpoint is damaged; train it again in a new folder to analyse it"
    )
    with pytest.raises(ValueError, match="checkpoint"):
        newest(run / "checkpoint")


def test_a_run_whose_checkpoint_was_not_kept_cannot_be_analysed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    assert (
        told(run) == "not analysed: its checkpoint was not kept; train it again in a new folder to analyse it"
    )
    assert newest(run / "checkpoint") is None


def test_an_unfinished_run_needs_its_option_and_a_checkpoint(run: Path) -> None:
    (run / "result.json").unlink()
    assert told(run) == "not analysed: `ctlpp analyze --unfinished` on this folder, then the report again"
    for path in (run / "checkpoint").iterdir():
        path.unlink()
    assert told(run) == "not analysed: the run is unfinished and has no checkpoint yet"


def test_a_run_that_does_not_name_its_task_needs_its_data(run: Path) -> None:
    change(run, task=None)
    assert "`ctlpp analyze --data DIR` on this folder" in told(run)


def test_a_damaged_run_is_called_so(run: Path) -> None:
    (run / "config.json").write_text("{")
    assert advice(read_run(run, "run")).startswith(
        "not analysed: the run is damaged (config.json cannot be read"
    )


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"recipe": None}, "run/config.json is damaged (recipe is null): train in a new folder"),
        ({"seeds": "abc"}, "run/config.json is damaged (seeds is abc): train in a new folder"),
        ({"seeds": [1, "b"]}, "seed 'b': must be a whole number"),
        ({"model": "gpt-9"}, "unknown model 'gpt-9': choose from lstm, "),
        ({"options": {"width": "wide"}}, "size width=wide: use "),
        (
            {"n_classes": 5},
            "has 13 tokens and 5 classes, the task 13 and 4: name the dataset it was trained on",
        ),
        ({"task": {"format": 1}}, "variant"),
    ],
)
def test_settings_that_the_command_refuses_get_no_such_advice(
    run: Path, entries: dict[str, Any], reason: str
) -> None:
    (run / "result.json").unlink()
    change(run, **entries)
    with pytest.raises(ValueError, match=re.escape(reason.removeprefix("run/"))) as refused:
        analyze_run(run, unfinished=True)
    assert told(run) == f"not analysed: {str(refused.value).replace(str(run), 'run')}"


def test_a_model_of_ones_own_is_not_imported_to_give_advice(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    change(run, model="loud:make")
    expected = "`ctlpp analyze` on this folder where loud:make can be imported, then the report again"
    assert told(run) == f"not analysed: {expected}"
    change(run, model="loud:make.<locals>.inner")
    assert told(run).startswith("not analysed: no command finds the model loud:make.<locals>.inner")
