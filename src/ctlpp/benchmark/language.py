"""Examples, and the finite set of them that a graph allows: counted, tested for membership, and numbered.

A function belongs to one group, so an example fixes its walk through the graph, and all that matters for what
may follow is the *node*: the group of the last function and the symbol it produced. The number of ways to go
on from each node, found by dynamic programming, gives exact counts and a bijection between the integers
0 … count − 1 and the examples of a length. Counts are Python integers; the tables behind rank and unrank are
int64 while everything fits, and hold Python integers beyond that (dtype object: slower, still exact).

Example: two functions in one group, examples of two functions, on two symbols
    >>> flip, keep = [1, 0], [0, 1]
    >>> graph = Graph.of({IN: "f", "f": "f OUT"}, lengths=[2])
    >>> language = Language(graph, table=np.array([flip, keep]), groups={"f": (0, 1)})
    >>> language.count(2)
    8
    >>> example = language.unrank(2, np.array([5]))
    >>> example.starts.tolist(), example.functions.tolist(), language.rank(example).tolist()
    ([1], [[0, 1]], [5])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.graph import IN, OUT, Graph

Integers = NDArray[Any]  # int64, or Python integers (dtype object) where 64 bits do not suffice
LARGEST = 2**62  # numbers up to here are kept as int64: sums of two still fit


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
        return row_values(np.column_stack([self.starts, self.functions]))


def row_values(rows: NDArray[Any]) -> NDArray[Any]:
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


class Language:
    """The examples of a graph; `table[f, s]` is what function f makes of symbol s."""

    def __init__(
        self,
        graph: Graph,
        *,
        table: NDArray[Any],
        groups: Mapping[str, Sequence[int]],  # the functions of each, by index
        names: Sequence[str] | None = None,  # of the functions, for restrictions
    ) -> None:
        self.graph = graph
        self.table = table
        self.n_functions, self.n_symbols = table.shape
        self.nodes = {IN: 0} | {group: i for i, group in enumerate(groups, start=1)}
        group_of = np.zeros(self.n_functions, dtype=np.int64)
        for group, members in groups.items():
            group_of[list(members)] = self.nodes[group]
        self.group_of = group_of
        self.allowed = self._allowed(graph, names or [])  # (groups + 1, F, symbols)
        # a choice is a node and a function: number node · F + f
        self.possible = self.allowed.transpose(0, 2, 1).reshape(-1)
        self.next_node = np.tile((group_of * self.n_symbols + table.T).reshape(-1), len(self.nodes))
        self.ends = np.array([(group, OUT) in graph.edges for group in self.nodes])  # (groups + 1,)
        self._ways = [np.repeat(self.ends, self.n_symbols).astype(object)]
        self._steps: dict[int, Step] = {}

    def _allowed(self, graph: Graph, names: Sequence[str]) -> NDArray[np.bool_]:
        """`[g, f, s]`: may f follow group g on symbol s?"""
        succession = np.zeros((len(self.nodes), len(self.nodes)), dtype=bool)
        for source, target in graph.edges:
            if target != OUT:
                succession[self.nodes[source], self.nodes[target]] = True
        allowed = np.repeat(succession[:, self.group_of, None], self.n_symbols, axis=2)
        for restriction in graph.restrictions:
            cell = allowed[self.nodes[restriction.source], names.index(restriction.function)]
            cell &= np.isin(np.arange(self.n_symbols), restriction.symbols)
        return allowed

    def ways(self, n: int) -> NDArray[Any]:
        """For each node, in how many ways n more functions lead to OUT (Python integers)."""
        while len(self._ways) <= n:
            here = self.possible * self._ways[-1][self.next_node]
            self._ways.append(here.reshape(-1, self.n_functions).sum(axis=1))
        return self._ways[n]

    def behind(self, left: int) -> NDArray[Any]:
        """For each choice, how many examples have it with `left` functions to go, this one included."""
        return np.asarray(self.possible * self.ways(left - 1)[self.next_node])

    def count(self, length: int) -> int:
        """How many distinct examples of this length exist."""
        return int(self.ways(length)[: self.n_symbols].sum()) if length in self.graph.lengths else 0

    def contains(self, examples: Examples) -> NDArray[np.bool_]:
        """Which examples the graph allows."""
        first, last = examples.functions[:, 0], examples.functions[:, -1]
        complete = self.allowed[0, first, examples.starts] & self.ends[self.group_of[last]]
        right = complete & self.allows_successions(examples)
        return np.asarray(right & (examples.length in self.graph.lengths))

    def allows_successions(self, examples: Examples) -> NDArray[np.bool_]:
        """Which examples have only successions that the graph allows, wherever they begin and end."""
        right = np.ones(len(examples), dtype=bool)
        symbol = examples.starts
        for before, function in pairwise(examples.functions.T):
            symbol = self.table[before, symbol]
            right &= self.allowed[self.group_of[before], function, symbol]
        return right

    def rank(self, examples: Examples) -> Integers:
        """The number of each example; the inverse of `unrank`. The examples must be in the language."""
        number, node = self._starts(examples.length)[examples.starts], examples.starts.astype(np.int64)
        for left, function in zip(range(examples.length, 0, -1), examples.functions.T, strict=True):
            choice = node * self.n_functions + function
            number = number + self._step(left).skipped[choice]
            node = self.next_node[choice]
        return np.asarray(number)

    def unrank(self, length: int, numbers: Integers) -> Examples:
        """The examples with these numbers, each in 0 … count − 1."""
        starts = self._starts(length)
        node = np.searchsorted(starts, numbers, side="right") - 1
        numbers = numbers - starts[node]
        examples = self.empty(length, len(numbers))
        examples.starts[:] = node
        for i, left in enumerate(range(length, 0, -1)):
            choice, numbers = self._step(left).choose(node, numbers)
            examples.functions[:, i] = choice - node * self.n_functions
            node = self.next_node[choice]
        return examples

    def all(self, length: int) -> Examples:
        """Every example of this length, in the order of their numbers."""
        return self.unrank(length, np.arange(self.count(length)))

    def empty(self, length: int, n: int = 0) -> Examples:
        """Room for n examples."""
        return Examples(
            starts=np.zeros(n, dtype=np.min_scalar_type(self.n_symbols - 1)),
            functions=np.zeros((n, length), dtype=np.min_scalar_type(self.n_functions - 1)),
        )

    def _starts(self, length: int) -> Integers:
        """For each start symbol, how many examples have a smaller one; as int64 if every number fits."""
        ways = self.ways(length)[: self.n_symbols]
        return np.asarray(_sums_before(ways).astype(np.int64 if ways.sum() <= LARGEST else object))

    def _step(self, left: int) -> Step:
        """The choice of a function with `left` to go, this one included."""
        if left not in self._steps:
            self._steps[left] = Step(self.behind(left), self.n_functions)
        return self._steps[left]


class Step:
    """The choice of one function at every node; `behind` is the number of examples behind each choice."""

    def __init__(self, behind: NDArray[Any], n_functions: int) -> None:
        rows = behind.reshape(-1, n_functions)
        self.n_functions = n_functions
        self.skipped = _compact(_sums_before(rows)).reshape(-1)  # behind smaller choices at the node
        self._offset = _compact(_sums_before(rows.sum(axis=1)))  # examples of smaller nodes
        self._running = _compact(_sums_before(behind))  # both together: one increasing row
        self._each = _compact(rows.max(axis=1))
        self._even = bool(((rows == 0) | (rows == self._each[:, None])).all())
        by_use = np.argsort(rows == 0, axis=1, kind="stable")  # functions with examples behind them first
        self._options = (by_use + n_functions * np.arange(len(rows))[:, None]).reshape(-1)

    def choose(self, node: NDArray[np.int64], number: Integers) -> tuple[NDArray[np.int64], Integers]:
        """The choice that example `number` of `node` makes there, and its number among those that make it."""
        if self._even:  # as without restrictions: the same number of examples behind each function
            option = (number // self._each[node]).astype(np.int64)
            choice = self._options[node * self.n_functions + option]
        else:
            choice = np.searchsorted(self._running, number + self._offset[node], side="right") - 1
        return choice, number - self.skipped[choice]


def _sums_before(values: NDArray[Any]) -> NDArray[Any]:
    """Along the last axis, the sum of all values before each."""
    return np.asarray(np.cumsum(values, axis=-1) - values)


def _compact(values: NDArray[Any]) -> Integers:
    """Python integers as int64, if they fit."""
    return np.asarray(values.astype(np.int64) if values.max() <= LARGEST else values)
