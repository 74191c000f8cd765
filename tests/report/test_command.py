"""`ctlpp report` as a user meets it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.report.conftest import make_run, outdate

from ctlpp.cli.main import main
from ctlpp.runs.checkpoint import save

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ctlpp", "report", *arguments])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run


def test_it_writes_the_page_and_says_what_is_in_it(report: Command, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a")
    (make_run(tmp_path / "runs" / "b", analysed=False) / "result.json").unlink()
    code, out, err = report("runs", "--out", "pages/report.html")
    assert (code, err) == (0, "Note: 1 unfinished: b.\n")
    assert out.startswith("2 runs, 1 of them analysed: pages/report.html (0.")
    assert (tmp_path / "pages" / "report.html").read_text().startswith("<!doctype html>")


def test_damaged_analyses_are_named_and_do_not_count(report: Command, tmp_path: Path) -> None:
    for name in ("good", "cut", "older", "partly"):
        make_run(tmp_path / "runs" / name)
    (tmp_path / "runs" / "cut" / "analysis" / "analysis.json").write_text("{")
    (tmp_path / "runs" / "older" / "analysis" / "analysis.json").write_text("{}")
    (tmp_path / "runs" / "partly" / "analysis" / "pairs.parquet").write_bytes(b"short")
    code, out, err = report("runs")
    assert code == 0
    assert out.startswith("4 runs, 2 of them analysed: report.html")
    cut, older, partly = err.splitlines()
    assert cut.startswith(
        "Note: the analysis of cut cannot be used: analysis.json cannot be read: Expecting "
    )
    assert (
        older
        == "Note: the analysis of older cannot be used: analysis.json was written by another version of ctlpp."
    )
    assert partly.startswith("Note: the analysis of partly is incomplete: pairs.parquet cannot be read: ")


def test_runs_that_are_not_finished_ones_are_named_three_of_them(report: Command, tmp_path: Path) -> None:
    for number in range(5):
        run = make_run(tmp_path / "runs" / f"cut-{number}", analysed=False)
        (run / "config.json").write_text("{")
        (
            make_run(tmp_path / "runs" / f"started-{number // 3}" / str(number), analysed=False)
            / "result.json"
        ).unlink()
    make_run(tmp_path / "runs" / "older", analysed=False, format=0)
    assert report("runs")[2].splitlines() == [
        "Note: 5 unfinished: started-0/0, started-0/1, started-0/2 and 2 more.",
        "Note: 5 damaged: cut-0, cut-1, cut-2 and 2 more.",
        "Note: 1 of another version: older.",
    ]


def test_an_analysis_made_before_the_end_is_named_with_its_remedy(report: Command, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "new")
    old = outdate(make_run(tmp_path / "runs" / "an old one"))
    save(old / "checkpoint", 300, {"weights": torch.ones(2, 3)}, {})
    code, out, err = report("runs")
    assert code == 0
    assert out.startswith("2 runs, 2 of them analysed")
    remedy = "`ctlpp analyze 'runs/an old one' --force`, then the report again"
    assert err == f"Note: the analysis of an old one is of step 164, not of the end (step 300): {remedy}.\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere"], "nowhere does not exist: name run folders, or folders that contain some"),
        (["empty"], "no runs in or under empty: `ctlpp train` writes one"),
        (
            ["runs", "--out", "there.html"],
            "there.html is not a report of ctlpp, so it is not replaced; choose another file",
        ),
        (
            ["runs", "--out", "there.html", "--force"],
            "there.html is not a report of ctlpp, so it is not replaced; choose another file",
        ),
        (
            ["runs", "--out", "thesis.tex", "--force"],
            "thesis.tex: the report is an HTML page; name a file that ends in .html",
        ),
        (["runs", "--out", "runs"], "runs is a folder: name the file to write, like runs/report.html"),
        (
            ["runs", "--out", "there.html/x.html"],
            "cannot write there.html/x.html: there.html is not a folder; choose another place",
        ),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    report: Command, tmp_path: Path, arguments: list[str], line: str
) -> None:
    make_run(tmp_path / "runs" / "a", analysed=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "there.html").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = report(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"ctlpp: {line}")
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.html").read_text() == "mine"


@pytest.mark.parametrize("name", ["page.html", "page.HTM"])
def test_force_replaces_a_report(report: Command, tmp_path: Path, name: str) -> None:
    make_run(tmp_path / "runs" / "a", analysed=False)
    assert report("runs", "--out", name)[0] == 0
    code, _, err = report("runs", "--out", name)
    assert (code, err) == (
        2,
        f"ctlpp: {name} exists already; choose another file, or say --force to replace it\n",
    )
    make_run(tmp_path / "runs" / "b", analysed=False)
    code, out, _ = report("runs", "--out", name, "--force")
    assert code == 0
    assert out.startswith(f"2 runs, 0 of them analysed: {name} (0.")
