"""`ctlpp generate`, `check` and `show`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from ctlpp import load
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.cli.output import make_table, print_uncut

Command = Callable[..., Any]
Refused = Callable[..., str]
TASK = "--symbols 4 --functions 8 --max-length 3"
SMALL = f"{TASK} --protocol text --train 200 --iid 20 --ood 30"


@pytest.mark.parametrize(
    ("variant", "format", "ending"),
    [("CTL", "parquet", "parquet"), ("A", "jsonl", "jsonl"), ("R", "text", "txt")],
)
def test_generate_writes_a_folder_that_check_proves(
    command: Command, variant: str, format: str, ending: str
) -> None:
    made = command(f"generate {variant} {SMALL} --format {format} --out deep/er/data")
    assert made.code == 0, made.err
    assert made.out.startswith(f"{variant}: 8 functions, 4 symbols")
    assert "train 200" in " ".join(made.out.split())
    assert Path(f"deep/er/data/ood.{ending}").is_file()
    proved = command("check deep/er/data")
    assert (proved.code, proved.out.splitlines()[-2]) == (0, "deep/er/data is proved.")


def test_every_option_of_generate_reaches_the_task(command: Command) -> None:
    done = command(
        "generate S --symbols 6 --functions 24 --max-length 4 --train 500 --iid 50 --ood 40 --seed 3",
        "--order left-to-right --protocol clean --shared-functions 4 --shared-symbols 2",
        "--weighting uniform --fill 0.4 --out data",
    )
    assert done.code == 0, done.err
    task = json.loads(Path("data/task.json").read_text())
    named = [task[name] for name in ("variant", "seed", "order", "protocol")]
    assert named == ["S", 3, "left-to-right", "clean"]
    assert (len(task["symbols"]), len(task["functions"])) == (6, 24)
    assert (task["shared_functions"], task["shared_symbols"]) == (4, 2)
    assert task["recipe"]["fill"] == 0.4
    assert [task["splits"][name]["examples"] for name in ("iid", "ood")] == [50, 40]


def test_examples_that_iid_shares_with_train_are_counted(command: Command) -> None:
    made = command(f"generate A {SMALL} --protocol clean --out data")
    shared = load("data").shared("train", "iid")
    assert shared > 0
    for done in (made, command("check data")):
        iid = next(line.split() for line in done.out.splitlines() if line.split()[:1] == ["iid"])
        assert int(iid[-1]) == shared


def test_show_counts_and_draws(command: Command) -> None:
    done = command("show S --out s.svg")
    assert done.code == 0, done.err
    assert ElementTree.parse("s.svg").getroot().tag.endswith("svg")
    lines = [line.split() for line in command(f"show R {TASK}").out.splitlines()]
    counts = [line for line in lines if line and line[0].isdigit()]
    assert counts == [["1", "32", "0"], ["2", "128", "128"], ["3", "512", "512"]]


@pytest.mark.parametrize("variant", ["CTL", "A", "R", "S"])
def test_show_gives_an_example_of_each_graph_and_says_what_it_means(command: Command, variant: str) -> None:
    lines = command(f"show {variant}").out.splitlines()[-4:-2]
    task = make_task(Settings(variant=variant))
    home = {f: group for group, members in task.groups.items() for f in members}
    for line, split, graph in zip(lines, ("train", "ood"), ("training", "OOD"), strict=True):
        name, example, equation, groups = re.split(r" {2,}", line.strip())
        *functions, start = example.split()
        symbol = int(start)
        for function in reversed(functions):
            symbol = task.functions[function][symbol]
        written = "(".join([*functions, start]) + ")" * len(functions) + f" = {symbol}"
        assert (name, equation) == (graph, written)
        assert groups.split() == [home[function] for function in reversed(functions)]
        ids = np.array([task.vocabulary.encode(example)[:-1]])
        assert task.language(split).contains(task.vocabulary.read(ids, task.order)).all()


def test_show_takes_a_dataset_folder(command: Command, refused: Refused) -> None:
    assert command(f"generate R {SMALL} --seed 3 --order left-to-right --out data").code == 0
    title, *rest = command("show data").out.splitlines()
    assert title == "R: 8 functions, 4 symbols (protocol text, seed 3, left-to-right)"
    assert rest[:-4] == command(f"show R {TASK} --seed 3").out.splitlines()[1:-4]
    line = "--seed: data is a dataset folder that has this already; leave it out"
    assert refused("show data --seed 3") == line


MISTAKES = {  # of arguments: named as options, with what would be right
    "generate A --symbols 0": "--symbols 0: use 2 to 1000",
    "generate A --seed 1" + 400 * "0": f"--seed 100000000… (401 digits): use 0 to {2**63 - 1}",
    "generate A --format it's": "--format it's: choose from parquet, jsonl, text",
    "generate A --symbols few": "Invalid value for '--symbols': ",
    "generate A --nope": "No such option: --nope",
    "show": "Missing argument 'VARIANT'; see ctlpp show --help",
    "nope": "No such command 'nope'; see ctlpp --help",
    "show A --out a.png": "--out a.png: the drawing is SVG; name a file that ends in .svg",
    "bench train --seeds 1,25": "--seeds 1,25: crowd sizes are for --device cuda; leave them out for cpu",
    "models --functions 0": "--functions 0: use 1 to 10000",
}


def test_a_mistake_is_named_with_what_would_be_right(refused: Refused) -> None:
    for arguments, line in MISTAKES.items():
        out = " --out data" if arguments.startswith("generate") else ""
        assert refused(arguments + out).startswith(line)


def test_what_exists_is_kept_unless_forced(command: Command, refused: Refused) -> None:
    assert command(f"generate A {SMALL} --out data").code == 0
    line = "data exists already: choose another folder, or replace it with --force"
    assert refused(f"generate R {SMALL} --out data") == line
    assert command(f"generate R {SMALL} --out data --force").code == 0
    assert load("data").task.variant == "R"
    Path("a.svg").write_text("mine")
    assert "a.svg exists already" in refused("show A --out a.svg")


def test_a_path_that_the_system_refuses_is_named(refused: Refused) -> None:
    for arguments in ("check", "report --out page.html"):
        line = refused(arguments, "x" * 300)
        assert line.startswith("x" * 300)
        assert line.endswith(" cannot be used (File name too long): choose another, or make it usable")


def test_on_a_terminal_generation_shows_that_it_goes_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # for Rich, the output is then a terminal
    done = command(f"generate R {SMALL} --out data")
    assert "Drawing the examples" in done.err
    assert "Writing" in done.err


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_number_is_never_cut_however_narrow_the_terminal(width: int) -> None:
    rows = make_table("", "split", *(f"L={n}" for n in range(1, 11)))
    numbers = [f"{12_345 * n:,}" for n in range(1, 11)]
    rows.add_row("train", *numbers)
    console = Console(file=io.StringIO(), width=width)
    print_uncut(rows, console)
    assert isinstance(console.file, io.StringIO)
    line = console.file.getvalue().splitlines()[-2]
    assert line.split() == ["train", *numbers]
    assert len(line) <= max(width, 90)
