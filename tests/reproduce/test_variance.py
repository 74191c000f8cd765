"""Variance between and within function tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f_oneway, permutation_test

from ctlpp.reproduce.results.variance import components

shapes = st.tuples(st.integers(2, 6), st.integers(2, 6))


def tables(between: float, within: float, shape: tuple[int, int], seed: int) -> np.ndarray:
    draw = np.random.Generator(np.random.PCG64(seed))
    return 0.5 + between * draw.normal(size=(shape[0], 1)) + within * draw.normal(size=shape)


@given(shape=shapes, seed=st.integers(0, 1000))
def test_the_components_add_up_to_the_mean_squares_of_an_analysis_of_variance(
    shape: tuple[int, int], seed: int
) -> None:
    values = tables(0.1, 0.05, shape, seed)
    found = components(values.tolist())
    ratio = f_oneway(*values).statistic
    msw = values.var(axis=1, ddof=1).mean()
    assert found.within == pytest.approx(np.sqrt(msw))
    assert found.between**2 == pytest.approx(max(0, ratio - 1) * msw / shape[1])
    assert found.share == pytest.approx(found.between**2 / (found.between**2 + msw))
    assert (found.tables, found.seeds) == shape


@given(shape=shapes, seed=st.integers(0, 1000))
def test_every_interval_holds_its_estimate(shape: tuple[int, int], seed: int) -> None:
    found = components(tables(0.1, 0.1, shape, seed).tolist())
    for value, (low, high) in (
        (found.between, found.between_interval),
        (found.within, found.within_interval),
        (found.share, found.share_interval),
    ):
        assert 0 <= low <= value + 1e-12
        assert value <= high + 1e-12


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    truth = np.array([0.1, 0.05, 0.8])
    hits = np.zeros(3)
    for seed in range(400):
        one = components(tables(0.1, 0.05, (5, 5), seed).tolist())
        ends = np.array([one.between_interval, one.within_interval, one.share_interval])
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert (hits > 0.92 * 400).all()
    assert (hits < 0.99 * 400).all()


def test_equal_accuracies_have_no_variance_of_any_kind() -> None:
    found = components([[1.0, 1.0], [1.0, 1.0]])
    assert (found.between, found.within, found.share, found.chance) == (0, 0, 0, 1)


def test_tables_that_differ_though_seeds_do_not_have_all_the_variance() -> None:
    found = components([[1.0] * 3, [0.5] * 3, [0.2] * 3])
    assert (found.within, found.share) == pytest.approx((0, 1))
    assert found.between == pytest.approx(np.std([1, 0.5, 0.2], ddof=1))


def test_the_chance_is_that_of_a_permutation_test() -> None:
    values = tables(0.05, 0.05, (3, 4), 3)
    reference = permutation_test(
        tuple(values),
        lambda *groups: sum((np.mean(group) - values.mean()) ** 2 for group in groups),
        permutation_type="independent",
        alternative="greater",
        n_resamples=4000,
        rng=np.random.Generator(np.random.PCG64(1)),
    )
    assert components(values.tolist()).chance == pytest.approx(reference.pvalue, abs=0.03)
