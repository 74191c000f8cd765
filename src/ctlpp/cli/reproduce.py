"""`ctlpp reproduce`: the paper's table and figures, from runs of one's own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ctlpp.files import UserError

if TYPE_CHECKING:
    from ctlpp.reproduce.executing import Orders, Outcome, Start
    from ctlpp.reproduce.plan import PlannedRun


def reproduce(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="table1, staged, similarity, repeats, tables or all.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for runs and results.", metavar="DIR")] = Path(
        "reproduction"
    ),
    scale: Annotated[
        Literal["full", "quick"], typer.Option(help="The paper's, or a miniature for a CPU in minutes.")
    ] = "full",
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would run and what it costs, and stop.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only these cells: MODEL/VARIANT, or a name from --plan; repeat it for more."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Of every cell: 25 (that is 0 … 24), 3,7,9 or 25-49. [default: as planned]"),
    ] = None,
    protocol: Annotated[
        Literal["paper", "released"] | None,
        typer.Option(help="Of the data. [default: both for table1, else released]"),
    ] = None,
    preset: Annotated[
        Literal["released", "paper", "quick"] | None,
        typer.Option(help="Hyper-parameters. [default: released; quick with --scale quick]"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    minutes: Annotated[
        float | None, typer.Option(help="Save and stop after so many; the same command goes on.")
    ] = None,
    seeds_a_piece: Annotated[
        int | None, typer.Option(help="Train at most so many seeds together. [default: all that are missing]")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Take up again what has failed.")] = False,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Only make tables, figures and report of what has run.")
    ] = False,
    no_analysis: Annotated[
        bool, typer.Option("--no-analysis", help="Do not look inside the trained seeds.")
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Keep small files only: drop the checkpoint of what is finished.")
    ] = False,
    keep_weights: Annotated[
        int | None,
        typer.Option(
            help="With --small: keep the weights of so many seeds a piece, best and worst first. [default: 2]"
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page *Does it reproduce?*", metavar="FILE.md")
    ] = None,
) -> None:
    """Reproduce the paper: train what the plan has and is not there yet, and compare with the published numbers.

    `ctlpp reproduce all --scale quick --out miniature`

    `ctlpp reproduce all --plan`

    `ctlpp reproduce table1 --only ndr/R --seeds 0-11 --device cuda --out results`

    Kill it whenever you like: the same command goes on. What is finished is not trained again.
    """
    from ctlpp.cli.options import parse_seeds
    from ctlpp.reproduce.executing import Orders
    from ctlpp.reproduce.page import check_page, check_report
    from ctlpp.reproduce.pieces import check_place
    from ctlpp.reproduce.plan import plan as make_plan
    from ctlpp.reproduce.results import RUNS
    from ctlpp.runs.folder import run_folders

    numbers = None if seeds is None else parse_seeds(seeds)
    if keep_weights is not None and not small:
        raise UserError(
            f"--keep-weights {keep_weights} is for small files: without --small all weights are kept"
        )
    cells = make_plan(what, scale, seeds=numbers, only=only or (), protocol=protocol, preset=preset)
    orders = Orders(
        device=device,
        seeds_a_piece=seeds_a_piece,
        analysis=not no_analysis,
        small=small,
        keep_weights=Orders.keep_weights if keep_weights is None else keep_weights,
        retry=retry,
        minutes=minutes,
    )
    if page is not None:
        check_page(page)
    check_report(out)
    if not no_train:
        check_place(out, scale)
    if plan:
        print_plan(cells, out, orders)
    elif no_train and not any(run_folders(out / RUNS)):
        raise UserError(
            f"no runs in {out}: name the --out of an earlier ctlpp reproduce, or leave out --no-train"
        )
    else:
        work_off([] if no_train else cells, out, orders, page)


def work_off(cells: Sequence[PlannedRun], out: Path, orders: Orders, page: Path | None) -> None:
    """Execute the plan and say what has become of it."""
    import torch

    from ctlpp.cli.main import fail
    from ctlpp.reproduce.executing import MachineError, execute, machine_trouble
    from ctlpp.reproduce.page import write_page
    from ctlpp.training.engine import find_device

    if find_device(orders.device).type == "cpu" and all(cell.preset == "quick" for cell in cells):
        torch.set_num_threads(1)  # such small products gain nothing from a second thread
    try:
        outcome, written = execute(cells, out, orders, Terminal())
        if page is not None:
            write_page(out, page)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(how_to_go_on(stop)) from stop
    except MachineError as error:
        fail(str(error), code=1)
    except (OSError, ValueError) as error:
        if not (line := machine_trouble(error)):
            raise
        fail(line, code=1)
    said = written.message(outcome.seeds, sum(len(cell.seeds) for cell in cells))
    typer.echo(f"{said}\nTables, figures and report in {out}")
    finish(outcome)


def how_to_go_on(stop: BaseException) -> str:
    """The line that an interrupted reproduction ends with."""
    why = str(stop).partition(";")[0] or "interrupted"
    return f"{why}; go on with: {shlex.join(['ctlpp', *sys.argv[1:]])}"


def finish(outcome: Outcome) -> None:
    """Report what did not work, with the exit code that belongs to it."""
    from ctlpp.cli.main import fail

    for folder, reason in outcome.failed.items():
        print(f"{folder} failed: {reason}", file=sys.stderr)
    if outcome.failed:
        remedy = "try them again with --retry, or remove a folder to begin it anew"
        fail(f"{len(outcome.failed)} of the runs failed; {remedy}", code=1)
    if outcome.busy:
        fail(f"{outcome.busy[0]} is in use by another process: wait for it, or choose other cells or seeds")


class Terminal:
    """Shows on stderr how the work goes on."""

    @contextmanager
    def training(self, title: str) -> Iterator[object]:
        """The live table of `ctlpp train` and a line in the end, or lines."""
        from ctlpp.cli.output import TrainingDisplay

        with TrainingDisplay(title) as watch:
            yield watch
        if watch.console.is_terminal and watch.scores:
            watch.console.print(watch.line(watch.evaluated, watch.scores), markup=False, soft_wrap=True)

    @contextmanager
    def analysing(self) -> Iterator[Start]:
        """A bar."""
        from ctlpp.analysis.study import STAGES
        from ctlpp.cli.output import progress
        from ctlpp.words import plural

        with ExitStack() as bars:
            yield lambda seeds: bars.enter_context(progress(f"Analysing {plural(seeds)}", STAGES * seeds))

    def note(self, line: str) -> None:
        """As it is."""
        print(line, file=sys.stderr, flush=True)


def print_plan(cells: Sequence[PlannedRun], out: Path, orders: Orders) -> None:
    """What there is, what is to do and what it costs."""
    from ctlpp.cli.output import make_table, print_table
    from ctlpp.reproduce.cost import DEVICES, START, remaining
    from ctlpp.reproduce.pieces import stand
    from ctlpp.words import duration, plural

    kind = _kind(orders.device)
    rows = make_table("", "cell", "seeds", "finished", "to train", "steps", "time")
    standings = [stand(out, cell, orders.seeds_a_piece) for cell in cells]
    costs = [remaining(standing, kind) for standing in standings]
    for standing, cost in zip(standings, costs, strict=True):
        cell, done = standing.cell, len(standing.finished)
        takes = duration(cost) if cost else "–"
        rows.add_row(
            cell.name, f"{len(cell.seeds)}", f"{done}", f"{len(cell.seeds) - done}", f"{cell.steps:,}", takes
        )
    begun = [piece for standing in standings for piece in standing.to_do if piece.step]
    notes = [f"{piece.folder} goes on at step {piece.step:,}." for piece in begun]
    failed = [piece for standing in standings for piece in standing.to_do if piece.failure]
    notes += [f"{piece.folder} failed: {piece.failure}; --retry takes it up again." for piece in failed]
    left = sum(len(one.cell.seeds) - len(one.finished) for one in standings)
    whole = sum(costs) + (START[kind] if left else 0)
    print_table(rows, *notes, f"{plural(left)} to train: about {duration(whole)} on {DEVICES[kind]}.")


def _kind(device: str) -> str:
    """The kind of device to estimate for; it need not be there."""
    if device == "auto":
        from ctlpp.training.engine import find_device

        return find_device(device).type
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise UserError(f"unknown device {device!r}: choose from auto, cpu, cuda")
    return kind
