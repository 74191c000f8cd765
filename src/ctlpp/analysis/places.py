"""Where a model carries the value of the first function when the second one needs it: found by trying.

At every layer and part of the state (or step of reading) the state of a *base* is replaced by that of a *donor*, an
input with another value. The *effect* of the place is how often the model then answers as if the donor's value were
the base's. Donors, bases and their combination are all known from training, so this needs no generalisation. The place
of a seed is the one with the greatest effect; of those within `TIE` of it, the last, where the value is settled. Where
no single column has an effect of `ENOUGH`, all columns of the prefix together are a place, too.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.states import Bases, Layout, answers_with
from ctlpp.benchmark.streams import Stream
from ctlpp.training.crowd import Crowd

EXAMPLES = 24  # at every place
TIE = 0.02
ENOUGH = 0.8


@dataclass(frozen=True)
class Places:
    """The effect of every place, and the place of every seed."""

    effect: Tensor  # (S, L, P): seeds, layers or steps, what is changed there
    index: Tensor  # (S,) layer or step
    option: Tensor  # (S,) what is changed
    where: Tensor  # (S, K) bool: the parts that this means

    def read(self, states: list[Tensor]) -> Tensor:
        """Each seed's state at its place, 0 in all other parts. L of (S, B, K, W) -> (S, B, K, W)"""
        own = torch.stack([states[int(i)][s] for s, i in enumerate(self.index)])
        return own * self.where[:, None, :, None]


def trials(inputs: Inputs, count: int = EXAMPLES) -> tuple[Array, Array, Array]:
    """Donors and bases known from training, of different values, and the answers expected. (N,) each"""
    best = inputs.familiarity.max()
    first, second, symbol = np.nonzero(inputs.familiarity == best)
    told_apart = inputs.answer[first, second, symbol] != inputs.answer[first, inputs.donors[first, symbol], symbol]
    pairs = np.flatnonzero(told_apart) if told_apart.any() else np.arange(len(first))
    chosen = pairs[Stream(0, "analysis", "trials").distinct_below(len(pairs), min(count, len(pairs)))]
    first, second, symbol = first[chosen], second[chosen], symbol[chosen]
    donor = first * inputs.n_symbols + symbol
    return donor, inputs.base_for(donor, second), inputs.answer[first, second, symbol]


def find_places(crowd: Crowd, layout: Layout, inputs: Inputs, bases: Bases, donors: list[Tensor]) -> Places:
    """Try every place. donors: the donors' states, (S, B, K, W) after each layer or step."""
    donor, base, expected = (torch.from_numpy(np.asarray(a)) for a in trials(inputs))
    seeds, _, parts, _ = donors[0].shape
    device, options = donors[0].device, layout.places(parts, inputs.task.order)
    masks = torch.zeros(len(options), parts, dtype=torch.bool)  # (P, K)
    for row, changed in enumerate(options.values()):
        masks[row, changed] = True
    where = masks.repeat_interleave(len(donor), dim=0).to(device).expand(seeds, -1, -1)  # (S, P · N, K)
    donor, base, expected = (each.repeat(len(options)) for each in (donor, base, expected))
    effects = []
    for i, state in enumerate(donors):
        index = torch.full((seeds,), i, device=device)
        found = answers_with(crowd, layout, bases, base, index, where, state, donor)
        effects.append((found == expected).float().view(seeds, len(options), -1).mean(-1))
    effect = torch.stack(effects, dim=1)  # (S, L, P)
    index, option = choose(effect, several=masks.sum(1) > 1)
    return Places(effect, index.to(device), option.to(device), masks[option].to(device))


def choose(effect: Tensor, several: Tensor) -> tuple[Tensor, Tensor]:
    """Layer or step and option of each seed. effect: (S, L, P); several: options of more than one part, (P,) bool."""
    single = effect.masked_fill(several, -1.0)
    enough = single.amax(dim=(1, 2)) >= ENOUGH
    allowed = torch.where(enough[:, None, None], single, effect)
    good = allowed >= allowed.amax(dim=(1, 2), keepdim=True) - TIE
    levels = torch.arange(effect.shape[1])[None, :, None]
    index = torch.where(good, levels, -1).amax(dim=(1, 2))  # (S,)
    return index, allowed[torch.arange(len(effect)), index].argmax(-1)
