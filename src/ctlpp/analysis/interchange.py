"""Interchange: give a consumer the state that another function left, and see whether it answers right.

A *donor* (f, s) applies f to s and leaves a state. The state of a *base*, an input of another value that ends
in g, is replaced by the donor's at one position, and g, the *consumer*, goes on with it. The right answer is
g(f(s)), whatever the base's own value was. First the position is found where the model carries the value
(`find_positions`); there every donor meets every consumer (`interchange`), which base it is goes round
(`base_of`), and the donor's state may be mapped into the space of the states that the consumer knows
(`stitch`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Array, Inputs, grid
from ctlpp.analysis.states import PatchableModel, look_into
from ctlpp.benchmark.sampling import Stream

EXAMPLES = 24  # on which every position is tried
TIE = 0.02  # effects that differ by less are the same
ENOUGH = 0.8  # effect of a single column: then it alone is exchanged
AT_ONCE = 4  # consumers: their inputs' states are held


@dataclass(frozen=True)
class Positions:
    """The effect of every position, and the one that is chosen."""

    effect: Tensor  # (L, P): layers or steps, what is changed there
    level: int  # layer or step
    option: int  # what is changed
    where: Tensor  # (K,) bool: the parts that this means
    options: tuple[str, ...]  # the names of what can be changed


def trials(inputs: Inputs) -> tuple[Array, Array, Array]:
    """Donors and bases known from training, of different values, and the answers expected. (N,) each"""
    first, second, symbol = np.nonzero(inputs.familiarity == inputs.familiarity.max())
    own = inputs.answer[first, inputs.donors[first, symbol], symbol]  # what the donor's input itself gives
    differs = inputs.answer[first, second, symbol] != own
    pairs = np.flatnonzero(differs) if differs.any() else np.arange(len(first))
    chosen = pairs[Stream(0, "analysis", "trials").distinct_below(len(pairs), min(EXAMPLES, len(pairs)))]
    first, second, symbol = first[chosen], second[chosen], symbol[chosen]
    donor = first * inputs.n_symbols + symbol
    return donor, inputs.base_for(donor, second), inputs.answer[first, second, symbol]


def find_positions(model: PatchableModel, inputs: Inputs) -> Positions:
    """Try every position: where does the model carry the value of the first function for the second?

    The effect of a position is how often the model answers as if the donor's value were the base's. Donors,
    bases and their combination are known from training, so this needs no generalisation. Chosen is the
    position with the greatest effect; of those within `TIE` of it, the last, where it is settled.
    """
    donor, base, expected = (torch.from_numpy(np.asarray(each)) for each in trials(inputs))
    tokens = inputs.base_tokens()[base]
    own, new = (
        model.layout.read(look_into(model.model, each)[0]) for each in (tokens, inputs.donor_tokens()[donor])
    )
    parts = own[0].shape[1]
    options = model.layout.positions(parts, inputs.task.order)
    masks = torch.zeros(len(options), parts, dtype=torch.bool, device=own[0].device)  # (P, K)
    for row, changed in enumerate(options.values()):
        masks[row, changed] = True
    effects = []
    for level, (ours, theirs) in enumerate(zip(own, new, strict=True)):
        state = torch.where(masks[:, None, :, None], theirs, ours).flatten(0, 1)  # (P · N, K, W)
        found = replace(model, level=level).answers_from_state(tokens.repeat(len(masks), 1), state)
        effects.append((found.view(len(masks), -1) == expected).float().mean(-1))
    effect = torch.stack(effects)
    level, option = choose(effect, several=masks.sum(1).cpu() > 1)
    return Positions(effect, level, option, masks[option], tuple(options))


def choose(effect: Tensor, several: Tensor) -> tuple[int, int]:
    """Layer or step, and option. effect: (L, P); several: which options change several parts, (P,) bool.

    Several columns together are taken only where no single one has an effect of `ENOUGH`.
    """
    single = effect.masked_fill(several, -1.0)
    allowed = single if single.max() >= ENOUGH else effect
    good = (allowed >= allowed.max() - TIE).any(dim=1)
    level = int(good.nonzero()[-1])
    return level, int(allowed[level].argmax())


def count_turns(inputs: Inputs) -> int:
    """How many bases of another value there are for every donor and consumer."""
    return inputs.n_functions * (inputs.n_symbols - 1)


def base_of(inputs: Inputs, consumers: Array, turn: int) -> Array:
    """The base of every donor and some consumers in a turn: the number of (f′, s′). (consumers, F · symbols)

    A donor leaves the value v = f(s). The bases of a consumer g are all inputs that end in g, one for each
    (f′, s′) of value v′ = f′(s′). In each turn the donors and the bases of every consumer are paired off:

        f′ = f + g + v + i   mod F          (f and f′ counted so that the groups alternate, g group by group)
        v′ = v + 1 + (⌊f′ / G⌋ + ⌊g / (n − 1)⌋ + j   mod n − 1)   mod n

    where F is the number of functions, G of groups, n of symbols, and (i, j) runs through all F · (n − 1)
    combinations as the turns go on. Hence in one turn

    - every donor meets every consumer, and every input of two functions is patched exactly once;
    - the base's own value is never the donor's, so that only the donor's state can give the right answer;
    - a donor meets each first function f′ once, with another consumer each time (a Latin square), so that for
      all donors of a symbol, and all consumers of a group, the groups of f′ come in equal shares;

    and in all turns together every donor meets every base of another value exactly once.
    """
    F, n, G = inputs.n_functions, inputs.n_symbols, len(inputs.groups)
    i, j = turn % F, turn % F + turn // F
    alternating = _alternating(inputs)
    line = np.argsort(np.argsort(inputs.group_of, kind="stable"))[consumers][:, None]
    function, value = grid(inputs.value.shape)[0], inputs.value.ravel()
    position = (np.argsort(alternating)[function] + line + value + i) % F
    other = (value + 1 + (position // G + line // (n - 1) + j) % (n - 1)) % n
    first = alternating[position]
    return np.asarray(first * n + inputs.start[first, other])


def _alternating(inputs: Inputs) -> Array:
    """The functions, those of each group evenly spread."""
    rank, size = np.zeros(inputs.n_functions), np.bincount(inputs.group_of)
    for group in range(len(size)):
        rank[inputs.group_of == group] = (np.arange(size[group]) + 0.5) / size[group]
    return np.lexsort((inputs.group_of, rank))


@dataclass(frozen=True)
class Donors:
    """States to put into the bases, and where to try them."""

    states: Tensor  # (F · symbols, K, W), ordered by function and symbol
    pairs: Array  # (F, F, symbols) bool: with which consumers
    bases: int = 1  # on how many bases each


def subsample(pairs: Array, limit: int) -> Array:
    """Keep roughly `limit` pairs, evenly over donors. (F, F, symbols) bool"""
    step = max(1, round(pairs.sum() / limit))
    return np.asarray(pairs & (np.indices(pairs.shape).sum(axis=0) % step == 0))


def split_consumers(inputs: Inputs) -> list[Array]:
    """All consumers, a few at a time."""
    return np.array_split(np.arange(inputs.n_functions), -(-inputs.n_functions // AT_ONCE))


def interchange(
    model: PatchableModel,
    inputs: Inputs,
    where: Tensor,
    donors: dict[str, Donors],
    advance: Callable[[], None],
) -> tuple[Array, dict[str, Array]]:
    """The answers to all pairs as they are, and the share of right ones after the exchange.

    Both (F, F, symbols): first or donor's function, second function, symbol; shares are over the bases, and
    nan where nothing was tried. where: the parts of the state that change, (K,) bool. advance: called for
    every few consumers, once with their plain answers and once after each turn.
    """
    answers = np.zeros(inputs.answer.shape, dtype=np.int64)
    counts = {kind: np.where(own.pairs, 0.0, np.nan) for kind, own in donors.items()}
    for consumers in split_consumers(inputs):
        tokens = inputs.pairs_with(consumers)
        plain, states = model.answers_and_states(tokens)
        answers[:, consumers] = plain.numpy().reshape(-1, *inputs.value.shape).swapaxes(0, 1)
        advance()
        for turn in range(max(own.bases for own in donors.values())):
            bases = base_of(inputs, consumers, turn) + inputs.value.size * np.arange(len(consumers))[:, None]
            for kind, own in donors.items():
                if turn < own.bases and own.pairs[:, consumers].any():
                    first, row, symbol = np.nonzero(own.pairs[:, consumers])
                    donor = first * inputs.n_symbols + symbol
                    base = bases[row, donor]
                    state = torch.where(where[:, None], own.states[donor], states[base])
                    found = model.answers_from_state(tokens[base], state)
                    pairs = first, consumers[row], symbol
                    counts[kind][pairs] += found.numpy() == inputs.answer[pairs]
            advance()
    return answers, {kind: (count / donors[kind].bases).astype(np.float32) for kind, count in counts.items()}
