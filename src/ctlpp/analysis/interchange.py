"""Exhaustive interchange: does every consumer understand every donor's state?

The state of a base at its seed's place is replaced by that of a donor (f, s), and the base's second function g, the
*consumer*, goes on with it. The right answer is g(f(s)), whatever the base's own value was.
"""

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Array, Inputs, grid
from ctlpp.analysis.places import Places
from ctlpp.analysis.states import Bases, Layout, answers_with
from ctlpp.training.crowd import Crowd


def thin(pairs: Array, most: int) -> Array:
    """At most about so many of a set of pairs: every so many-th consumer of each donor. (F, F, symbols) bool"""
    step = max(1, round(pairs.sum() / most))
    first, second, symbol = grid(pairs.shape)
    return np.asarray(pairs & ((first + second + symbol) % step == 0))


def interchange(
    crowd: Crowd, layout: Layout, inputs: Inputs, bases: Bases, places: Places, donors: Tensor, pairs: Array
) -> Array:
    """Whether each seed is right for each (donor's function, consumer, donor's symbol); nan outside of `pairs`.

    donors: their states, (S, F · symbols, K, W), ordered by function and symbol. Returns (S, F, F, symbols).
    """
    first, second, symbol = np.nonzero(pairs)
    donor = first * inputs.n_symbols + symbol
    base = torch.from_numpy(inputs.base_for(donor, second))
    where = places.where[:, None].expand(-1, len(donor), -1)
    found = answers_with(crowd, layout, bases, base, places.index, where, donors, torch.from_numpy(donor))
    right = np.full((len(crowd.seeds), *inputs.answer.shape), np.nan, dtype=np.float32)
    right[:, first, second, symbol] = found.numpy() == inputs.answer[first, second, symbol]
    return right
