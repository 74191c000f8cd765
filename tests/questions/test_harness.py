"""The questions in the LM Evaluation Harness itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ctlpp
from ctlpp.questions.questions import QuestionForm, list_questions

pytest.importorskip("lm_eval")
PROGRAM = Path(__file__).with_name("harness.py")


def test_the_task_runs_in_the_harness_and_its_samples_can_be_scored(tmp_path: Path) -> None:
    sizes = {"symbols": 4, "functions": 8, "max_length": 4, "train": 400, "iid": 60, "ood": 60}
    data = ctlpp.generate("R", protocol="clean", **sizes)
    ctlpp.ask(data, tmp_path / "q", format="lm-eval", limit=8)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    command = [sys.executable, str(PROGRAM)]
    done = subprocess.run(command, cwd=tmp_path / "q", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]

    found = json.loads((tmp_path / "q" / "scores.json").read_text())
    assert {*found["perfect"].values()} == {1.0}
    for split in ("iid", "ood"):
        zeros = sum(one.answer == "0" for one in list_questions(data, split, QuestionForm(limit=8))) / 8
        assert (found["constant"][f"{split} strict"], found["constant"][f"{split} lenient"]) == (0, zeros)

    samples = sorted((tmp_path / "q" / "log").rglob("samples_*.jsonl"))
    scores = ctlpp.score(data, samples, tmp_path / "run", name="constant")
    for row in scores.rows():
        if not row.length:
            assert found["constant"][f"{row.split} {row.reading}"] == pytest.approx(row.accuracy)
