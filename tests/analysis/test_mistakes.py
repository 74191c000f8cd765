"""`ctlpp analyze` on what it cannot analyse: one line, exit code 2, nothing written."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.analysis import spoiling
from tests.analysis.conftest import ctlpp


@pytest.mark.parametrize(
    ("spoil", "options", "complaint"),
    [
        (shutil.rmtree, [], "RUN does not exist: name a run folder, as `ctlpp train` writes it"),
        (
            spoiling.remove_config,
            [],
            "no run in RUN: there is no config.json in it; name a run folder, as `ctlpp train` writes it",
        ),
        (
            spoiling.move_one_level_down,
            [],
            "no run in RUN: there is no config.json in it; choose one inside, as RUN/ndr-R\n",
        ),
        (
            spoiling.unfinish,
            [],
            "the run in RUN is unfinished (step 30 of 30): train on with --resume, or analyse its newest",
        ),
        (spoiling.lose_code, [], "model 'no_such_module:model': cannot import no_such_module"),
        (
            spoiling.forget_task,
            [],
            "the run in RUN does not say which task it was trained on: name its dataset with --data",
        ),
        (
            spoiling.damage,
            [],
            "RUN/checkpoint/step-000000030.safetensors is damaged (its checksum is wrong), and no older checkpoint is"
            " whole: the results of the run stay,",
        ),
        (
            spoiling.damage_newest,
            [],
            "RUN/checkpoint/step-000000030.safetensors is damaged (its checksum is wrong): the finish",
        ),
        (spoiling.name_python, [], "model 'os:system' is no model: os is part of Python\n"),
        (
            spoiling.lose_checkpoints,
            [],
            "the run in RUN is finished, and only its small files were kept, not its checkpoint:",
        ),
        (spoiling.stop_early, [], "the run in RUN has no checkpoint yet: resume it first"),
        (
            spoiling.occupy,
            [],
            "RUN/analysis exists already: choose another folder with --out, or say --force to replace it",
        ),
        (spoiling.spoil_nothing, ["--seeds", "0,5"], "no seed 5 in this run: choose from 0, 2, 3, 7"),
        (
            spoiling.spoil_nothing,
            ["--seeds", "3"],
            "no seed 1 in this run: --seeds 3 means seeds 0 … 2; this run has 0, 2 … 3, 7",
        ),
        (spoiling.spoil_nothing, ["--seeds", "x"], "--seeds x: write"),
        (spoiling.spoil_nothing, ["--bases", "some"], "--bases some: write a number, or all"),
        (
            spoiling.spoil_nothing,
            ["--bases", "13"],
            "--bases 13: every donor and consumer has 12 bases of another value: use 1",
        ),
        (spoiling.spoil_nothing, ["--data", "nowhere"], "nowhere"),
        (spoiling.become_a_file, [], "RUN is a file, not a run folder, as `ctlpp train` writes it"),
        (
            spoiling.keep_the_analysis_alone,
            [],
            "the run in RUN is finished, and only its small files were kept, not its checkpoint:"
            " its analysis is in RUN/analysis\n",
        ),
        (
            spoiling.spoil_nothing,
            ["--out", "RUN/config.json"],
            "RUN/config.json is a file: choose a folder with --out",
        ),
        (
            spoiling.spoil_nothing,
            ["--out", "RUN/config.json", "--force"],
            "RUN/config.json is a file: choose a folder",
        ),
        (
            spoiling.spoil_nothing,
            ["--out", "RUN/checkpoint"],
            "RUN/checkpoint is not an analysis, so it is not replaced: choose another folder with --out",
        ),
        (spoiling.spoil_nothing, ["--out", "RUN/checkpoint", "--force"], "RUN/checkpoint is not an analysis"),
        (
            spoiling.spoil_nothing,
            ["--out", "RUN/config.json/new"],
            "cannot write RUN/config.json/new: RUN/config.json is not a folder: choose another folder with --out",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Any,
    options: Any,
    complaint: str,
) -> None:
    spoil(run)
    before = sorted(path for path in run.rglob("*"))
    given = [option.replace("RUN", str(run)) for option in options]
    code, out, err = ctlpp(monkeypatch, capsys, "analyze", run, "--device", "cpu", *given)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"ctlpp: {complaint.replace('RUN', str(run))}"), err
    assert sorted(path for path in run.rglob("*")) == before
