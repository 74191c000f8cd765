"""From the runs of a results folder to its tables, figures and page: they depend on nothing else.

    OUT/results.parquet, OUT/predictors.parquet    the numbers
    OUT/results.md                                 the same as tables, from `results.md.j2`
    OUT/figures/                                   drawings
    OUT/report.html                                the page of `ctlpp report`
    OUT/findings.md                                written by people; the page includes it

The page is made from `page.md.j2`; both templates take their tables from `tables.md.j2`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import jinja2
import pyarrow as pa
import pyarrow.parquet as pq

from ctlpp.files import UserError, check_parent, write_atomically
from ctlpp.report.page import is_report, make_page
from ctlpp.reproduce import tables
from ctlpp.reproduce.drawings import FORMATS, NAMES, draw_all, find_examples
from ctlpp.reproduce.plan import DEVICES, PlannedRun
from ctlpp.reproduce.results import CONDITIONS, RUNS, Results, correlations_table, load_results, results_table
from ctlpp.runs.folder import find_runs
from ctlpp.statistics import published as paper

TITLE = "# Does it reproduce?"
FIGURES = "figures"


@dataclass(frozen=True)
class Summary:
    """What a results folder holds now."""

    runs: int  # with at least one finished seed
    seeds: int  # finished
    planned: int  # seeds
    figures: tuple[str, ...]
    notes: tuple[str, ...]  # runs that cannot be used, and why

    def message(self, finished: int, asked: int) -> str:
        """For the terminal, where `finished` of the `asked` seeds have run; the whole plan may have more."""
        whole = f"{self.seeds:,} of {self.planned:,} planned seeds have run"
        part = "" if asked in (0, self.planned) else f"{finished:,} of {asked:,} seeds asked for have run; "
        return "\n".join([part + whole, *self.notes])


def write_results(folder: Path, plan: Sequence[PlannedRun] | None = None) -> Summary:
    """Write tables, figures and report of everything that has run.

    plan: what to compare it with; by default the whole plan of the scale that the runs are of.
    """
    results = load_results(folder, plan)
    _replace(folder / "results.parquet", _parquet(results_table(results)))
    _replace(folder / "predictors.parquet", _parquet(correlations_table(results)))
    _replace(folder / "results.md", _render("results.md.j2", results, folder / "results.md").encode())
    figures = _write_figures(results)
    if results.runs:
        _replace(folder / "report.html", make_page(find_runs([folder / RUNS])).encode())
    else:
        (folder / "report.html").unlink(missing_ok=True)
    total = tables.remaining(results)[-1]
    unusable = [record for run in results.runs.values() for record in run.unusable]
    return Summary(
        runs=sum(bool(run.seeds) for run in results.runs.values()),
        seeds=total["finished"],
        planned=total["planned"],
        figures=tuple(figures),
        notes=tuple(f"{RUNS}/{record.name}: {record.state}, {record.reason}" for record in unusable),
    )


def write_page(folder: Path, page: Path, plan: Sequence[PlannedRun] | None = None) -> None:
    """Write the page *Does it reproduce?* from what is in a results folder."""
    _replace(page, _render("page.md.j2", load_results(folder, plan), page).encode())


def check_page(page: Path) -> None:
    """Raise UserError if the page must not be written there."""
    if page.is_dir():
        raise UserError(f"‹page› {page} is a folder: name the file to write, like {page / 'reproduction.md'}")
    if page.suffix != ".md":
        raise UserError(f"‹page› {page}: the page is Markdown; name a file that ends in .md")
    if os.path.lexists(page) and not _is_page(page):
        raise UserError(
            f"‹page› {page} is not a page of ctlpp reproduce, so it is not replaced; choose another file"
        )
    check_parent(page)


def _is_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.readline(100).rstrip() == TITLE.encode()
    except OSError:
        return False


def check_report(folder: Path) -> None:
    """Raise UserError if something else has the name of the report."""
    path = folder / "report.html"
    if os.path.lexists(path) and not is_report(path):
        raise UserError(
            f"{path} is not a report of ctlpp, so it is not replaced: move it, or choose another ‹out›"
        )


def _write_figures(results: Results) -> list[str]:
    """Draw what can be drawn; figures of what is no longer there are removed."""
    drawn = []
    for name, content in draw_all(results):
        _replace(results.folder / FIGURES / name, content)
        drawn.append(name)
    for name in (f"{stem}.{kind}" for stem in NAMES for kind in FORMATS):
        if name not in drawn:
            (results.folder / FIGURES / name).unlink(missing_ok=True)
    return drawn


def _parquet(table: pa.Table) -> bytes:
    file = BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _replace(path: Path, content: bytes) -> None:
    """Write a file, unless it is the same already."""
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


def _render(template: str, results: Results, page: Path) -> str:
    """Fill a template; links lead from the page to the results folder."""
    here, findings = page.parent.resolve(), results.folder / "findings.md"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    for name in ("number", "signed", "mean", "interval", "estimate", "share", "verdict", "name_of", "cell"):
        environment.filters[name] = getattr(tables, name)
    environment.filters |= {"title": tables.title, "time": tables.time, "whole": tables.whole}
    environment.globals |= {
        "results": results,
        "paper": paper,
        "conditions": CONDITIONS,
        "tables": tables,
        "folder": results.folder.resolve().name,
        "device": DEVICES[tables.device(results)],
        "link": lambda name: Path(os.path.relpath(results.folder.resolve() / name, here)).as_posix(),
        "has_figure": lambda name: (results.folder / FIGURES / f"{name}.png").is_file(),
        "findings": findings.read_text(encoding="utf-8") if findings.is_file() else "",
        "examples": find_examples(results),
    }
    return environment.get_template(template).render()
