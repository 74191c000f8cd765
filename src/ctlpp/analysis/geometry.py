"""How alike are the vectors that stand for one symbol? Similarity, clusters, codes, linear probes and CKA.

Everything here is NumPy; what needs the model itself is in `interchange`.

Example:
    >>> points = np.array([0.0, 0.1, 0.2, 5.0, 5.1])
    >>> cluster(abs(points[:, None] - points), unit=1.0).labels.tolist()
    [0, 0, 0, 1, 1]
    >>> cluster(abs(points[:, None] - points), unit=100.0).labels.tolist()
    [0, 0, 0, 0, 0]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctlpp.analysis.inputs import Array, Inputs

SILHOUETTE, APART = 0.4, 0.3  # that a clustering must reach, see `cluster`
MOST_CLUSTERS = 8
DIFFERENT = 0.25  # share of second functions with another answer: more make another code
RIDGE = 1e-2  # times the mean squared length of the states


# Similarity: the paper's view of the vectors under the classifier.


def normalise(vectors: Array) -> Array:
    """Vectors of length 1; those that are 0 or not finite become 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    good = np.isfinite(lengths) & (lengths > 0)
    return np.where(good, vectors / np.where(good, lengths, 1), 0).astype(np.float32)


def similarity(vectors: Array) -> Array:
    """Cosines between the functions' vectors for each value. (S, F, values, D) -> (S, values, F, F)"""
    unit = normalise(vectors.swapaxes(1, 2))
    return np.asarray(np.clip(unit @ unit.swapaxes(-1, -2), -1, 1))


def symbol_distance(vectors: Array) -> Array:
    """Root mean square chord between vectors that mean different symbols. (S, F, values, D) -> (S,)"""
    functions, values = vectors.shape[1:3]
    unit = normalise(vectors)
    total, own = unit.sum(axis=(1, 2)), unit.sum(axis=1)  # (S, D), (S, values, D)
    cosines = (total**2).sum(-1) - (own**2).sum(axis=(1, 2))  # over all ordered pairs of different values
    return chord(cosines / (functions**2 * values * (values - 1)))


def chord(cosines: Array) -> Array:
    """The distance between unit vectors with these cosines."""
    return np.asarray(np.sqrt(np.clip(2 - 2 * cosines, 0, None)))


def across_and_within(cosines: Array, inputs: Inputs) -> tuple[Array, Array]:
    """Mean similarity of the same symbol between a group and its partners, and within groups. (S,) each"""
    across, within = [], []
    for group, partners in inputs.partners.items():
        for partner in partners:
            block = cosines[:, :, inputs.members(group)][..., inputs.members(partner)]
            across.append(block.mean(axis=(1, 2, 3)))
    for group in inputs.partners or inputs.groups:
        members = inputs.members(group)
        block = cosines[:, :, members][..., members]
        others = ~np.eye(len(members), dtype=bool)
        within.append(block[..., others].mean(axis=(1, 2)) if len(members) > 1 else np.ones(len(cosines)))
    nothing = np.full(len(cosines), np.nan)
    return _mean(across, nothing), _mean(within, nothing)


# Clusters of a few vectors, by a rule that can answer *one*.


@dataclass(frozen=True, eq=False)
class Clustering:
    """Labels 0, 1, … of the points, and the order in which the tree lists them."""

    labels: Array  # (N,)
    order: Array  # (N,) the points as the tree has its leaves
    silhouette: float  # of the best cut, accepted or not; nan where there is none

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(self.labels.max()) + 1

    def sorted_by(self, key: Array) -> Clustering:
        """The same clusters, numbered by the mean of `key` over their points; the tree is turned to agree."""
        means = [key[self.labels == number].mean() for number in range(self.count)]
        labels = np.argsort(np.argsort(means, kind="stable"))[self.labels]
        return replace(self, labels=labels, order=self.order[np.argsort(labels[self.order], kind="stable")])


def cluster(distance: Array, unit: float) -> Clustering:
    """The clusters of points with these distances, (N, N), which must be lengths: the chord for directions.

    Average linkage gives a tree. In each of its cuts a point alone goes to the cluster that is nearest: an
    outlier does not make two of one, nor hides that there are two. The cut with the best silhouette is
    accepted only if

    - the silhouette is at least 0.4: points are 1.7 times as far from the nearest other cluster as from their
      own. One Gaussian cloud of 8 to 32 points reaches it in at most 5 % of cases if it has five dimensions,
      in fewer than 1 % if it has eight or more; vectors of trained networks spread over more;
    - the clusters are apart by at least 0.3 of `unit`, the distance at which the network tells symbols apart:
      a structure far below that scale makes no difference to it.

    Otherwise there is one cluster.
    """
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
    from scipy.spatial.distance import squareform

    points = len(distance)
    one = np.zeros(points, dtype=np.int64)
    if points < 3 or not np.isfinite(distance).all():
        return Clustering(one, np.arange(points), np.nan)
    distance = np.clip((distance + distance.T) / 2, 0, None)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    cuts = [absorb(distance, fcluster(tree, k, "maxclust") - 1) for k in range(2, max(2, points // 2) + 1)]
    cuts = [labels for labels in cuts if 0 < labels.max() < MOST_CLUSTERS]
    order = leaves_list(tree)
    if not cuts:
        return Clustering(one, order, np.nan)
    scores = [silhouette(distance, labels) for labels in cuts]
    best = int(np.argmax(scores))
    _, first, labels = np.unique(cuts[best], return_index=True, return_inverse=True)
    labels = np.argsort(np.argsort(first))[labels]  # numbered as they appear
    apart = distance[labels[:, None] != labels].mean()
    accepted = scores[best] >= SILHOUETTE and apart >= APART * unit
    return Clustering(labels if accepted else one, order, float(scores[best]))


def cluster_all(vectors: Array, cosines: Array, group_of: Array) -> list[list[Clustering]]:
    """The clusters of every seed and value; those of the first group come first.

    vectors: (S, F, values, D); cosines: (S, values, F, F)
    """
    return [
        [cluster(chord(own), unit).sorted_by(group_of) for own in of_seed]
        for of_seed, unit in zip(cosines, symbol_distance(vectors), strict=True)
    ]


def absorb(distance: Array, labels: Array) -> Array:
    """Labels of clusters of more than one point; a point alone joins the one with the least mean distance.

    >>> points = np.array([0.0, 0.1, 5.0, 5.1, 9.0])
    >>> absorb(abs(points[:, None] - points), np.array([0, 0, 1, 1, 2])).tolist()
    [0, 0, 1, 1, 1]
    """
    member = labels[:, None] == np.arange(labels.max() + 1)  # (N, clusters)
    sizes = member.sum(axis=0)
    several = np.flatnonzero(sizes > 1)
    if not len(several):
        return np.zeros_like(labels)
    means = distance @ member[:, several] / sizes[several]
    return np.where(sizes[labels] > 1, np.searchsorted(several, labels), means.argmin(axis=1))


def silhouette(distance: Array, labels: Array) -> float:
    """Mean over clusters of (b − a) / max(a, b): a the mean distance to the own cluster, b to the nearest.

    At least two clusters, each of more than one point.
    """
    member = (labels[:, None] == np.arange(labels.max() + 1)).astype(float)  # (N, clusters)
    sizes, sums = member.sum(axis=0), distance @ member
    own = np.arange(len(labels)), labels
    a = sums[own] / (sizes[labels] - 1)
    others = sums / sizes
    others[own] = np.inf
    b = others.min(axis=1)
    each = (b - a) / np.maximum(np.maximum(a, b), 1e-12)
    return float((each @ member / sizes).mean())


# Codes: what the model does with a state is a row of answers, one for each second function.


def extract_codes(answers: Array, inputs: Inputs) -> Array:
    """The code of every state by value and first function. (S, F, F, symbols) -> (S, values, F)

    States of one meaning whose rows differ in more than a quarter of the answers are different codes. 0 is
    the code that most functions use for the value; -1 for functions that are never first in training or test.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    rows = inputs.by_value(answers)[:, :, inputs.firsts][..., inputs.seconds]  # (S, values, firsts, seconds)
    codes = np.full((*rows.shape[:2], inputs.n_functions), -1, dtype=np.int64)
    for seed, value in np.ndindex(rows.shape[:2]):
        labels = np.zeros(rows.shape[2], dtype=np.int64)
        if len(labels) > 1:
            tree = linkage(pdist(rows[seed, value], "hamming"), "average")
            labels = fcluster(tree, DIFFERENT, "distance") - 1
        sizes = np.bincount(labels)
        codes[seed, value, inputs.firsts] = np.argsort(np.argsort(-sizes, kind="stable"))[labels]
    return codes


def learned_tables(answers: Array, codes: Array, inputs: Inputs) -> tuple[Array, Array, Array]:
    """The tables really learned: what each second function of training or test makes of each code.

    How many states use the code, (S, values, codes); the commonest answer to it, and the share of its states
    that get it, (S, values, codes, seconds).
    """
    users = codes[:, :, None] == np.arange(codes.max() + 1)[:, None]  # (S, values, codes, F)
    given = inputs.by_value(answers)[..., inputs.seconds, None] == np.arange(inputs.n_symbols)
    parts = users.astype(np.float32), given.astype(np.float32)
    shares = np.einsum("svcf,svfga->svcga", *parts, optimize=True)
    states = users.sum(axis=-1)
    shares /= np.maximum(states, 1)[..., None, None]
    return states, shares.argmax(axis=-1), shares.max(axis=-1)


# What can be *decoded* from the states of one seed, (F, values, W), how alike their geometry is, and maps
# between groups. Interchange asks what is *used*.


def ridge(x: Array, y: Array, z: Array) -> Array:
    """Least squares from x to y with an offset, applied to z. (N, W), (N, C), (M, W) -> (M, C)"""
    x0, y0 = x.mean(axis=0), y.mean(axis=0)
    x, y, z = x - x0, y - y0, z - x0
    gram = x @ x.T  # (N, N)
    strength = RIDGE * np.trace(gram) / len(x) + 1e-12
    weights = np.linalg.solve(gram + strength * np.eye(len(x)), y)
    return np.asarray(z @ x.T @ weights + y0)


def probe(states: Array, inputs: Inputs) -> tuple[Array, Array]:
    """Accuracy of linear probes for the symbol: on unseen functions of the same group, and on another group.

    A probe is least squares onto one-hot symbols. Within: fitted on one half of a group's functions, tried on
    the other, both ways. Across: fitted on the partners of a group, tried on it.
    """
    within, across = [], []
    for group in inputs.partners or inputs.groups:
        members = inputs.members(group)
        halves = members[::2], members[1::2]
        if len(members) > 1:
            within += [_accuracy(states[fit], states[test]) for fit, test in (halves, halves[::-1])]
        if group in inputs.partners:
            across.append(_accuracy(states[inputs.partners_of(group)], states[members]))
    return _mean(within), _mean(across)


def _accuracy(fit: Array, test: Array) -> Array:
    """The accuracy of a probe. (f, values, W) each"""
    values = fit.shape[1]
    found = ridge(_rows(fit), np.tile(np.eye(values), (len(fit), 1)), _rows(test)).argmax(axis=-1)
    return np.asarray((found == np.tile(np.arange(values), len(test))).mean())


def _rows(states: Array) -> Array:
    return states.reshape(-1, states.shape[-1])


def cka(states: Array, inputs: Inputs) -> Array:
    """Linear CKA between groups and their partners: ‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖).

    Rows that belong together: the i-th function of one group and of the other, at the same value.
    """
    found = []
    for group, partners in inputs.partners.items():
        for partner in partners:
            ours, theirs = inputs.members(group), inputs.members(partner)
            both = (_rows(states[own[: min(len(ours), len(theirs))]]) for own in (ours, theirs))
            x, y = (rows - rows.mean(axis=0) for rows in both)
            k, m = x @ x.T, y @ y.T  # (N, N): N is small
            found.append((k * m).sum() / max(np.linalg.norm(k) * np.linalg.norm(m), 1e-30))
    return _mean(found)


def stitch(states: Array, inputs: Inputs, kind: str) -> Array:
    """The donors' states mapped into the space of their partners'. (F, values, W) -> the same

    kind: "orthogonal" or "affine". A map is fitted from the states of a group's donors to the mean state of
    the same symbol in its partner groups, whose states the consumers know; on one half of the group's
    functions for use on the other half, both ways, so that it cannot learn functions by heart. States of
    groups without partners stay.
    """
    mapped = states.copy()
    for group in inputs.partners:
        target = states[inputs.partners_of(group)].mean(axis=0)  # (values, W)
        members = inputs.members(group)
        halves = members[::2], members[1::2]
        for use, fit in (halves, halves[::-1]) if len(members) > 1 else ((members, members),):
            new, known = states[use], states[fit]
            if kind == "orthogonal":
                result = rotate(known.mean(axis=0), target, _rows(new))
            else:
                result = ridge(_rows(known), np.tile(target, (len(fit), 1)), _rows(new))
            mapped[use] = result.reshape(new.shape)
    return mapped


def rotate(x: Array, y: Array, z: Array) -> Array:
    """The orthogonal map between the spaces that the means x and y span, applied to z.

    x, y: one mean per symbol, (n, W); z: (M, W). With orthonormal bases V of the centred x and U of the
    centred y, z ↦ y₀ + (z − x₀) V R Uᵀ, where the orthogonal R brings x V closest to y U. What lies outside
    of V is dropped.
    """
    x0, y0 = x.mean(axis=0), y.mean(axis=0)
    rank = min(len(x) - 1, x.shape[1])
    v, u = (np.linalg.svd(rows, full_matrices=False).Vh[:rank].T for rows in (x - x0, y - y0))  # (W, r)
    left, _, right = np.linalg.svd(((x - x0) @ v).T @ ((y - y0) @ u))
    return np.asarray(y0 + (z - x0) @ v @ (left @ right) @ u.T)


def _mean(parts: list[Array], nothing: Any = np.nan) -> Array:
    """The mean of some numbers or arrays; of none it is `nothing`."""
    return np.asarray(np.mean(parts, axis=0) if parts else nothing)
