"""What commands print: tables, accuracies of many seeds, progress bars, and a training run as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ctlpp.statistics.published import SOLVED

if TYPE_CHECKING:
    from ctlpp.runs.history import Score, StepStats


def make_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first `left` columns are text and whose others are numbers; no title if it is empty."""
    table = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right", no_wrap=i < left)
    return table


def print_table(*parts: Table | str) -> None:
    """Print to stdout; without a terminal as wide as the content."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    for part in parts:
        if isinstance(part, Table):
            print_uncut(part, console)
        else:
            console.print(part, markup=False, soft_wrap=True)


def print_uncut(table: Table, console: Console) -> None:
    """Never cut numbers: a table that is too wide gives up its padding, then it runs over the edge."""
    screen, endless = console.width, console.options.update(max_width=10_000)
    if Measurement.get(console, endless, table).minimum > screen:
        table.padding = (0, 0)
    console.width = max(screen, Measurement.get(console, endless, table).minimum)
    console.print(table, markup=False)
    console.width = screen


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds."""
    from statistics import fmean, stdev  # slow to import, and no help needs it

    return f"{fmean(values):.2f} ± {stdev(values):.2f}" if len(values) > 1 else f"{fmean(values):.2f}"


def solved(values: Sequence[float]) -> str:
    """How many seeds are above `SOLVED`."""
    return f"{sum(value > SOLVED for value in values)} of {len(values)}"


def by_split(scores: Sequence[Score]) -> dict[str, dict[int, list[float]]]:
    """split -> length (0 for all) -> accuracy of every seed; splits without accuracies are left out."""
    found: dict[str, dict[int, list[float]]] = {}
    for score in scores:
        if not isnan(score.accuracy):
            found.setdefault(score.split, {}).setdefault(score.length, []).append(score.accuracy)
    return found


def table_by_length(scores: Sequence[Score]) -> Table:
    """Accuracy on every split and length, and how many seeds are above `SOLVED` on the whole split."""
    found = by_split(scores)
    lengths = sorted({length for split in found.values() for length in split} - {0})
    rows = make_table("", "split", "all lengths", *(f"L={n}" for n in lengths), f"seeds above {SOLVED}")
    for split, values in found.items():
        cells = [spread(values[n]) if n in values else "" for n in (0, *lengths)]
        rows.add_row(split, *cells, solved(values[0]))
    return rows


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on stderr, if that is a terminal; call the value with the number of steps done (1 by default)."""
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(description, total=total)
        yield lambda steps=1: bars.advance(bar, steps)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=round(min(seconds, 3600 * 24 * 999))))


class TrainingDisplay:
    """An observer of `train`: a live table on a terminal, plain lines otherwise; all on stderr."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.title = title
        self.console = console or Console(stderr=True, highlight=False)
        self.stats: StepStats | None = None
        self.scores: Sequence[Score] = ()
        self.evaluated = 0  # the step of the last evaluation
        self.live: AbstractContextManager[Any] = nullcontext()
        if self.console.is_terminal:
            from rich.live import Live

            self.live = Live(get_renderable=self.render, console=self.console, transient=True)

    def __enter__(self) -> TrainingDisplay:
        self.live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.live.__exit__(*problem)

    def say(self, line: str) -> None:
        """Print one line about this run."""
        self.console.print(f"{self.title}: {line}", markup=False, soft_wrap=True)

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Say what trains."""
        resumed = f", resumed at step {step:,}" if step else ""
        parameters, steps = config["parameters"], config["recipe"]["steps"]
        self.say(f"{parameters:,} parameters per seed, {steps:,} steps{resumed}")

    def on_note(self, line: str) -> None:
        """Pass a note on."""
        self.say(line)

    def on_step(self, stats: StepStats) -> None:
        """Remember where the run stands."""
        self.stats = stats

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """Remember the accuracies; without a terminal, print them in one line."""
        self.scores, self.evaluated = scores, step
        if self.console.is_terminal:
            return
        parts = [f"step {step:,}"]
        for split, lengths in by_split(scores).items():
            parts.append(f"{split} {spread(lengths[0])} ({solved(lengths[0])} above {SOLVED})")
        if self.stats is not None:
            parts += [f"{self.stats.steps_per_second:.1f} steps/s", f"{clock(self.stats.seconds_left)} left"]
        self.say(", ".join(parts))

    def render(self) -> Group:
        """The live display."""
        stats = self.stats
        if stats is None:
            return Group(Text("preparing …"))
        bar = Table.grid(padding=(0, 2))
        facts = [f"step {stats.step:,} of {stats.steps:,}", f"{stats.steps_per_second:.1f} steps/s"]
        facts += [f"{clock(stats.seconds_left)} left", f"loss {spread(stats.losses)}"]
        if stats.diverged:
            facts.append(f"{len(stats.diverged)} diverged")
        bar.add_row(ProgressBar(stats.steps, stats.step, width=30), *facts)
        if not self.scores:
            return Group(bar)
        columns = ("accuracy", "worst", "best", f"seeds above {SOLVED}")
        rows = make_table(f"At step {self.evaluated:,}", "split", *columns)
        for split, lengths in by_split(self.scores).items():
            values = lengths[0]
            rows.add_row(split, spread(values), f"{min(values):.2f}", f"{max(values):.2f}", solved(values))
        return Group(bar, rows)
