"""What can be *decoded* from the states, and how alike their geometry is. Interchange asks what is *used*."""

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.stitching import ridge

NO_NUMBER = float("nan")


def probe(states: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Accuracy of linear probes for the symbol: on unseen functions of the same group, and on another group.

    states: (S, F, symbols, W). A probe is least squares onto one-hot symbols. Within: fitted on one half of a group's
    functions, tried on the other, both ways. Across: fitted on the partners of a group, tried on it. Returns (S,) each.
    """
    states = torch.nan_to_num(states.double())
    within, across = [], []
    for group in inputs.partners or inputs.groups:
        members = inputs.members(group).tolist()
        halves = members[::2], members[1::2]
        if len(members) > 1:
            within += [_accuracy(states, inputs, fit, test) for fit, test in (halves, halves[::-1])]
        theirs = [f for partner in inputs.partners.get(group, ()) for f in inputs.members(partner).tolist()]
        if theirs:
            across.append(_accuracy(states, inputs, theirs, members))
    return _mean(within, len(states)), _mean(across, len(states))


def _accuracy(states: Tensor, inputs: Inputs, fit: list[int], test: list[int]) -> Tensor:
    known, asked = (torch.from_numpy(np.ravel(inputs.value[part])) for part in (fit, test))
    onehot = torch.eye(inputs.n_symbols, dtype=states.dtype)[known].expand(len(states), -1, -1)
    found = ridge(states[:, fit].flatten(1, 2), onehot, states[:, test].flatten(1, 2)).argmax(-1)
    return (found == asked).double().mean(1)


def cka(states: Tensor, inputs: Inputs) -> Tensor:
    """Linear CKA between a group's states and its partners': ‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖). (S, F, symbols, W) -> (S,)

    Rows that belong together: the i-th function of one group and of the other, at the same value.
    """
    states = torch.nan_to_num(states.double())
    found = []
    for group, partners in inputs.partners.items():
        for partner in partners:
            count = min(len(inputs.members(group)), len(inputs.members(partner)))
            x, y = (_rows(states, inputs, inputs.members(name)[:count].tolist()) for name in (group, partner))
            k, m = x @ x.mT, y @ y.mT  # (S, N, N): ‖XᵀY‖² is the sum of k · m, and N is small
            cross, norms = (k * m).sum(dim=(1, 2)), ((k * k).sum(dim=(1, 2)) * (m * m).sum(dim=(1, 2))).sqrt()
            found.append(cross / norms.clamp(min=1e-30))
    return _mean(found, len(states))


def _rows(states: Tensor, inputs: Inputs, functions: list[int]) -> Tensor:
    """Centred states of some functions, ordered by function and value. (S, f · values, W)"""
    starts = torch.from_numpy(inputs.start[functions])
    rows = states[:, torch.tensor(functions)[:, None], starts].flatten(1, 2)
    return rows - rows.mean(1, keepdim=True)


def _mean(parts: list[Tensor], seeds: int) -> Tensor:
    return torch.stack(parts).mean(0) if parts else torch.full((seeds,), NO_NUMBER, dtype=torch.float64)
