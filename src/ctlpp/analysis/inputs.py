"""The inputs of an analysis: every single application, every pair, and which of them training allows.

A pair applies `first` to a symbol and then `second` to the result, the pair's *value*. Arrays over all pairs
have the shape (F, F, symbols): first function, second function, start symbol.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> inputs = Inputs(generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task)
    >>> inputs.answer.shape, int(inputs.train.sum()), int(inputs.ood.sum())
    ((8, 8, 4), 128, 128)
    >>> inputs.partners  # whose states training lets a consumer read where the test gives it those of group a
    {'a': ('b',), 'b': ('a',)}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.graph import Graph
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.sampling import Stream
from ctlpp.benchmark.task import Task

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Inputs:
    """A task seen as all applications of one and of two functions."""

    task: Task

    @property
    def n_functions(self) -> int:
        return self.task.n_functions

    @property
    def n_symbols(self) -> int:
        return self.task.n_symbols

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(self.task.groups)

    @cached_property
    def group_of(self) -> Array:
        """The number of each function's group. (F,)"""
        number = {name: i for i, names in enumerate(self.task.groups.values()) for name in names}
        return np.array([number[name] for name in self.task.functions])

    @cached_property
    def value(self) -> Array:
        """What each function makes of each symbol. (F, symbols)"""
        return self.task.table.astype(np.int64)

    @cached_property
    def start(self) -> Array:
        """The symbol of which a function makes this one. (F, symbols)"""
        return np.argsort(self.value, axis=1)

    @cached_property
    def pairs(self) -> Examples:
        """All pairs, in the order of the arrays over them."""
        first, second, symbol = grid((self.n_functions, self.n_functions, self.n_symbols))
        return Examples(starts=symbol, functions=np.stack([first, second], axis=1))

    @cached_property
    def answer(self) -> Array:
        """The result of every pair. (F, F, symbols)"""
        return self.pairs.outputs(self.value).reshape(self.n_functions, -1, self.n_symbols)

    @cached_property
    def train(self) -> Array:
        """Which pairs the training graph has, whatever lengths it is used with. (F, F, symbols) bool"""
        return self._allowed(self.task.train_graph)

    @cached_property
    def ood(self) -> Array:
        """Which pairs the test graph has, but not the training graph. (F, F, symbols) bool"""
        return self._allowed(self.task.ood_graph) & ~self.train

    def _allowed(self, graph: Graph) -> Array:
        language = self.task.language_of(replace(graph, lengths=(2,)))
        return language.contains(self.pairs).reshape(self.answer.shape)

    @cached_property
    def firsts(self) -> Array:
        """Which functions come first in some pair of training or test. (F,) bool"""
        return np.asarray((self.train | self.ood).any(axis=(1, 2)))

    @cached_property
    def seconds(self) -> Array:
        """Which functions come second in some pair of training or test. (F,) bool"""
        return np.asarray((self.train | self.ood).any(axis=(0, 2)))

    @cached_property
    def partners(self) -> dict[str, tuple[str, ...]]:
        """For each group that precedes new consumers in the test: groups that precede these in training."""
        new, known = self.any_by_group(self.ood), self.any_by_group(self.train)  # (G, G)
        found = {}
        for number, group in enumerate(self.groups):
            precede = np.flatnonzero(known[:, new[number]].any(axis=1))
            if others := tuple(self.groups[other] for other in precede if other != number):
                found[group] = others
        return found

    def by_value(self, cells: Array) -> Array:
        """Cells of (function, …, symbol) with the function's value in the symbol's place, as second axis.

        (S, F, symbols) -> (S, values, F); (S, F, F, symbols) -> (S, values, F, F)
        """
        start = self.start.T.reshape(1, self.n_symbols, self.n_functions, *[1] * (cells.ndim - 3))
        return np.take_along_axis(np.moveaxis(cells, -1, 1), start, axis=1)

    def vectors_by_value(self, vectors: Array) -> Array:
        """Vectors of (function, symbol) in the order of the function's values. (…, F, symbols, D)"""
        return vectors[..., np.arange(self.n_functions)[:, None], self.start, :]

    def means(self, pairs: Array, labels: Array | None = None) -> tuple[Array, Array]:
        """The mean of some numbers by value, group of the first and of the second function; and their count.

        (S, F, F, symbols) -> (S, values, G, G) each; nan does not count. labels: of the first functions, in
        place of their groups, (F,).
        """
        first = self.group_of if labels is None else labels
        rows, columns = (of[:, None] == np.arange(of.max() + 1) for of in (first, self.group_of))  # (F, G)
        cells = self.by_value(pairs).astype(float)
        known = np.isfinite(cells)
        sums, counts = (rows.T @ part @ columns for part in (np.where(known, cells, 0), known.astype(int)))
        return np.where(counts, sums / np.maximum(counts, 1), np.nan), counts

    def any_by_group(self, pairs: Array) -> Array:
        """Whether a set of pairs has any of (first, second) group. (F, F, symbols) bool -> (G, G) bool"""
        return np.asarray(self.means(pairs[None])[0].any(axis=(0, 1)))

    def members(self, group: str) -> Array:
        """The functions of a group."""
        return np.flatnonzero(self.group_of == self.groups.index(group))

    def partners_of(self, group: str) -> Array:
        """The functions of all partners of a group."""
        return np.concatenate([self.members(partner) for partner in self.partners[group]])

    def tokens(self, starts: Array, *functions: Array) -> Tensor:
        """Token ids of examples that apply the functions in turn. (N,) each -> (N, L + 2)"""
        import torch  # late: inputs alone need none

        examples = Examples(starts=starts.ravel(), functions=np.stack([f.ravel() for f in functions], axis=1))
        ids = self.task.vocabulary.written(examples, self.task.order).astype(np.int64)
        end = np.full((len(ids), 1), self.task.vocabulary.end)
        return torch.from_numpy(np.concatenate([ids, end], axis=1))

    def singles(self) -> Tensor:
        """All single applications, ordered by function and symbol."""
        function, symbol = grid(self.value.shape)
        return self.tokens(symbol, function)

    def pairs_with(self, seconds: Array) -> Tensor:
        """All pairs with these second functions, ordered by them, first function and symbol."""
        second, first, symbol = grid((len(seconds), *self.value.shape))
        return self.tokens(symbol, first, seconds[second])

    @cached_property
    def familiarity(self) -> Array:
        """2 for a pair of training, 1 for a succession within its longer examples, else 0. (F, F, symbols)"""
        follows = self.task.language_of(self.task.train_graph).allows_successions(self.pairs)
        return np.where(self.train, 2, follows.reshape(self.answer.shape))

    @cached_property
    def donors(self) -> Array:
        """For each (function, symbol) a second function that training lets follow. (F, symbols)"""
        return np.asarray((self.familiarity + _noise("donors", self.train.shape)).argmax(axis=1))

    @cached_property
    def bases(self) -> Array:
        """For each second function and value, a first function that makes it in training. (F, symbols)"""
        firsts = np.arange(self.n_functions)[:, None]
        by_value = self.familiarity[firsts, :, self.start].transpose(2, 0, 1)  # (second, first, value)
        return np.asarray((by_value + _noise("bases", by_value.shape)).argmax(axis=1))

    def donor_tokens(self) -> Tensor:
        """The donors' inputs, ordered by function and symbol."""
        function, symbol = grid(self.value.shape)
        return self.tokens(symbol, function, self.donors)

    def base_tokens(self) -> Tensor:
        """The bases' inputs, ordered by second function and value."""
        second, value = grid(self.bases.shape)
        first = self.bases.ravel()
        return self.tokens(self.start[first, value], first, second)

    def base_for(self, donor: Array, second: Array) -> Array:
        """The number of a base with this second function, of another value than the donor's."""
        function, symbol = np.divmod(donor, self.n_symbols)
        shift = 1 + (function + second) % (self.n_symbols - 1)
        return np.asarray(second * self.n_symbols + (self.value[function, symbol] + shift) % self.n_symbols)


def grid(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The index of every cell along each axis. (cells,) each"""
    return tuple(np.indices(shape).reshape(len(shape), -1))


def _noise(purpose: str, shape: tuple[int, ...]) -> Array:
    """Numbers from 0 to below 1, to choose among equals, the same every time."""
    words = Stream(0, "analysis", purpose).words(int(np.prod(shape)))
    return (words / 2.0**64 * 0.999).reshape(shape)
