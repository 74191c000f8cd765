"""Where a model carries the value of the first function when the second one needs it: found by trying.

At every layer and part of the state (or step of reading) the state of a *base* is replaced by that of a *donor*, an
input with another value. The *effect* of the place is how often the model then answers as if the donor's value were
the base's. Donors, bases and their combination are all known from training, so this needs no generalisation. The place
of a seed is the one with the greatest effect; of those within `TIE` of it, the last, where the value is settled.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.states import Bases, Layout, answers_with
from ctlpp.benchmark.streams import Stream
from ctlpp.training.crowd import Crowd

EXAMPLES = 32  # at every place
TIE = 0.02


@dataclass(frozen=True)
class Places:
    """The effect of every place, and the place of every seed."""

    effect: Tensor  # (S, L, K): seeds, layers or steps, parts
    index: Tensor  # (S,) layer or step
    part: Tensor  # (S,)

    def read(self, states: list[Tensor]) -> Tensor:
        """Each seed's state at its place. L of (S, B, K, W) -> (S, B, W)"""
        seeds = range(len(self.index))
        return torch.stack([states[int(self.index[s])][s, :, int(self.part[s])] for s in seeds])


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
    device = donors[0].device
    part = torch.arange(parts).repeat_interleave(len(donor))  # (K · N,)
    donor, base, expected = donor.repeat(parts), base.repeat(parts), expected.repeat(parts)
    effects = []
    for i, state in enumerate(donors):
        index, everywhere = torch.full((seeds,), i, device=device), part.to(device).expand(seeds, -1)
        found = answers_with(crowd, layout, bases, base, index, everywhere, state[:, donor, part])
        effects.append((found == expected).float().view(seeds, parts, -1).mean(-1))
    effect = torch.stack(effects, dim=1)  # (S, L, K)
    good = effect >= effect.amax(dim=(1, 2), keepdim=True) - TIE
    levels = torch.arange(len(donors))[None, :, None]
    index = torch.where(good, levels, -1).amax(dim=(1, 2))  # (S,)
    return Places(effect, index.to(device), effect[torch.arange(seeds), index].argmax(-1).to(device))
