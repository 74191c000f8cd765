"""Cells that train in a second, and a silent screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctlpp.reproduce.executing import Start
from ctlpp.reproduce.plan import PlannedRun

DATA = (("symbols", 4), ("functions", 8), ("max_length", 3), ("train", 200), ("iid", 20), ("ood", 30))


def cell(*seeds: int, model: str = "lstm", variant: str = "R", steps: int = 4, **data: Any) -> PlannedRun:
    return PlannedRun(
        name=f"{model}-{variant}-released-quick",
        model=model,
        variant=variant,
        seeds=seeds,
        preset="quick",
        data=(("protocol", "released"), *DATA, *data.items()),
        changes=(("steps", steps),),
        experiments=("table1",),
    )


class Silent:
    """Remembers what it would have shown."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.notes: list[str] = []

    @contextmanager
    def training(self, title: str) -> Iterator[object]:
        self.titles.append(title)
        yield object()

    @contextmanager
    def analysing(self) -> Iterator[Start]:
        yield lambda seeds: lambda done: None

    def note(self, line: str) -> None:
        self.notes.append(line)
