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
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, PROGRAM],
        cwd=tmp_path / "q",
        env=os.environ | offline,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]

    found = json.loads((tmp_path / "q" / "scores.json").read_text())
    assert {*found["perfect"].values()} == {1.0}
    zeros = {
        split: sum(one.answer == "0" for one in list_questions(data, split, QuestionForm(limit=8))) / 8
        for split in ("iid", "ood")
    }
    assert found["constant"] == {
        f"{split} {reading}": zeros[split] * (reading == "lenient")
        for split in ("iid", "ood")
        for reading in ("strict", "lenient")
    }

    samples = sorted((tmp_path / "q" / "log").rglob("samples_*.jsonl"))
    scores = ctlpp.score(data, samples, tmp_path / "run", name="tiny GPT-2")
    theirs = json.loads(next((tmp_path / "q" / "log").rglob("results_*.json")).read_text())["results"]
    for row in scores.rows():
        if not row.length:
            assert theirs[f"ctlpp_{row.split}"][f"exact_match,{row.reading}"] == pytest.approx(row.accuracy)
