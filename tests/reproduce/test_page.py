"""What is left in a results folder and on the page, whatever is found there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.reproduce.making import make_piece

from ctlpp.files import UserError
from ctlpp.reproduce.drawings import FORMATS, NAMES
from ctlpp.reproduce.page import Summary, check_page, check_report, write_page, write_results
from ctlpp.reproduce.plan import plan

NAME = "ndr-R-released"


def pages(out: Path) -> tuple[Summary, str, str]:
    """Write everything; the summary, `results.md` and the page."""
    summary = write_results(out)
    write_page(out, out / "page.md")
    return summary, (out / "results.md").read_text(), (out / "page.md").read_text()


def cells(text: str, start: str) -> list[str]:
    """The cells of the first line of a table that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return line.strip("| ").split(" | ")


def test_every_figure_is_drawn_that_something_was_run_for(full: Path) -> None:
    assert {path.name for path in (full / "figures").iterdir()} == {
        f"{name}.{kind}" for name in NAMES for kind in FORMATS
    }


def test_written_again_every_file_is_the_same_byte_for_byte(full: Path) -> None:
    files = {path: path.read_bytes() for path in full.rglob("*") if path.is_file()}
    for path in (*full.glob("*.*"), *(full / "figures").iterdir()):
        path.unlink()
    write_results(full)
    assert {path: path.read_bytes() for path in full.rglob("*") if path.is_file()} == files


def test_a_file_that_would_be_the_same_is_not_touched(tmp_path: Path) -> None:
    write_results(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    write_results(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_the_parquet_file_has_a_row_for_each_run_selection_and_split(full: Path) -> None:
    rows = pq.read_table(full / "results.parquet").to_pylist()
    assert len({(row["cell"], row["selection"], row["split"]) for row in rows}) == len(rows) == 12 * 2 * 2
    (one,) = [
        row for row in rows if (row["cell"], row["selection"], row["split"]) == (NAME, "all seeds", "ood")
    ]
    assert (one["seeds"], one["planned"], one["published_mean"]) == (25, 25, 0.75)
    assert one["interval_low"] < one["mean"] < one["interval_high"]
    assert [entry["length"] for entry in one["by_length"]] == [2, 3, 4, 5, 6]


def test_every_link_and_image_of_the_page_leads_somewhere(full: Path) -> None:
    page = full.parent / "docs" / "reproduction.md"
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert len(targets) > 15
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_page_has_every_published_number_and_ours_on_each_kind_of_data(full: Path) -> None:
    lines = (full.parent / "docs" / "reproduction.md").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("| **NDR on R** | published |"))
    assert "| 1.00 ± 0.01 | 0.75 ± 0.27 | 8 of 25 |" in lines[at]
    kinds = [line.split(" | ")[1] for line in lines[at + 1 : at + 4]]
    assert kinds == ["`released` with repeats", "`released`", "`paper`"]
    assert lines[at + 3].endswith("| not run |")
    for start in ("Transformer on R, released | 0 | 3 |", "NDR on R, released | ", "all |  |  | "):
        assert any(line.startswith(f"| {start}") for line in lines), start


def test_findings_are_shown_where_people_wrote_some(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5])
    assert "## Findings" not in pages(tmp_path)[2]
    (tmp_path / "findings.md").write_text("Seeds scatter {{ 1 + 1 }}.\n")
    assert "Seeds scatter {{ 1 + 1 }}.\n" in pages(tmp_path)[2]


def test_nothing_at_all_gives_tables_and_a_page_too(tmp_path: Path) -> None:
    summary, _, page = pages(tmp_path)
    assert (summary.runs, summary.seeds, summary.figures) == (0, 0, ())
    assert {path.name for path in tmp_path.iterdir()} == {
        *("results.md", "results.parquet", "predictors.parquet", "page.md")
    }
    assert "planned seeds have run" in page
    assert pq.read_table(tmp_path / "results.parquet").num_rows == 0


def test_what_was_asked_for_is_told_before_the_whole_plan() -> None:
    summary = Summary(1, 4, 1052, (), ("a note",))
    assert summary.message(1, 4) == (
        "1 of 4 seeds asked for have run; 4 of 1,052 planned seeds have run\na note"
    )
    assert summary.message(0, 0) == summary.message(4, 1052) == "4 of 1,052 planned seeds have run\na note"


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "damaged, result.json cannot be read": lambda folder: (folder / "result.json").write_text("?"),
    "damaged, config.json cannot be read": lambda folder: (folder / "config.json").write_text("?"),
    "damaged, metrics.parquet cannot be read": lambda folder: (folder / "metrics.parquet").write_text("?"),
    "version, written by another": lambda folder: (folder / "config.json").write_text(
        '{"format": 99, "model": 1, "seeds": 1, "recipe": 1}'
    ),
    "unfinished, last evaluated at step 80,000 of 80,000": lambda folder: (folder / "result.json").unlink(),
}


def test_runs_that_cannot_be_used_are_named_and_the_others_count(tmp_path: Path) -> None:
    for seed, harm in enumerate(UNUSABLE.values()):
        harm(make_piece(tmp_path, NAME, [0.5], first=seed))
    make_piece(tmp_path, NAME, [0.7, 0.9], first=len(UNUSABLE))
    summary, table, page = pages(tmp_path)
    assert summary.seeds == 2
    for seed, said in enumerate(UNUSABLE):
        assert f"\nruns/{NAME}/{seed}-{seed}: {said}" in summary.message(0, 0)
        line = f"| `{NAME}/{seed}-{seed}` | {said.replace(', ', ' | ', 1)}"
        assert line in table
        assert line in page


def test_a_failed_piece_and_an_unplanned_run_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs" / NAME / "0-24").mkdir(parents=True)
    (tmp_path / "runs" / NAME / "0-24.failed.json").write_text('{"reason": "out of | memory"}')
    make_piece(tmp_path, "ndr-R-paper", [0.5]).parent.rename(tmp_path / "runs" / "mine")
    for text in pages(tmp_path)[1:]:
        assert "| `ndr-R-released/0-24` | failed | out of \\| memory |" in text
        assert "| `mine` | unplanned | the plan has no such run |" in text


@pytest.mark.parametrize("name", ["similarity.parquet", "analysis.json"])
def test_a_damaged_analysis_costs_its_figure_only(tmp_path: Path, name: str) -> None:
    (make_piece(tmp_path, NAME, [0.5, 0.9], analysed=True) / "analysis" / name).write_bytes(b"?")
    summary = pages(tmp_path)[0]
    assert (summary.seeds, summary.notes) == (2, ())
    assert not [figure for figure in summary.figures if figure.startswith("similarity")]


def test_a_run_that_nobody_analysed_is_shown_as_that(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.4], analysed=True)
    make_piece(tmp_path, NAME, [0.6], first=1)
    table = pages(tmp_path)[1]
    states = [cells(table, f"`{NAME}/{seeds}`")[-1] for seeds in ("0-0", "1-1")]
    assert states == ["finished", "finished, not analysed"]


def test_figures_of_what_is_gone_are_removed_and_others_left_alone(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("staged.png", "mine.png"):
        (tmp_path / "figures" / name).write_bytes(b"")
    write_results(tmp_path)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.png"]


def test_one_seed_alone_stands_for_one_figure(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.4], analysed=True)
    figures = write_results(tmp_path).figures
    assert "similarity-success-R.png" in figures
    assert "similarity-failure-R.png" not in figures


def test_runs_of_the_miniature_are_compared_with_nothing(tmp_path: Path) -> None:
    (one,) = plan("table1", "quick", only=["ndr-R-released-quick"])
    make_piece(tmp_path, one, [0.5, 0.9])
    for text in pages(tmp_path)[1:]:
        assert text.splitlines()[2].startswith("> **This is a miniature**: ")
        assert "two CPU cores" in text
        assert "| not compared |" in text


def test_a_run_in_which_no_seed_converged_has_rows_figures_and_a_line_on_the_page(tmp_path: Path) -> None:
    make_piece(tmp_path, "transformer-R-released", [0.1, 0.2], iid=0.2)
    summary, _, page = pages(tmp_path)
    assert "table1.png" in summary.figures
    assert cells(page, "Transformer on R, released")[1:4] == ["0", "2", "0.15 ± 0.07 (2)"]
    assert "|  | `released` | 0 | 2 of 50 | – | – | – | – | undecided |" in page


def test_a_single_seed_has_a_mean_and_nothing_that_needs_two(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5])
    make_piece(tmp_path, f"{NAME}-seed1", [0.7])
    page = pages(tmp_path)[2]
    assert "|  | `released` | 1 | 1 of 25 | 1.00 | 0.50 | 0 of 1 | −0.25 | undecided |" in page
    assert "| NDR on R, released | 0.50 (1), 0.70 (1) | – | – | – |" in page


def test_what_was_asked_for_under_another_protocol_is_on_the_page(tmp_path: Path) -> None:
    for one in plan("staged", "quick", protocol="paper", only=["lstm/S"]):
        make_piece(tmp_path, one, [0.5, 0.7])
    summary, _, page = pages(tmp_path)
    assert summary.seeds == 4
    assert "staged.png" in summary.figures
    assert "| Bi-LSTM | paper | 4 | 0.60 ± 0.14 (2) |" in page


def test_a_page_replaces_an_earlier_page_only(tmp_path: Path) -> None:
    mine, page, text = tmp_path / "mine.md", tmp_path / "page.md", tmp_path / "page.txt"
    mine.write_text("# Mine\n")
    write_page(tmp_path, page)
    check_page(page)
    check_page(tmp_path / "docs" / "new.md")
    for path, line in {
        tmp_path: f"page {tmp_path} is a folder: name the file to write, like {tmp_path / 'reproduction.md'}",
        text: f"page {text}: the page is Markdown; name a file that ends in .md",
        mine: f"page {mine} is not a page of ctlpp reproduce, so it is not replaced; choose another file",
        mine / "page.md": f"cannot write {mine / 'page.md'}: {mine} is not a folder; choose another place",
    }.items():
        with pytest.raises(UserError, match=f"^{re.escape(line)}$"):
            check_page(path)


def test_a_report_replaces_an_earlier_report_only(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("<title>Mine</title>")
    line = f"{path} is not a report of ctlpp, so it is not replaced: move it, or choose another out"
    with pytest.raises(UserError, match=f"^{re.escape(line)}$"):
        check_report(tmp_path)
