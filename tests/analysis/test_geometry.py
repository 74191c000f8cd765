"""Clusters, probes, CKA and maps between groups, on vectors whose geometry is known."""

from itertools import product

import numpy as np
import pytest

from ctlpp.analysis.geometry import Clustering, chord, cka, cluster, normalise, silhouette, stitch
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.benchmark.task import Task

POINTS, WIDTH = 32, 64


def vectors(centres: int, spread: float, seed: int) -> tuple[Array, Array]:
    """Points around so many random directions, and the number of each one's centre."""
    random = np.random.default_rng(seed)
    label = np.arange(POINTS) % centres
    return random.normal(size=(centres, WIDTH))[label] + spread * random.normal(size=(POINTS, WIDTH)), label


def distances(points: Array) -> Array:
    unit = normalise(points)
    return chord(unit @ unit.T)


def found_in(points: Array, unit: float = 1.0) -> Clustering:
    return cluster(distances(points), unit)


def agree(labels: Array, expected: Array) -> bool:
    """Whether two numberings make the same clusters."""
    return len({*zip(labels.tolist(), expected.tolist(), strict=True)}) == len({*labels}) == len({*expected})


def test_finds_one_two_and_three_clusters_of_equal_and_unequal_size() -> None:
    for centres, spread, seed in product([1, 2, 3], [0.01, 0.1, 0.3], range(4)):
        points, label = vectors(centres, spread, seed)
        assert agree(found_in(points).labels, label)
    points, label = vectors(2, 0.2, seed=1)
    few = np.r_[0:POINTS:2, 1:8:2]
    assert agree(found_in(points[few]).labels, label[few])


def test_a_tight_and_a_loose_cluster_are_two() -> None:
    """Cosines of about 0.85 within the one, 0.6 within the other, 0 between them, as in trained NDRs."""
    spread, label = np.array([0.4, 0.8])[:, None, None], np.arange(POINTS) // (POINTS // 2)
    for seed in range(4):
        random = np.random.default_rng(seed)
        both = random.normal(size=(2, 1, WIDTH)) + spread * random.normal(size=(2, POINTS // 2, WIDTH))
        assert found_in(both.reshape(POINTS, WIDTH)).labels.tolist() == label.tolist()


def test_outliers_neither_hide_two_clusters_nor_make_one_of_their_own() -> None:
    for outliers, seed in product([1, 2, 4], range(4)):
        points, label = vectors(2, 0.4, seed)
        points[:outliers] = np.random.default_rng(100 + seed).normal(size=(outliers, WIDTH))
        assert agree(found_in(points).labels[outliers:], label[outliers:])
    points, _ = vectors(1, 0.2, seed=4)
    points[5] *= -1
    assert found_in(points).count == 1


def test_one_cloud_without_structure_is_one_cluster_and_in_five_dimensions_seldom_more() -> None:
    for width, seed in product([8, 64], range(8)):
        cloud = np.random.default_rng(seed).normal(size=(POINTS, width))
        assert found_in(cloud + 3).count == 1  # one-sided, as vectors that mean the same are
    clouds = np.random.default_rng(0).normal(size=(100, POINTS, 5))
    every = np.linalg.norm(clouds[:, :, None] - clouds[:, None], axis=-1)
    assert sum(cluster(distance, unit=1.0).count > 1 for distance in every) <= 0.05 * len(clouds)


def test_structure_far_below_the_scale_that_tells_symbols_apart_does_not_count() -> None:
    points, _ = vectors(2, 0.1, seed=0)
    close = points + 100 * np.ones(WIDTH)  # the same two clusters, now in nearly the same direction
    assert (found_in(close, unit=1.0).count, found_in(close, unit=0.0).count) == (1, 2)


def test_identical_points_and_points_that_are_no_numbers_are_one_cluster() -> None:
    for distance in (np.zeros((5, 5)), np.full((5, 5), np.nan), np.zeros((1, 1))):
        assert cluster(distance, unit=1.0).count == 1


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


@pytest.fixture
def inputs(task: Task) -> Inputs:
    return Inputs(task)


def states_of(inputs: Inputs, turn_b: bool, noise: float = 0.0) -> Array:
    """States that are a direction for each symbol; group b's directions may be rotated."""
    random = np.random.default_rng(0)
    symbols = random.normal(size=(1, inputs.n_symbols, 12))
    table = np.tile(symbols, (inputs.n_functions, 1, 1))  # (F, values, W)
    if turn_b:
        turn, _ = np.linalg.qr(random.normal(size=(12, 12)))
        table[inputs.members("b")] = symbols @ turn
    return np.asarray(table + noise * random.normal(size=table.shape))


def test_cka_is_one_for_states_that_differ_by_a_rotation_and_follows_the_definition(inputs: Inputs) -> None:
    assert cka(states_of(inputs, turn_b=True), inputs) == pytest.approx(1)
    noisy = states_of(inputs, turn_b=True, noise=1.0)
    a, b = (noisy[inputs.members(group)].reshape(-1, 12) for group in ("a", "b"))
    a, b = a - a.mean(0), b - b.mean(0)
    expected = np.linalg.norm(a.T @ b) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert cka(noisy, inputs) == pytest.approx(expected)


def test_stitching_brings_a_rotated_code_to_that_of_the_partner(inputs: Inputs) -> None:
    states = states_of(inputs, turn_b=True)
    a, b = inputs.members("a"), inputs.members("b")
    for kind, (own, partner) in product(["orthogonal", "affine"], [(a, b), (b, a)]):
        error = np.linalg.norm(stitch(states, inputs, kind)[own] - states[partner])
        assert error < 0.05 * np.linalg.norm(states[partner])
