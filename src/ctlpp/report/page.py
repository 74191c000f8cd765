"""The page: one HTML file with its styles, its script and all data in it.

Whatever comes from files goes in as data. JSON stands in a block of its own that cannot be left by any text, since `<`
is written as an escape; the script puts it on the page as text, never as HTML. A content security policy lets the
browser run this page's own script only, and connect to nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import ctlpp
from ctlpp.files import UserError, check_parent, write_atomically
from ctlpp.report.advising import advice, renewal, staleness
from ctlpp.report.compare import results
from ctlpp.report.curves import add_curves
from ctlpp.report.describing import describe
from ctlpp.report.grid import grids
from ctlpp.report.inside import add_inside
from ctlpp.report.packing import FINEST, Package
from ctlpp.report.together import add_together
from ctlpp.runs.folder import RunRecord, find_runs
from ctlpp.statistics import published as paper
from ctlpp.statistics.correlation import ENOUGH

SCRIPTS = ("dom", "matrix", "charts", "results", "runs", "inside", "main")  # in this order
LARGEST = 14_800_000  # bytes that a page should not exceed
LEVELS = (FINEST, 128, 64, 48, 32, 24, 16, 12, 8)  # of similarity: as many as fit

HEAD = 4_000  # bytes of a page in which its title stands
NOUNS = {
    "unfinished": "unfinished",
    "damaged": "damaged",
    "version": "of another version",
    "foreign": "no run of ctlpp",
}


@dataclass(frozen=True)
class Written:
    """What a report covers."""

    runs: int
    analysed: int
    size: int  # bytes
    notes: tuple[str, ...]


def write_report(
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    force: bool = False,
    start: Callable[[int], Callable[[int], None]] = lambda runs: lambda done: None,
) -> Written:
    """Collect the runs in and under the folders and write one page about them.

    start: told the number of runs, gives what to call with progress.
    """
    out = Path(out)
    check_target(out, force=force)
    records = find_runs([Path(folder) for folder in folders])
    advance, packages = start(len(records)), []
    for record in records:
        packages.append(pack(record))
        advance(1)
    page = make_page(records, packages).encode()
    write_atomically(out, page)
    analysed = sum("inside" in package.facts for package in packages)
    return Written(len(records), analysed, len(page), tuple(remarks(records, packages)))


def remarks(records: Sequence[RunRecord], packages: Sequence[Package]) -> Iterator[str]:
    """Which runs are not finished ones of ours, and which analyses are damaged or old, and why."""
    for state, noun in NOUNS.items():
        if names := [record.name for record in records if record.state == state]:
            yield f"{len(names)} {noun}: {listed(names)}"
    for record, package in zip(records, packages, strict=True):
        if package.damage:
            what = "is incomplete" if "inside" in package.facts else "cannot be used"
            yield f"the analysis of {record.name} {what}: {'; '.join(package.damage)}"
        if package.stale:
            what = renewal(record, shlex.quote(str(record.folder)))
            yield f"the analysis of {record.name} is {package.stale}: {what}"


def listed(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more:,} more" if more > 0 else "")


def is_report(path: Path) -> bool:
    """Whether a file is a page that this module wrote, now or in an earlier version: by its first lines."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return head.startswith(b"<!doctype html>") and b"<title>CTL++ report</title>" in head


def check_target(out: Path, *, force: bool) -> None:
    """Refuse early what cannot be written, before the runs are read."""
    if out.is_dir():
        raise UserError(f"{out} is a folder: name the file to write, like {out / 'report.html'}")
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{out}: the report is an HTML page; name a file that ends in .html")
    if os.path.lexists(out) and not is_report(out):
        raise UserError(f"{out} is not a report of ctlpp, so it is not replaced; choose another file")
    if os.path.lexists(out) and not force:
        raise UserError(f"{out} exists already; choose another file, or say --force to replace it")
    check_parent(out)


def make_page(records: Sequence[RunRecord], packages: Sequence[Package] | None = None) -> str:
    """The HTML text of a report. packages: what `pack` makes of each record; made here unless given."""
    packages = [pack(record) for record in records] if packages is None else packages
    add_together(records, packages)
    graphs: dict[str, str] = {}
    data: dict[str, Any] = {
        "version": ctlpp.__version__,
        "titles": paper.TITLES,
        "solved": paper.SOLVED,
        "learned": paper.LEARNED,
        "enough": ENOUGH,
        "runs": [describe(record, graphs) for record in records],
        "results": results(records),
        "grids": grids(records),
    }
    for run, package in zip(data["runs"], packages, strict=True):
        run["inside"] = "similarity" in package.arrays or "right" in package.arrays
        run["stale"] = package.stale
    drawings = list(dict.fromkeys(graphs.values()))
    rest = len(embedded(data)) + sum(map(len, drawings)) + 200_000
    levels, texts = squeeze(packages, LARGEST - rest)
    data["levels"] = levels
    return assemble(data, drawings, texts)


def pack(record: RunRecord) -> Package:
    """Curves and analysis of a run."""
    package = Package({})
    if record.state in ("foreign", "version"):
        package.facts |= {"curves_missing": record.reason, "inside_missing": record.reason}
        return package
    add_curves(package, record.folder / "metrics.parquet")
    if (record.folder / "analysis" / "analysis.json").is_file():
        add_inside(package, record.folder / "analysis")
        add_staleness(package, record)
    else:
        package.facts["inside_missing"] = advice(record)
    return package


def add_staleness(package: Package, record: RunRecord) -> None:
    """Whether the analysis is older than the accuracies beside it, and what would give a new one."""
    inside = package.facts.get("inside", {})
    package.stale = staleness(record, inside.get("step"))
    if package.stale:
        inside["stale"] = f"This analysis is {package.stale}: {renewal(record)}."


def squeeze(packages: Sequence[Package], room: int) -> tuple[int, list[str]]:
    """The packages as texts, with as many levels of similarity as fit into the room; with the fewest if none do."""
    texts: dict[int, list[str]] = {}

    def fits(levels: int) -> bool:
        texts[levels] = [package.text(levels) for package in packages]
        return sum(map(len, texts[levels])) <= room

    coarsest = len(LEVELS) - 1
    levels = LEVELS[0 if fits(LEVELS[0]) else bisect_left(LEVELS, True, lo=1, hi=coarsest, key=fits)]
    return levels, texts.get(levels) or [package.text(levels) for package in packages]


def assemble(data: dict[str, Any], graphs: Sequence[str], packages: Sequence[str]) -> str:
    """Fill the template, in one pass, so that nothing filled in is taken for a place to fill."""
    style = asset("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(asset(f"{name}.js") for name in SCRIPTS) + "})();\n"
    parts = {
        "policy": "; ".join(
            (
                "default-src 'none'",
                f"script-src '{digest(script)}'",
                f"style-src '{digest(style)}'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
            )
        ),
        "style": style,
        "script": script,
        "data": embedded(data),
        "graphs": "\n".join(f'<template id="graph-{at}">{svg}</template>' for at, svg in enumerate(graphs)),
        "packages": "\n".join(
            f'<script type="application/octet-stream" id="run-{at}">{text}</script>'
            for at, text in enumerate(packages)
        ),
    }
    return re.sub(r"<!--(\w+)-->", lambda found: parts[found[1]], asset("page.html"))


def embedded(data: object) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def digest(content: str) -> str:
    """What a content security policy calls a text."""
    return "sha256-" + b64encode(sha256(content.encode()).digest()).decode()


def asset(name: str) -> str:
    """A file that belongs to this package."""
    return (files("ctlpp.report") / "assets" / name).read_text(encoding="utf-8")
