"""Variance between and within function tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f_oneway, permutation_test

from ctlpp.reproduce.results.variance import components

equal = st.tuples(st.integers(2, 6), st.integers(2, 6)).map(lambda shape: [shape[1]] * shape[0])
any_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=6).filter(lambda sizes: sum(sizes) > len(sizes))


def tables(between: float, within: float, sizes: Sequence[int], seed: int) -> list[np.ndarray]:
    draw = np.random.Generator(np.random.PCG64(seed))
    return [0.5 + between * draw.normal() + within * draw.normal(size=size) for size in sizes]


@given(sizes=equal, seed=st.integers(0, 1000))
def test_the_components_add_up_to_the_mean_squares_of_an_analysis_of_variance(
    sizes: list[int], seed: int
) -> None:
    values = tables(0.1, 0.05, sizes, seed)
    found = components(values)
    ratio = f_oneway(*values).statistic
    msw = np.var(values, axis=1, ddof=1).mean()
    assert found.within == pytest.approx(np.sqrt(msw))
    assert found.between**2 == pytest.approx(max(0, ratio - 1) * msw / sizes[0])
    assert found.share == pytest.approx(found.between**2 / (found.between**2 + msw))
    assert (found.tables, found.seeds) == (len(sizes), tuple(sizes))


@given(sizes=any_sizes, seed=st.integers(0, 1000))
def test_tables_count_alike_however_many_seeds_they_have(sizes: list[int], seed: int) -> None:
    values = tables(0.1, 0.05, sizes, seed)
    found = components(values)
    pooled = sum(((own - own.mean()) ** 2).sum() for own in values) / (sum(sizes) - len(sizes))
    assert found.within == pytest.approx(np.sqrt(pooled))
    of_means = np.var([own.mean() for own in values], ddof=1)
    by_seeds = np.mean([pooled / size for size in sizes])  # what the seeds alone make the means vary
    assert found.between**2 == pytest.approx(max(0.0, of_means - by_seeds), abs=1e-12)


@given(sizes=any_sizes, seed=st.integers(0, 1000))
def test_every_interval_holds_its_estimate(sizes: list[int], seed: int) -> None:
    found = components(tables(0.1, 0.1, sizes, seed))
    for value, (low, high) in (
        (found.between, found.between_interval),
        (found.within, found.within_interval),
        (found.share, found.share_interval),
    ):
        assert 0 <= low <= value + 1e-12
        assert value <= high + 1e-12


@pytest.mark.parametrize("sizes", [[5] * 5, [25, 5, 5, 5, 5]])
def test_intervals_cover_the_truth_as_often_as_they_say(sizes: list[int]) -> None:
    truth = np.array([0.1, 0.05, 0.8])
    hits = np.zeros(3)
    for seed in range(400):
        one = components(tables(0.1, 0.05, sizes, seed))
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


@pytest.mark.parametrize("sizes", [[4, 4, 4], [8, 3, 3]])
def test_the_chance_is_that_of_a_permutation_test(sizes: list[int]) -> None:
    values = tables(0.05, 0.05, sizes, 3)
    reference = permutation_test(
        tuple(values),
        lambda *groups: f_oneway(*groups).statistic,
        permutation_type="independent",
        alternative="greater",
        n_resamples=4000,
        rng=np.random.Generator(np.random.PCG64(1)),
    )
    assert components(values).chance == pytest.approx(reference.pvalue, abs=0.03)
