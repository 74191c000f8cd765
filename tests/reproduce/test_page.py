"""What is left in a results folder and on the page, whatever is found there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.reproduce.making import make_piece

from ctlpp.files import UserError
from ctlpp.report.page import REPORT, check_target
from ctlpp.reproduce.drawings import draw_all
from ctlpp.reproduce.examples import find_examples
from ctlpp.reproduce.page import PAGE, render, write_results
from ctlpp.reproduce.plan import plan
from ctlpp.reproduce.results import load_results

NAME = "ndr-R-clean"


def pages(out: Path) -> list[str]:
    """`results.md` and the page, without figures."""
    results = load_results(out)
    return [render(f"{name}.md.j2", results, out / f"{name}.md") for name in ("results", "page")]


def cells(text: str, start: str) -> list[str]:
    """The cells of the first line of a table that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return line.strip("| ").split(" | ")


def test_numbers_tables_figures_report_and_page_are_written(tmp_path: Path) -> None:
    out, page = tmp_path / "results", tmp_path / "docs" / "page.md"
    make_piece(out, NAME, [0.4], analysed=True)
    (out / "figures").mkdir()
    for name in ("staged.png", "mine.png"):
        (out / "figures" / name).write_bytes(b"")
    (make_piece(out, NAME, [0.5], first=1) / "result.json").write_text("?")
    first, second = write_results(out, page).splitlines()
    assert re.fullmatch(r"1 of \d+ planned seeds have run", first)
    assert second.startswith(f"runs/{NAME}/1-1: damaged, result.json cannot be read")
    written = {"results.parquet", "predictors.parquet", "results.md", "report.html"}
    assert {path.name for path in out.iterdir()} >= written
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert drawn >= {"table1.png", "table1.pdf", "similarity-success-R.png", "mine.png"}
    assert "staged.png" not in drawn, "figures of what is gone are removed"
    assert "similarity-failure-R.png" not in drawn, "one seed alone stands for one figure"
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_nothing_at_all_gives_tables_too_and_what_is_the_same_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    assert write_results(tmp_path).startswith("0 of ")
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert files.keys() == {"results.md", "results.parquet", "predictors.parquet"}
    write_results(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert pq.read_table(tmp_path / "results.parquet").num_rows == 0


def test_the_page_has_every_published_number_and_ours_on_each_kind_of_data(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5, 0.9])
    make_piece(tmp_path, f"{NAME}-repeats", [0.7])
    lines = pages(tmp_path)[1].splitlines()
    first, at = (n for n, line in enumerate(lines) if line.startswith("| **NDR on R** | published |"))
    assert lines[first + 1] == "|  | `authors` |  | none |  |  |  |  |  | not run |"
    assert "| 1.00 ± 0.01 | 0.75 ± 0.27 | 8 of 25 |" in lines[at]
    kinds = [line.split(" | ")[1] for line in lines[at + 1 : at + 5]]
    assert kinds == ["`authors`", "`clean` with repeats", "`clean`", "`text`"]
    assert lines[at + 3].startswith("|  | `clean` | 2 | 2 of 25 | 1.00 ± 0.00 | 0.70 ± 0.28 | 0 of 2 | ")
    assert lines[at + 4].endswith("| not run |")


def test_findings_are_shown_where_people_wrote_some(tmp_path: Path) -> None:
    assert "## Findings" not in pages(tmp_path)[1]
    (tmp_path / "findings.md").write_text("Seeds scatter {{ 1 + 1 }}.\n")
    assert "Seeds scatter {{ 1 + 1 }}.\n" in pages(tmp_path)[1]


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "damaged | result.json cannot be read": lambda folder: (folder / "result.json").write_text("?"),
    "damaged | metrics.parquet cannot be read": lambda folder: (folder / "metrics.parquet").write_text("?"),
    "version | written by another": lambda folder: (folder / "config.json").write_text(
        '{"format": 99, "model": 1, "seeds": 1, "recipe": 1}'
    ),
    "unfinished | last evaluated at step 80,000 of 80,000": lambda folder: (folder / "result.json").unlink(),
}


def test_runs_that_cannot_be_used_are_named_and_the_others_count(tmp_path: Path) -> None:
    for seed, harm in enumerate(UNUSABLE.values()):
        harm(make_piece(tmp_path, NAME, [0.5], first=seed))
    make_piece(tmp_path, NAME, [0.7, 0.9], first=len(UNUSABLE))
    (tmp_path / "runs" / NAME / "6-24").mkdir()
    (tmp_path / "runs" / NAME / "6-24.failed.json").write_text('{"reason": "out of | memory"}')
    make_piece(tmp_path, "ndr-R-text", [0.5]).parent.rename(tmp_path / "runs" / "mine")
    texts = pages(tmp_path)
    assert cells(texts[0], "NDR on R, clean")[2] == "2"
    for text in texts:
        for seed, words in enumerate(UNUSABLE):
            assert f"| `{NAME}/{seed}-{seed}` | {words}" in text
        assert f"| `{NAME}/6-24` | failed | out of \\| memory |" in text
        assert "| `mine` | unplanned | the plan has no such run |" in text


def test_a_damaged_analysis_costs_its_figure_only_and_a_missing_one_is_named(tmp_path: Path) -> None:
    analysis = make_piece(tmp_path, NAME, [0.5, 0.9], analysed=True) / "analysis"
    make_piece(tmp_path, NAME, [0.6], first=2)
    states = [cells(pages(tmp_path)[0], f"`{NAME}/{seeds}`")[-1] for seeds in ("0-1", "2-2")]
    assert states == ["finished", "finished, not analysed"]
    for name in ("similarity.parquet", "analysis.json"):
        (analysis / name).write_bytes(b"?")
        results = load_results(tmp_path)
        assert len(results.runs[NAME].setting.seeds) == 3
        assert find_examples(results) == []


def test_runs_of_the_miniature_are_compared_with_nothing(tmp_path: Path) -> None:
    (one,) = plan("table1", "quick", only=["ndr-R-clean-quick"])
    make_piece(tmp_path, one, [0.5, 0.9])
    for text in pages(tmp_path):
        assert text.splitlines()[2].startswith("> **This is a miniature**: ")
        assert "two CPU cores" in text
        assert "| not compared |" in text


def test_a_run_in_which_no_seed_converged_has_a_figure_and_a_line_on_the_page(tmp_path: Path) -> None:
    make_piece(tmp_path, "transformer-R-clean", [0.1, 0.2], iid=0.2)
    assert next(draw_all(load_results(tmp_path)))[0] == "table1.png"
    page = pages(tmp_path)[1]
    assert cells(page, "Transformer on R, clean")[1:4] == ["0", "2", "0.15 ± 0.07 (2)"]
    assert "|  | `clean` | 0 | 2 of 50 | – | – | – |  | – | undecided |" in page


def test_a_single_seed_has_a_mean_and_nothing_that_needs_two(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5])
    make_piece(tmp_path, f"{NAME}-seed1", [0.7])
    page = pages(tmp_path)[1]
    assert "|  | `clean` | 1 | 1 of 25 | 1.00 | 0.50 | 0 of 1 |  | −0.25 | undecided |" in page
    assert "| NDR on R, clean | 0.50 (1), 0.70 (1) | – | – | – |" in page


def test_what_was_asked_for_under_another_protocol_is_on_the_page(tmp_path: Path) -> None:
    for one in plan("staged", "quick", protocol="authors", only=["lstm/S"]):
        make_piece(tmp_path, one, [0.5, 0.7])
    assert "| Bi-LSTM | authors | 4 | 0.60 ± 0.14 (2) |" in pages(tmp_path)[1]


def test_a_page_replaces_an_earlier_one_of_its_kind_only(tmp_path: Path) -> None:
    mine, page, report = tmp_path / "mine.md", tmp_path / "page.md", tmp_path / "report.html"
    mine.write_text("# Mine\n")
    page.write_text("# Does it reproduce?\n\nWho knows.\n")
    check_target(page, PAGE, force=True)
    for path, kind, line in (
        (mine, PAGE, "mine.md is not a page of ctlpp reproduce, so it is not replaced: move it, or choose"),
        (report, PAGE, "report.html does not fit a page of ctlpp reproduce: name a file that ends in .md"),
        (page, REPORT, "page.md does not fit a report of ctlpp: name a file that ends in .html"),
    ):
        with pytest.raises(UserError, match=re.escape(line)):
            check_target(path, kind, force=True)
