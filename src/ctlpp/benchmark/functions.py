"""The known functions: distinct random bijections of the symbols.

Example:
    >>> random_bijections(3, 2, Stream(0, "functions")).shape
    (2, 3)
"""

from __future__ import annotations

import math
from itertools import count, islice, product
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.streams import Stream


def random_bijections(n_symbols: int, n_functions: int, stream: Stream) -> NDArray[np.int64]:
    """`[f, s]` is what function f makes of symbol s. All rows differ, every choice of rows is equally likely."""
    ranks = stream.distinct_below(math.factorial(n_symbols), n_functions)
    return np.array([bijection(int(rank), n_symbols) for rank in ranks], dtype=np.int64).reshape(
        -1, n_symbols
    )


def bijection(rank: int, n_symbols: int) -> list[int]:
    """The permutation with this number among all in lexicographic order (0 is the identity)."""
    left = list(range(n_symbols))
    chosen = []
    for size in range(n_symbols, 0, -1):
        at, rank = divmod(rank, math.factorial(size - 1))
        chosen.append(left.pop(at))
    return chosen


def function_names(n: int) -> tuple[str, ...]:
    """a … z A … Z, then aa, ab, …"""
    words = ("".join(letters) for size in count(1) for letters in product(ascii_letters, repeat=size))
    return tuple(islice(words, n))


def symbol_names(n: int) -> tuple[str, ...]:
    """0, 1, 2, …"""
    return tuple(str(i) for i in range(n))
