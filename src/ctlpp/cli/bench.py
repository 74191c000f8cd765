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


@app.command()
def train() -> None:
    """Seeds trained together against a plain loop over single seeds; memory of 25 NDR seeds.

    `ctlpp bench train`
    """
    from ctlpp.bench.train import compare
    from ctlpp.cli.tables import print_table

    print_table(*compare())
