"""Stitching: does a linear map make one group's states readable for the other group's consumers?

A map is fitted from the states of a group's donors to the mean state of the same symbol in its partner groups, whose
states the consumers know. It is fitted on one half of the group's functions and used on the other half, both ways, so
it cannot learn functions by heart.
"""

import numpy as np
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Inputs

RIDGE = 1e-2  # times the mean squared length of the states


def ridge(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Least squares from x to y with an offset, applied to z. (S, N, W), (S, N, C), (S, M, W) -> (S, M, C)"""
    x0, y0 = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
    x, y, z = x - x0, y - y0, z - x0
    gram = x @ x.mT  # (S, N, N)
    strength = RIDGE * gram.diagonal(dim1=1, dim2=2).mean(-1)[:, None, None] + 1e-12
    weights: Tensor = torch.linalg.solve(gram + strength * torch.eye(x.shape[1], dtype=x.dtype), y)
    return z @ x.mT @ weights + y0


def rotate(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """The orthogonal map between the spaces that the means x and y span, applied to z.

    x, y: one mean a symbol, (S, n, W); z: (S, M, W). With orthonormal bases V of the centred x and U of the centred y,
    z ↦ y₀ + (z − x₀) V R Uᵀ, where the orthogonal R brings x V closest to y U. What lies outside of V is dropped.
    """
    x0, y0 = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
    rank = min(x.shape[1] - 1, x.shape[2])
    v = torch.linalg.svd(x - x0, full_matrices=False).Vh[:, :rank].mT  # (S, W, r)
    u = torch.linalg.svd(y - y0, full_matrices=False).Vh[:, :rank].mT
    left, _, right = torch.linalg.svd(((x - x0) @ v).mT @ ((y - y0) @ u))
    rotated: Tensor = y0 + (z - x0) @ v @ (left @ right) @ u.mT
    return rotated


def means(states: Tensor, inputs: Inputs, functions: list[int]) -> Tensor:
    """The mean state of each symbol over some functions. (S, F, symbols, W) -> (S, symbols, W), by value"""
    rows = torch.tensor(functions)
    starts = torch.from_numpy(inputs.start[functions])  # (f, values)
    return states[:, rows[:, None], starts].mean(1)


def stitch(states: Tensor, inputs: Inputs, kind: str) -> Tensor:
    """The donors' states mapped into the space of their partners. (S, F · symbols, W) -> the same

    kind: "orthogonal" or "affine". States of groups without partners stay as they are.
    """
    n = inputs.n_symbols
    table = torch.nan_to_num(states.double()).view(len(states), -1, n, states.shape[-1])
    mapped = table.clone()
    for group, partners in inputs.partners.items():
        theirs = [f for partner in partners for f in inputs.members(partner).tolist()]
        target = means(table, inputs, theirs)  # (S, values, W)
        members = inputs.members(group)
        halves = members[::2].tolist(), members[1::2].tolist()
        for use, fit in (halves, halves[::-1]):
            if not use:
                continue
            fit = fit or use
            new = table[:, use].flatten(1, 2)  # (S, f · symbols, W)
            if kind == "orthogonal":
                result = rotate(means(table, inputs, fit), target, new)
            else:
                values = torch.from_numpy(np.ravel(inputs.value[fit]))
                result = ridge(table[:, fit].flatten(1, 2), target[:, values], new)
            mapped[:, use] = result.view(len(states), -1, n, states.shape[-1])
    return mapped.flatten(1, 2).to(states.dtype)
