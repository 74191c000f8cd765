"""What a user sees while a crowd trains: a live table on a terminal, plain lines otherwise; all on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ctlpp.cli.scores import by_split, overview, solved, spread
from ctlpp.runs.observers import StepStats
from ctlpp.statistics.published import SOLVED
from ctlpp.training.evaluate import Score


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=round(min(seconds, 3600 * 24 * 999))))


class Watch:
    """An observer of `train`. Use it as a context manager, so that the terminal is left tidy."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.title = title
        self.console = console or Console(stderr=True, highlight=False)
        self.stats: StepStats | None = None
        self.scores: Sequence[Score] = ()
        self.evaluated = 0
        self.live: AbstractContextManager[Any] = nullcontext()
        if self.console.is_terminal:
            self.live = Live(
                get_renderable=self.picture, console=self.console, transient=True, refresh_per_second=4
            )

    def __enter__(self) -> Watch:
        self.live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.live.__exit__(*problem)

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Say what trains."""
        again = f", resumed at step {step:,}" if step else ""
        line = f"{self.title}: {config['parameters']:,} parameters a seed, {config['recipe']['steps']:,} steps{again}"
        self.console.print(line, markup=False, soft_wrap=True)

    def on_note(self, line: str) -> None:
        """Pass a note on."""
        self.console.print(f"note: {line}", markup=False, soft_wrap=True)

    def on_step(self, stats: StepStats) -> None:
        """Remember where the run stands."""
        self.stats = stats

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """Remember the accuracies; without a terminal, print them in one line."""
        self.scores, self.evaluated = scores, step
        if not self.console.is_terminal:
            self.console.print(self.line(step, scores), markup=False, soft_wrap=True)

    def line(self, step: int, scores: Sequence[Score]) -> str:
        """An evaluation in one line."""
        parts = [
            f"{split} {spread(lengths[0])} ({solved(lengths[0])} above {SOLVED})"
            for split, lengths in by_split(scores).items()
        ]
        if self.stats is not None:
            parts += [f"{self.stats.steps_per_second:.1f} steps/s", f"{clock(self.stats.seconds_left)} left"]
        return f"step {step:,}: " + ", ".join(parts)

    def picture(self) -> Group:
        """The live display."""
        if self.stats is None:
            return Group(Text("preparing …"))
        stats = self.stats
        bar = Table.grid(padding=(0, 2))
        facts = [f"step {stats.step:,} of {stats.steps:,}", f"{stats.steps_per_second:.1f} steps/s"]
        facts += [f"{clock(stats.seconds_left)} left", f"loss {spread(stats.losses)}"]
        if stats.diverged:
            facts.append(f"{len(stats.diverged)} diverged")
        bar.add_row(ProgressBar(stats.steps, stats.step, width=30), *facts)
        if not self.scores:
            return Group(bar)
        return Group(bar, overview(self.scores, f"At step {self.evaluated:,}"))
