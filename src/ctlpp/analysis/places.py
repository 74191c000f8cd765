"""Where a model carries the value of the first function when the second one needs it: found by trying.

At every layer and part of the state (or step of reading) the state of a *base* is replaced by that of a *donor*, an
input with another value. The *effect* of the place is how often the model then answers as if the donor's value were
the base's. Donors, bases and their combination are all known from training, so this needs no generalisation. The place
of a seed is the one with the greatest effect; of those within `TIE` of it, the last, where the value is settled. Where
no single column has an effect of `ENOUGH`, all columns of the prefix together are a place, too. A place that does
little for a seed on the first few inputs is not tried on the others. No seed's numbers depend on the other seeds.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.forward import activations
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.subject import Subject
from ctlpp.benchmark.sampling import Stream

EXAMPLES = 24  # at every place that may be the one …
FIRST = 8  # … and at every other
FAR = 0.4  # from the greatest effect on the first ones: such a place is not the one
TIE = 0.02
ENOUGH = 0.8


@dataclass(frozen=True)
class Places:
    """The effect of every place, and the place of every seed."""

    effect: Tensor  # (S, L, P): seeds, layers or steps, what is changed there
    level: Tensor  # (S,) layer or step
    option: Tensor  # (S,) what is changed
    where: Tensor  # (S, K) bool: the parts that this means
    options: tuple[str, ...]  # the names of what can be changed


def trials(inputs: Inputs, count: int = EXAMPLES) -> tuple[Array, Array, Array]:
    """Donors and bases known from training, of different values, and the answers expected. (N,) each"""
    best = inputs.familiarity.max()
    first, second, symbol = np.nonzero(inputs.familiarity == best)
    told_apart = (
        inputs.answer[first, second, symbol] != inputs.answer[first, inputs.donors[first, symbol], symbol]
    )
    pairs = np.flatnonzero(told_apart) if told_apart.any() else np.arange(len(first))
    chosen = pairs[Stream(0, "analysis", "trials").distinct_below(len(pairs), min(count, len(pairs)))]
    first, second, symbol = first[chosen], second[chosen], symbol[chosen]
    donor = first * inputs.n_symbols + symbol
    return donor, inputs.base_for(donor, second), inputs.answer[first, second, symbol]


def find_places(subject: Subject, inputs: Inputs) -> Places:
    """Try every place."""
    donor, base, expected = (torch.from_numpy(np.asarray(each)) for each in trials(inputs))
    tokens = inputs.base_tokens()[base]
    own, new = (
        subject.layout.read(activations(subject.crowd, each)[0])
        for each in (tokens, inputs.donor_tokens()[donor])
    )
    options = subject.layout.places(own[0].shape[2], inputs.task.order)
    masks = torch.zeros(len(options), own[0].shape[2], dtype=torch.bool)  # (P, K)
    for row, changed in enumerate(options.values()):
        masks[row, changed] = True

    def hits(level: int, some: Tensor, rows: slice) -> Tensor:
        """How often each of some options at a level has the effect, on some trials. (S, P)"""
        where = masks[some][:, None, :, None].to(own[0].device)  # (P, 1, K, 1)
        state = torch.where(where, new[level][:, None, rows], own[level][:, None, rows]).flatten(1, 2)
        found = subject.go_on(tokens[rows].repeat(len(where), 1), level, state)  # (S, P · N)
        return (found.view(len(found), len(where), -1) == expected[rows]).float().sum(-1)

    every, first, rest = torch.arange(len(options)), slice(0, FIRST), slice(FIRST, len(tokens))
    count = torch.stack([hits(level, every, first) for level in range(len(own))], dim=1)  # (S, L, P)
    near = (count >= count.amax(dim=(1, 2), keepdim=True) - FAR * FIRST) & (len(tokens) > FIRST)  # (S, L, P)
    for level, some in enumerate(near.any(0)):  # tried if any seed needs it, counted for those that do
        if some.any():
            count[:, level, some] += hits(level, every[some], rest) * near[:, level, some]
    effect = count / torch.where(near, len(tokens), len(tokens[first]))
    chosen, option = choose(effect, several=masks.sum(1) > 1)
    return Places(effect, chosen, option, masks[option], tuple(options))


def choose(effect: Tensor, several: Tensor) -> tuple[Tensor, Tensor]:
    """Layer or step and option of each seed. effect: (S, L, P); several: options of more than one part, (P,) bool."""
    single = effect.masked_fill(several, -1.0)
    enough = single.amax(dim=(1, 2)) >= ENOUGH
    allowed = torch.where(enough[:, None, None], single, effect)
    good = allowed >= allowed.amax(dim=(1, 2), keepdim=True) - TIE
    levels = torch.arange(effect.shape[1])[None, :, None]
    level = torch.where(good, levels, -1).amax(dim=(1, 2))  # (S,)
    return level, allowed[torch.arange(len(effect)), level].argmax(-1)
