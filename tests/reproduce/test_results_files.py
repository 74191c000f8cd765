"""What `write_results` leaves in a folder, whatever it finds there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.reproduce.making import make_piece

from ctlpp.reproduce.results.drawings import FORMATS, NAMES
from ctlpp.reproduce.results.writing import Written, replace_file, write_page, write_results

NAME = "ndr-R-released"
FILES = ("results.md", "results.parquet")


def test_every_figure_is_drawn_that_something_was_run_for(full: Path) -> None:
    assert {path.name for path in (full / "figures").iterdir()} == {
        f"{name}.{kind}" for name in NAMES for kind in FORMATS
    }


def test_written_again_every_file_is_the_same_byte_for_byte(full: Path) -> None:
    files = {path: path.read_bytes() for path in full.rglob("*") if path.is_file()}
    for path in full.glob("*.*"):
        path.unlink()
    for path in (full / "figures").iterdir():
        path.unlink()
    write_results(full)
    assert {path: path.read_bytes() for path in full.rglob("*") if path.is_file()} == files


def test_the_parquet_file_has_a_row_for_each_cell_selection_and_split(full: Path) -> None:
    rows = pq.read_table(full / "results.parquet").to_pylist()
    assert len(rows) == 12 * 2 * 2
    assert len({(row["cell"], row["selection"], row["split"]) for row in rows}) == len(rows)
    (one,) = [
        row
        for row in rows
        if (row["cell"], row["split"]) == (NAME, "ood") and row["selection"] == "all seeds"
    ]
    assert (one["seeds"], one["planned"], one["published_mean"], one["published_above_95"]) == (
        25,
        25,
        0.75,
        8,
    )
    assert one["interval_low"] < one["mean"] < one["interval_high"]
    assert [entry["length"] for entry in one["by_length"]] == [2, 3, 4, 5, 6]


def test_nothing_at_all_gives_tables_and_a_page_too(tmp_path: Path) -> None:
    written = write_results(tmp_path / "results")
    write_page(tmp_path / "results", tmp_path / "page.md")
    assert (written.cells, written.seeds, written.figures) == (0, 0, ())
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [*FILES]
    assert "Nothing has run yet" in (tmp_path / "page.md").read_text()
    assert pq.read_table(tmp_path / "results" / "results.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("done", "asked", "line"),
    [
        (4, 4, "all 4 seeds asked for have run; 4 of 52 of the whole plan"),
        (1, 4, "1 of 4 seeds asked for have run; 4 of 52 of the whole plan"),
        (1, 1, "the one seed asked for has run; 4 of 52 of the whole plan"),
        (0, 1, "0 of 1 seed asked for has run; 4 of 52 of the whole plan"),
        (0, 0, "4 of 52 planned seeds have run, in 1 cell"),
        (4, 52, "4 of 52 planned seeds have run, in 1 cell"),
    ],
)
def test_what_was_asked_for_is_told_before_the_whole_plan(done: int, asked: int, line: str) -> None:
    assert Written(1, 4, 52, (), ("a note",)).beside(done, asked) == f"{line}\na note"


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "damaged, result.json cannot be read": lambda folder: (folder / "result.json").write_text(
        "not what it was"
    ),
    "damaged, config.json cannot be read": lambda folder: (folder / "config.json").write_text(
        "not what it was"
    ),
    "version, written by another": lambda folder: (folder / "config.json").write_text(
        '{"format": 99, "model": 1, "seeds": 1, "recipe": 1}'
    ),
    "unfinished, last evaluated at step 80,000 of 80,000": lambda folder: (folder / "result.json").unlink(),
}


def test_runs_that_cannot_be_used_are_named_and_the_others_count(tmp_path: Path) -> None:
    for seed, harm in enumerate(UNUSABLE.values()):
        harm(make_piece(tmp_path, NAME, [0.5], first=seed))
    make_piece(tmp_path, NAME, [0.7, 0.9], first=len(UNUSABLE))
    written = write_results(tmp_path)
    assert written.seeds == 2
    table = (tmp_path / "results.md").read_text()
    for seed, said in enumerate(UNUSABLE):
        assert f"\nruns/{NAME}/{seed}-{seed}: {said}" in str(written)
        assert re.search(
            rf"^\| `{NAME}/{seed}-{seed}` .* \| {said.replace(',', ':', 1)}", table, re.MULTILINE
        )


@pytest.mark.parametrize("name", ["similarity.parquet", "analysis.json"])
def test_a_damaged_analysis_costs_its_figure_only(tmp_path: Path, name: str) -> None:
    (make_piece(tmp_path, NAME, [0.5, 0.9], analysed=True) / "analysis" / name).write_bytes(b"?")
    written = write_results(tmp_path)
    assert (written.seeds, written.notes) == (2, ())
    assert not [figure for figure in written.figures if figure.startswith("similarity")]


def test_a_run_with_a_damaged_history_does_not_count_and_is_told(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5, 0.9], analysed=True)
    (make_piece(tmp_path, NAME, [0.1, 0.2], first=2, analysed=True) / "metrics.parquet").write_bytes(b"{")
    written = write_results(tmp_path)
    assert written.seeds == 2
    assert len(written.notes) == 1
    assert written.notes[0].startswith(f"runs/{NAME}/2-3: damaged, metrics.parquet cannot be read")
    assert "| damaged: metrics.parquet cannot be read" in (tmp_path / "results.md").read_text()


def test_figures_of_what_is_gone_are_removed_and_others_left_alone(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("staged.png", "mine.png"):
        (tmp_path / "figures" / name).write_bytes(b"")
    write_results(tmp_path)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["mine.png"]


def test_a_failed_piece_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "runs" / NAME / "0-24").mkdir(parents=True)
    (tmp_path / "runs" / NAME / "0-24.failed.json").write_text('{"reason": "out of memory"}')
    write_results(tmp_path)
    assert "- `ndr-R-released/0-24`: out of memory" in (tmp_path / "results.md").read_text()


def test_a_full_disk_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "file", b"old")

    def full_disk(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(
        ValueError, match=r"file: No space left on device; choose another place or make room$"
    ):
        replace_file(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_file_that_would_be_the_same_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", lambda *_: pytest.fail("written again"))
    write_results(tmp_path)
