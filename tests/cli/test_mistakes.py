"""Every mistake in a data command: one line on stderr, exit code 2, nothing left on disk."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

Command = Callable[..., Any]
Refused = Callable[..., str]
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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("Q", "unknown variant 'Q': choose from CTL, A, R, S, or a TOML file with a graph"),
        ("A --symbols 0", "--symbols 0: use 2 to 1000"),
        ("A --symbols 4 --functions 25", "--functions 25: only 24 different bijections of 4 symbols exist"),
        ("S --max-length 5", "--max-length 5 is odd: S has even lengths only; use 4 or 6"),
        ("S --shared-functions 40", "--shared-functions 40 is more than the 32 functions; use at most 28"),
        ("S --shared-symbols 9", "--shared-symbols 9: use 1 to 8, the number of symbols"),
        ("A --shared-symbols 4", "--shared-symbols is an option of S alone; leave it out for A"),
        ("A --fill 0", "--fill 0.0: use a share above 0 and up to 1"),
        ("A --train 0", "--train 0: use 1 to 1000000000"),
        ("A --seed -1", "--seed -1: use 0 to 9223372036854775807"),
        (
            "A --train 999999999",
            "--train 999999999: only 143165696 distinct training examples exist (fill rule),"
            " and iid takes 1000 of them; ask for at most 143164696, or longer ones",
        ),
        (
            "A --symbols 4 --functions 8 --max-length 4 --train 1000 --iid 9999",
            "--iid 9999: only 376 distinct examples are left; ask for fewer, or longer ones",
        ),
        (
            "A --symbols 4 --functions 8 --max-length 4 --train 1000 --iid 10 --ood 99999",
            "--ood 99999: only 2688 distinct examples are left; ask for fewer, or longer ones",
        ),
        (
            "A --distinct-sequences 1000",
            "--distinct-sequences 1000: 88643 examples of 6 functions need 11081 sequences;"
            " use 11081 or more, or fewer examples",
        ),
        (
            "A --distinct-sequences n/9",
            "--distinct-sequences n/9: 88643 examples of 6 functions need 11081 sequences; use n/8",
        ),
        (
            "A --distinct-sequences some",
            "--distinct-sequences some: use a whole number from 1, or n/7 for one to every 7 examples",
        ),
        ("none.toml", "none.toml does not exist: name a TOML file with a graph"),
        (
            "CTL --ood-max-length 4",
            "--ood-max-length 4 must be above --max-length 6: CTL tests on longer compositions",
        ),
    ],
)
def test_generate_names_what_is_wrong_and_what_would_be_right(
    refused: Refused, arguments: str, line: str
) -> None:
    assert refused("generate", *arguments.split(), "--out", "data") == line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("generate A", "Missing option '--out'; see ctlpp generate --help"),
        ("generate A --out data --nope", "No such option: --nope"),
        ("generate A --out data --symbols few", "Invalid value for '--symbols'"),
        ("show", "Missing argument 'VARIANT'; see ctlpp show --help"),
        ("check", "Missing argument 'DIR'; see ctlpp check --help"),
        ("nope", "No such command 'nope'; see ctlpp --help"),
        ("bench nope", "No such command 'nope'; see ctlpp bench --help"),
    ],
)
def test_arguments_that_cannot_be_read_point_to_the_help(refused: Refused, arguments: str, line: str) -> None:
    assert line in refused(*arguments.split())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("generate A --out data --protocol text", "--protocol text: choose from paper, released"),
        ("generate A --out data --order up", "--order up: choose from right-to-left, left-to-right"),
        ("generate A --out data --weighting even", "--weighting even: choose from uniform, sequential"),
        ("generate A --out data --format csv", "--format csv: choose from parquet, jsonl, text"),
        ("generate A --out data --format it's", "--format it's: choose from parquet, jsonl, text"),
        ("train gru R --out run --protocol text", "--protocol text: choose from paper, released"),
        ("bench train --device tpu", "--device tpu: choose from cpu, cuda"),
    ],
)
def test_a_choice_that_there_is_not_is_answered_with_those_that_there_are(
    refused: Refused, arguments: str, line: str
) -> None:
    assert refused(*arguments.split()) == line


OOD = ["IN -> a b", "a -> a OUT", "b -> b OUT"]
GRAPHS = {
    "an unknown group": (
        ["IN -> a b", "a -> c OUT", "b -> a OUT"],
        "train graph: edge a -> c: unknown group 'c'; choose from OUT, a, b",
    ),
    "a group that cannot be reached": (
        ["IN -> a", "a -> a OUT", "b -> a OUT"],
        "train graph: group b cannot be reached from IN; add an edge to it or drop its edges",
    ),
    "a dead end": (
        ["IN -> a b", "a -> a OUT", "b -> b"],
        "train graph: group b is a dead end; add an edge from it toward OUT",
    ),
    "no way out": (
        ["IN -> a b", "a -> b", "b -> a"],
        "train graph: there is no way from IN to OUT; add edges that lead there",
    ),
    "examples in common": (
        ["IN -> a b", "a -> a b OUT", "b -> a OUT"],
        "the train and OOD graphs share 64 examples of length 2, for instance 'a a 0';"
        " OOD data must be new: give the graphs different edges or lengths",
    ),
}


@pytest.mark.parametrize("mistake", GRAPHS)
def test_a_graph_of_ones_own_is_checked(refused: Refused, mistake: str) -> None:
    edges, line = GRAPHS[mistake]
    Path("own.toml").write_text(f"[groups]\na = 4\nb = 4\n[train]\nedges = {edges}\n[ood]\nedges = {OOD}\n")
    options = ("--symbols", "4", "--max-length", "3", "--train", "100", "--iid", "10", "--ood", "10")
    assert refused("generate", "own.toml", *options, "--out", "data") == line


@pytest.mark.parametrize("sizes", ["1,25", ""])
def test_crowd_sizes_are_for_the_gpu_benchmark_alone(refused: Refused, sizes: str) -> None:
    line = f"--seeds {sizes}: an option of --device cuda alone; leave it out for cpu"
    assert refused("bench", "train", "--seeds", sizes) == line


def test_a_file_that_is_no_toml_is_named(refused: Refused) -> None:
    Path("own.toml").write_text("[groups")
    assert refused("show", "own.toml").startswith("own.toml: not a readable TOML file: ")


def test_a_folder_that_exists_is_kept(command: Command, refused: Refused) -> None:
    assert command("generate", "A", *SMALL, "--out", "data").code == 0
    before = Path("data/train.parquet").read_bytes()
    line = "data exists already; choose another folder, or say --force to replace it"
    assert refused("generate", "R", *SMALL, "--out", "data") == line
    assert Path("data/train.parquet").read_bytes() == before


def test_force_replaces_only_dataset_folders(refused: Refused) -> None:
    Path("letters").mkdir()
    Path("letters/love.txt").write_text("keep me")
    line = "letters is not a dataset folder, so it is not replaced; choose another folder"
    assert refused("generate", "A", *SMALL, "--out", "letters", "--force") == line


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("letters", "letters is not a dataset folder, so it is not replaced; choose another folder"),
        ("", ". is not a dataset folder, so it is not replaced; choose another folder"),
        ("letters/love.txt", "letters/love.txt is a file; choose a folder"),
    ],
)
def test_force_is_not_advised_where_it_would_not_help(refused: Refused, out: str, line: str) -> None:
    Path("letters").mkdir()
    Path("letters/love.txt").write_text("keep me")
    assert refused("generate", "A", *SMALL, "--out", out) == line


def test_a_file_in_the_way_is_no_folder(refused: Refused) -> None:
    Path("file").write_text("")
    assert refused("generate", "A", *SMALL, "--out", "file/data").startswith("cannot write file/data: ")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_refuses_leaves_nothing(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    line = f"cannot write data: {os.strerror(number)}; choose another folder or make room"
    assert refused("generate", "A", *SMALL, "--out", "data") == line


@pytest.mark.parametrize(
    "arguments",
    ["train lstm R --out LONG", "train lstm LONG --out run", "check LONG", "report LONG --out page.html"],
)
def test_a_path_that_the_system_refuses_is_named(refused: Refused, arguments: str) -> None:
    long = "x" * 300
    line = refused(*arguments.replace("LONG", long).split())
    assert line.startswith(long)
    assert line.endswith(" cannot be used (File name too long): choose another, or make it usable")


def test_check_refuses_what_is_no_dataset_folder(refused: Refused) -> None:
    assert (
        refused("check", "nowhere")
        == "nowhere does not exist; name a dataset folder, as `ctlpp generate` writes it"
    )


def test_check_wants_the_folder_and_not_a_file_in_it(command: Command, refused: Refused) -> None:
    assert command("generate", "A", *SMALL, "--out", "data").code == 0
    line = "data/task.json is a file; name the dataset folder, which has a task.json"
    assert refused("check", "data/task.json") == line


def test_check_catches_a_truncated_file(command: Command, refused: Refused) -> None:
    assert command("generate", "A", *SMALL, "--out", "data").code == 0
    path = Path("data/train.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert refused("check", "data").startswith("data/train.parquet")


def test_check_catches_a_changed_answer(command: Command, refused: Refused) -> None:
    assert command("generate", "A", *SMALL, "--format", "text", "--out", "data").code == 0
    path = Path("data/ood.txt")
    first, *others = path.read_text().splitlines()
    wrong = first[:-1] + ("1" if first[-1] == "0" else "0")
    path.write_text("\n".join([wrong, *others]) + "\n")
    assert (
        refused("check", "data") == "data/ood.txt does not have the sha256 in task.json: the file was changed"
    )


def test_check_catches_a_lie_with_a_matching_checksum(command: Command, refused: Refused) -> None:
    from hashlib import sha256

    assert command("generate", "A", *SMALL, "--format", "text", "--out", "data").code == 0
    path, facts = Path("data/ood.txt"), Path("data/task.json")
    first, *others = path.read_text().splitlines()
    wrong = first[:-1] + ("1" if first[-1] == "0" else "0")
    path.write_text("\n".join([wrong, *others]) + "\n")
    task = json.loads(facts.read_text())
    task["splits"]["ood"]["sha256"] = sha256(path.read_bytes()).hexdigest()
    facts.write_text(json.dumps(task))
    assert "has the wrong output; right is" in refused("check", "data")


def test_show_draws_into_svg_files_only(refused: Refused) -> None:
    assert (
        refused("show", "A", "--out", "a.png")
        == "--out a.png: the drawing is SVG; name a file that ends in .svg"
    )


def test_show_takes_variants_and_dataset_folders(command: Command, refused: Refused) -> None:
    line = "unknown variant 'Q': choose from CTL, A, R, S, or a TOML file with a graph, or a dataset folder"
    assert refused("show", "Q") == line
    Path("letters").mkdir()
    assert refused("show", "letters").startswith(
        "letters is no dataset folder: it has no readable task.json; name"
    )
    assert command("generate", "A", *SMALL, "--out", "data").code == 0
    line = "--seed: data is a dataset folder and says that itself; leave the option out"
    assert refused("show", "data", "--seed", "3") == line


def test_show_keeps_a_drawing_that_exists(refused: Refused) -> None:
    Path("a.svg").write_text("mine")
    assert "a.svg exists already" in refused("show", "A", "--out", "a.svg")
    assert Path("a.svg").read_text() == "mine"
