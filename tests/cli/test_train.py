"""`ctlpp train`, `evaluate` and `models`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ctlpp.cli.look import parse_seeds_of_run
from ctlpp.cli.output import TrainingDisplay
from ctlpp.files import UserError, lock
from ctlpp.models.zoo import MODELS
from ctlpp.runs.history import Score, StepStats
from ctlpp.words import name_seeds, parse_seeds

Command = Callable[..., Any]
Refused = Callable[..., str]
DATA = "--symbols 4 --functions 8 --max-length 3 --train 200 --iid 20 --ood 30"
QUICK = "--preset quick --lr 0.001 --batch 16 --steps 6 --eval-every 3 --set warmup=2 --device cpu --seeds 2"
TRAIN = f"train gru R {DATA} {QUICK} --out run"


@pytest.fixture
def run(command: Command) -> str:
    """The arguments of a run that is finished, on a dataset folder."""
    assert command(f"generate R {DATA} --out data").code == 0
    arguments = f"train gru data {QUICK} --out run"
    done = command(arguments)
    assert done.code == 0, done.err
    return arguments


def read(name: str) -> Any:
    return json.loads(Path(name).read_text())


def test_train_prints_a_table_and_fills_a_run_folder(command: Command) -> None:
    done = command(TRAIN, "--seeds 3,7")
    assert done.code == 0, done.err
    assert done.out.startswith("gru on R: 2 seeds, 6 steps\n")
    assert "Written to run" in done.out
    title = "gru on R, seeds 3,7: "
    said = " ".join(done.err.split()).removeprefix(title).split(title)
    assert said[0].strip() == "6,884 parameters per seed, 6 steps"
    assert [line.startswith(step) for line, step in zip(said[1:], ("step 3, ", "step 6, "), strict=True)]
    assert [entry["seed"] for entry in read("run/result.json")["seeds"]] == [3, 7]
    assert {"config.json", "metrics.parquet", "checkpoint"} < {path.name for path in Path("run").iterdir()}


def test_every_option_reaches_the_run(command: Command) -> None:
    done = command(
        f"train rnn A {DATA} {QUICK} --seed 5 --order left-to-right --protocol clean --lr 0.02",
        "--precision float32 --splits ood,pairs --seeds 7-7 --size width=8",
        "--set schedule=cosine --set betas=(0.8,0.9) --out run",
    )
    assert done.code == 0, done.err
    config = read("run/config.json")
    assert (config["model"], config["variant"], config["protocol"]) == ("rnn", "A", "clean")
    assert (config["seeds"], config["options"]["width"]) == ([7], 8)
    assert (config["task"]["seed"], config["task"]["order"]) == (5, "left-to-right")
    assert set(config["data"]) == {"train", "ood", "pairs"}
    recipe = [config["recipe"][name] for name in ("lr", "schedule", "betas", "batch")]
    assert recipe == [0.02, "cosine", [0.8, 0.9], 16]


def test_a_dataset_folder_trains_as_the_variant_does(command: Command, refused: Refused, run: str) -> None:
    assert command(TRAIN.replace("--out run", "--out two")).code == 0
    assert read("run/result.json")["seeds"] == read("two/result.json")["seeds"]
    line = "--symbols: data is a dataset folder that has this already; leave it out"
    assert refused(run, "--symbols 4 --out other") == line


def test_a_run_is_evaluated_on_another_dataset(command: Command, run: str) -> None:
    done = command("evaluate run --data data")
    assert (done.code, done.err) == (0, "")
    for words in ("gru, 2 seeds after 6 steps, on data", "singles", "pairs", "any", "L=1"):
        assert words in done.out
    assert "iid" not in command("evaluate run --data data --splits pairs").out
    Path("run/result.json").unlink()
    done = command("evaluate run --data data")
    assert (done.code, done.err) == (0, "Note: the run in run is unfinished (step 6 of 6).\n")


def test_resume_goes_on_where_the_run_stopped(command: Command, refused: Refused, run: str) -> None:
    before = read("run/result.json")["seeds"]
    line = "run already holds a run: continue it with --resume, or choose another folder"
    assert refused(run) == line
    done = command(run, "--resume")
    assert done.code == 0, done.err
    assert "resumed at step 6" in done.err
    assert read("run/result.json")["seeds"] == before


def test_curves_are_written_for_tensorboard(command: Command) -> None:
    pytest.importorskip("tensorboard")
    assert command(TRAIN, "--track tensorboard").code == 0
    assert list(Path("run/tensorboard").glob("events.out.*"))


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")],
)
def test_ctrl_c_and_sigterm_save_and_say_how_to_resume(number: int, code: int, said: str) -> None:
    arguments = TRAIN.replace("--steps 6", "--steps 100000").split()
    started = [sys.executable, "-m", "ctlpp", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(started, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stderr is not None
        while "step" not in process.stderr.readline():
            time.sleep(0.01)
        process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    line = err.splitlines()[-1]
    assert line.startswith(f"ctlpp: {said}: step ")
    assert line.endswith("is saved in run; go on with: ctlpp " + " ".join(arguments) + " --resume")
    assert list(Path("run/checkpoint").glob("step-*.safetensors"))


def test_models_names_the_zoo_with_its_parameters(command: Command) -> None:
    out = command("models").out
    for spec in MODELS.values():
        assert spec.name in out
        assert spec.about.split()[0] in out
    for number in ("407,816", "155,018", "673,299"):
        assert number in out


def test_a_terminal_shows_a_live_table() -> None:
    console = Console(force_terminal=True, width=120, record=True, file=StringIO())
    display = TrainingDisplay("lstm on A", console)
    place = {"step": 500, "steps": 1000, "rate": 1e-3, "steps_per_second": 10.0}
    display.on_step(StepStats(**place, losses=(0.5, 0.7), norms=(1, 1), diverged=(1,)))  # type: ignore[arg-type]
    scores = [Score(10, seed, split, 0, 0.96, 0.1) for split in ("iid", "ood") for seed in (0, 1)]
    display.on_evaluate(400, scores)
    console.print(display.render())
    text = console.export_text()
    for words in ("step 500 of 1,000", "10.0 steps/s", "0:00:50 left", "1 diverged", "At step 400", "2 of 2"):
        assert words in text


MISTAKES = {  # MODEL, VARIANT and options
    "gru R --protocol text --batch 201": "--batch 201 is larger than the data: there are 200 training",
    "gru R --eval-every -1": "--eval-every -1: must be a whole number, 0 or more",
    "gru R --device tpu": "--device tpu: choose from auto, cpu, cuda, mps",
    "gru R --track mlflow": "--track mlflow: choose from tensorboard, wandb",
    "gru R --size width": "--size width: write it as NAME=VALUE",
    "gru R --set steps=5": "--set steps=5: steps is given twice; leave one of them out",
    "gru R --size depth=3": "--size depth=3: gru has no depth; choose from embedding, width, dropout",
}


def test_train_names_what_is_wrong_and_what_would_be_right(refused: Refused) -> None:
    for arguments, start in MISTAKES.items():
        model, variant, *options = arguments.split()
        line = refused(f"train {model} {variant} {DATA} {QUICK} --out run", *options)
        assert line.startswith(start)


def test_evaluate_refuses_what_does_not_fit(command: Command, refused: Refused, run: str) -> None:
    assert command(f"generate R {DATA} --order left-to-right --out mirrored").code == 0
    line = "mirrored is written left-to-right, the run in run was trained right-to-left"
    assert refused("evaluate run --data mirrored").startswith(line)
    shutil.rmtree("run/checkpoint")
    Path("run/result.json").unlink()
    with lock(Path("run/.lock")):
        line = "the run in run is training: wait for its first checkpoint"
        assert refused("evaluate run --data data") == line


@given(st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True))
def test_seeds_are_named_as_they_are_parsed(seeds: list[int]) -> None:
    text = name_seeds(seeds)
    assert parse_seeds(text if "," in text or "-" in text else f"{text}-{text}") == seeds


def test_what_is_wrong_with_seeds_is_named() -> None:
    forms = "write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7, up to 4294967295"
    wrong = ("0", "-3", "many", "1.5", "7,", "9-3", "9" * 5000, "9999999999-9999999999")
    lines = dict.fromkeys(wrong, forms) | {"1,2,1": "seed 1 is given twice; give every seed once"}
    lines |= {"0-999999": "at most 100,000 in one run"}
    for text, line in lines.items():
        with pytest.raises(UserError) as error:
            parse_seeds(text)
        assert error.value.on_command_line() == f"--seeds {text}: {line}"


def test_a_count_beyond_the_seeds_of_a_run_says_what_it_means() -> None:
    assert parse_seeds_of_run("2-2", range(5)) == [2]
    with pytest.raises(UserError) as error:
        parse_seeds_of_run("7", [0, 2, 3, 7])
    line = "--seeds 7 means 0-6, but this run has only 0,2-3,7; for one seed alone write 7-7"
    assert error.value.on_command_line() == line
