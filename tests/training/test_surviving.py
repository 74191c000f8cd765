"""Runs that are killed for real, at random moments."""

import json
import random
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from ctlpp.runs import checkpoint

SCRIPT = """
import sys, torch
torch.set_num_threads(1)
from torch import nn
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

class Model(nn.Module):
    def __init__(self, vocab_size, n_classes):
        super().__init__()
        self.embed, self.drop = nn.Embedding(vocab_size, 16), nn.Dropout(0.2)
        self.classify = nn.Linear(16, n_classes)
    def forward(self, tokens):
        return self.classify(self.drop(self.embed(tokens)).mean(1))

drawn = torch.Generator().manual_seed(0)
def examples(n):
    return torch.randint(9, (50, n + 2), generator=drawn), torch.randint(4, (50,), generator=drawn)
split = {n: examples(n) for n in (1, 2)}
class Ready:
    def on_start(self, config, step):
        print(step, flush=True)
train(Model, {"train": split, "iid": split}, seeds=[0, 3], out=sys.argv[1], resume=True, observers=[Ready()],
      recipe=Recipe(steps=300, batch=10, lr=0.01, eval_every=7, checkpoint_every=3))
"""


def start(script: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(script), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_killed_at_random_moments_a_run_ends_as_if_nothing_had_happened(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    monkeypatch.setattr(sys, "argv", [str(script), str(whole)])
    runpy.run_path(str(script))  # in this process, which nobody kills
    chance, began = random.Random(1), []
    for _ in range(3):
        process = start(script, cut)
        assert process.stdout is not None
        began.append(int(process.stdout.readline()))
        time.sleep(chance.uniform(0.02, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(script, cut)
    out, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert began == sorted(began)
    assert int(out) > 0
    ours, theirs = (checkpoint.newest(folder / "checkpoint") for folder in (cut, whole))
    assert ours is not None
    assert theirs is not None
    assert ours[1]["step"] == theirs[1]["step"] == 300
    assert ours[0].keys() == theirs[0].keys()
    for name, tensor in ours[0].items():
        torch.testing.assert_close(tensor, theirs[0][name], rtol=0, atol=0, equal_nan=True)
    assert pq.read_table(cut / "metrics.parquet") == pq.read_table(whole / "metrics.parquet")
    results = [json.loads((folder / "result.json").read_text())["seeds"] for folder in (cut, whole)]
    assert results[0] == results[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_or_an_end_by_the_system_waits_for_the_step_and_saves(
    script: Path, tmp_path: Path, number: int
) -> None:
    process = start(script, tmp_path / "run")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode != 0
    last = errors.strip().splitlines()[-1]
    assert f"is saved in {tmp_path / 'run'}; go on with resume=True" in last
    assert not (tmp_path / "run" / "result.json").exists()
