"""Clusters of a few vectors, by a rule that can answer *one*.

Average linkage gives a tree. In each of its cuts a point alone goes to the cluster that is nearest: an outlier does not
make two of one, nor hides that there are two. The cut with the best silhouette is accepted only if

- the silhouette is at least 0.4: points are 1.7 times as far from the nearest other cluster as from their own. One
  Gaussian cloud of 8 to 32 points reaches it in at most 5 % of cases if it has five dimensions, in fewer than 1 % if
  it has eight or more; vectors of trained networks spread over more. It is the mean over clusters of the mean over
  their points;
- the clusters are apart by at least 0.3 of `unit`, the distance at which the network tells symbols apart: a structure
  far below that scale makes no difference to it.

Otherwise there is one cluster. Distances must be lengths: for directions the chord √(2 − 2 cos), not 1 − cos.

Example:
    >>> points = np.array([0.0, 0.1, 0.2, 5.0, 5.1])
    >>> cluster(abs(points[:, None] - points), unit=1.0).labels.tolist()
    [0, 0, 0, 1, 1]
    >>> cluster(abs(points[:, None] - points), unit=100.0).labels.tolist()
    [0, 0, 0, 0, 0]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ctlpp.analysis.inputs import Array

SILHOUETTE = 0.4
APART = 0.3
MOST = 8  # clusters


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
        rank = np.argsort(
            np.argsort([key[self.labels == c].mean() for c in range(self.count)], kind="stable")
        )
        labels = rank[self.labels]
        return replace(self, labels=labels, order=self.order[np.argsort(labels[self.order], kind="stable")])


def cluster(distance: Array, unit: float) -> Clustering:
    """The clusters of points with these distances. (N, N)"""
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
    from scipy.spatial.distance import squareform

    points = len(distance)
    if points < 3 or not np.isfinite(distance).all():
        return Clustering(np.zeros(points, dtype=np.int64), np.arange(points), np.nan)
    distance = np.clip((distance + distance.T) / 2, 0, None)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    every = (absorb(distance, fcluster(tree, k, "maxclust") - 1) for k in range(2, max(2, points // 2) + 1))
    cuts = [*{labels.tobytes(): labels for labels in every if 0 < labels.max() < MOST}.values()]
    order, one = leaves_list(tree), np.zeros(points, dtype=np.int64)
    if not cuts:
        return Clustering(one, order, np.nan)
    scores = [silhouette(distance, labels) for labels in cuts]
    best = int(np.argmax(scores))
    _, first, labels = np.unique(cuts[best], return_index=True, return_inverse=True)
    labels = np.argsort(np.argsort(first))[labels]  # numbered as they appear
    apart = distance[labels[:, None] != labels].mean()
    accepted = scores[best] >= SILHOUETTE and apart >= APART * unit
    return Clustering(labels if accepted else one, order, float(scores[best]))


def absorb(distance: Array, labels: Array) -> Array:
    """Labels of clusters of more than one point; a point alone has that of the cluster with the least mean distance.

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
    """Mean over clusters of (b − a) / max(a, b): a the mean distance to one's own cluster, b to the nearest other.

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
