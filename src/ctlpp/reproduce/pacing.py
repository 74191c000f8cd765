"""When to stop, and when to write results while the work goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

PATIENCE = 10  # results are written anew once so many times the time that it takes has gone by

Written = TypeVar("Written")


class TimeIsUpError(KeyboardInterrupt):
    """The minutes are over, and everything is saved."""


class Alarm:
    """An observer of `train` that interrupts it, as Ctrl-C would, when the minutes are over."""

    def __init__(self, minutes: float | None) -> None:
        self.end = float("inf") if minutes is None else monotonic() + 60 * minutes

    def check(self) -> None:
        """Raise `TimeIsUpError` if it is."""
        if monotonic() >= self.end:
            raise TimeIsUpError("the time is up")

    def on_step(self, stats: object) -> None:
        """Let training save and stop."""
        if monotonic() >= self.end:
            signal.raise_signal(signal.SIGINT)


class Pages(Generic[Written]):
    """Results that are kept up to date, without spending much of the time on it."""

    def __init__(self, write: Callable[[], Written]) -> None:
        self._write, self._next = write, 0.0
        self._written: Written | None = None  # what is up to date

    def changed(self) -> None:
        """A piece is done."""
        self._written = None
        if monotonic() >= self._next:
            self.latest()

    def latest(self) -> Written:
        """Write what has not been written yet."""
        if self._written is None:
            start = monotonic()
            self._written = self._write()
            self._next = monotonic() + PATIENCE * (monotonic() - start)
        return self._written
