"""`ctlpp reproduce` and `ctlpp demo`: two plans, carried out by the same code and shown while they are."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ctlpp.cli.main import fail
from ctlpp.cli.options import Device, Minutes, Only, Plan, Retry
from ctlpp.cli.output import (
    TrainingDisplay,
    bars,
    by_split,
    live,
    make_table,
    print_next,
    print_table,
    solved,
    spread,
)
from ctlpp.files import UserError, with_resume_command
from ctlpp.words import duration, parse_seeds, plural

if TYPE_CHECKING:
    from ctlpp.plans.pieces import Piece, RunStatus
    from ctlpp.plans.planned import PlannedRun
    from ctlpp.plans.work import Outcome, WorkSettings

WRITE_SECONDS = 600.0  # between results that are written while the work goes on
ROWS = 8  # of a live table
MEANING = (
    "IID: new examples like those of training. OOD: the same functions, combined as training never combined "
    "them. The published numbers are of larger models on a larger task."
)
LISTED, NOTES = 20, 6  # of a plan: runs that are listed one by one, and notes


def reproduce(
    what: Annotated[str, Argument(help="table1, similarity, data, staged, tables, all.", metavar="WHAT")],
    out: Annotated[Path, Option(help="For runs and results.", metavar="DIR")] = Path("reproduction"),
    scale: Annotated[str, Option(help="full: as the paper; quick: a miniature for a CPU.")] = "full",
    plan: Plan = False,
    only: Only = None,
    seeds: Annotated[str | None, Option(help="Such as 25 (that is 0 … 24), 3,7,9 or 25-49.")] = None,
    protocol: Annotated[str | None, Option(help="Of the data. [default: those of the plan]")] = None,
    preset: Annotated[str | None, Option(help="Hyper-parameters. [default: authors, or quick]")] = None,
    until: Annotated[str | None, Option(help="settled: stop a run when nothing changes any more.")] = None,
    device: Device = "auto",
    on: Annotated[str, Option(help="As in `ctlpp sweep`. [default: this process]")] = "",
    minutes: Minutes = None,
    seeds_a_piece: Annotated[int | None, Option(help="Train at most so many seeds together.")] = None,
    retry: Retry = False,
    no_train: Annotated[bool, Option("--no-train", help="Only make tables, figures and report.")] = False,
    no_analysis: Annotated[bool, Option("--no-analysis", help="Do not look inside the seeds.")] = False,
    small: Annotated[bool, Option("--small", help="Drop the checkpoint of what is finished …")] = False,
    keep_weights: Annotated[
        int | None, Option(help="… but weights of so many, best and worst. [default: 2]")
    ] = None,
    page: Annotated[Path | None, Option(help="Also write *Does it reproduce?*", metavar="FILE.md")] = None,
) -> None:
    """Reproduce the paper: train what the plan has and is not there yet, compare with the published numbers.

    `ctlpp reproduce all --scale quick --out miniature`

    `ctlpp reproduce all --plan`

    `ctlpp reproduce table1 --only ndr/R --seeds 0-11 --device cuda --out results`

    Kill it whenever you like: the same command goes on. What is finished is not trained again.
    """
    from ctlpp.plans.pieces import check_out
    from ctlpp.plans.work import WorkSettings
    from ctlpp.report.page import REPORT, check_target
    from ctlpp.reproduce.page import PAGE
    from ctlpp.reproduce.plan import plan as make_plan
    from ctlpp.runs.folder import run_folders

    numbers = None if seeds is None else parse_seeds(seeds)
    choices = {"protocol": protocol, "preset": preset, "until": until}
    runs = make_plan(what, scale, seeds=numbers, only=only or (), **choices)
    settings = WorkSettings(
        device=device,
        on=on,
        seeds_a_piece=seeds_a_piece,
        analysis=not no_analysis,
        small=small,
        keep_weights=keep_weights,
        retry=retry,
        minutes=minutes,
    )
    for path, kind in ((page, PAGE), (out / "report.html", REPORT)):
        if path is not None:
            check_target(path, kind, force=True)
    if not no_train:
        check_out(out, "runs", "results.parquet")
    elif not any(run_folders(out / "runs")):
        raise UserError(f"no runs in {out}: name the ‹out› of a reproduction, or leave out ‹no_train›")
    if plan:
        print_plan(runs, out, settings)
    else:
        execute([] if no_train else runs, out, settings, page)


def execute(runs: Sequence[PlannedRun], out: Path, settings: WorkSettings, page: Path | None) -> None:
    """Train what is missing, write tables and figures, and say how it ended."""
    import torch

    from ctlpp.plans.work import carry_out
    from ctlpp.reproduce.page import write_results
    from ctlpp.training.run import find_device

    if find_device(settings.device).type == "cpu" and all(run.preset == "quick" for run in runs):
        torch.set_num_threads(1)  # such small products gain nothing from a second thread
    written = monotonic()

    def after_piece(*result: object) -> None:
        nonlocal written
        if monotonic() - written > WRITE_SECONDS:
            write_results(out)
            written = monotonic()

    with one_line_errors():
        try:
            with live_table() as watch:
                outcome = carry_out(runs, out, settings, watch, after_piece)
        except KeyboardInterrupt:
            write_results(out)
            raise
        summary = write_results(out, page)
    if runs:
        print_table(f"{outcome.seeds:,} of {sum(len(run.seeds) for run in runs):,} seeds asked for have run.")
    print_table(summary, f"Tables, figures and report in {out}.")
    report_outcome(outcome, "try them again with --retry")
    print_next(f"open {out / 'report.html'} in a browser")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A failure of the machine is one line and exit code 1; after an interrupt the line says how to go on."""
    from ctlpp.plans.work import MachineError, machine_trouble

    try:
        yield
    except KeyboardInterrupt as stop:
        raise with_resume_command(stop, shlex.join(["ctlpp", *sys.argv[1:]])) from stop
    except MachineError as error:
        fail(error.on_command_line(), code=1)
    except (OSError, ValueError) as error:
        if not (line := machine_trouble(error)):
            raise
        fail(line, code=1)


def report_outcome(outcome: Outcome, again: str) -> None:
    """Print what did not work, and leave with the exit code that belongs to it."""
    for folder, reason in outcome.failed.items():
        print(f"{folder} failed: {reason}", file=sys.stderr)
    if outcome.failed:
        fail(
            f"{len(outcome.failed)} of the runs failed; {again}, or remove a folder to begin it anew", code=1
        )
    if outcome.busy:
        fail(f"{outcome.busy[0]} is in use by another process: wait for it, or choose other runs or seeds")


def print_plan(runs: Sequence[PlannedRun], out: Path, settings: WorkSettings) -> None:
    """Print what there is, what is to do and what it costs, also on a GPU that is not there."""
    from ctlpp.plans.pieces import run_status
    from ctlpp.plans.planned import DEVICES, START, seconds
    from ctlpp.reproduce.plan import plan
    from ctlpp.training.run import find_device

    device = settings.device.partition(":")[0]
    if device != "cuda":
        device = "cuda" if find_device(device).type == "cuda" else "cpu"
    statuses = [run_status(out, run, lambda run: settings.seeds_a_piece) for run in runs]
    left = sum(status.missing for status in statuses)

    def cost(device: str) -> str:
        whole = sum(status.remaining(device) for status in statuses) + (START[device] if left else 0)
        return f"about {duration(whole)} on {DEVICES[device]}"

    table = make_table("", "what", "seeds", "done", "left", "steps", "time")
    for name, rows in _rows(statuses).items():
        done = sum(len(status.finished) for status in rows)
        missing = sum(status.missing for status in rows)
        time = duration(sum(status.remaining(device) for status in rows)) if missing else "–"
        if done or missing:
            table.add_row(name, str(done + missing), str(done), str(missing), f"{rows[0].run.steps:,}", time)
    notes = [*_notes(statuses), f"{plural(left)} to train: {cost(device)}."]
    if left and device == "cpu" and any(run.experiments and run.preset != "quick" for run in runs):
        small = duration(sum(seconds(run, len(run.seeds), "cpu") for run in plan("all", "quick")))
        notes.append(f"With --device cuda {cost('cuda')}. With --scale quick a miniature: about {small}.")
    print_table(table, *notes)
    print_next(*(word for word in sys.argv[1:] if word != "--plan"))


def _rows(statuses: Sequence[RunStatus]) -> dict[str, list[RunStatus]]:
    """The rows of a plan: one per run, or of many runs one per experiment and model."""
    rows: dict[str, list[RunStatus]] = {}
    for status in statuses:
        run = status.run
        name = run.name if len(statuses) <= LISTED else ": ".join([*run.experiments[:1], run.model])
        rows.setdefault(name, []).append(status)
    return rows


def _notes(statuses: Sequence[RunStatus]) -> list[str]:
    """Pieces that have begun or failed."""
    notes = []
    for piece in (piece for status in statuses for piece in status.to_do):
        if piece.step:
            notes.append(f"{piece.folder} goes on at step {piece.step:,}.")
        if piece.failure:
            notes.append(f"{piece.folder} failed: {piece.failure}; try it with --retry.")
    if len(notes) > NOTES:
        notes[NOTES:] = [f"… and {len(notes) - NOTES} more begun or failed."]
    return notes


def demo(
    out: Annotated[Path, Option(help="The folder to write.", metavar="DIR")] = Path("demo"),
    seeds: Annotated[int, Option(help="Seeds of each model.", min=1)] = 4,
    steps: Annotated[int | None, Option(help="Training steps. [default: those of the quick preset]")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Forget what is there and start anew.")] = False,
) -> None:
    """The paper's phenomenon in two minutes on two cores: two models, two tasks, four seeds, one page.

    `ctlpp demo`

    Kill it whenever you like: the same command goes on.
    """
    from ctlpp.benchmark.dataset import generate
    from ctlpp.plans.work import LOCAL, WorkSettings, carry_out
    from ctlpp.report.page import write_report
    from ctlpp.reproduce.plan import demo_plan
    from ctlpp.storage.proof import check

    if fresh:
        for part in ("data", "runs"):
            shutil.rmtree(out / part, ignore_errors=True)
    runs, page = demo_plan(seeds, steps), (out / "report.html").resolve()
    cores = os.cpu_count() or 1 if find_spec("distributed") else 1  # with ctlpp[cluster] all of them
    workers = min(len(runs), cores)
    settings = WorkSettings(device="cpu", on=LOCAL, workers=workers, retry=True)
    with one_line_errors():
        for variant, options in {run.variant: run.options for run in runs}.items():
            folder = out / "data" / variant
            if not folder.exists():
                generate(variant, **options).save(folder)
            sizes = ", ".join(f"{number:,} {split}" for split, number in check(folder).examples.items())
            print_table(f"{folder}: {sizes}; every answer, every split and every checksum proved.")
        with live_table() as watch:
            outcome = carry_out(runs, out, settings, watch)
        if outcome.seeds:
            write_report([out / "runs"], page, force=True)
            print_accuracies(runs, out)
    report_outcome(outcome, "the same command tries them again")
    print_next(f"open {page} in a browser")


def print_accuracies(runs: Sequence[PlannedRun], out: Path) -> None:
    """Accuracies of all seeds, with the published full-size numbers beside ours."""
    from ctlpp.plans.pieces import run_status
    from ctlpp.runs.folder import read_run
    from ctlpp.runs.history import accuracies
    from ctlpp.statistics.published import PUBLISHED, SOLVED

    columns = ("IID", "OOD", f"above {SOLVED}", "published OOD")
    table = make_table("Accuracy, mean ± standard deviation over seeds", "variant", "model", *columns, left=2)
    for run in sorted(runs, key=lambda run: ("RA".index(run.variant), run.model)):
        records = [read_run(piece.folder) for piece in run_status(out, run).found if piece.finished]
        iid, ood = (
            [one for record in records for one in accuracies(record.seeds, split)] for split in ("iid", "ood")
        )
        if iid:
            theirs, _ = PUBLISHED[run.model, run.variant].ood
            table.add_row(run.variant, run.model, spread(iid), spread(ood), solved(ood), f"{theirs:.2f}")
    print_table(table, MEANING)


@contextmanager
def live_table() -> Iterator[Callable[[str, Piece], TrainingDisplay]]:
    """Show on stderr how pieces are trained; gives what makes an observer for a piece and its title."""
    shown: list[TrainingDisplay] = []

    def rows() -> Iterator[tuple[str, int, int, list[str]]]:
        for one in shown[-ROWS:]:
            if stats := one.stats:
                found = by_split(one.scores)
                accuracies = [f"{split} {spread(values[0])}" for split, values in found.items()]
                yield one.title, stats.step, stats.steps, accuracies

    with live(lambda: bars(rows())) as console:

        def watch(title: str, piece: Piece) -> TrainingDisplay:
            shown.append(TrainingDisplay(title, console))
            return shown[-1]

        yield watch
