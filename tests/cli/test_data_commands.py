"""`ctlpp generate`, `check` and `show` on good input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from ctlpp import load
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings

Command = Callable[..., Any]
SMALL = (
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


@pytest.mark.parametrize("variant", ["CTL", "A", "R"])
def test_generate_writes_a_folder_that_check_proves(command: Command, variant: str) -> None:
    made = command("generate", variant, *SMALL, "--out", "data")
    assert made.code == 0, made.err
    assert made.out.startswith(f"{variant}: 8 functions, 4 symbols")
    assert "Written to data" in made.out
    proved = command("check", "data")
    assert proved.code == 0, proved.err
    assert "data is proved." in proved.out


def test_generate_prints_how_many_examples_of_each_length_a_split_has(command: Command) -> None:
    lines = command("generate", "A", *SMALL, "--out", "data").out.splitlines()
    assert next(line.split() for line in lines if "train" in line) == ["train", "200", "32", "57", "111"]
    assert load("data").size("train") == 200


def test_generate_makes_the_folders_above(command: Command) -> None:
    assert command("generate", "A", *SMALL, "--out", "deep/er/data").code == 0
    assert Path("deep/er/data/task.json").is_file()


@pytest.mark.parametrize(("format", "ending"), [("parquet", "parquet"), ("jsonl", "jsonl"), ("text", "txt")])
def test_generate_writes_every_format(command: Command, format: str, ending: str) -> None:
    assert command("generate", "R", *SMALL, "--format", format, "--out", "data").code == 0
    assert Path(f"data/ood.{ending}").is_file()
    assert command("check", "data").code == 0


def test_every_option_of_generate_reaches_the_task(command: Command) -> None:
    done = command(
        *("generate", "S", "--symbols", "6", "--functions", "24", "--max-length", "4", "--train", "500"),
        *("--iid", "50", "--ood", "40", "--seed", "3", "--order", "left-to-right", "--protocol", "released"),
        *("--shared-functions", "4", "--shared-symbols", "2", "--weighting", "uniform", "--fill", "0.4"),
        *("--distinct-sequences", "n/2", "--out", "data"),
    )
    assert done.code == 0, done.err
    task = json.loads(Path("data/task.json").read_text())
    assert (task["variant"], task["seed"], task["order"], task["protocol"]) == (
        "S",
        3,
        "left-to-right",
        "released",
    )
    assert (len(task["symbols"]), len(task["functions"])) == (6, 24)
    assert (task["shared_functions"], task["shared_symbols"]) == (4, 2)
    assert (task["recipe"]["fill"], task["recipe"]["distinct_sequences"]) == (0.4, "n/2")
    assert task["splits"]["iid"]["examples"] == 50
    assert task["splits"]["ood"]["examples"] == 40


def test_the_released_protocol_reports_its_overlap(command: Command) -> None:
    done = command("generate", "A", *SMALL, "--protocol", "released", "--out", "data")
    assert "iid examples are in train." in done.out
    assert "as the released protocol has it" in command("check", "data").out


@pytest.mark.parametrize(
    ("limit", "sequences"), [("70", "70 (L=2), 70 (L=3)"), ("n/3", "35 (L=2), 35 (L=3)")]
)
def test_few_function_sequences_are_drawn_named_and_counted(
    command: Command, limit: str, sequences: str
) -> None:
    sizes = ("--functions", "16", "--max-length", "3", "--train", "250", "--iid", "20", "--ood", "30")
    made = command("generate", "A", "--symbols", "4", *sizes, "--distinct-sequences", limit, "--out", "data")
    assert made.code == 0, made.err
    line = f"Of each length, train and iid were drawn from at most {limit} function sequences."
    assert line in made.out
    proved = command("check", "data")
    assert proved.code == 0, proved.err
    assert (
        f"Train and iid have {sequences} function sequences, at most {limit} as the recipe says."
        in proved.out
    )


def test_force_replaces_a_dataset_folder(command: Command) -> None:
    assert command("generate", "A", *SMALL, "--out", "data").code == 0
    assert command("generate", "R", *SMALL, "--out", "data", "--force").code == 0
    assert load("data").task.variant == "R"


def test_show_counts_and_draws(command: Command) -> None:
    done = command("show", "S", "--out", "s.svg")
    assert done.code == 0, done.err
    for word in ("Groups", "Edges", "Distinct examples", "training", "IN", "OUT", "Drawn in s.svg"):
        assert word in done.out
    assert ElementTree.parse("s.svg").getroot().tag.endswith("svg")


def test_show_counts_what_exists(command: Command) -> None:
    lines = [line.split() for line in command("show", "R", *SMALL[:6]).out.splitlines()]
    counts = [line for line in lines if line and line[0].isdigit()]
    assert counts == [["1", "32", "0"], ["2", "128", "128"], ["3", "512", "512"]]


@pytest.mark.parametrize("variant", ["CTL", "A", "R", "S"])
def test_show_gives_an_example_of_each_graph_and_says_what_it_means(command: Command, variant: str) -> None:
    lines = command("show", variant).out.splitlines()[-3:-1]
    task = make_task(Settings(variant=variant))
    home = {f: group for group, members in task.groups.items() for f in members}
    for line, split, graph in zip(lines, ("train", "ood"), ("training", "OOD"), strict=True):
        name, example, equation, groups = re.split(r" {2,}", line.strip())
        *functions, start = example.split()
        symbol = int(start)
        for function in reversed(functions):
            symbol = task.functions[function][symbol]
        assert (name, equation) == (
            graph,
            "(".join([*functions, start]) + ")" * len(functions) + f" = {symbol}",
        )
        assert groups.split() == [home[function] for function in reversed(functions)]
        ids = np.array([task.vocabulary.encode(example)[:-1]])
        assert task.language(split).contains(task.vocabulary.read(ids, task.order)).all()


def test_show_takes_a_dataset_folder(command: Command) -> None:
    assert (
        command("generate", "R", *SMALL, "--seed", "3", "--order", "left-to-right", "--out", "data").code == 0
    )
    shown, other = command("show", "data"), command("show", "R", *SMALL[:6], "--seed", "3")
    assert shown.code == 0, shown.err
    title, *rest = shown.out.splitlines()
    assert title == "R: 8 functions, 4 symbols (protocol paper, seed 3, left-to-right)"
    assert rest[:-3] == other.out.splitlines()[1:-3]


def test_a_graph_of_ones_own_is_a_variant(command: Command) -> None:
    graph = Path(__file__).parents[2] / "examples/graphs/round.toml"
    assert "a" in command("show", graph).out
    done = command(
        "generate",
        graph,
        "--train",
        "900",
        "--iid",
        "40",
        "--ood",
        "40",
        "--max-length",
        "3",
        "--out",
        "mine",
    )
    assert done.code == 0, done.err
    assert command("check", "mine").code == 0
