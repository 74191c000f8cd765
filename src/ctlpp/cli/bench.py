"""`ctlpp bench`: speed on this machine, side by side with a reference."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def about() -> None:
    """Speed on this machine, side by side with a reference, as a table.

    `ctlpp bench data`
    """


@app.command()
def data() -> None:
    """Generation against a plain-Python rejection sampler; the whole command; memory of ten million examples.

    `ctlpp bench data`
    """
    from ctlpp.bench.data import compare
    from ctlpp.cli.tables import print_table

    print_table(*compare())
