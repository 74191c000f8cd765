"""Tables in a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ctlpp.cli.output import make_table, print_uncut


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


def test_a_table_that_has_room_keeps_its_padding() -> None:
    rows = make_table("", "split", "examples")
    rows.add_row("train", "300,000")
    print_uncut(rows, Console(file=io.StringIO(), width=80))
    assert rows.padding == (0, 1, 0, 1)
