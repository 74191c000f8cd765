"""Examples out of few function sequences, each on several start symbols: so it is in the data of the authors' code.

Its worker processes share random state: all draw the same functions, with different start symbols. With 16 of them,
88,728 examples of six functions had 12,599 different sequences, seven of the eight symbols for each: `RELEASED`.

Sequences are drawn like examples, with the same weighting; an example whose functions were drawn before is dropped.
Each sequence keeps the example that brought it, the rest is a random choice among the further examples of the
sequences. How many are wanted does not change the order in which they come: the sequences of a smaller limit are
among those of a larger one.

Example:
    >>> max_sequences("n/7", 88_728), max_sequences(12_599, 88_728)
    (12676, 12599)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.distinct import first_positions
from ctlpp.benchmark.drawing import NOTHING, Weighting, draw
from ctlpp.benchmark.examples import Examples, join
from ctlpp.benchmark.language import Language
from ctlpp.benchmark.streams import Stream
from ctlpp.files import UserError

Limit = int | str  # 12599 sequences a length, or "n/7": one to every 7 examples of a length
RELEASED: Limit = "n/7"


def parse_limit(value: object) -> Limit:
    """A limit as it is, or a number written as text. Raises UserError for anything else."""
    found = re.fullmatch(r"(n/)?([1-9][0-9]{0,9})", str(value)) if type(value) in (int, str) else None
    if not found:
        raise UserError(
            f"distinct_sequences {value!r}: use a whole number from 1, or n/7 for one to every 7 examples"
        )
    return str(value) if found[1] else int(found[2])


def max_sequences(limit: Limit, n: int) -> int:
    """How many sequences n examples of one length may have."""
    return limit if isinstance(limit, int) else -(-n // int(limit.removeprefix("n/")))


def draw_sequences(
    language: Language, sizes: Mapping[int, int], limit: Limit, weighting: Weighting, seed: int
) -> dict[int, Examples]:
    """One example of each sequence, for the lengths at which the limit matters; `sizes` are the examples wanted.

    It does not matter where no more sequences exist, or no more examples are wanted. Raises UserError if so many
    sequences have fewer examples than are wanted.
    """
    found, short = {}, []
    for length, n in sizes.items():
        most = max_sequences(limit, n)
        if n <= most:
            continue
        firsts, room = _draw_firsts(language, length, n, most, weighting, Stream(seed, "sequences", length))
        needed = int(np.searchsorted(np.cumsum(room), n)) + 1
        if needed > most:
            short.append((needed, n, length))
        if len(firsts) > most:
            found[length] = firsts[:most]
    if short:
        raise _too_few(limit, short)
    return found


def draw_examples(language: Language, firsts: Examples, n: int, stream: Stream) -> Examples:
    """n distinct examples of the sequences of `firsts`, which are among them."""
    pool, of = on_all_symbols(language, firsts)
    others = pool[pool.starts != firsts.starts[of]]
    both = join([firsts, others[stream.distinct_below(len(others), n - len(firsts))]])
    return both[stream.permutation(n)]


def on_all_symbols(language: Language, firsts: Examples) -> tuple[Examples, NDArray[np.int64]]:
    """The sequences of `firsts` on every start symbol that the language allows, and which of them each example has."""
    symbols = np.arange(language.n_symbols, dtype=firsts.starts.dtype)
    of = np.repeat(np.arange(len(firsts)), len(symbols))
    grid = Examples(starts=np.tile(symbols, len(firsts)), functions=firsts.functions[of])
    allowed = language.contains(grid)
    return grid[allowed], of[allowed]


def _draw_firsts(
    language: Language, length: int, n: int, most: int, weighting: Weighting, stream: Stream
) -> tuple[Examples, NDArray[np.int64]]:
    """More than `most` sequences with n examples together, or all there are; and how many examples each has."""
    firsts, room, taken = language.empty(length), np.zeros(0, dtype=np.int64), NOTHING
    while (free := language.count(length) - len(taken)) and (len(firsts) <= most or len(taken) < n):
        wanted = max(len(firsts), -(-n // language.n_symbols))
        more = draw(language, length, min(wanted, free), weighting, stream, taken)
        more = more[first_positions(more.sequences())]
        pool, of = on_all_symbols(language, more)
        firsts, room = join([firsts, more]), np.concatenate([room, np.bincount(of)])
        taken = np.concatenate([taken, language.rank(pool)])
    return firsts, room


def _too_few(limit: Limit, short: list[tuple[int, int, int]]) -> UserError:
    """`short` has how many sequences are needed for how many examples of which length."""
    if isinstance(limit, int):
        needed, n, length = max(short)
        right = f"{needed} or more, or fewer examples"
    else:  # n / k, rounded up, is enough while k is at most (n - 1) // (needed - 1)
        needed, n, length = min(short, key=lambda case: ((case[1] - 1) // (case[0] - 1), -case[2]))
        right = f"n/{(n - 1) // (needed - 1)}"
    return UserError(
        f"distinct_sequences {limit}: {n} examples of {length} functions need {needed} sequences; use {right}"
    )
