"""`make demo`, shortened: it runs, can be repeated, and its claim holds."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean

import pytest

from ctlpp import demo
from ctlpp.benchmark.dataset import generate
from ctlpp.training.recipe import recipe_for
from ctlpp.training.train import train


def test_the_demonstration_ends_with_a_table_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--out", str(tmp_path / "demo"), "--seeds", "2", "--steps", "4"]
    demo.main(arguments)
    first = capsys.readouterr().out
    for words in ("2,200 train", "proved", "lstm", "transformer", "ndr", "IID", "OOD", "paper, full size"):
        assert words in first
    assert {path.name for path in (tmp_path / "demo" / "runs").iterdir()} == {
        f"{model}-{variant}" for model in demo.THREE for variant in demo.VARIANTS
    }
    demo.main(arguments)
    rows = [[line for line in out.splitlines() if "±" in line] for out in (first, capsys.readouterr().out)]
    assert rows[0] == rows[1]


@pytest.mark.skipif(os.name == "nt", reason="no groups of processes")
def test_ctrl_c_ends_the_demonstration_and_begins_nothing_more(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ctlpp.demo", "--out", str(tmp_path), "--seeds", "1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not list(tmp_path.glob("runs/*/config.json")):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "interrupted: the same command goes on where it stopped"
    assert len(list(tmp_path.glob("runs/*"))) <= (os.cpu_count() or 1)


def test_the_lstm_composes_and_the_ndr_fails_to_although_both_fit() -> None:
    """Each as the demonstration trains it; the NDR only until both seeds fit: from then on OOD stays where it is."""
    data = generate("R", **demo.DATA)
    until_it_fits = recipe_for(
        "ndr", "quick", early_stop=1, eval_every=100, settled_accuracy=0.93, settled_change=1.0
    )
    accuracy = {}
    for model, recipe in (("lstm", recipe_for("lstm", "quick")), ("ndr", until_it_fits)):
        rows = train(
            model, data, seeds=[1, 3], preset="quick", recipe=recipe, device="cpu", observers=[]
        ).table()
        accuracy[model] = [fmean(row[split] for row in rows) for split in ("iid", "ood")]
    assert accuracy["lstm"][0] > 0.98
    assert accuracy["lstm"][1] > 0.9
    assert accuracy["ndr"][0] > 0.9
    assert accuracy["ndr"][1] < 0.75
