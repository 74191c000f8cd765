"""From the runs of a results folder to its tables, figures and page: a function of the files in `OUT/runs` alone.

    OUT/runs/CELL/PIECE/    run folders, as `ctlpp train` and `ctlpp analyze` write them
    OUT/results.parquet     one row for each cell, way to count and split
    OUT/results.md          the same to read, and what has run
    OUT/figures/            drawings
    OUT/report.html         the page of `ctlpp report`

Every file is written beside its place first and then renamed, so that at any time each is whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq

from ctlpp.files import UserError, write_atomically
from ctlpp.report import page as report
from ctlpp.report.page import is_report
from ctlpp.reproduce.plan import PlannedRun
from ctlpp.reproduce.results.cells import RUNS
from ctlpp.reproduce.results.drawings import FORMATS, NAMES, draw_all
from ctlpp.reproduce.results.found import Found, find
from ctlpp.reproduce.results.page import TITLE, make_page
from ctlpp.reproduce.results.parquet import as_table
from ctlpp.reproduce.results.sheet import sheet
from ctlpp.reproduce.results.similar import examples
from ctlpp.runs.folder import find_runs
from ctlpp.words import plural

FIGURES = "figures"


@dataclass(frozen=True)
class Written:
    """What a results folder holds now."""

    cells: int  # with at least one finished seed
    seeds: int  # finished
    planned: int  # seeds
    figures: tuple[str, ...]
    notes: tuple[str, ...]  # runs that could not be used, and why

    def __str__(self) -> str:
        said = f"{self.seeds:,} of {plural(self.planned, 'planned seed')} have run, in {plural(self.cells, 'cell')}"
        return "\n".join([said, *self.notes])

    def beside(self, done: int, asked: int) -> str:
        """The same where a part of the plan was asked for: what has become of that comes first."""
        if asked in (0, self.planned):
            return str(self)
        part = f"{done:,} of {plural(asked, 'seed')}"
        if done == asked:
            part = "the one seed" if asked == 1 else f"all {asked:,} seeds"
        part += f" asked for {'has' if asked == 1 else 'have'} run"
        return "\n".join([f"{part}; {self.seeds:,} of {self.planned:,} of the whole plan", *self.notes])


def write_results(out: Path, plan: Sequence[PlannedRun] | None = None) -> Written:
    """Write tables, figures and report of everything that has run.

    plan: what to hold it against; by default the whole plan of the scale that the runs are of.
    """
    found = find(out, plan)
    replace_file(out / "results.parquet", parquet(found))
    replace_file(out / "results.md", sheet(found).encode())
    figures = write_figures(found)
    write_report(found)
    return summary(found, figures)


def write_page(out: Path, page: Path, plan: Sequence[PlannedRun] | None = None) -> None:
    """Write the page *Does it reproduce?* from what is in a results folder."""
    found = find(out, plan)
    replace_file(page, make_page(found, examples(found), page).encode())


def check_page(page: Path) -> None:
    """Raise UserError if the page must not be written there."""
    if page.is_dir():
        raise UserError(f"--page {page} is a folder: name the file to write, like {page / 'reproduction.md'}")
    if page.suffix != ".md":
        raise UserError(f"--page {page}: the page is Markdown; name a file that ends in .md")
    if os.path.lexists(page) and not is_page(page):
        raise UserError(
            f"--page {page} is not a page of ctlpp reproduce, so it is not replaced; choose another file"
        )
    nearest = next(parent for parent in page.parents if os.path.lexists(parent))
    if not nearest.is_dir():
        raise UserError(f"--page {page}: {nearest} is not a folder; choose another place")


def check_report(out: Path) -> None:
    """Raise UserError if something else has the name of the report."""
    path = out / "report.html"
    if os.path.lexists(path) and not is_report(path):
        raise UserError(
            f"{path} is not a report of ctlpp, so it is not replaced: move it, or choose another --out"
        )


def is_page(path: Path) -> bool:
    """Whether a file is a page *Does it reproduce?*, by its first line."""
    try:
        with path.open("rb") as file:
            return file.readline(100).rstrip() == TITLE.encode()
    except OSError:
        return False


def parquet(found: Found) -> bytes:
    """The content of `results.parquet`."""
    file = BytesIO()
    pq.write_table(as_table(found), file)
    return file.getvalue()


def write_figures(found: Found) -> list[str]:
    """Draw what can be drawn; figures of what is no longer there are removed."""
    drawn = []
    for name, content in draw_all(found, examples(found)):
        replace_file(found.out / FIGURES / name, content)
        drawn.append(name)
    for name in (f"{stem}.{kind}" for stem in NAMES for kind in FORMATS):
        if name not in drawn:
            (found.out / FIGURES / name).unlink(missing_ok=True)
    return drawn


def write_report(found: Found) -> None:
    """The page of `ctlpp report` over all runs; none without runs."""
    path = found.out / "report.html"
    if any(cell.records or cell.others for cell in found.cells.values()):
        replace_file(path, report.make_page(find_runs([found.out / RUNS])).encode())
    else:
        path.unlink(missing_ok=True)


def summary(found: Found, figures: Sequence[str]) -> Written:
    """What there is, in numbers."""
    planned = [seed for one in found.plan for seed in one.seeds]
    left = [seed for one in found.plan for seed in found.missing(one)]
    notes = [
        f"{RUNS}/{record.name}: {record.state}" + (f", {record.reason}" if record.reason else "")
        for cell in found.cells.values()
        for record in cell.others
    ]
    cells = sum(bool(cell.seeds) for cell in found.cells.values())
    return Written(cells, len(planned) - len(left), len(planned), tuple(figures), tuple(notes))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; one that is the same already is left alone."""
    if path.is_file() and path.read_bytes() == content:
        return
    write_atomically(path, content)
