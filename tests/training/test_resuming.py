"""Run folders that are taken up again, also after being killed, or must not be."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.conftest import RECIPE, Heard, Tiny, rows, tiny_splits

from ctlpp.files import lock
from ctlpp.runs import checkpoint
from ctlpp.training.run import Run, load_run
from ctlpp.training.step import Tally
from ctlpp.training.train import Interrupted, train

Go = Callable[..., Run]
LONG = replace(RECIPE, steps=120, eval_every=7)


@pytest.fixture
def go(splits: Any, tmp_path: Path) -> Go:
    """Trains the tiny model in one folder, or goes on with it."""
    usual = {"model": Tiny, "data": splits, "seeds": [0, 1], "recipe": RECIPE, "out": tmp_path / "run"}
    return lambda **other: train(**(usual | other))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


class Stop:
    """Sends a signal when a step is reached; by default what Ctrl-C sends."""

    def __init__(self, step: int, number: int = signal.SIGINT) -> None:
        self.step, self.number = step, number

    def on_evaluate(self, step: int, scores: object) -> None:
        if step == self.step:
            signal.raise_signal(self.number)


def refused(line: str) -> Any:
    return pytest.raises(ValueError, match=re.escape(line))


def test_ctrl_c_or_an_end_by_the_system_saves_and_says_how_to_resume_and_resuming_is_exact(
    go: Go, run: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        go(out=None, observers=[Stop(10)])
    whole = go(out=tmp_path / "whole")
    for step, number, why in ((10, signal.SIGINT, "interrupted"), (15, signal.SIGTERM, "ended by SIGTERM")):
        with pytest.raises(Interrupted) as caught:
            go(observers=[Stop(step, number)], resume=run.exists())
        assert str(caught.value) == f"{why}: step {step} is saved in {run}; go on with resume=True"
        assert not (run / "result.json").exists()
    assert torch.equal(go(resume=True).crowd.weights, whole.crowd.weights)
    assert rows(run) == rows(tmp_path / "whole")


def test_an_evaluation_that_is_interrupted_is_made_up_for(
    go: Go, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(*args: object, **options: object) -> None:
        raise KeyboardInterrupt  # as a second Ctrl-C does

    go(out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(Tally, "evaluate", impatient)
        with pytest.raises(Interrupted, match=r"step 4 is saved"):
            go()
    go(resume=True)
    assert rows(run) == rows(tmp_path / "whole")


def test_a_finished_run_is_not_trained_again_but_gets_lost_files_back(go: Go, run: Path, heard: Any) -> None:
    first = go()
    history, result = rows(run), json.loads((run / "result.json").read_text())
    (run / "metrics.parquet").write_bytes(b"PAR1")
    (run / "result.json").unlink()
    assert go(resume=True, observers=[heard]).table() == first.table()
    assert heard.evaluated == heard.saved == []
    assert rows(run) == history
    assert json.loads((run / "result.json").read_text())["seeds"] == result["seeds"]
    shutil.rmtree(run / "checkpoint")
    before = (run / "result.json").read_bytes()
    with refused("is finished, and only its small files were kept, not its checkpoint: train it again in"):
        go(resume=True)
    assert (run / "result.json").read_bytes() == before


def test_a_finished_run_gets_more_steps_as_if_it_had_had_them_from_the_start(
    go: Go, run: Path, tmp_path: Path, heard: Any
) -> None:
    longer = replace(RECIPE, steps=30)
    whole = go(out=tmp_path / "whole", recipe=longer)
    go()
    with pytest.raises(Interrupted):
        go(recipe=longer, resume=True, observers=[Stop(25)])
    assert not (run / "result.json").exists()
    again = go(recipe=longer, resume=True, observers=[heard])
    assert torch.equal(again.crowd.weights, whole.crowd.weights)
    assert rows(run) == rows(tmp_path / "whole")
    assert heard.notes == []
    assert json.loads((run / "result.json").read_text())["steps"] == 30
    with refused("has steps 30, not 20: resume with the same settings"):
        go(resume=True)
    cosine: Any = {"out": tmp_path / "cosine", "observers": [heard]}
    go(**cosine, recipe=replace(RECIPE, schedule="cosine"))
    go(**cosine, recipe=replace(longer, schedule="cosine"), resume=True)
    assert heard.notes == ["up to step 20 the learning rate was that of a run of 20 steps, not of 30"]


def test_an_observer_stops_the_run_and_more_steps_resume_it(go: Go, run: Path, tmp_path: Path) -> None:
    whole = go(out=tmp_path / "whole", recipe=replace(RECIPE, steps=30))
    stopped = go(observers=[SimpleNamespace(on_evaluate=lambda step, scores: step == 10)])
    assert stopped.step == load_run(run, Tiny).step == 10
    assert json.loads((run / "result.json").read_text())["steps"] == 10
    assert go(resume=True).step == 10
    again = go(recipe=replace(RECIPE, steps=30), resume=True)
    assert torch.equal(again.crowd.weights, whole.crowd.weights)
    soon = go(out=None, observers=[SimpleNamespace(on_step=lambda stats: True)])
    assert soon.step < RECIPE.steps
    assert soon.history.steps.tolist() == [soon.step]


def test_observers_are_closed_however_training_ends(go: Go) -> None:
    closed = []
    observer = SimpleNamespace(on_close=lambda: closed.append(True))
    go(out=None, observers=[observer])
    with pytest.raises(KeyboardInterrupt):
        go(out=None, observers=[Stop(10), observer])
    assert len(closed) == 2


def test_a_run_that_goes_on_elsewhere_says_so_once(go: Go, run: Path, heard: Any) -> None:
    with pytest.raises(Interrupted):
        go(observers=[Stop(10)])
    config = json.loads((run / "config.json").read_text())
    config["engine"] |= {"device_name": "NVIDIA H200", "precision": "bf16"}
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(Interrupted):
        go(resume=True, observers=[heard, Stop(15)])
    used = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    here = f"CPU, float32, {used}"
    moved = f"the run was on NVIDIA H200, bf16, {used}; from step 10 on it is on {here}"
    go(resume=True, observers=[heard])
    assert heard.notes == [f"{moved}, so it may not continue exactly"]
    for name in ("config.json", "result.json"):
        assert json.loads((run / name).read_text())["continued"] == {"step 10": here}


def test_a_full_disk_is_one_line_and_leaves_the_older_checkpoint(
    go: Go, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def fills_up(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 14:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fills_up)
    with pytest.raises(ValueError, match=r"^cannot write .*: No space left on device; what was there befor"):
        go()
    monkeypatch.undo()
    found = checkpoint.newest(run)
    assert found is not None
    assert found[1]["step"] == 8
    assert not list(run.rglob("*.part"))
    assert torch.equal(go(resume=True).crowd.weights, go(out=None).crowd.weights)


def test_a_folder_that_is_not_ours_to_write_is_refused(go: Go, run: Path) -> None:
    with lock(run / ".lock"), refused("is in use by another process: wait for it, or choose another"):
        go()
    (run / "thesis.tex").touch()
    with refused(f"{run} holds other files (thesis.tex, …): choose an empty or a new folder"):
        go()
    (run / "thesis.tex").unlink()
    go(recipe=replace(RECIPE, steps=1))
    with refused(f"{run} already holds a run: continue it with resume=True, or choose another folder"):
        go(recipe=replace(RECIPE, steps=1))


def test_resuming_with_other_settings_or_data_is_refused(go: Go, splits: Any) -> None:
    go()
    tokens, targets = splits["train"][2]
    other = splits | {"train": splits["train"] | {2: (tokens, (targets + 1) % 4)}}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"seeds": [0, 2]}, "has seeds [0, 1], not [0, 2]: resume with the same settings"),
        ({"recipe": replace(RECIPE, lr=0.5)}, "has lr 0.01, not 0.5: resume with the same settings"),
        ({"model": "gru"}, "has model "),
        ({"sizes": {"width": 4}}, 'has options {}, not {"width": 4}: '),
        ({"splits": ["iid"]}, 'has splits ["iid", "ood", "train"], not ["iid", "train"]: '),
        ({"data": other}, "began (split train): resume with the data it began with, or choose another f"),
    ]
    for change, text in changes:
        with refused(text):
            go(**change, resume=True)
    go(recipe=replace(RECIPE, checkpoint_every=1), resume=True)  # which decides nothing


def test_a_damaged_newest_checkpoint_is_told_and_made_anew_from_the_one_before(
    go: Go, run: Path, tmp_path: Path
) -> None:
    whole = go()
    damages: list[tuple[str, Callable[[Path], object], str]] = [
        (".safetensors", lambda path: os.truncate(path, 300), "is damaged (its checksum is wrong)"),
        (".safetensors", Path.unlink, "is missing"),
        (".json", lambda path: path.write_text("{"), "is damaged (not JSON)"),
        (".json", Path.unlink, "is missing"),
    ]
    for i, (suffix, damage, fault) in enumerate(damages):
        copy = Path(shutil.copytree(run, tmp_path / f"copy-{i}"))
        newest = copy / "checkpoint" / f"step-000000020{suffix}"
        damage(newest)
        lost = f"the finished run in {copy} keeps its results, but its weights are lost"
        again = "training it as before with resume=True makes them anew from step 16"
        with refused(f"{newest} {fault}: {lost}; {again}"):
            load_run(copy, Tiny)
        (copy / "result.json").unlink()  # of an unfinished run the older one is loaded
        loaded, heard = load_run(copy, Tiny), Heard()
        assert loaded.step == 16
        assert torch.equal(go(out=copy, resume=True, observers=[heard]).crowd.weights, whole.crowd.weights)
        assert torch.equal(load_run(copy, Tiny).crowd.weights, whole.crowd.weights), "it is mended"
        if damage is not Path.unlink:
            assert loaded.notes == (f"{newest} {fault}: taken is the checkpoint before, of step 16",)
            assert heard.notes == [f"warning: {newest} {fault}: falling back to the checkpoint before"]


def test_a_checkpoint_that_lacks_an_entry_is_damaged_and_the_only_one_is_the_end(go: Go, run: Path) -> None:
    go(recipe=replace(RECIPE, checkpoint_every=0))
    (path,) = (run / "checkpoint").glob("*.json")
    facts = json.loads(path.read_text())
    end = "and no older checkpoint is whole"
    for entry in ("step", "seconds", "splits", "loss_count", "stopped"):
        path.write_text(json.dumps({key: value for key, value in facts.items() if key != entry}))
        with refused(f"{path} is damaged ({entry} is None), {end}: train it again in a new folder"):
            checkpoint.newest(run)


class Ready:
    def on_start(self, config: object, step: int) -> None:
        print(step, flush=True)


def work(out: Path | str, observer: object) -> None:
    torch.set_num_threads(1)
    run = {"seeds": [0, 3], "recipe": LONG, "out": out, "resume": Path(out).exists()}
    train(Tiny, tiny_splits(), **run, observers=[observer])  # type: ignore[arg-type]


def test_killed_at_random_moments_a_run_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    command = f"from tests.training.test_resuming import Ready, work; work({str(cut)!r}, Ready())"
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
