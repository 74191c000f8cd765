"""What commands print: tables, accuracies of many seeds, progress bars, and a training run as it goes on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from importlib.util import find_spec
from math import inf, isnan
from textwrap import TextWrapper
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ctlpp.statistics.published import SOLVED

if TYPE_CHECKING:
    from ctlpp.runs.history import Score, StepStats

FIRST, LATER = 20.0, 600.0  # seconds until a log says how fast a run is, and between such lines


def make_table(title: str, *columns: str, left: int = 1, wrap: Collection[str] = ()) -> Table:
    """A table whose first `left` columns are text and whose others are numbers; no title if it is empty.

    wrap: columns of text that become narrower on a narrow screen. Others are never cut.
    """
    table = Table(title=title or None, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.title_justify, table.title_style = "left", "bold"
    for i, column in enumerate(columns):
        is_text = i < left or column in wrap
        table.add_column(column, justify="left" if is_text else "right", no_wrap=column not in wrap)
    return table


def print_table(*parts: Table | str) -> None:
    """Print tables and sentences to stdout, as wide as the terminal or as COLUMNS says."""
    console = Console(highlight=False)
    for part in parts:
        if isinstance(part, Table):
            print_uncut(part, console)
        else:
            console.print(fill(part, console.width), markup=False, soft_wrap=True)


def print_uncut(table: Table, console: Console) -> None:
    """A table that needs more room than there is runs over the edge."""
    screen, endless = console.width, console.options.update(max_width=10_000)
    console.width = max(screen, Measurement.get(console, endless, table).minimum)
    console.print(table, markup=False)
    console.width = screen


def print_next(*words: object) -> None:
    """What to do after this command, on the last line: one sentence, or the words of a command of `ctlpp`."""
    if len(words) == 1:
        step, end = str(words[0]), "\n"
    else:
        step, end = shlex.join(["ctlpp", *map(str, words)]), " \\\n"  # a shell joins such lines
    print(fill(f"Next: {step}", Console().width - 2, end, indent=4))


def print_note(line: str) -> None:
    """Something that is good to know, on stderr."""
    print(fill(f"Note: {line}.", Console(stderr=True).width), file=sys.stderr)


def print_line(line: str, console: Console) -> None:
    """One line of a log, wrapped between words."""
    console.print(fill(line, console.width, indent=2), markup=False, soft_wrap=True)


def fill(text: str, width: int, end: str = "\n", indent: int = 0) -> str:
    """Lines of at most this width; words stay whole. end: what is put between lines that were one."""
    wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = " " * indent
    return "\n".join(end.join(wrapper.wrap(line)) for line in text.split("\n"))


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
    """Accuracy on every split, how many seeds are above `SOLVED`, and the seeds' mean on each length."""
    found = by_split(scores)
    lengths = sorted({length for split in found.values() for length in split} - {0})
    rows = make_table("", "split", "accuracy", f"above {SOLVED}", *(f"L={n}" for n in lengths))
    for split, values in found.items():
        cells = [spread(values[n]).partition(" ")[0] if n in values else "" for n in lengths]
        rows.add_row(split, spread(values[0]), solved(values[0]), *cells)
    return rows


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int], Callable[..., None]]]:
    """Bars on stderr, if that is a terminal: the value starts one and gives what advances it."""
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield lambda description, total: partial(bars.advance, bars.add_task(description, total=total))


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on stderr, if that is a terminal; call the value with the number of steps done (1 by default)."""
    with progress_bars() as start:
        yield start(description, total)


def working(description: str) -> AbstractContextManager[Any]:
    """A sign of life on stderr, if that is a terminal, for work of unknown length."""
    console = Console(stderr=True)
    return console.status(f"{description} …") if console.is_terminal else nullcontext()


@contextmanager
def live(render: Callable[[], RenderableType]) -> Iterator[Console]:
    """The console of stderr, where something is drawn again and again if it is a terminal."""
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    display = Live(get_renderable=render, console=console, transient=True)
    with display if console.is_terminal else nullcontext():
        yield console


def bars(rows: Iterable[tuple[str, int, int, Sequence[str]]]) -> Table:
    """What is trained at the moment, to be drawn again and again: title, step, steps and more of each."""
    grid = Table.grid(padding=(0, 2))
    for title, step, steps, more in rows:
        grid.add_row(title, ProgressBar(steps, step, width=24), f"step {step:,} of {steps:,}", *more)
    return grid


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=round(min(seconds, 3600 * 24 * 999))))


class TrainingDisplay:
    """An observer of `train`: a live table on a terminal or in a notebook, plain lines otherwise; on stderr.

    In a notebook the table needs `ipywidgets`.

    Args:
        title: Of every line. Without one the run gives it, and the display comes and goes with the run; with
            one the display is a context manager.
        console: Where to show it.
    """

    def __init__(self, title: str = "", console: Console | None = None) -> None:
        self.title, self.alone = title, not title
        self.console = console or Console(stderr=True, highlight=False)
        self.stats: StepStats | None = None
        self.scores: Sequence[Score] = ()
        self.evaluated = 0  # the step of the last evaluation
        self.due = inf  # without a terminal: when to say again how far it is
        self.live: Any = nullcontext()
        widgets = self.console.is_jupyter and find_spec("ipywidgets") is not None
        self.is_live = self.console.is_terminal or widgets
        if self.is_live:
            from rich.live import Live

            self.live = Live(get_renderable=self.render, console=self.console, transient=not self.alone)

    def __enter__(self) -> TrainingDisplay:
        self.live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.live.__exit__(*problem)

    def on_note(self, line: str) -> None:
        """Print one line about this run."""
        print_line(": ".join(filter(None, (self.title, line))), self.console)

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Say what trains."""
        if self.alone:
            self.title = f"{config['model']} on {config['variant'] or 'own data'}"
            self.stats, self.scores = None, ()
            self.live.__enter__()
        self.due = monotonic() + FIRST
        resumed = f", resumed at step {step:,}" if step else ""
        parameters, steps = config["parameters"], config["recipe"]["steps"]
        self.on_note(f"{parameters:,} parameters per seed, {steps:,} steps{resumed}")

    def on_step(self, stats: StepStats) -> None:
        """Remember where the run stands; without a terminal, say so soon and then now and again."""
        self.stats = stats
        if not self.is_live and monotonic() >= self.due:
            self.on_note(", ".join([f"step {stats.step:,}", *self.speed(stats)]))
            self.due = monotonic() + LATER

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """Remember the accuracies; without a terminal, print them."""
        self.scores, self.evaluated = scores, step
        if self.is_live:
            return
        parts = [f"step {step:,}"]
        for split, lengths in by_split(scores).items():
            parts.append(f"{split} {spread(lengths[0])} ({solved(lengths[0])} above {SOLVED})")
        if self.stats is not None:
            parts += self.speed(self.stats)
            self.due = monotonic() + LATER
        self.on_note(", ".join(parts))

    def on_close(self) -> None:
        """Leave the last table where it is."""
        if self.alone and self.is_live:
            self.live.refresh()  # a notebook would keep the table before
            self.live.__exit__(None, None, None)

    def speed(self, stats: StepStats) -> list[str]:
        """Speed, and when the run is expected to end."""
        end = datetime.now() + timedelta(seconds=min(stats.seconds_left, 3600 * 24 * 999))
        today = end.date() == datetime.now().date()
        shown = f"{clock(stats.seconds_left)} left (until {end:{'%H:%M' if today else '%-d %B %H:%M'}})"
        return [f"{stats.steps_per_second:.1f} steps/s", shown]

    def render(self) -> Group:
        """The live display."""
        stats = self.stats
        if stats is None:
            return Group(Text("preparing …"))
        facts = [f"step {stats.step:,} of {stats.steps:,}", *self.speed(stats)]
        facts += [f"loss {spread(stats.losses)}"]
        facts += [f"{len(stats.diverged)} diverged"] * bool(stats.diverged)
        bar = Table.grid()
        bar.add_row(ProgressBar(stats.steps, stats.step, width=40))
        parts: list[Any] = [bar, Text(", ".join(facts))]
        if self.scores:
            columns = ("accuracy", "worst", "best", f"above {SOLVED}")
            rows = make_table(f"At step {self.evaluated:,}", "split", *columns)
            for split, lengths in by_split(self.scores).items():
                values = lengths[0]
                ends = (f"{min(values):.2f}", f"{max(values):.2f}")
                rows.add_row(split, spread(values), *ends, solved(values))
            parts.append(rows)
        return Group(*parts)
