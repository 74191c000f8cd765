"""Statistics against scipy's own, and what few seeds allow to say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ctlpp.statistics.published import PUBLISHED, ROUNDING, SEEDS
from ctlpp.statistics.summary import DRAWS, correlate, difference, mean_intervals, spread_interval, summarise
from ctlpp.statistics.verdict import judge

draw = np.random.Generator(np.random.PCG64(1))


def test_the_interval_of_a_mean_is_scipys_bootstrap() -> None:
    values = draw.random(25)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, random_state=np.random.default_rng(7))
    (found,) = mean_intervals([values.tolist()])
    assert found == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)


def test_the_interval_that_a_deviation_allows_is_that_of_a_t_test() -> None:
    values = draw.random(25)
    theirs = stats.ttest_1samp(values, 0.5).confidence_interval(0.95)
    found = spread_interval((float(values.mean()), float(values.std(ddof=1))), len(values))
    assert found == pytest.approx((theirs.low, theirs.high))


def test_intervals_of_many_rows_are_those_of_each_alone_every_time() -> None:
    rows = [draw.random(size).tolist() for size in (5, 8, 5, 1, 0)] + [[0.5] * 4]
    together = mean_intervals(rows)
    assert together == mean_intervals(rows)
    assert together[3:] == [None, None, (0.5, 0.5)]
    for row, interval in zip(rows[:3], together[:3], strict=True):
        assert interval == pytest.approx(mean_intervals([row])[0])
        assert interval is not None
        assert interval[0] <= np.mean(row) <= interval[1]


@settings(max_examples=30)
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=30), diverged=st.integers(0, 3))
def test_a_summary_counts_diverged_seeds_as_not_solved(values: list[float], diverged: int) -> None:
    found = summarise(values, diverged, interval=(0, 1))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.median == pytest.approx(np.median(values))
    assert found.std is None if len(values) == 1 else found.std == pytest.approx(np.std(values, ddof=1))
    assert found.solved == sum(value > 0.95 for value in values)
    share = stats.binomtest(found.solved, len(values) + diverged).proportion_ci(method="wilson")
    assert found.solved_share == (share.low, share.high)


def test_the_difference_from_a_published_mean_is_welchs_and_wider_by_its_rounding() -> None:
    values, published = [0.6, 0.7, 0.95, 1.0, 0.8, 0.9], PUBLISHED["ndr", "R"].ood
    other = published[0] + published[1] * stats.zscore(draw.random(SEEDS), ddof=1)
    theirs = stats.ttest_ind(values, other, equal_var=False).confidence_interval(0.95)
    ours = summarise(values)
    found = difference((ours.mean, ours.std, ours.seeds), (*published, SEEDS), ROUNDING)
    assert found is not None
    gap, (low, high) = found
    assert gap == pytest.approx(np.mean(values) - published[0])
    assert (low, high) == pytest.approx((theirs.low - ROUNDING, theirs.high + ROUNDING))

    assert difference((1.0, 0.0, 4), (1.0, 0.0, SEEDS), ROUNDING) == (0.0, (-ROUNDING, ROUNDING))


def test_fewer_than_four_seeds_have_no_interval_and_no_seeds_no_numbers() -> None:
    for seeds in range(4):
        ours = summarise([0.2, 0.9, 0.6][:seeds])
        assert ours.interval is None
        assert difference((ours.mean, ours.std, seeds), (0.75, 0.27, SEEDS), ROUNDING) is None
        assert judge(ours, (0.75, 0.27)).interval is None
    none = summarise([])
    assert (none.seeds, none.solved, none.mean, none.std, none.solved_share) == (0, 0, None, None, None)


def test_coefficients_are_those_of_scipy_and_their_intervals_percentiles_over_seeds_drawn_again() -> None:
    x, y = draw.normal(size=9), draw.integers(4, size=9).astype(float)  # y has ties
    rows = np.random.Generator(np.random.PCG64(0)).integers(9, size=(DRAWS, 9))
    drawn = [(x[row], y[row]) for row in rows if len({*x[row]}) > 1 and len({*y[row]}) > 1]
    found = correlate(x, y)
    assert found == correlate(x, y)
    pearson = [np.corrcoef(*pair)[0, 1] for pair in drawn]
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(pearson, [2.5, 97.5])))
    spearman = [np.corrcoef(*map(stats.rankdata, pair))[0, 1] for pair in drawn]
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    interval = tuple(np.percentile(spearman, [2.5, 97.5]))
    assert (found.spearman_low, found.spearman_high) == pytest.approx(interval)


def test_seeds_without_a_number_are_left_out_and_a_constant_or_too_few_have_no_correlation() -> None:
    found = correlate(np.array([1.0, 2, 3, 4, np.nan, 9]), np.array([1.0, 2, 3, 4, 5, np.nan]))
    assert found.seeds == 4
    assert found.pearson == pytest.approx(1)
    for x in (np.ones(10), np.arange(3.0), np.full(10, np.nan)):
        found = correlate(x, np.linspace(0, 1, len(x)))
        assert np.isnan([found.pearson, found.low, found.spearman]).all()
