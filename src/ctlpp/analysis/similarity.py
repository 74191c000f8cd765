"""The paper's view: how alike are the vectors under the classifier for the same symbol, made by different functions?"""

import numpy as np

from ctlpp.analysis.clusters import Clustering, cluster
from ctlpp.analysis.inputs import Array, Inputs


def by_value(vectors: Array, inputs: Inputs) -> Array:
    """Vectors of all single applications, ordered by what they mean. (S, F, symbols, D) -> (S, values, F, D)"""
    functions = np.arange(inputs.n_functions)
    return np.asarray(vectors[:, functions, inputs.start.T])


def normalise(vectors: Array) -> Array:
    """Vectors of length 1; those that are 0 or not finite become 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    good = np.isfinite(lengths) & (lengths > 0)
    return np.where(good, vectors / np.where(good, lengths, 1), 0).astype(np.float32)


def similarity(vectors: Array) -> Array:
    """Cosines between the functions' vectors for each value. (S, values, F, D) -> (S, values, F, F)"""
    unit = normalise(vectors)
    return np.asarray(np.clip(unit @ unit.swapaxes(-1, -2), -1, 1))


def symbol_distance(vectors: Array) -> Array:
    """Root mean square chord between vectors that mean different symbols. (S, values, F, D) -> (S,)"""
    values, functions = vectors.shape[1:3]
    unit = normalise(vectors)
    total, own = unit.sum(axis=(1, 2)), unit.sum(axis=2)  # (S, D), (S, values, D)
    cosines = (total**2).sum(-1) - (own**2).sum(
        axis=(1, 2)
    )  # summed over all ordered pairs of different values
    return chord(cosines / (functions**2 * values * (values - 1)))


def chord(cosines: Array) -> Array:
    """The distance between unit vectors with these cosines."""
    return np.asarray(np.sqrt(np.clip(2 - 2 * cosines, 0, None)))


def cluster_all(cosines: Array, unit: Array, inputs: Inputs) -> list[list[Clustering]]:
    """The clusters of every seed and value; those of the first group come first."""
    every = [
        [cluster(chord(matrix), unit=u) for matrix in of_seed]
        for of_seed, u in zip(cosines, unit, strict=True)
    ]
    return [[one.sorted_by(inputs.group_of) for one in of_seed] for of_seed in every]


def across_and_within(cosines: Array, inputs: Inputs) -> tuple[Array, Array]:
    """Mean similarity of the same symbol between a group and its partners, and within groups. (S,) each"""
    across = [
        cosines[:, :, inputs.members(group)][..., inputs.members(partner)].mean(axis=(1, 2, 3))
        for group, partners in inputs.partners.items()
        for partner in partners
    ]
    within = []
    for group in inputs.partners or inputs.groups:
        members = inputs.members(group)
        block = cosines[:, :, members][..., members]
        others = ~np.eye(len(members), dtype=bool)
        within.append(block[..., others].mean(axis=(1, 2)) if len(members) > 1 else np.ones(len(cosines)))
    nothing = np.full(len(cosines), np.nan)
    return np.mean(across, axis=0) if across else nothing, np.mean(within, axis=0)
