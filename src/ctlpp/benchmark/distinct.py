"""Sets of integers as arrays: first occurrences and membership, with the same answer on every machine.

Example:
    >>> first_occurrences(np.array([3, 1, 3, 2, 1])).tolist()
    [3, 1, 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]  # int64, or Python integers (dtype object) where 64 bits do not suffice


def first_occurrences(values: Integers) -> Integers:
    """`values` in order, without the repetitions."""
    return np.asarray(values[first_positions(values)])


def first_positions(values: Integers) -> NDArray[np.bool_]:
    """Where in `values` a value stands for the first time."""
    first = np.ones(len(values), dtype=bool)
    ordered = np.sort(values)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        suspects = np.flatnonzero(member(values, repeated))
        first[suspects] = False
        first[suspects[np.unique(values[suspects], return_index=True)[1]]] = True
    return first


def member(values: Integers, of: Integers) -> NDArray[np.bool_]:
    """For each value, whether `of` contains it (any integer type, also Python integers)."""
    if len(of) == 0:
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(of)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values, dtype=bool)
