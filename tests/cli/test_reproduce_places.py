"""Where `ctlpp reproduce` writes, and what it leaves alone: refused before anything is trained."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.reproduce.making import make_piece
from tests.reproduce.small import DATA

from ctlpp.reproduce import executing, plan
from ctlpp.runs.checkpoint import make_folder

Command = Callable[..., Any]
Refused = Callable[..., str]
SMALL = ("--scale", "quick", "--device", "cpu", "--out", "out")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plan.SIZES, "quick", replace(plan.QUICK, data=DATA, steps={"lstm": 6}))


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("folder", "--page folder is a folder: name the file to write, like folder/reproduction.md"),
        ("folder.md", "--page folder.md is a folder: name the file to write, like folder.md/reproduction.md"),
        ("page.txt", "--page page.txt: the page is Markdown; name a file that ends in .md"),
        (
            "thesis.md",
            "--page thesis.md is not a page of ctlpp reproduce, so it is not replaced; choose another file",
        ),
        ("thesis.md/page.md", "--page thesis.md/page.md: thesis.md is not a folder; choose another place"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_trained(
    refused: Refused, page: str, line: str
) -> None:
    Path("folder").mkdir()
    Path("folder.md").mkdir()
    Path("thesis.md").write_text("# Mine\n")
    assert refused("reproduce", "table1", *SMALL, "--page", page) == line


def test_a_page_takes_the_place_of_an_earlier_one(command: Command) -> None:
    make_piece(Path("out"), "ndr-R-released", [0.5])
    Path("page.md").write_text("# Does it reproduce?\n\nWho knows.\n")
    assert command("reproduce", "all", "--no-train", "--out", "out", "--page", "page.md").code == 0
    first, *others = Path("page.md").read_text().splitlines()
    assert first == "# Does it reproduce?"
    assert "Who knows." not in others


def test_a_miniature_and_runs_of_full_size_are_kept_apart(command: Command, refused: Refused) -> None:
    make_piece(Path("out"), "ndr-R-released", [0.5])
    line = (
        "has runs of --scale full (runs/ndr-R-released/0-0), not of quick: choose another folder with --out"
    )
    assert refused("reproduce", "table1", *SMALL) == f"out {line}"
    asked = ("reproduce", "table1", "--only", "lstm-R-released-quick", "--no-analysis")
    assert command(*asked, "--scale", "quick", "--device", "cpu", "--out", "small").code == 0
    line = "has runs of --scale quick (runs/lstm-R-released-quick/0-1), not of full: choose another folder with --out"
    assert refused("reproduce", "table1", "--device", "cpu", "--out", "small") == f"small {line}"


def test_a_folder_of_something_else_is_refused(refused: Refused) -> None:
    Path("src").mkdir()
    Path("src/thesis.tex").touch()
    line = refused("reproduce", "table1", "--out", "src")
    assert line == "src holds other files (thesis.tex, …): choose an empty or a new folder with --out"


@pytest.mark.parametrize("more", [(), ("--no-train",)])
def test_a_page_of_something_else_that_has_the_name_of_the_report_is_not_replaced(
    refused: Refused, more: Any
) -> None:
    make_piece(Path("out"), "ndr-R-released", [0.5])
    Path("out/report.html").write_text("<p>My own.")
    line = refused("reproduce", "table1", "--out", "out", *more)
    assert (
        line
        == "out/report.html is not a report of ctlpp, so it is not replaced: move it, or choose another --out"
    )
    assert Path("out/report.html").read_text() == "<p>My own."


def test_a_reproduction_that_came_to_no_run_goes_on(command: Command) -> None:
    asked = ("reproduce", "table1", "--only", "lstm-R-released-quick", "--no-analysis", *SMALL)
    assert command(*asked, "--minutes", "0").code == 130
    assert not Path("out/runs").exists()
    assert command(*asked).code == 0


def test_a_folder_whose_name_spans_more_seeds_than_any_run_has_is_somebodys_own(command: Command) -> None:
    Path("out/runs/lstm-R-released-quick/3-99999999999").mkdir(parents=True)
    done = command("reproduce", "table1", "--only", "lstm-R-released-quick", "--plan", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert "2 seeds to train" in done.out


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room and go on"),
        (errno.EROFS, "make it writable and go on"),
        (errno.EACCES, "make it writable and go on"),
        (errno.EIO, "see to the disk, which may be failing, and go on"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line_with_the_remedy_for_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def fail(out: Path) -> None:
        raise OSError(number, os.strerror(number), str(out / "results.md"))

    make_piece(Path("out"), "ndr-R-released", [0.5])
    monkeypatch.setattr(executing, "write_results", fail)
    done = command("reproduce", "all", "--no-train", "--out", "out")
    assert (done.code, done.err) == (
        1,
        f"ctlpp: cannot write out/results.md: {os.strerror(number)}; {remedy}\n",
    )


def test_a_folder_that_may_not_be_made_is_not_called_full(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **how: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def make(folder: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "mkdir", refuse)
            make_folder(folder)

    monkeypatch.setattr(executing, "make_folder", make)
    done = command("reproduce", "table1", *SMALL)
    line = "cannot make the folder out: Permission denied; choose another"
    assert (done.code, done.err) == (1, f"ctlpp: {line}\n")
