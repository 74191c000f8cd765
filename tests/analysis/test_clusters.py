import numpy as np
import pytest

from ctlpp.analysis.clusters import cluster, silhouette
from ctlpp.analysis.inputs import Array
from ctlpp.analysis.similarity import chord, normalise

POINTS, WIDTH = 32, 64


def vectors(centres: int, spread: float, seed: int) -> tuple[Array, Array]:
    """Points around so many random directions, and the number of each one's centre."""
    random = np.random.default_rng(seed)
    label = np.arange(POINTS) % centres
    return random.normal(size=(centres, WIDTH))[label] + spread * random.normal(size=(POINTS, WIDTH)), label


def distances(points: Array) -> Array:
    unit = normalise(points)
    return chord(unit @ unit.T)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spread", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("centres", [1, 2, 3])
def test_finds_one_two_and_three_clusters(centres: int, spread: float, seed: int) -> None:
    points, label = vectors(centres, spread, seed)
    found = cluster(distances(points), unit=1.0)
    assert found.count == centres
    assert len({(a, b) for a, b in zip(found.labels.tolist(), label.tolist(), strict=True)}) == centres


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("width", [8, 64])
def test_one_cloud_without_structure_is_one_cluster(width: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(POINTS, width))
    cloud = points + 3  # all on one side, as vectors that mean the same are
    assert cluster(distances(cloud), unit=1.0).count == 1


def test_one_cloud_in_five_dimensions_is_seldom_taken_for_more() -> None:
    clouds = np.random.default_rng(0).normal(size=(200, POINTS, 5))
    every = np.linalg.norm(clouds[:, :, None] - clouds[:, None], axis=-1)
    assert sum(cluster(distance, unit=1.0).count > 1 for distance in every) <= 0.05 * len(clouds)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("outliers", [1, 2, 4])
def test_outliers_do_not_hide_two_clusters(outliers: int, seed: int) -> None:
    points, label = vectors(2, 0.4, seed)
    points[:outliers] = np.random.default_rng(100 + seed).normal(size=(outliers, WIDTH))
    found = cluster(distances(points), unit=1.0)
    assert found.count == 2
    assert len({*zip(found.labels[outliers:].tolist(), label[outliers:].tolist(), strict=True)}) == 2


def test_structure_far_below_the_scale_that_tells_symbols_apart_does_not_count() -> None:
    points, _ = vectors(2, 0.1, seed=0)
    close = points + 100 * np.ones(WIDTH)  # the same two clusters, now in nearly the same direction
    assert cluster(distances(close), unit=1.0).count == 1
    assert cluster(distances(close), unit=0.0).count == 2


def test_clusters_of_unequal_size_are_found() -> None:
    points, _ = vectors(2, 0.2, seed=1)
    few = np.concatenate([points[::2], points[1:8:2]])
    found = cluster(distances(few), unit=1.0)
    assert sorted(np.bincount(found.labels)) == [4, 16]


@pytest.mark.parametrize("seed", range(8))
def test_a_tight_and_a_loose_cluster_are_two(seed: int) -> None:
    random = np.random.default_rng(seed)
    tight, loose = (
        random.normal(size=(2, 1, WIDTH))
        + np.array([0.4, 0.8])[:, None, None] * random.normal(size=(2, POINTS // 2, WIDTH))
    )  # cosines of about 0.85 within the one, 0.6 within the other, 0 between them: a trained NDR has such symbols
    found = cluster(distances(np.concatenate([tight, loose])), unit=1.0)
    assert found.labels.tolist() == [0] * len(tight) + [1] * len(loose)


def test_an_outlier_does_not_make_a_cluster() -> None:
    points, _ = vectors(1, 0.2, seed=4)
    points[5] *= -1
    assert cluster(distances(points), unit=1.0).count == 1


def test_identical_points_and_points_that_are_no_numbers_are_one_cluster() -> None:
    assert cluster(np.zeros((5, 5)), unit=1.0).count == 1
    assert cluster(np.full((5, 5), np.nan), unit=1.0).count == 1
    assert cluster(np.zeros((1, 1)), unit=1.0).count == 1


def test_clusters_are_numbered_by_a_key_and_stay_together_in_the_order() -> None:
    points, label = vectors(3, 0.1, seed=2)
    found = cluster(distances(points), unit=1.0).sorted_by(-label)
    assert found.labels.tolist() == (2 - label).tolist()
    assert sorted(found.order) == list(range(POINTS))
    assert found.labels[found.order].tolist() == sorted(found.labels)


def test_the_silhouette_is_that_of_the_definition() -> None:
    points, label = vectors(3, 0.5, seed=3)
    distance, expected = distances(points), []
    np.fill_diagonal(distance, 0)
    for i in range(POINTS):
        means = [distance[i, (label == c) & (np.arange(POINTS) != i)].mean() for c in range(3)]
        own, other = means[label[i]], min(m for c, m in enumerate(means) if c != label[i])
        expected.append((other - own) / max(own, other))
    by_cluster = [np.mean(np.array(expected)[label == c]) for c in range(3)]
    assert silhouette(distance, label) == pytest.approx(np.mean(by_cluster))
