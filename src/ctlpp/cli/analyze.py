"""`ctlpp analyze`: look inside a trained run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer


def analyze(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `ctlpp train` writes it.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write. [default: RUN/analysis]", metavar="DIR")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Only these seeds of the run: 3,7,9 or 0-4. [default: all]", metavar="SEEDS")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The dataset, for a run that does not name its task itself.", metavar="DIR")
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Analyse the newest checkpoint of a run that is not over.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an analysis that is there already.")] = False,
) -> None:
    """Representation analysis of every seed: which states mean the same, who understands whom, what predicts failure.

    `ctlpp analyze runs/ndr-R`

    `ctlpp analyze runs/ndr-R --seeds 0-4 --out first-five`
    """
    from ctlpp.analysis.study import STAGES
    from ctlpp.cli.progress import progress
    from ctlpp.figures.whole_run import analyze_run

    with ExitStack() as bars:

        def computing(total: int) -> Callable[[int], None]:
            return bars.enter_context(progress(f"Analysing {total} seeds", STAGES * total))

        def drawing(total: int) -> Callable[[int], None]:
            bars.close()
            return bars.enter_context(progress(f"Drawing {total} figures", total))

        study = analyze_run(
            run,
            out,
            seeds=None if seeds is None else read_seeds(seeds),
            data=data,
            unfinished=unfinished,
            force=force,
            computing=computing,
            drawing=drawing,
        )
    for note in study.analysis.notes:
        typer.echo(f"Note: {note}.", err=True)
    show(study)
    typer.echo(f"Numbers and figures in {run / 'analysis' if out is None else out}")


def read_seeds(text: str) -> list[int]:
    """The seeds that 3,7,9 or 0-4 or a mixture of both means."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(last) >= int(first))):
            raise ValueError(f"--seeds {text}: write seeds like 3,7,9 or 0-4")
        seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    return seeds


def show(study: object) -> None:
    """The measures as a table: mean over the seeds and correlation with OOD accuracy."""
    from rich.console import Console
    from rich.table import Table

    from ctlpp.analysis.measures import MEASURES
    from ctlpp.analysis.run import Study

    assert isinstance(study, Study)
    import numpy as np

    table = Table(title=f"{study.config['model']} on {study.config['variant'] or 'own data'}")
    table.add_column("measure")
    table.add_column("mean ± std", justify="right")
    table.add_column("correlation with OOD accuracy", justify="right")
    found = study.correlations()
    for name, values in study.analysis.measures.items():
        known = values[np.isfinite(values)]
        number = f"{known.mean():.3f} ± {known.std():.3f}" if len(known) else "–"
        one = found[name]
        shown = f"{one.pearson:+.2f} [{one.low:+.2f}, {one.high:+.2f}]" if np.isfinite(one.pearson) else "–"
        table.add_row(MEASURES[name].label, number, shown)
    Console().print(table)
