"""Examples of one length, as arrays.

Example:
    >>> Examples(starts=np.array([3]), functions=np.array([[1, 0, 3]])).length  # d(a(b(3)))
    3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """N start symbols (N,) and the functions applied to them in turn, first one first (N, L)."""

    starts: NDArray[Any]
    functions: NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: Any) -> Examples:
        return Examples(starts=self.starts[rows], functions=self.functions[rows])

    @property
    def length(self) -> int:
        """How many functions each example has."""
        return int(self.functions.shape[1])

    def outputs(self, table: NDArray[Any]) -> NDArray[Any]:
        """The result symbol of each example (N,); `table[f, s]` is what f makes of s."""
        symbol = self.starts
        for function in self.functions.T:
            symbol = table[function, symbol]
        return symbol

    def keys(self) -> NDArray[Any]:
        """A value for each example, equal for equal examples."""
        return _row_values(np.column_stack([self.starts, self.functions]))

    def sequences(self) -> NDArray[Any]:
        """A value for each example, equal for equal functions in the same order, whatever they start from."""
        return _row_values(self.functions)


def _row_values(rows: NDArray[Any]) -> NDArray[Any]:
    """The bytes of each row, as one integer where they fit."""
    missing = 8 - rows.dtype.itemsize * rows.shape[1]
    if missing >= 0:
        padded = np.zeros((len(rows), 8 // rows.dtype.itemsize), dtype=rows.dtype)
        padded[:, : rows.shape[1]] = rows
        return padded.view(np.uint64).ravel()
    return np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def join(parts: Sequence[Examples]) -> Examples:
    """All examples of several parts of one length."""
    return Examples(
        starts=np.concatenate([part.starts for part in parts]),
        functions=np.concatenate([part.functions for part in parts]),
    )


def smallest_integer(n: int) -> type[np.unsignedinteger[Any]]:
    """The smallest integer type that holds 0 … n − 1."""
    return np.uint8 if n <= 1 << 8 else np.uint16 if n <= 1 << 16 else np.uint32
