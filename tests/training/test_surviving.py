"""A run that is killed for real, at random moments."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import torch
from tests.training.conftest import Heard, Tiny, rows, tiny_splits

from ctlpp.runs import checkpoint
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

RECIPE = Recipe(steps=120, batch=10, lr=0.01, eval_every=7, checkpoint_every=4)


class Ready:
    def on_start(self, config: object, step: int) -> None:
        print(step, flush=True)


def work(out: Path | str, observer: object) -> None:
    torch.set_num_threads(1)
    run = {"seeds": [0, 3], "recipe": RECIPE, "out": out, "resume": Path(out).exists()}
    train(Tiny, tiny_splits(), **run, observers=[observer])  # type: ignore[arg-type]


def test_killed_at_random_moments_a_run_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    command = f"from tests.training.test_surviving import Ready, work; work({str(cut)!r}, Ready())"
    chance, began = random.Random(1), []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", command], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        began.append(int(process.stdout.readline()))
        time.sleep(chance.uniform(0.05, 0.2))
        process.kill()
        process.communicate()
    (cut / ".metrics.parquet.1.part").write_bytes(b"half")  # whose process was killed
    heard = Heard()
    for folder in (cut, whole):
        work(folder, heard)
    assert not list(cut.rglob("*.part"))
    began.append(heard.started[0])
    assert began == sorted(began)
    assert began[-1] > 0
    ours, theirs = (checkpoint.last(folder) for folder in (cut, whole))
    assert ours[1]["step"] == theirs[1]["step"] == 120
    assert ours[0].keys() == theirs[0].keys()
    for name, tensor in ours[0].items():
        torch.testing.assert_close(tensor, theirs[0][name], rtol=0, atol=0, equal_nan=True)
    assert rows(cut) == rows(whole)
    results = [json.loads((folder / "result.json").read_text())["seeds"] for folder in (cut, whole)]
    assert results[0] == results[1]
