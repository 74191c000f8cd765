"""Every mistake around training: one line on stderr, exit code 2, nothing lost and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Command = Callable[..., Any]
Refused = Callable[..., str]
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
QUICK = (
    "--preset",
    "quick",
    "--lr",
    "0.001",
    "--batch",
    "16",
    "--steps",
    "4",
    "--device",
    "cpu",
    "--seeds",
    "2",
    "--out",
    "run",
)
ZOO = "lstm, transformer, ndr, lstm_uni, gru, rnn, transformer_untied"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("lstn R", f"unknown model 'lstn': choose from {ZOO}, or package.module:factory"),
        (
            "gru Q",
            "unknown variant 'Q': choose from CTL, A, R, S, or a TOML file with a graph, or a dataset folder",
        ),
        ("gru R --preset fast", "--preset fast: choose from released, paper, quick"),
        ("gru R --splits iid,odd", "unknown split 'odd': choose from train, iid, ood, singles, pairs, any"),
        (
            "gru R --batch 201",
            "--batch 201 is larger than the data: there are 200 training examples; use at most 200, or",
        ),
        ("gru R --batch 0", "--batch 0: must be a whole number, 1 or more"),
        ("gru R --steps 0", "--steps 0: must be a whole number, 1 or more"),
        ("gru R --lr 0", "--lr 0.0: must be above 0 and at most 1"),
        ("gru R --lr nan", "--lr nan: must be above 0 and at most 1"),
        ("gru R --eval-every -1", "--eval-every -1: must be a whole number, 0 or more"),
        ("gru R --precision half", "--precision half: choose from auto, float32, bf16"),
        (
            "gru R --seeds 0",
            "--seeds 0: at least one seed is needed; write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7",
        ),
        ("gru R --device tpu", "--device tpu: choose from auto, cpu, cuda"),
        ("gru R --track mlflow", "--track mlflow: choose from tensorboard, wandb"),
        ("gru R --size width", "--size width: write it as NAME=VALUE"),
        ("gru R --set steps=5", "--set steps=5: --steps 4 is given too; leave one of them out"),
        (
            "gru R --eval-every 2 --set eval_every=1",
            "--set eval_every=1: --eval-every 2 is given too; leave one of them out",
        ),
        (
            "gru R --size width=8 --size width=16",
            "--size width=16: --size width=8 is given too; leave one of them out",
        ),
        ("gru R --set clip=1 --set clip=2", "--set clip=2: --set clip=1 is given too; leave one of them out"),
        ("gru R --splits=", "unknown split '': choose from train, iid, ood, singles, pairs, any"),
        (
            "gru R --set curriculum=own:no_module",
            "the curriculum failed: TypeError: no_module() takes 2 positional",
        ),
        (
            "gru R --set curriculum=json:dumps",
            "curriculum 'json:dumps' is no curriculum: json is part of Python",
        ),
        (
            "gru R --set curriculum=own:nobody",
            "the curriculum leaves no examples at step 0: some weights must be",
        ),
        ("gru R --set rate=1", "unknown setting 'rate': choose from steps, batch, lr"),
        ("gru R --set clip=-1", "clip -1: must be 0 (none) to a million"),
        ("gru R --size depth=3", "--size depth=3: gru has no depth; choose from embedding, width, dropout"),
        ("ndr R --size width=-3", "--size width=-3: use a whole number from 1 to 65536"),
        ("ndr R --size heads=0", "--size heads=0: use a whole number from 1 to 65536"),
        ("ndr R --size width=abc", "--size width=abc: use a whole number from 1 to 65536"),
        ("ndr R --size dropout=1", "--size dropout=1: use a number from 0 to below 1"),
        ("ndr R --size heads=3", "--size heads=3: must divide the width, 64; use 2 or 4"),
        ("gru R --symbols 1", "--symbols 1: use 2 to 1000"),
        ("nowhere:model R", "model 'nowhere:model': cannot import nowhere: ModuleNotFoundError: "),
        ("own:model R", "model 'own:model': own has no 'model'"),
        ("own:text R", "model 'own:text': text is of type str, not a callable"),
        ("own:nobody R", "model 'own:nobody': the factory raised TypeError: nobody() missing 1 required"),
        ("json:loads R", "model 'json:loads' is no model: json is part of Python"),
        ("own:no_module R", "model 'own:no_module': the factory returned int; it should return an nn.Module"),
        (
            "own:every_token R",
            "model 'own:every_token': forward returns (2, 4, 4) for tokens of shape (2, 4); it should return (2, 4)",
        ),
        ("own:Raises R", "model 'own:Raises': forward raised KeyError: 'oops'"),
        ("own:broken_import R", "model 'own:broken_import': own has no 'broken_import'"),
        ("broken:model R", "model 'broken:model': cannot import broken: ZeroDivisionError: division by zero"),
    ],
)
def test_train_names_what_is_wrong_and_what_would_be_right(
    refused: Refused, arguments: str, line: str
) -> None:
    Path("own.py").write_text(
        "from torch import nn\n"
        "text = 'no callable'\n"
        "def nobody(progress, length, tokens): return 0 * tokens[:, 0]\n"
        "def no_module(vocab_size, n_classes): return 7\n"
        "def every_token(vocab_size, n_classes): return nn.Embedding(vocab_size, n_classes)\n"
        "class Raises(nn.Module):\n"
        "    def __init__(self, vocab_size, n_classes): super().__init__()\n"
        "    def forward(self, tokens): raise KeyError('oops')\n"
    )
    Path("broken.py").write_text("1 / 0\n")
    model, variant, *options = arguments.split()
    assert refused("train", model, variant, *DATA, *QUICK, *options).startswith(line)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named(refused: Refused) -> None:
    line = "--device cuda: PyTorch finds no CUDA GPU on this machine; use cpu"
    assert refused("train", "gru", "R", *DATA, *QUICK, "--device", "cuda") == line


@pytest.fixture
def run(command: Command) -> tuple[str, ...]:
    """The arguments of a run that is finished, on a dataset folder."""
    assert command("generate", "R", *DATA, "--out", "data").code == 0
    arguments = ("train", "gru", "data", *QUICK)
    assert command(*arguments).code == 0
    return arguments


def test_a_run_is_not_overwritten(refused: Refused, run: tuple[str, ...]) -> None:
    assert refused(*run) == "run already holds a run: continue it with --resume, or choose another folder"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            ("--lr", "0.5"),
            "the run in run has lr 0.001, not 0.5: resume with the same settings, or choose another folder",
        ),
        (("--seeds", "3"), "the run in run has seeds [0, 1], not [0, 1, 2]: resume with the same settings"),
        (("--size", "width=8"), "the run in run has options "),
    ],
)
def test_a_run_resumes_only_as_it_was(refused: Refused, run: tuple[str, ...], change: Any, line: str) -> None:
    assert refused(*run, *change, "--resume").startswith(line)


def test_a_run_of_another_model_is_not_resumed(refused: Refused, run: tuple[str, ...]) -> None:
    line = "the run in run has model gru, not rnn: resume with the same settings, or choose another folder"
    assert refused("train", "rnn", *run[2:], "--resume") == line


def test_a_run_of_another_version_is_not_resumed(refused: Refused, run: tuple[str, ...]) -> None:
    config = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps(config | {"format": 0}))
    assert "was written by another version of ctlpp" in refused(*run, "--resume")


def test_data_that_changed_since_the_run_began_is_noticed(
    command: Command, refused: Refused, run: Any
) -> None:
    assert command("generate", "R", *DATA, "--seed", "1", "--force", "--out", "data").code == 0
    line = (
        "the data has changed since the run in run began (split train):"
        " resume with the data it began with, or choose another folder"
    )
    assert refused(*run, "--resume") == line


def test_a_damaged_dataset_folder_is_not_trained_on(refused: Refused, run: tuple[str, ...]) -> None:
    os.truncate("data/train.parquet", 100)
    assert refused(*run[:-1], "other").startswith("data/train.parquet")


def test_too_few_function_sequences_for_the_data_are_a_mistake(refused: Refused) -> None:
    line = "--distinct-sequences 5: 124 examples of 3 functions need 31 sequences; use 31 or more, or fewer examples"
    assert refused("train", "gru", "R", *DATA, *QUICK, "--distinct-sequences", "5") == line


def test_options_of_the_data_make_no_sense_beside_a_folder(refused: Refused, run: tuple[str, ...]) -> None:
    line = "--symbols: data is a dataset folder and says that itself; leave the option out"
    assert refused(*run[:-1], "other", "--symbols", "4") == line


def test_a_folder_with_other_things_in_it_is_left_alone(refused: Refused) -> None:
    Path("run").mkdir()
    Path("run/letter.txt").write_text("keep me")
    line = "run holds other files (letter.txt, …): choose an empty or a new folder"
    assert refused("train", "gru", "R", *DATA, *QUICK) == line


def test_a_full_disk_keeps_what_was_saved(
    command: Command, run: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = command(*run[:-1], "other")
    assert done.code == 2
    line = done.err.splitlines()[-1]
    assert line.startswith("ctlpp: cannot write other/")
    assert line.endswith(
        "No space left on device; what was saved before is still there: make room and resume"
    )
    monkeypatch.setattr(os, "fsync", real)
    assert command(*run[:-1], "other", "--resume").code == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("nowhere --data data", "nowhere does not exist: name a run folder, as `ctlpp train` writes it"),
        (
            "data --data data",
            "no run in data: there is no config.json in it; name a run folder, as `ctlpp train` writes it",
        ),
        (
            "run --data nowhere",
            "nowhere does not exist; name a dataset folder, as `ctlpp generate` writes it",
        ),
        (
            "run --data data --splits odd",
            "unknown split 'odd': choose from train, iid, ood, singles, pairs, any",
        ),
        ("run --data data --splits=", "unknown split '': choose from train, iid, ood, singles, pairs, any"),
        ("run --data data --device tpu", "--device tpu: choose from auto, cpu, cuda"),
        ("run --data larger", "larger has 21 tokens, the run in run was trained with 13: they do not fit"),
        ("run --data eight", "eight has 8 symbols, the run in run was trained with 4: they do not fit"),
        (
            "run --data mirrored",
            "mirrored is written left-to-right, the run in run was trained right-to-left",
        ),
        (
            "run --data changed",
            "changed has other functions than the run in run was trained with (a); use its task",
        ),
    ],
)
def test_evaluate_refuses_what_does_not_fit(
    command: Command, refused: Refused, run: Any, arguments: str, line: str
) -> None:
    small = ("--max-length", "3", "--train", "200", "--iid", "20", "--ood", "30", "--format", "text")
    for name, options in {
        "larger": ("--functions", "16", "--symbols", "4"),
        "eight": ("--functions", "4", "--symbols", "8", "--max-length", "5"),
        "mirrored": ("--functions", "8", "--symbols", "4", "--order", "left-to-right"),
        "changed": ("--functions", "8", "--symbols", "4", "--seed", "1"),
    }.items():
        if name in arguments:
            assert command("generate", "R", *small, *options, "--out", name).code == 0
    assert refused("evaluate", *arguments.split()) == line


def test_a_finished_run_of_which_small_files_were_kept_is_told_from_an_unfinished_one(
    refused: Refused, run: tuple[str, ...]
) -> None:
    shutil.rmtree("run/checkpoint")
    assert refused("evaluate", "run", "--data", "data") == (
        "the run in run is finished, and only its small files were kept, not its checkpoint:"
        " train it again in a new folder to evaluate or analyse it"
    )
    Path("run/result.json").unlink()
    assert (
        refused("evaluate", "run", "--data", "data")
        == "the run in run has no checkpoint yet: resume it first"
    )


def test_evaluate_does_not_take_an_older_checkpoint_for_a_finished_run(
    refused: Refused, run: tuple[str, ...]
) -> None:
    (path,) = Path("run/checkpoint").glob("*.safetensors")
    for file in (path.with_suffix(".json"), path):
        shutil.copy(file, file.with_stem("step-000000000"))
    os.truncate(path, 300)
    line = f"{path} is damaged (its checksum is wrong): the finished run in run keeps its results, but its weights"
    assert refused("evaluate", "run", "--data", "data").startswith(line)


def test_very_long_numbers_are_cut_short(refused: Refused) -> None:
    seed, short = "1" + 400 * "0", "100000000… (401 digits)"
    assert refused("generate", "R", "--seed", seed, "--out", "new") == f"--seed {short}: use 0 to {2**63 - 1}"
    line = f"--seeds {short}: at most 100,000 in one run"
    assert refused("train", "gru", "R", "--seeds", seed, "--out", "run") == line


def test_analyze_knows_its_devices(refused: Refused, run: tuple[str, ...]) -> None:
    assert refused("analyze", "run", "--device", "tpu") == "--device tpu: choose from auto, cpu, cuda"


def test_models_knows_its_presets(refused: Refused) -> None:
    assert refused("models", "--preset", "fast") == "--preset fast: choose from released, paper, quick"
