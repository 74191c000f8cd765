"""Which seeds a user means, and tables in a narrow terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ctlpp.cli.options import name_seeds, parse_pairs, parse_seeds, parse_seeds_of_run
from ctlpp.cli.output import make_table, print_uncut
from ctlpp.files import UserError


def test_a_single_number_counts_and_everything_else_names() -> None:
    assert parse_seeds("25") == list(range(25))
    assert parse_seeds("25-49") == list(range(25, 50))
    assert parse_seeds("0-2,9,20-21") == [0, 1, 2, 9, 20, 21]
    assert parse_seeds("9, 3") == [9, 3]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True))
def test_a_name_names_the_same_seeds(seeds: list[int]) -> None:
    text = name_seeds(seeds)
    assert parse_seeds(text if "," in text or "-" in text else f"{text}-{text}") == seeds


FORMS = "write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0", f"at least one seed is needed; {FORMS}"),
        *((text, FORMS) for text in ("-3", "many", "1.5", "7,")),
        ("9-3", f"9-3 runs backwards; {FORMS}"),
        ("1,2,1", "seed 1 is given twice; give every seed once"),
        ("0-999999", "at most 100,000 in one run"),
        ("9" * 5000, "seeds go up to 4294967295"),
        ("9999999999-9999999999", "seeds go up to 4294967295"),
    ],
)
def test_what_is_wrong_with_seeds_is_named(text: str, line: str) -> None:
    with pytest.raises(UserError) as error:
        parse_seeds(text)
    assert error.value.on_command_line() == f"--seeds {text}: {line}"


def test_a_count_beyond_the_seeds_of_a_run_says_what_it_means() -> None:
    assert parse_seeds_of_run("2-2", range(5)) == [2]
    with pytest.raises(UserError) as error:
        parse_seeds_of_run("7", [0, 2, 3, 7])
    line = "--seeds 7 means 0-6, but this run has only 0,2-3,7; for one seed alone write 7-7"
    assert error.value.on_command_line() == line


def test_pairs_are_keyword_arguments() -> None:
    pairs = parse_pairs("set", ["clip=1", "betas=(0.8, 0.9)", "schedule=cosine"])
    assert pairs == {"clip": 1, "betas": (0.8, 0.9), "schedule": "cosine"}
    for wrong, taken in ((["clip"], {}), (["clip=1", "clip=2"], {}), (["steps=5"], {"steps": 4})):
        with pytest.raises(UserError, match=r"NAME=VALUE|is given twice"):
            parse_pairs("set", wrong, taken)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
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
