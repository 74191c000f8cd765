"""The page: one HTML file with its styles, its script and all data in it.

Whatever comes from files goes in as data. JSON stands in a block of its own that no text can leave, since `<`
is written as an escape; the script puts it on the page as text, never as HTML. A content security policy lets
the browser run this page's own script only, and connect to nothing.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import ctlpp
from ctlpp.analysis.geometry import SILHOUETTE
from ctlpp.files import UserError, check_writable, write_atomically
from ctlpp.report.collect import describe, pack
from ctlpp.report.compare import DATA, SPLITS, count_verdicts, data_of, headline, results
from ctlpp.report.inside import FINEST, Package, add_setting_correlations
from ctlpp.runs.folder import RunRecord, find_runs
from ctlpp.runs.untrusted import as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import ENOUGH_SEEDS, MANY_SEEDS

SCRIPTS = "dom charts matrix state overview inside measures curves runs main"  # in this order
LARGEST = 14_800_000  # bytes that a page should not exceed
LEVELS = (FINEST, 128, 64, 32, 16, 8)  # of similarity: as many as fit


@dataclass(frozen=True)
class PageKind:
    """A kind of page that we write: only one of the same kind is ever replaced."""

    noun: str  # "a report"
    endings: tuple[str, ...]  # of its file
    mark: bytes  # among its first lines


REPORT = PageKind("a report of ctlpp", (".html", ".htm"), b"CTL++ report</title>")


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
    title: str = "",
    start: Callable[[int], Callable[[int], None]] = lambda runs: lambda done: None,
) -> Written:
    """Collect the runs in and under the folders and write one page about them.

    title: the headline; without one the page counts its verdicts.
    start: told the number of runs, gives what to call with progress.
    """
    out = Path(out)
    check_target(out, REPORT, force=force)
    records = find_runs([Path(folder) for folder in folders])
    advance, packages = start(len(records)), []
    for record in records:
        packages.append(pack(record))
        advance(1)
    page = make_page(records, packages, title=title).encode()
    write_atomically(out, page)
    analysed = sum("inside" in package.facts for package in packages)
    return Written(len(records), analysed, len(page), tuple(_notes(records, packages)))


def check_target(path: Path, kind: PageKind, *, force: bool) -> None:
    """Raise UserError if a page must not be written there: call it before the work for it."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name the file to write, like {path / f'page{kind.endings[0]}'}")
    if path.suffix.lower() not in kind.endings:
        raise UserError(f"{path} does not fit {kind.noun}: name a file that ends in {kind.endings[0]}")
    if os.path.lexists(path) and not _is_page(path, kind):
        raise UserError(f"{path} is not {kind.noun}, so it is not replaced: move it, or choose another place")
    if os.path.lexists(path) and not force:
        raise UserError(f"{path} exists already: choose another file, or replace it with ‹force=True›")
    check_writable(path)


def _is_page(path: Path, kind: PageKind) -> bool:
    """Whether a file is a page that we wrote, now or in an earlier version: by its first lines."""
    try:
        with path.open("rb") as file:
            return kind.mark in file.read(4_000)
    except OSError:
        return False


def _notes(records: Sequence[RunRecord], packages: Sequence[Package]) -> Iterator[str]:
    """Which runs are not finished ones of ours, and which analyses are damaged or old."""
    words = {"version": "of another version", "foreign": "no run of ctlpp"}
    for state in ("unfinished", "damaged", "version", "foreign"):
        if names := [record.name for record in records if record.state == state]:
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            yield f"{len(names)} {words.get(state, state)}: {', '.join(names[:3])}{more}"
    for record, package in zip(records, packages, strict=True):
        if package.damage:
            yield f"the analysis of {record.name} is damaged: {'; '.join(package.damage)}"
        if stale := package.facts.get("inside", {}).get("stale"):
            remedy = stale["command"] or "there is no checkpoint to analyse"
            yield f"the analysis of {record.name} is older than its accuracies: {remedy}"


def make_page(
    records: Sequence[RunRecord],
    packages: Sequence[Package] | None = None,
    *,
    title: str = "",
    planned: int | None = None,
) -> str:
    """The HTML text of a report.

    packages: what `pack` makes of each record; made here unless given. planned: seeds of a plan that runs.
    """
    packages = [pack(record) for record in records] if packages is None else packages
    add_setting_correlations(records, packages)
    graphs: list[str] = []
    runs = [describe(record, graphs) for record in records]
    for run, package in zip(runs, packages, strict=True):
        inside = package.facts.get("inside", {})
        run["inside"] = "similarity" in package.arrays or "right" in package.arrays
        run["stale_step"] = inside["step"] if "stale" in inside else None
    entries = results(records)
    verdicts = count_verdicts(records, entries)
    data: dict[str, Any] = {
        "version": ctlpp.__version__,
        "date": max((as_str(record.config.get("started"))[:10] for record in records), default=""),
        "planned": planned,
        "title": title,
        "verdicts": verdicts,
        "titles": paper.TITLES,
        "names": DATA,
        "solved": paper.SOLVED,
        "learned": paper.LEARNED,
        "converged": paper.CONVERGED,
        "published_seeds": paper.SEEDS,
        "staged": paper.STAGED,
        "enough": ENOUGH_SEEDS,
        "few": MANY_SEEDS,
        "silhouette": SILHOUETTE,
        "runs": runs,
        "results": entries,
    }
    rest = len(embed(data)) + sum(map(len, graphs)) + 200_000
    for levels in LEVELS:
        texts = [package.text(levels) for package in packages]
        if sum(map(len, texts)) <= LARGEST - rest:
            break
    parts = {"headline": escape(title or headline(verdicts, entries)), "means": _means(records, entries)}
    return fill_template({**data, "levels": levels}, graphs, texts, parts)


def _means(records: Sequence[RunRecord], entries: Sequence[dict[str, Any]]) -> str:
    """The rows of the table of means, as HTML: for browsers that run no script."""
    rows = []
    for entry in entries:
        first = records[entry["runs"][0]]
        means = [entry["summary"][split] for split in SPLITS]
        words = [
            f"{paper.TITLES.get(first.model, first.model)} on {first.variant}",
            f"{DATA.get(data_of(first), first.protocol)} {entry['note']}",
            "" if entry["cell"] is None else "{} functions, {} symbols".format(*entry["cell"]),
            str(means[1]["seeds"]),
            *("–" if own["mean"] is None else f"{own['mean']:.2f} ± {own['std'] or 0:.2f}" for own in means),
            str(means[1]["solved"]),
            *(["{:.2f} ± {:.2f}".format(*entry["published"]["ood"])] if "published" in entry else ["–"]),
            entry["published"]["verdict"]["ood"] if "published" in entry else "–",
        ]
        rows.append("<tr>" + "".join(f"<td>{escape(word)}</td>" for word in words) + "</tr>")
    return "\n".join(rows)


def fill_template(
    data: dict[str, Any], graphs: Sequence[str], packages: Sequence[str], parts: dict[str, str]
) -> str:
    """The page, filled in one pass, so that nothing filled in is taken for a place to fill."""
    style = _asset("page.css")
    script = (
        '"use strict";\n(() => {\n' + "\n".join(_asset(f"{name}.js") for name in SCRIPTS.split()) + "})();\n"
    )
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    binary = '<script type="application/octet-stream" id="run-{}">{}</script>'
    parts |= {
        "policy": policy,
        "style": style,
        "script": script,
        "data": embed(data),
        "graphs": "\n".join(f'<template id="graph-{at}">{svg}</template>' for at, svg in enumerate(graphs)),
        "packages": "\n".join(binary.format(at, text) for at, text in enumerate(packages)),
    }
    return re.sub(r"<!--(\w+)-->", lambda found: parts[found[1]], _asset("page.html"))


def embed(data: object) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _digest(content: str) -> str:
    """What a content security policy calls a text."""
    return "sha256-" + b64encode(sha256(content.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("ctlpp.report") / "assets" / name).read_text(encoding="utf-8")
