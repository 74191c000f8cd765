"""`ctlpp report`: one page over any number of runs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ctlpp.words import plural


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR…", help="Run folders, or folders with runs in them at any depth."),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.", metavar="FILE.html")] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace a report that is there already.")] = False,
) -> None:
    """One self-contained page over any number of runs: results beside the published ones, curves, a look inside.

    `ctlpp report runs --out report.html`

    `ctlpp report runs/ndr-R runs/ndr-A --out ndr.html --force`

    The page opens from disk, without a network. What `ctlpp analyze` has found in a run is part of it.
    """
    from ctlpp.cli.progress import progress
    from ctlpp.report.writing import write_report

    with ExitStack() as bars:
        written = write_report(
            folders,
            out,
            force=force,
            start=lambda runs: bars.enter_context(progress(f"Reading {plural(runs, 'run')}", runs)),
        )
    for line in written.notes:
        typer.echo(f"Note: {line}.", err=True)
    typer.echo(
        f"{plural(written.runs, 'run')}, {written.analysed} of them analysed: {out} ({written.size / 1e6:.1f} MB)"
    )
