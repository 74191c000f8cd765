"""Exhaustive interchange: does every consumer understand every donor's state?

The state of a base at its seed's place is replaced by that of a donor (f, s), and the base's second function g, the
*consumer*, goes on with it. The right answer is g(f(s)), whatever the base's own value was. Every donor meets every
consumer; which of the consumer's inputs is the base goes round (see `rotation`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Array, Inputs, grid
from ctlpp.analysis.rotation import base_of
from ctlpp.analysis.subject import Subject


@dataclass(frozen=True)
class Donors:
    """States to put into the bases, and where to try them."""

    states: Tensor  # (S, F · symbols, K, W), ordered by function and symbol
    pairs: Array  # (F, F, symbols) bool: with which consumers
    bases: int = 1  # on how many bases each


@dataclass(frozen=True)
class Place:
    """Where the states of some seeds are changed."""

    level: int  # layer or step
    where: Tensor  # (S, K) bool: the parts that change


@dataclass(frozen=True)
class Bases:
    """All inputs of one consumer, ordered by first function and symbol."""

    consumer: int
    tokens: Tensor  # (F · symbols, T)
    states: Tensor  # at the place's level, (S, F · symbols, K, W)


def thin(pairs: Array, most: int) -> Array:
    """At most about so many of a set of pairs: every so many-th consumer of each donor. (F, F, symbols) bool"""
    step = max(1, round(pairs.sum() / most))
    first, second, symbol = grid(pairs.shape)
    return np.asarray(pairs & ((first + second + symbol) % step == 0))


def interchange(
    subject: Subject,
    inputs: Inputs,
    place: Place,
    donors: dict[str, Donors],
    advance: Callable[[], None] = lambda: None,
) -> tuple[Array, dict[str, Array]]:
    """The answers to all pairs as they are, and the share of right ones after the exchange.

    Both (S, F, F, symbols): first or donor's function, second function, symbol; shares are over the bases, and nan
    where nothing was tried. One consumer after the other, so that only its inputs' states are held. advance: called
    once for every consumer, and once more for each of its turns.
    """
    answers = np.zeros((len(subject.crowd.seeds), *inputs.answer.shape), dtype=np.int64)
    counts = {kind: np.where(own.pairs, np.zeros(answers.shape), np.nan) for kind, own in donors.items()}
    for consumer in range(inputs.n_functions):
        tokens = inputs.pairs_with(consumer)
        plain, states = subject.run(tokens, place.level)
        answers[:, :, consumer] = plain.numpy().reshape(-1, *inputs.value.shape)
        bases = Bases(consumer, tokens, states)
        advance()
        for turn in range(max(own.bases for own in donors.values())):
            chosen = {kind: own for kind, own in donors.items() if turn < own.bases}
            for kind, (donor, right) in exchange(subject, inputs, place, chosen, bases, turn).items():
                function, symbol = np.divmod(donor, inputs.n_symbols)
                counts[kind][:, function, consumer, symbol] += right
            advance()
    return answers, {kind: (count / donors[kind].bases).astype(np.float32) for kind, count in counts.items()}


def exchange(
    subject: Subject, inputs: Inputs, place: Place, donors: dict[str, Donors], bases: Bases, turn: int
) -> dict[str, tuple[Array, Array]]:
    """One turn of one consumer: the donors tried, (N,), and whether each seed is right with them, (S, N)."""
    tried = {kind: np.flatnonzero(own.pairs[:, bases.consumer]) for kind, own in donors.items()}
    every = np.concatenate(list(tried.values()))
    base = torch.from_numpy(base_of(inputs, bases.consumer, turn)[every])
    new = torch.cat([donors[kind].states[:, torch.from_numpy(own)] for kind, own in tried.items()], dim=1)
    found = subject.exchange(bases.tokens[base], place.level, bases.states[:, base], new, place.where).numpy()
    right = found == inputs.answer[:, bases.consumer].ravel()[every]
    edges = np.cumsum([len(own) for own in tried.values()])[:-1]
    parts = np.split(right, edges, axis=1)
    return {kind: (own, part) for (kind, own), part in zip(tried.items(), parts, strict=True)}
