"""Progress bars: what is done, what is left; silent when nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on stderr; call the value with the number of steps done (1 unless told)."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda steps=1: bars.advance(bar, steps)
