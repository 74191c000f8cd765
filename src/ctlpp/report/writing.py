"""From folders to a page on disk."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctlpp.files import UserError, check_parent, write_atomically
from ctlpp.report.advising import renewal
from ctlpp.report.packing import Package
from ctlpp.report.page import make_page, pack
from ctlpp.runs.folder import RunRecord, find_runs

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
