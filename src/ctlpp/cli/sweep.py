"""`ctlpp sweep`: your own plan, on this machine or on others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from rich.console import Group
from typer import Argument, Option

from ctlpp.cli.options import Device, Minutes, Only, Plan, Retry
from ctlpp.cli.output import bars, live, print_line, print_next, print_table
from ctlpp.cli.reproduce import ROWS, one_line_errors, print_plan, report_outcome
from ctlpp.words import duration, parse_seeds, plural

if TYPE_CHECKING:
    from ctlpp.plans.sweep_folder import Sweep

LINE_SECONDS = 60.0  # between lines that say how far everything is, without a terminal


def sweep(
    file: Annotated[Path, Argument(metavar="FILE", help="A sweep file: TOML, or Python with a list RUNS.")],
    out: Annotated[Path, Option(help="The folder to write.", metavar="DIR")],
    plan: Plan = False,
    on: Annotated[
        str, Option(help="local, tcp://HOST:PORT of a Dask scheduler, or a queue's TOML file.")
    ] = "local",
    only: Only = None,
    seeds: Annotated[str | None, Option(help="In place of the file's, such as 25, 3,7,9 or 25-49.")] = None,
    device: Device = "auto",
    workers: Annotated[int | None, Option(help="Local processes. [default: one per GPU or CPU core]")] = None,
    minutes: Minutes = None,
    seeds_a_piece: Annotated[
        int | None, Option(help="Train at most so many seeds together. [default: an hour's]")
    ] = None,
    retry: Retry = False,
) -> None:
    """Train what a sweep file says: models, variants, settings and seeds, wherever there are workers.

    `ctlpp sweep rates.toml --out sweeps/rates --plan`

    `ctlpp sweep rates.toml --out sweeps/rates`

    `ctlpp sweep rates.toml --out sweeps/rates --on tcp://office:8786`

    Kill it whenever you like: the same command goes on. What is finished is not trained again.
    """
    from ctlpp.plans.planned import choose
    from ctlpp.plans.sweep_file import read_sweep
    from ctlpp.plans.sweep_folder import Sweep
    from ctlpp.plans.work import WorkSettings

    settings = WorkSettings(
        device=device,
        on=on,
        workers=workers,
        analysis=False,
        seeds_a_piece=seeds_a_piece,
        retry=retry,
        minutes=minutes,
    )
    runs = choose(read_sweep(file), only or (), "the sweep")
    if seeds is not None:
        runs = [replace(run, seeds=tuple(parse_seeds(seeds))) for run in runs]
    work = Sweep(runs, out)
    if plan:
        if on.endswith(".toml"):
            from ctlpp.plans.cluster import job_script

            print(f"The script of a job on {on}:\n{job_script(Path(on))}")
        print_plan(work.left, work.pieces, settings)
        return
    with one_line_errors(), live_table(work):
        outcome = work.carry_out(settings)
    total = sum(len(run.seeds) for run in runs)
    print_table(f"{outcome.seeds:,} of {plural(total)} asked for have run.")
    report_outcome(outcome, "try them again with --retry")
    print_next(f"open {out / 'report.html'} in a browser")


@contextmanager
def live_table(work: Sweep) -> Iterator[None]:
    """Show on stderr how far everything is: in a table on a terminal, else in lines."""
    began = printed = monotonic()

    def table() -> Group:
        running = [state for state in work.states.values() if state.state == "running"]
        rows = ((state.title, state.step, state.piece.run.steps, [state.worker]) for state in running[:ROWS])
        return Group(bars(rows), overview(work, monotonic() - began))

    with live(table) as console:

        def say(line: str) -> None:
            nonlocal printed
            print_line(line, console)
            if not console.is_terminal and monotonic() - printed > LINE_SECONDS:
                printed = monotonic()
                print_line(overview(work, printed - began), console)

        work.say = say
        yield


def overview(work: Sweep, seconds: float) -> str:
    """Seeds, speed, the expected end and the cost so far, in one line."""
    states = [*work.states.values()]
    done = sum((state.step - state.first) * len(state.piece.seeds) for state in states)
    left = sum(run.steps * len({*run.seeds} - work.trained[run.name]) for run in work.plan)
    left -= sum(state.step * len(state.piece.seeds) for state in states if state.state == "running")
    seeds = sum(len(run.seeds) for run in work.plan)
    trained = sum(len({*run.seeds} & work.trained[run.name]) for run in work.plan)
    running = sum(state.state == "running" for state in states)
    failed = sum(state.state == "failed" for state in states)
    parts = [f"{trained:,} of {plural(seeds)}", f"{plural(running, 'piece')} running"]
    parts += [f"{failed} failed"] * bool(failed)
    if done and seconds:
        parts += [f"{done / seconds:,.0f} seed-steps/s", f"about {duration(left * seconds / done)} left"]
    return ", ".join([*parts, f"{sum(state.seconds for state in states) / 3600:.2f} worker-hours"])
