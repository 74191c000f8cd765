"""`ctlpp evaluate`: a run on other data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctlpp.cli.options import naming
from ctlpp.words import plural


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="A dataset folder with the same functions and symbols.")
    ],
    splits: Annotated[
        str | None, typer.Option(help="Splits to evaluate, like iid,ood,pairs. [default: all]")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Evaluate every seed of a run on a dataset folder; of an unfinished one, its newest checkpoint.

    `ctlpp evaluate runs/lstm-R --data data/R`

    `ctlpp evaluate runs/lstm-R --data data/R --splits pairs,any`
    """
    from ctlpp.cli.scores import by_length
    from ctlpp.cli.tables import print_table
    from ctlpp.storage.reading import load
    from ctlpp.training.fitting import check_fit
    from ctlpp.training.run import load_run

    with naming("device"):
        trained, dataset = load_run(run, device=device), load(data)
    check_fit(trained.config, dataset.task, run, data)
    names = [name for name in dataset.splits if name != "train"] if splits is None else splits.split(",")
    scores = trained.evaluate({name: dataset.tensors(name) for name in names})
    for note in trained.notes:
        typer.echo(f"Note: {note}.", err=True)
    if not (run / "result.json").is_file():
        steps = trained.config["recipe"]["steps"]
        typer.echo(f"Note: the run in {run} is unfinished (step {trained.step:,} of {steps:,}).", err=True)
    title = f"{trained.config['model']}, {plural(len(trained.crowd.seeds))} after {trained.step:,} steps, on {data}"
    print_table(title, by_length(scores))
