"""`ctlpp train`, `evaluate` and `models` on good input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctlpp.cli.output import TrainingDisplay
from ctlpp.models.zoo import MODELS
from ctlpp.runs.history import Score
from ctlpp.runs.observers import StepStats

Command = Callable[..., Any]
DATA = (
    "--symbols",
    "4",
    "--functions",
    "8",
    "--max-length",
    "3",
    "--train",
    "200",
    "--iid",
    "20",
    "--ood",
    "30",
)
QUICK = ("--preset", "quick", "--batch", "16", "--steps", "6", "--eval-every", "3", "--device", "cpu")


def test_train_prints_a_table_and_fills_a_run_folder(command: Command) -> None:
    done = command("train", "gru", "R", *DATA, *QUICK, "--seeds", "3,7", "--out", "run")
    assert done.code == 0, done.err
    for words in (
        "gru on R: 2 seeds, 6 steps",
        "all lengths",
        "L=2",
        "L=3",
        "seeds above 0.95",
        "Written to run",
    ):
        assert words in done.out
    lines = done.err.splitlines()
    assert lines[0] == "gru on R, seeds 3,7: 6,884 parameters a seed, 6 steps"
    assert [line.split(":")[0] for line in lines[1:]] == ["step 3", "step 6"]
    assert "steps/s" in lines[1]
    result = json.loads(Path("run/result.json").read_text())
    assert [entry["seed"] for entry in result["seeds"]] == [3, 7]
    assert {"config.json", "metrics.parquet", "checkpoint"} < {path.name for path in Path("run").iterdir()}


def test_every_option_reaches_the_run(command: Command) -> None:
    done = command(
        *(
            "train",
            "rnn",
            "A",
            *DATA,
            *QUICK,
            "--seed",
            "5",
            "--order",
            "left-to-right",
            "--protocol",
            "released",
        ),
        *(
            "--distinct-sequences",
            "n/3",
            "--lr",
            "0.02",
            "--precision",
            "float32",
            "--splits",
            "ood,pairs",
            "--seeds",
            "7-7",
        ),
        *("--size", "width=8", "--set", "schedule=cosine", "--set", "betas=(0.8, 0.9)", "--out", "run"),
    )
    assert done.code == 0, done.err
    config = json.loads(Path("run/config.json").read_text())
    assert (config["model"], config["variant"], config["protocol"]) == ("rnn", "A", "released")
    assert (config["seeds"], config["options"]["width"]) == ([7], 8)
    assert (config["task"]["seed"], config["task"]["order"]) == (5, "left-to-right")
    assert config["task"]["recipe"]["distinct_sequences"] == "n/3"
    assert set(config["data"]) == {"train", "ood", "pairs"}
    recipe = config["recipe"]
    assert (recipe["lr"], recipe["schedule"], recipe["betas"], recipe["batch"]) == (
        0.02,
        "cosine",
        [0.8, 0.9],
        16,
    )


def test_a_dataset_folder_trains_as_the_variant_does(command: Command) -> None:
    assert command("generate", "R", *DATA, "--out", "data").code == 0
    assert command("train", "gru", "data", *QUICK, "--seeds", "2", "--out", "one").code == 0
    assert command("train", "gru", "R", *DATA, *QUICK, "--seeds", "2", "--out", "two").code == 0
    one, two = (json.loads(Path(name, "result.json").read_text())["seeds"] for name in ("one", "two"))
    assert one == two


def test_a_model_of_ones_own_is_found_in_the_working_directory(command: Command) -> None:
    Path("bag_of_tokens.py").write_text(
        "from torch import nn\n"
        "class Bag(nn.Module):\n"
        "    def __init__(self, vocab_size, n_classes, width=4):\n"
        "        super().__init__()\n"
        "        self.embed, self.classify = nn.Embedding(vocab_size, width), nn.Linear(width, n_classes)\n"
        "    def forward(self, tokens):\n"
        "        return self.classify(self.embed(tokens).mean(1))\n"
    )
    done = command(
        "train", "bag_of_tokens:Bag", "R", *DATA, *QUICK, "--size", "width=8", "--seeds", "2", "--out", "run"
    )
    assert done.code == 0, done.err
    assert "bag_of_tokens:Bag on R: 2 seeds" in done.out


def test_a_finished_run_is_evaluated_on_another_dataset(command: Command) -> None:
    assert command("generate", "R", *DATA, "--out", "data").code == 0
    assert command("train", "gru", "data", *QUICK, "--seeds", "2", "--out", "run").code == 0
    done = command("evaluate", "run", "--data", "data")
    assert done.code == 0, done.err
    for words in ("gru, 2 seeds after 6 steps, on data", "singles", "pairs", "any", "L=1"):
        assert words in done.out
    only = command("evaluate", "run", "--data", "data", "--splits", "pairs")
    assert "pairs" in only.out
    assert "iid" not in only.out


def test_an_unfinished_run_is_evaluated_with_a_note(command: Command) -> None:
    assert command("generate", "R", *DATA, "--out", "data").code == 0
    assert command("train", "gru", "data", *QUICK, "--seeds", "1", "--out", "run").code == 0
    assert command("evaluate", "run", "--data", "data").err == ""
    Path("run/result.json").unlink()
    done = command("evaluate", "run", "--data", "data")
    assert done.code == 0
    assert done.err == "Note: the run in run is unfinished (step 6 of 6).\n"
    assert "gru, 1 seed after 6 steps, on data" in done.out


def test_resume_goes_on_where_the_run_stopped(command: Command) -> None:
    arguments = ("train", "gru", "R", *DATA, *QUICK, "--seeds", "2", "--out", "run")
    assert command(*arguments).code == 0
    before = Path("run/result.json").read_text()
    done = command(*arguments, "--resume")
    assert done.code == 0, done.err
    assert "resumed at step 6" in done.err
    assert json.loads(Path("run/result.json").read_text())["seeds"] == json.loads(before)["seeds"]


def test_curves_are_written_for_tensorboard(command: Command) -> None:
    pytest.importorskip("tensorboard")
    done = command(
        "train", "gru", "R", *DATA, *QUICK, "--seeds", "2", "--track", "tensorboard", "--out", "run"
    )
    assert done.code == 0, done.err
    assert list(Path("run/tensorboard").glob("events.out.*"))


def test_ctrl_c_saves_and_says_how_to_resume(command: Command, tmp_path: Path) -> None:
    long = [word if word != "6" else "100000" for word in QUICK]
    arguments = ["train", "gru", "R", *DATA, *long, "--seeds", "2", "--out", "run"]
    started = [sys.executable, "-m", "ctlpp", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        while "step" not in process.stderr.readline():
            time.sleep(0.01)
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    line = err.splitlines()[-1]
    assert line.startswith("ctlpp: interrupted: step ")
    assert line.endswith("is saved in run; go on with: ctlpp " + " ".join(arguments) + " --resume")
    assert list(Path("run/checkpoint").glob("step-*.safetensors"))


def test_models_names_the_zoo_with_its_parameters(command: Command) -> None:
    done = command("models")
    assert done.code == 0
    for spec in MODELS.values():
        assert spec.name in done.out
        assert spec.about in done.out
    for number in ("407,816", "155,018", "673,299"):
        assert number in done.out


def test_a_terminal_shows_a_live_table() -> None:
    console = Console(force_terminal=True, width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    watch = TrainingDisplay("lstm on A", console)
    stats = StepStats(
        step=500, steps=1000, rate=1e-3, steps_per_second=10, losses=(0.5, 0.7), norms=(1, 1), diverged=(1,)
    )
    watch.on_step(stats)
    watch.on_evaluate(400, [Score(seed, split, 0, 0.96, 0.1) for split in ("iid", "ood") for seed in (0, 1)])
    console.print(watch.picture())
    text = console.export_text()
    for words in ("step 500 of 1,000", "10.0 steps/s", "0:00:50 left", "1 diverged", "At step 400", "2 of 2"):
        assert words in text
    console.file.close()
