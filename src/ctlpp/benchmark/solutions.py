"""How many assignments of codes fit the training data: do they determine what is right in the OOD test?

Take a learner that writes values as codes: whatever a function of a group has made of an example, it hands
on as the code of a symbol, c(group, symbol), or c(IN, symbol) at the start. A function tells codes apart,
so the data ask one thing: two codes that a function (or the reader at the end) meets in training must
differ if the symbols do. An assignment *fits* if it obeys; it *composes* if every code that the OOD test
hands to a function is one that this function has met in training for the same symbol. Assignments that
differ in names alone count once.

With as many codes as symbols, one assignment for S: the sets of symbols that a shared function g may
receive from both paths have n + overlap symbols together, so that at least `overlap` codes are of both, and
each of them must be one symbol; the overlaps of all shared functions cover every symbol. With a code to
spare there are more assignments, and the data do not decide between them.

Example:
    >>> from ctlpp.benchmark.task import make_task
    >>> from ctlpp.benchmark.variants import Settings
    >>> task = make_task(Settings(variant="R", symbols=3, functions=6, train=1))
    >>> count_solutions(task, codes=3), count_solutions(task, codes=4)
    (Solutions(fit=1, compose=1), Solutions(fit=10, compose=4))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ctlpp.benchmark.task import Task
from ctlpp.files import UserError

MOST = 10_000  # assignments that are counted
MOST_SYMBOLS = 32
Code = dict[int, int]  # the code of each place: number of the group (IN is 0) · symbols + symbol


@dataclass(frozen=True)
class Solutions:
    """How many assignments fit the training data, and how many of these compose; `MOST` stands for more."""

    fit: int
    compose: int


def count_solutions(task: Task, codes: int) -> Solutions:
    """Count the assignments of so many codes, at least one per symbol."""
    n, train, ood = task.n_symbols, task.language("train"), task.language("ood")
    if n > MOST_SYMBOLS:
        raise UserError(f"{n} symbols: solutions are counted for up to {MOST_SYMBOLS}")
    reader = np.repeat(train.ends[:, None, None], n, axis=2)
    met = np.concatenate([train.allowed, reader], axis=1)  # [group, function or reader, symbol]
    flat = np.swapaxes(met, 1, 2).reshape(-1, met.shape[1]).astype(int)  # a row per place
    differ = flat @ flat.T > 0  # [place, place]: some function meets both
    differ &= np.arange(len(flat))[:, None] % n != np.arange(len(flat)) % n
    asked = np.argwhere(ood.allowed & ~train.allowed)  # group, function, symbol
    needs = [(g * n + v, np.flatnonzero(met[:, f, v]) * n + v) for g, f, v in asked.tolist()]
    places = _places(differ, needs, n)
    if not places:
        return Solutions(1, 1)
    first = next((g for g in sorted({place // n for place in places}) if met[g].all(axis=1).any()), 0)
    named = {first * n + symbol: symbol for symbol in range(n)}  # all that its codes can be called
    fit = compose = 0
    for code in _assign(named, set(places) - set(named), differ, codes, n):
        fit += 1
        compose += all(
            any(code[place] == code.get(known) for known in same.tolist()) for place, same in needs
        )
        if fit == MOST:
            break
    return Solutions(fit, compose)


def _places(differ: NDArray[np.bool_], needs: list[tuple[int, NDArray[np.int64]]], n: int) -> list[int]:
    """The places of all groups whose codes decide about the OOD test."""
    met = [(a // n, b // n) for a, b in np.argwhere(differ).tolist()]
    met += [(place // n, known // n) for place, same in needs for known in same.tolist()]
    linked = np.zeros((len(differ) // n, len(differ) // n), dtype=bool)
    linked[tuple(np.array(met, dtype=int).reshape(-1, 2).T)] = True
    part = connected_components(linked, directed=False)[1]  # of each group
    wanted = {part[place // n] for place, _ in needs}
    return [place for place in range(len(differ)) if part[place // n] in wanted]


def _assign(code: Code, left: set[int], differ: NDArray[np.bool_], codes: int, n: int) -> Iterator[Code]:
    """All ways to complete an assignment. Codes beyond the first n have no names: they are used in order."""
    if not left:
        yield code
        return
    usable = range(min(codes, max(n, max(code.values()) + 1) + 1))
    options = {
        place: [one for one in usable if not any(one == c and differ[place, p] for p, c in code.items())]
        for place in left
    }
    place = min(left, key=lambda place: (len(options[place]), place))
    for one in options[place]:
        yield from _assign(code | {place: one}, left - {place}, differ, codes, n)
