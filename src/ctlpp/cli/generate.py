"""`ctlpp generate`: write a dataset folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ctlpp.cli import options as o


def generate(
    variant: o.Variant,
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="DIR")],
    symbols: o.Symbols = 8,
    functions: o.Functions = None,
    max_length: o.MaxLength = 6,
    train: o.Train = 300_000,
    iid: o.Iid = 1_000,
    ood: o.Ood = 1_000,
    seed: o.Seed = 0,
    protocol: o.Protocol = "paper",
    order: o.Order = "right-to-left",
    shared_functions: o.SharedFunctions = None,
    shared_symbols: o.SharedSymbols = None,
    ood_max_length: o.OodMaxLength = None,
    fill: o.Fill = 0.5,
    weighting: o.Weighting = None,
    distinct_sequences: o.DistinctSequences = None,
    format: Annotated[
        Literal["parquet", "jsonl", "text"], typer.Option(help="Of the split files.")
    ] = "parquet",
    force: Annotated[
        bool, typer.Option("--force", help="Replace the folder if it is a dataset folder.")
    ] = False,
) -> None:
    """Write a dataset: train, iid, ood and diagnostic splits, task.json and a dataset card.

    `ctlpp generate A --out data/A`

    `ctlpp generate S --shared-functions 16 --shared-symbols 6 --out data/S-16-6`

    `ctlpp generate my-graph.toml --max-length 4 --train 5000 --format jsonl --out data/mine`
    """
    settings = {
        name: value for name, value in locals().items() if name not in ("variant", "out", "format", "force")
    }

    from ctlpp.benchmark.dataset import generate as draw
    from ctlpp.cli.tables import print_splits
    from ctlpp.storage.writing import check_target, save

    check_target(out, force=force)
    with o.naming(*settings):
        dataset = draw(variant, **settings)
    save(dataset, out, format=format, force=force)
    print_splits(dataset, out)
