"""Watching a training run. The library itself prints nothing; whoever wants to know passes observers.

An observer is any object with some of these methods; those it lacks are not called:

    on_start(config: dict, step: int)         before the first step; `step` is above 0 after a resume
    on_note(line: str)                        one line that the user should see
    on_step(stats: StepStats)                 about twice a second
    on_evaluate(step: int, scores: [Score])   after every evaluation
    on_checkpoint(step: int)                  after every saved checkpoint
    on_end(run: Run)                          when training is over

Example:
    >>> class Counter:
    ...     seen = 0
    ...     def on_note(self, line):
    ...         self.seen += 1
    >>> counter = Counter()
    >>> tell([counter], "on_note", "hello")
    >>> tell([counter], "on_checkpoint", 10)
    >>> counter.seen
    1
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepStats:
    """Where a run stands."""

    step: int  # steps done
    steps: int  # steps in all
    rate: float  # learning rate
    steps_per_second: float  # since the run (or its resumption) began
    losses: tuple[float, ...]  # of the last batch, by seed
    norms: tuple[float, ...]  # of the gradients before clipping, by seed
    diverged: tuple[int, ...]  # seeds that are frozen

    @property
    def seconds_left(self) -> float:
        """At the present speed."""
        return (self.steps - self.step) / max(self.steps_per_second, 1e-9)


class Notes:
    """Prints the notes on stderr and nothing else; what a run has unless told otherwise."""

    def on_note(self, line: str) -> None:
        """Print it."""
        print(line, file=sys.stderr, flush=True)


def tell(observers: Sequence[object], event: str, *facts: object) -> None:
    """Call a method of every observer that has it."""
    for observer in observers:
        method = getattr(observer, event, None)
        if method is not None:
            method(*facts)
