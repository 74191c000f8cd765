"""Tokens, their ids, and the order in which an example is written.

Example:
    >>> vocabulary = Vocabulary(functions=("a", "b", "c", "d"), symbols=("0", "1", "2", "3"))
    >>> vocabulary.encode("d a b 3")
    [3, 0, 1, 7, 8]
    >>> vocabulary.decode([3, 0, 1, 7, 8])
    'd a b 3'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.examples import Examples, smallest_integer
from ctlpp.files import UserError

Order = Literal["right-to-left", "left-to-right"]
END = "<end>"  # ends a sequence; also fills up shorter ones in padded tensors


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Ids 0 … F − 1 are the functions, then the symbols, then the end token."""

    functions: tuple[str, ...]
    symbols: tuple[str, ...]

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens, by id."""
        return (*self.functions, *self.symbols, END)

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.functions) + len(self.symbols) + 1

    @property
    def end(self) -> int:
        """The id of the end token."""
        return self.size - 1

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens, and the end token."""
        if unknown := [word for word in text.split() if word not in self._ids]:
            raise UserError(f"unknown token {unknown[0]!r}; the tokens are {' '.join(self.tokens[:-1])}")
        return [*(self._ids[word] for word in text.split()), self.end]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence of ids; end tokens are left out."""
        return " ".join(self.tokens[i] for i in ids if i != self.end)

    def written(self, examples: Examples, order: Order) -> NDArray[Any]:
        """The ids of the examples as they are written, without the end token. (N, L + 1)"""
        symbols = examples.starts.astype(smallest_integer(self.size)) + len(self.functions)
        columns = [symbols, *examples.functions.T.astype(symbols.dtype)]
        return np.stack(columns[::-1] if order == "right-to-left" else columns, axis=1)

    def read(self, ids: NDArray[Any], order: Order) -> Examples:
        """The examples behind written ids (N, L + 1); the inverse of `written`."""
        columns = ids[:, ::-1] if order == "right-to-left" else ids
        return Examples(starts=columns[:, 0] - len(self.functions), functions=columns[:, 1:])
