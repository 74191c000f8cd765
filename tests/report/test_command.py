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
    make_run(tmp_path / "runs" / "b", analysed=False)
    code, out, err = report("runs", "--out", "pages/report.HTM", "--title", "Mine & <b>yours")
    assert (code, err) == (0, "")
    assert out.startswith("2 runs, 1 of them analysed: pages/report.HTM (0.")
    page = (tmp_path / "pages" / "report.HTM").read_text()
    assert page.startswith("<!doctype html>")
    assert '<h1 id="headline">Mine &amp; &lt;b&gt;yours</h1>' in page
    code, _, err = report("runs", "--out", "pages/report.HTM")
    assert code == 2
    assert err == "ctlpp: pages/report.HTM exists already: choose another file, or replace it with --force\n"
    assert report("runs", "--out", "pages/report.HTM", "--force")[0] == 0


def test_runs_that_are_not_finished_ones_are_named_three_of_them(report: Command, tmp_path: Path) -> None:
    for number in range(5):
        (make_run(tmp_path / "runs" / f"cut-{number}", analysed=False) / "config.json").write_text("{")
        (make_run(tmp_path / "runs" / f"started-{number}", analysed=False) / "result.json").unlink()
    make_run(tmp_path / "runs" / "older", analysed=False, format=0)
    assert report("runs")[2].splitlines() == [
        "Note: 5 unfinished: started-0, started-1, started-2 and 2 more.",
        "Note: 5 damaged: cut-0, cut-1, cut-2 and 2 more.",
        "Note: 1 of another version: older.",
    ]


def test_damaged_and_old_analyses_are_named_with_their_remedy(report: Command, tmp_path: Path) -> None:
    for name in ("cut", "good", "old one", "partly"):
        make_run(tmp_path / "runs" / name)
    (tmp_path / "runs" / "cut" / "analysis" / "analysis.json").write_text("{")
    (tmp_path / "runs" / "partly" / "analysis" / "pairs.parquet").write_bytes(b"short")
    old = outdate(tmp_path / "runs" / "old one")
    save(old, 300, {"weights": torch.ones(2, 3)}, {})
    code, out, err = report("runs")
    assert code == 0
    assert out.startswith("4 runs, 3 of them analysed: report.html")
    cut, older, partly = " ".join(err.split()).split("Note: ")[1:]
    assert cut.startswith("the analysis of cut is damaged: analysis.json cannot be read: Expecting ")
    assert older.endswith("is older than its accuracies: ctlpp analyze 'runs/old one' --force. ")
    assert partly.startswith("the analysis of partly is damaged: pairs.parquet cannot be read: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("nowhere", "nowhere does not exist: name run folders, or folders that contain some"),
        ("empty", "no runs in or under empty: `ctlpp train` writes one"),
        ("runs --out mine.html --force", "mine.html is not a report of ctlpp, so it is not replaced: move"),
        ("runs --out thesis.tex", "thesis.tex does not fit a report of ctlpp: name a file that ends in"),
        ("runs --out runs", "runs is a folder: name the file to write, like runs/page.html"),
        ("runs --out mine.html/x.html", "cannot write mine.html/x.html: "),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    report: Command, tmp_path: Path, arguments: str, line: str
) -> None:
    make_run(tmp_path / "runs" / "a", analysed=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine.html").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = report(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"ctlpp: {line}")
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "mine.html").read_text() == "mine"


def test_open_shows_the_page_on_a_desktop_and_says_where_it_is_elsewhere(
    report: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "runs" / "a", analysed=False)
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda page: not shown.append(page))  # type: ignore[func-returns-value]
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert "in a browser" in report("runs", "--open")[1]
    assert shown == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert "in a browser" not in report("runs", "--open", "--force")[1]
    assert shown == [(tmp_path / "report.html").as_uri()]
