"""`ctlpp models`: the zoo."""

from __future__ import annotations

from typing import Annotated

import typer

from ctlpp.cli.options import naming


def models(
    preset: Annotated[
        str, typer.Option(help="Count parameters with these sizes: released, paper or quick.")
    ] = ("released"),
    functions: Annotated[int, typer.Option(help="Number of functions.")] = 32,
    symbols: Annotated[int, typer.Option(help="Number of symbols.")] = 8,
) -> None:
    """The models by name, with their trainable parameters.

    `ctlpp models`

    `ctlpp models --preset quick`
    """
    from ctlpp.benchmark.settings import Settings
    from ctlpp.cli.tables import print_table, table
    from ctlpp.models.zoo import MODELS, build, parameters

    rows = table("", "model", "parameters", "what it is")
    rows.columns[-1].justify = "left"
    with naming("preset", "functions", "symbols"):
        Settings(variant="CTL", functions=functions, symbols=symbols)  # refuses what no dataset can have
        for spec in MODELS.values():
            model = build(spec.name, vocab_size=functions + symbols + 1, n_classes=symbols, preset=preset)
            rows.add_row(spec.name, f"{parameters(model):,}", spec.about)
    title = f"Preset {preset}, {functions} functions, {symbols} symbols"
    print_table(title, rows, "A model of your own: package.module:factory, see docs/training.md")
