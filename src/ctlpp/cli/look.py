"""`ctlpp analyze`, `report`, `compare` and `bench`: look inside a run, at many, at two, and at speed."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, Typer

from ctlpp.cli.options import Device, Force, RunFolder
from ctlpp.cli.output import make_table, print_next, print_note, print_table, progress_bars
from ctlpp.files import UserError
from ctlpp.words import name_seeds, parse_seeds, plural

if TYPE_CHECKING:
    from ctlpp.analysis.analysis import Study
    from ctlpp.statistics.summary import Interval, Summary

Runs = Annotated[
    Path, Argument(metavar="RUN", help="A run folder; or one with runs that differ in seeds only.")
]


def analyze(
    run: RunFolder,
    out: Annotated[
        Path | None, Option(help="The folder to write. [default: RUN/analysis]", metavar="DIR")
    ] = None,
    seeds: Annotated[
        str | None, Option(help="Only these seeds of the run: 5 for 0 … 4; 3,7,9; 5-9. [default: all]")
    ] = None,
    bases: Annotated[
        str,
        Option(
            help="Inputs on which interchange tries each state with each consumer: 1, 2, … or all (slower).",
            metavar="N|all",
        ),
    ] = "1",
    data: Annotated[
        Path | None, Option(help="The dataset, for a run that does not name its task itself.", metavar="DIR")
    ] = None,
    unfinished: Annotated[
        bool, Option("--unfinished", help="Analyse the newest checkpoint of a run that is not over.")
    ] = False,
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Analyse the representations of every seed: what is alike, what can be exchanged, what predicts failure.

    `ctlpp analyze runs/ndr-R`

    `ctlpp analyze runs/ndr-R --seeds 5 --out first-five`

    `ctlpp analyze runs/ndr-R --bases all --device cuda`
    """
    from ctlpp.figures.run import analyze_run
    from ctlpp.runs.folder import read_config

    with progress_bars() as start:
        study = analyze_run(
            run,
            out,
            seeds=None if seeds is None else parse_seeds_of_run(seeds, read_config(run)["seeds"]),
            data=data,
            bases=parse_bases(bases),
            unfinished=unfinished,
            force=force,
            device=device,
            workers=min(os.cpu_count() or 1, 4),
            computing=lambda total: start(f"Analysing {plural(total)}", total),
            drawing=lambda total: start(f"Drawing {total} figures", total),
        )
    for note in study.analysis.notes:
        print_note(note)
    print_study(study)
    print_table(f"Numbers and figures in {run / 'analysis' if out is None else out}.")
    print_next("report", run, "--out", "report.html")


def parse_seeds_of_run(text: str, have: Sequence[int]) -> list[int]:
    """As `parse_seeds`, for an existing run: a count beyond its seeds may have meant a single seed."""
    seeds = parse_seeds(text)
    missing = next((seed for seed in seeds if seed not in have), None)
    if text.isdecimal() and missing is not None:
        alone = f"; for one seed alone write {text}-{text}" if int(text) in have else ""
        raise UserError(
            f"‹seeds› {text} means {name_seeds(seeds)}, but this run has only {name_seeds(have)}{alone}"
        )
    return seeds


def parse_bases(text: str) -> int | None:
    """A number, or None for all."""
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise UserError(f"‹bases› {text}: write a number, or all") from error


def print_study(study: Study) -> None:
    """Each measure over the seeds that have not diverged, and where in the network the value was found."""
    import numpy as np

    from ctlpp.analysis.folder import MEASURES
    from ctlpp.statistics.summary import ENOUGH_SEEDS, MIN_SEEDS

    about, kept = study.config, study.trained
    facts = [f"{about['model']} on {about['variant'] or 'own data'}", plural(len(kept))]
    if not kept.all():
        facts.append(f"{int((~kept).sum())} of them diverged and left out")
    if not study.finished:
        facts.append(f"unfinished: step {study.step:,} of {about['recipe']['steps']:,}")
    rows = make_table("", "measure", "mean ± std", f"correlation with\n{study.outcome}")
    for name, values in study.analysis.measures.items():
        known = values[np.isfinite(values) & kept]
        mean = f"{known.mean():.3f}" if len(known) else "n/a"
        std = f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else ""
        found = study.correlations.get(name)
        correlation = "n/a"
        if found is not None and np.isfinite(found.pearson):
            correlation = f"{found.pearson:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"
        rows.add_row(MEASURES[name].label, mean + std, correlation)
    notes = []
    if kept.sum() < MIN_SEEDS:
        notes.append(f"Correlations need {MIN_SEEDS} seeds or more that have not diverged.")
    elif kept.sum() < ENOUGH_SEEDS:
        notes.append(f"With fewer than {ENOUGH_SEEDS} seeds the intervals are too narrow.")
    print_table(", ".join(facts), rows, *notes)
    print_positions(study)


def print_positions(study: Study) -> None:
    """Where the value was found, commonest first, and the effect of changing it there (at best 1)."""
    found, kept = study.analysis.interchange, study.trained
    if found is None or not kept.any():
        return
    level_name = "layer" if found.kind == "columns" else "step"
    rows = make_table("Where the value is", level_name, "part", "seeds", "effect of\nchanging it", left=2)
    effects = found.effect[(kept.nonzero()[0], *found.position[kept].T)]
    places = [(level, part) for level, part in found.position[kept].tolist()]
    for (level, part), seeds in Counter(places).most_common():
        own = [effect for place, effect in zip(places, effects, strict=True) if place == (level, part)]
        rows.add_row(str(level + 1), found.changed[part], str(seeds), f"{sum(own) / len(own):.2f}")
    print_table(rows)


def report(
    folders: Annotated[
        list[Path], Argument(metavar="DIR…", help="Run folders, or folders with runs in them at any depth.")
    ],
    out: Annotated[Path, Option(help="The page to write.", metavar="FILE.html")] = Path("report.html"),
    title: Annotated[str, Option(help="The headline. [default: the verdicts, counted]")] = "",
    show: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
    force: Force = False,
) -> None:
    """One self-contained page over any number of runs: results, published ones, curves, a look inside.

    `ctlpp report runs --out report.html`

    `ctlpp report runs/ndr-R runs/ndr-A --out ndr.html --force`

    The page opens from disk, without a network. What `ctlpp analyze` has found in a run is part of it.
    """
    from ctlpp.report.page import write_report

    with progress_bars() as start:
        written = write_report(
            folders,
            out,
            title=title,
            force=force,
            start=lambda runs: start(f"Reading {plural(runs, 'run')}", runs),
        )
    for line in written.notes:
        print_note(line)
    runs = plural(written.runs, "run")
    print_table(f"{runs}, {written.analysed} of them analysed: {out} ({written.size / 1e6:.1f} MB).")
    if not (show and has_desktop() and webbrowser.open(out.resolve().as_uri())):
        print_next(f"open {out} in a browser")


def has_desktop() -> bool:
    """Whether a browser has a screen to open on."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def compare(one: Runs, other: Runs) -> None:
    """Compare two runs: the difference of their means, and how many of their seeds succeed.

    `ctlpp compare runs/lstm-R runs/ndr-R`

    p of a difference: how often the means are as far apart if the seeds are dealt out to the runs at random.
    """
    from ctlpp.report.compare import compare as contrast
    from ctlpp.statistics.published import SOLVED
    from ctlpp.statistics.summary import MANY_SEEDS

    found = contrast(one, other)
    means = make_table("Accuracy", "split", "length", "first", "second", "difference [95 %]", "p", left=2)
    rates = make_table(f"Seeds above {SOLVED}", "split", "first [95 %]", "second [95 %]", "p (Fisher)")
    for (split, length), row in found.items():
        gap = "n/a" if row.difference is None else f"{row.difference:+.2f}{_interval(row.interval, '+.2f')}"
        sides = [_mean(side) for side in (row.one, row.other)]
        means.add_row(split, str(length or "all"), *sides, gap, _p_value(row.p))
        if not length:
            rates.add_row(split, _solved(row.one), _solved(row.other), _p_value(row.p_solved))
    few = min(side.seeds for row in found.values() for side in (row.one, row.other)) < MANY_SEEDS
    note = f"With fewer than {MANY_SEEDS} seeds in a run the intervals are not to be trusted."
    print_table(f"First: {one}", f"Second: {other}", means, rates, *[note] * few)
    print_next("report", one, other, "--out", "report.html")


def _mean(side: Summary) -> str:
    if side.mean is None:
        return "n/a"
    return f"{side.mean:.2f}" if side.std is None else f"{side.mean:.2f} ± {side.std:.2f}"


def _solved(side: Summary) -> str:
    return f"{side.solved} of {side.seeds + side.diverged}{_interval(side.solved_share, '.2f')}"


def _interval(interval: Interval | None, form: str) -> str:
    return f" [{interval[0]:{form}}, {interval[1]:{form}}]" if interval else ""


def _p_value(p: float | None) -> str:
    return "n/a" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


bench = Typer(no_args_is_help=True)


@bench.callback()
def about_bench() -> None:
    """Speed on this machine, side by side with a reference, as a table.

    `ctlpp bench data`
    """


@bench.command("data")
def bench_data() -> None:
    """Generation against a plain-Python rejection sampler, in memory and as the whole command.

    `ctlpp bench data`
    """
    from ctlpp.bench import compare_data

    print_table(*compare_data())
    print_next("bench", "train")


@bench.command("train")
def bench_train(
    device: Annotated[Literal["cpu", "cuda"], Option(help="Where to train.")] = "cpu",
    seeds: Annotated[
        str | None, Option(help="CUDA only: crowd sizes, such as 1,25,50. [default: 1,2,5,10,25,50,100]")
    ] = None,
) -> None:
    """Seeds trained together against a plain loop over single seeds; on a GPU, crowds of several sizes.

    `ctlpp bench train`

    `ctlpp bench train --device cuda --seeds 25,50`
    """
    if device == "cpu" and seeds is not None:
        raise UserError(f"‹seeds› {seeds}: crowd sizes are for --device cuda; leave them out for cpu")
    from ctlpp import bench
    from ctlpp.training.run import find_device

    if device == "cpu":
        print_table(*bench.compare_training())
    else:
        find_device(device)
        print_table(*bench.compare_cuda(bench.CROWDS if seeds is None else bench.crowd_sizes(seeds)))
    print_next("reproduce", "all", "--plan")
