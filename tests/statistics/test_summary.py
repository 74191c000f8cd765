"""Intervals against scipy's own, and what few seeds allow to say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, ttest_1samp, ttest_ind_from_stats

from ctlpp.statistics.published import PUBLISHED, ROUNDING, SEEDS
from ctlpp.statistics.summary import RESAMPLES, difference, mean_intervals, spread_interval, summarise, wilson

shares = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(tries=st.integers(1, 60), data=st.data())
def test_the_wilson_interval_is_that_of_scipy(tries: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, tries))
    theirs = binomtest(successes, tries).proportion_ci(method="wilson")
    assert wilson(successes, tries) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_the_interval_of_a_mean_is_scipys_bootstrap() -> None:
    values = np.random.Generator(np.random.PCG64(1)).random(25)
    theirs = bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", random_state=np.random.default_rng(7)
    )
    (found,) = mean_intervals([values.tolist()])
    assert found == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)
    assert RESAMPLES >= 1000


def test_the_interval_that_a_deviation_allows_is_that_of_a_t_test() -> None:
    values = np.random.Generator(np.random.PCG64(3)).random(25)
    theirs = ttest_1samp(values, 0.5).confidence_interval(0.95)
    found = spread_interval((float(values.mean()), float(values.std(ddof=1))), len(values))
    assert found == pytest.approx((theirs.low, theirs.high))


def test_intervals_of_many_rows_are_those_of_each_alone() -> None:
    draw = np.random.Generator(np.random.PCG64(2))
    rows = [draw.random(size).tolist() for size in (5, 8, 5, 1, 0)] + [[0.5, 0.5, 0.5]]
    together = mean_intervals(rows)
    assert together[3:] == [None, None, (0.5, 0.5)]
    for row, interval in zip(rows[:3], together[:3], strict=True):
        assert interval == pytest.approx(mean_intervals([row])[0], abs=0.03)
        assert interval is not None
        assert interval[0] <= np.mean(row) <= interval[1]


def test_the_same_values_give_the_same_interval_again() -> None:
    values = [0.1, 0.5, 0.9, 0.95]
    assert mean_intervals([values]) == mean_intervals([values])


@given(values=shares, diverged=st.integers(0, 3))
def test_a_summary_counts_diverged_seeds_as_not_solved(values: list[float], diverged: int) -> None:
    found = summarise(values, diverged, interval=(0, 1))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.median == pytest.approx(np.median(values))
    assert found.std is None if len(values) == 1 else found.std == pytest.approx(np.std(values, ddof=1))
    assert found.solved == sum(value > 0.95 for value in values)
    assert found.solved_share == wilson(found.solved, len(values) + diverged)


def test_no_seeds_make_no_numbers() -> None:
    found = summarise([])
    assert (found.seeds, found.mean, found.std, found.interval, found.solved_share) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_the_difference_from_a_published_mean_is_welchs_and_wider_by_its_rounding() -> None:
    values = [0.6, 0.7, 0.95, 1.0, 0.8, 0.9]
    ours, published = summarise(values), PUBLISHED["ndr", "R"].ood
    test = ttest_ind_from_stats(
        np.mean(values), np.std(values, ddof=1), len(values), *published, SEEDS, equal_var=False
    )
    found = difference(ours, published, SEEDS)
    assert found is not None
    gap, (low, high) = found
    assert gap == pytest.approx(np.mean(values) - published[0])
    surely_apart = abs(gap) > ROUNDING and test.pvalue < 0.05
    assert (low > 0 or high < 0) <= surely_apart
    assert (low + high) / 2 == pytest.approx(gap)


def test_without_any_spread_only_the_rounding_is_uncertain() -> None:
    found = difference(summarise([1.0, 1.0]), PUBLISHED["lstm", "R"].ood, SEEDS)
    assert found == (0.0, (-ROUNDING, ROUNDING))
    assert difference(summarise([1.0]), PUBLISHED["lstm", "R"].ood, SEEDS) is None
