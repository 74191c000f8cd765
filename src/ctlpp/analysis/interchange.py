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

AT_ONCE = 4  # consumers: their inputs' states are held


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
    """All inputs of C consumers, ordered by consumer, first function and symbol."""

    consumers: Array  # (C,)
    tokens: Tensor  # (C · F · symbols, T)
    states: Tensor  # at the place's level, (S, C · F · symbols, K, W)


def thin(pairs: Array, most: int) -> Array:
    """At most about so many of a set of pairs: every so many-th consumer of each donor. (F, F, symbols) bool"""
    step = max(1, round(pairs.sum() / most))
    first, second, symbol = grid(pairs.shape)
    return np.asarray(pairs & ((first + second + symbol) % step == 0))


def rounds(inputs: Inputs) -> list[Array]:
    """All consumers, a few at a time."""
    return np.array_split(np.arange(inputs.n_functions), -(-inputs.n_functions // AT_ONCE))


def interchange(
    subject: Subject,
    inputs: Inputs,
    place: Place,
    donors: dict[str, Donors],
    advance: Callable[[], None] = lambda: None,
) -> tuple[Array, dict[str, Array]]:
    """The answers to all pairs as they are, and the share of right ones after the exchange.

    Both (S, F, F, symbols): first or donor's function, second function, symbol; shares are over the bases, and nan
    where nothing was tried. advance: called once in every round of consumers, and once more for each of its turns.
    """
    answers = np.zeros((len(subject.crowd.seeds), *inputs.answer.shape), dtype=np.int64)
    counts = {kind: np.where(own.pairs, np.zeros(answers.shape), np.nan) for kind, own in donors.items()}
    for consumers in rounds(inputs):
        tokens = inputs.pairs_with(consumers)
        plain, states = subject.run(tokens, place.level)
        answers[:, :, consumers] = plain.numpy().reshape(len(answers), -1, *inputs.value.shape).swapaxes(1, 2)
        bases = Bases(consumers, tokens, states)
        advance()
        for turn in range(max(own.bases for own in donors.values())):
            chosen = {kind: own for kind, own in donors.items() if turn < own.bases}
            for kind, (tried, right) in exchange(subject, inputs, place, chosen, bases, turn).items():
                counts[kind][:, *tried] += right
            advance()
    return answers, {kind: (count / donors[kind].bases).astype(np.float32) for kind, count in counts.items()}


def exchange(
    subject: Subject, inputs: Inputs, place: Place, donors: dict[str, Donors], bases: Bases, turn: int
) -> dict[str, tuple[tuple[Array, Array, Array], Array]]:
    """One turn of some consumers: what is tried, and whether each seed is right with it, (S, N).

    What is tried: the donor's function, the consumer and the donor's symbol, (N,) each.
    """
    n, own_base = inputs.n_symbols, [base_of(inputs, consumer, turn) for consumer in bases.consumers]
    base_by_donor = (
        np.stack(own_base) + np.arange(len(own_base))[:, None] * inputs.value.size
    )  # (C, F · symbols)
    tried, base, new = {}, [], []
    for kind, own in donors.items():
        function, consumer, symbol = np.nonzero(own.pairs[:, bases.consumers])
        donor = function * n + symbol
        tried[kind] = function, bases.consumers[consumer], symbol
        base.append(base_by_donor[consumer, donor])
        new.append(own.states[:, torch.from_numpy(donor)])
    of_all = torch.from_numpy(np.concatenate(base))
    found = subject.exchange(
        bases.tokens[of_all], place.level, bases.states[:, of_all], torch.cat(new, dim=1), place.where
    )
    parts = np.split(found.numpy(), np.cumsum([len(part) for part in base])[:-1], axis=1)
    return {
        kind: (which, part == inputs.answer[which])
        for (kind, which), part in zip(tried.items(), parts, strict=True)
    }
