"""`ctlpp show`: a sampling graph, counted and drawn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ctlpp.cli import options as o
from ctlpp.files import UserError


def show(
    context: typer.Context,
    variant: Annotated[
        str,
        typer.Argument(
            metavar="VARIANT", help="CTL, A, R, S, a TOML file with a graph, or a dataset folder."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Draw the graph into this SVG file.", metavar="FILE.svg")
    ] = None,
    symbols: o.Symbols = 8,
    functions: o.Functions = None,
    max_length: o.MaxLength = 6,
    seed: o.Seed = 0,
    shared_functions: o.SharedFunctions = None,
    shared_symbols: o.SharedSymbols = None,
    ood_max_length: o.OodMaxLength = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the SVG file if it exists.")] = False,
) -> None:
    """The sampling graph of a variant: groups, edges, the number of distinct examples of each length, and two of them.

    `ctlpp show S`

    `ctlpp show A --out a.svg`

    `ctlpp show data/A`
    """
    settings = {
        name: value for name, value in locals().items() if name not in ("context", "variant", "out", "force")
    }

    from ctlpp.cli.given import find_task
    from ctlpp.cli.tables import print_task
    from ctlpp.figures.task_graph import draw_task
    from ctlpp.files import write_atomically

    task = find_task(variant, settings, o.chosen(context, settings))
    if out is not None:
        if out.suffix != ".svg":
            raise UserError(f"--out {out}: the drawing is SVG; name a file that ends in .svg")
        if os.path.lexists(out) and not force:
            raise UserError(f"{out} exists already; choose another file, or say --force to replace it")
        write_atomically(out, draw_task(task).encode())
    print_task(task)
    if out is not None:
        typer.echo(f"Drawn in {out}")
