"""What an analysis asks a model: every single application, every pair, and which of them training allows.

A pair applies `first` to a symbol and then `second` to the result, the pair's *value*. Arrays over all pairs
have the shape (F, F, symbols): first function, second function, start symbol.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> inputs = Inputs.of(generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task)
    >>> inputs.answer.shape, int(inputs.train.sum()), int(inputs.ood.sum())
    ((8, 8, 4), 128, 128)
    >>> inputs.partners  # whose states training lets a consumer read where the test gives it those of group a
    {'a': ('b',), 'b': ('a',)}
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """A task seen as all applications of one and of two functions."""

    task: Task
    groups: tuple[str, ...]
    group_of: Array  # (F,) number of each function's group
    value: Array  # (F, symbols) what the function makes of the symbol
    start: Array  # (F, symbols) the symbol of which the function makes this one
    train: Array  # (F, F, symbols) bool: the training graph has this pair
    ood: Array  # (F, F, symbols) bool: the test graph has it, the training graph does not

    @staticmethod
    def of(task: Task) -> Inputs:
        """All inputs of a task."""
        value = task.table.astype(np.int64)
        train = _pairs_of(task, task.train_graph)
        group_of = np.zeros(task.n_functions, dtype=np.int64)
        for number, members in enumerate(task.group_indices.values()):
            group_of[list(members)] = number
        return Inputs(
            task=task,
            groups=tuple(task.groups),
            group_of=group_of,
            value=value,
            start=np.argsort(value, axis=1),
            train=train,
            ood=_pairs_of(task, task.ood_graph) & ~train,
        )

    @cached_property
    def answer(self) -> Array:
        """The result of every pair. (F, F, symbols)"""
        seconds = np.arange(self.n_functions)[None, :, None]
        return np.asarray(self.value[seconds, self.value[:, None, :]])

    @property
    def n_functions(self) -> int:
        """How many functions there are."""
        return len(self.value)

    @property
    def n_symbols(self) -> int:
        """How many symbols there are."""
        return int(self.value.shape[1])

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
        new, known = self.by_groups(self.ood), self.by_groups(self.train)  # (G, G)
        found = {}
        for number, group in enumerate(self.groups):
            precede = np.flatnonzero(known[:, new[number]].any(axis=1))
            if others := tuple(self.groups[other] for other in precede if other != number):
                found[group] = others
        return found

    def by_groups(self, pairs: Array) -> Array:
        """Whether a set of pairs has any of (first, second) group. (F, F, symbols) bool -> (G, G) bool"""
        member = self.group_of == np.arange(len(self.groups))[:, None]  # (G, F)
        counts = np.einsum("af,bg,fgs->ab", member.astype(int), member.astype(int), pairs.astype(int))
        return np.asarray(counts > 0)

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
        language = self.task.language_of(self.task.train_graph)
        seconds = np.arange(self.n_functions)[None, :, None]
        follows = language.allowed[language.group_of[:, None, None], seconds, self.value[:, None]]
        return np.asarray(np.where(self.train, 2, follows))

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
        return self.tokens(self.start[self.bases, value], self.bases, second)

    def base_for(self, donor: Array, second: Array) -> Array:
        """The number of a base with this second function, of another value than the donor's."""
        function, symbol = np.divmod(donor, self.n_symbols)
        shift = 1 + (function + second) % (self.n_symbols - 1)
        return np.asarray(second * self.n_symbols + (self.value[function, symbol] + shift) % self.n_symbols)


def grid(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The index of every cell along each axis."""
    return tuple(np.asarray(index) for index in np.indices(shape))


def _pairs_of(task: Task, graph: Graph) -> Array:
    """The pairs that a graph has as examples, whatever lengths it is used with. (F, F, symbols) bool"""
    language = task.language_of(graph)
    value, seconds = task.table.astype(np.int64), np.arange(task.n_functions)
    begins = language.allowed[0]  # (F, symbols)
    follows = language.allowed[language.group_of[:, None, None], seconds[None, :, None], value[:, None, :]]
    ends = language.ends[language.group_of]  # (F,)
    return np.asarray(begins[:, None, :] & follows & ends[None, :, None])


def _noise(purpose: str, shape: tuple[int, ...]) -> Array:
    """Numbers from 0 to below 1, to choose among equals."""
    words = Stream(0, "analysis", purpose).words(int(np.prod(shape)))
    return (words / 2.0**64 * 0.999).reshape(shape)
