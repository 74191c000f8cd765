"""The page: one HTML file with its styles, its script and all data in it.

Whatever comes from files goes in as data. JSON stands in a block of its own that cannot be left by any text, since `<`
is written as an escape; the script puts it on the page as text, never as HTML. A content security policy lets the
browser run this page's own script only, and connect to nothing.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

import ctlpp
from ctlpp.report.advising import advice, renewal, staleness
from ctlpp.report.comparing import results
from ctlpp.report.curves import add_curves
from ctlpp.report.describing import describe
from ctlpp.report.grid import grids
from ctlpp.report.inside import add_inside
from ctlpp.report.packing import FINEST, Package
from ctlpp.report.together import add_together
from ctlpp.runs.folder import RunRecord
from ctlpp.statistics import published as paper
from ctlpp.statistics.correlation import ENOUGH

SCRIPTS = ("dom", "matrix", "charts", "results", "runs", "inside", "main")  # in this order
LARGEST = 14_800_000  # bytes that a page should not exceed
LEVELS = (FINEST, 128, 64, 48, 32, 24, 16, 12, 8)  # of similarity: as many as fit


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
