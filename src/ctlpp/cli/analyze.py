"""`ctlpp analyze`: look inside a trained run."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctlpp.cli.options import naming
from ctlpp.cli.seeds import seeds_of_run
from ctlpp.files import UserError
from ctlpp.words import plural

if TYPE_CHECKING:
    from ctlpp.analysis.run import Study

SHOWN = 3  # places in the summary
CLEAR = 0.8  # effect of changing the value at the right place


def analyze(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `ctlpp train` writes it.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write. [default: RUN/analysis]", metavar="DIR")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Only these seeds of the run: 5 for 0 … 4; 3,7,9; 5-9. [default: all]", metavar="SEEDS"
        ),
    ] = None,
    bases: Annotated[
        str,
        typer.Option(
            help="On how many inputs interchange tries each state with each consumer: 1, 2, … or all (takes longer).",
            metavar="N|all",
        ),
    ] = "1",
    data: Annotated[
        Path | None,
        typer.Option(help="The dataset, for a run that does not name its task itself.", metavar="DIR"),
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Analyse the newest checkpoint of a run that is not over.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    force: Annotated[
        bool, typer.Option("--force", help="Replace an analysis that is there already.")
    ] = False,
) -> None:
    """Representation analysis of every seed: which states mean the same, who understands whom, what predicts failure.

    `ctlpp analyze runs/ndr-R`

    `ctlpp analyze runs/ndr-R --seeds 5 --out first-five`

    `ctlpp analyze runs/ndr-R --bases all --device cuda`
    """
    from ctlpp.analysis.study import STAGES
    from ctlpp.cli.progress import progress
    from ctlpp.figures.whole_run import analyze_run
    from ctlpp.training.folder import read_config

    with naming("device"), ExitStack() as bars:

        def computing(total: int) -> Callable[[int], None]:
            return bars.enter_context(progress(f"Analysing {plural(total)}", STAGES * total))

        def drawing(total: int) -> Callable[[int], None]:
            bars.close()
            return bars.enter_context(progress(f"Drawing {total} figures", total))

        study = analyze_run(
            run,
            out,
            seeds=None if seeds is None else seeds_of_run(seeds, read_config(run)["seeds"]),
            data=data,
            bases=parse_bases(bases),
            unfinished=unfinished,
            force=force,
            device=device,
            workers=min(os.cpu_count() or 1, 4),
            computing=computing,
            drawing=drawing,
        )
    for note in study.analysis.notes:
        typer.echo(f"Note: {note}.", err=True)
    show(study)
    if line := where_the_value_is(study):
        typer.echo(line)
    typer.echo(f"Numbers and figures in {run / 'analysis' if out is None else out}")
    if out is None:
        typer.echo(f"As a page: {shlex.join(['ctlpp', 'report', str(run)])} --out report.html")


def parse_bases(text: str) -> int | None:
    """A number, or None for all."""
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise UserError(f"--bases {text}: write a number, or all") from error


def show(study: Study) -> None:
    """The measures as a table: mean over the seeds that have not diverged and correlation with OOD accuracy."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from ctlpp.analysis.correlation import ENOUGH, LEAST
    from ctlpp.analysis.measures import MEASURES

    which = "" if study.trained.all() else " that have not diverged"
    few = None
    if study.trained.sum() < LEAST:
        few = f"correlations need {LEAST} seeds or more{which}"
    elif study.trained.sum() < ENOUGH:
        few = f"of fewer than {ENOUGH} seeds{which} the intervals look surer than they are"
    table = Table(title=title(study), caption=few)
    table.add_column("measure")
    table.add_column("mean ± std", justify="right")
    table.add_column(f"correlation with {study.outcome}", justify="right")
    found = study.correlations
    for name, values in study.analysis.measures.items():
        known = values[np.isfinite(values) & study.trained]
        number = f"{known.mean():.3f}" if len(known) else "–"
        spread = f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else ""
        one = found.get(name)
        shown = (
            f"{one.pearson:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
            if one and np.isfinite(one.pearson)
            else "–"
        )
        table.add_row(MEASURES[name].label, number + spread, shown)
    Console().print(table)


def title(study: Study) -> str:
    """What was analysed, with everything that is not as usual."""
    about, lost = study.config, int((~study.trained).sum())
    parts = [f"{about['model']} on {about['variant'] or 'own data'}", plural(len(study.trained))]
    parts += [f"{lost} of them diverged and left out"] * (lost > 0)
    parts += [f"unfinished: step {study.step:,} of {about['recipe']['steps']:,}"] * (not study.finished)
    return ", ".join(parts)


def where_the_value_is(study: Study) -> str:
    """The seeds' places, the commonest first, and how far to trust them; nothing if there are none."""
    analysis, kept = study.analysis, study.trained
    if analysis.place is None or analysis.effect is None or analysis.layout is None or not kept.any():
        return ""
    what = "layer" if analysis.layout.kind == "columns" else "step"
    places = Counter((level, part) for level, part in analysis.place[kept].tolist()).most_common()
    named = [
        f"{what} {level + 1}, {analysis.changed[part]} ({plural(n)})" for (level, part), n in places[:SHOWN]
    ]
    named += ["…"] * (len(places) > SHOWN)
    mean = analysis.effect[(kept.nonzero()[0], *analysis.place[kept].T)].mean()
    doubt = "" if mean >= CLEAR else ": far from 1, so interchange says less about this run"
    return f"Where the value is: {'; '.join(named)}. Its effect there: {mean:.2f}{doubt}."
