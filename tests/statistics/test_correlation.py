import numpy as np
import pytest
from scipy import stats

from ctlpp.statistics.summary import DRAWS, correlate


def test_the_coefficients_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=25)
    y = x + random.normal(size=25)
    found = correlate(x, y)
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.low < found.pearson < found.high


def test_the_intervals_are_percentiles_over_seeds_drawn_again() -> None:
    random = np.random.default_rng(2)
    x, y = random.normal(size=9), random.integers(4, size=9).astype(float)  # y has ties
    rows = np.random.Generator(np.random.PCG64(0)).integers(9, size=(DRAWS, 9))
    drawn = [(x[row], y[row]) for row in rows if len({*x[row]}) > 1 and len({*y[row]}) > 1]
    found = correlate(x, y)
    pearson = [stats.pearsonr(*pair).statistic for pair in drawn]
    spearman = [np.corrcoef(*map(stats.rankdata, pair))[0, 1] for pair in drawn]
    assert [found.low, found.high] == pytest.approx(np.percentile(pearson, [2.5, 97.5]).tolist())
    assert [found.spearman_low, found.spearman_high] == pytest.approx(
        np.percentile(spearman, [2.5, 97.5]).tolist()
    )


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random, covered = np.random.default_rng(1), 0
    for _ in range(100):
        x = random.normal(size=25)
        y = 0.8 * x + 0.6 * random.normal(size=25)  # correlation 0.8
        found = correlate(x, y)
        covered += found.low <= 0.8 <= found.high
    assert covered >= 85


def test_seeds_without_a_number_are_left_out() -> None:
    x, y = np.array([1.0, 2, 3, 4, np.nan, 9]), np.array([1.0, 2, 3, 4, 5, np.nan])
    assert correlate(x, y).seeds == 4
    assert correlate(x, y).pearson == pytest.approx(1)


def test_a_constant_measure_or_too_few_seeds_have_no_correlation() -> None:
    for x in (np.ones(10), np.arange(3.0), np.full(10, np.nan)):
        found = correlate(x, np.linspace(0, 1, len(x)))
        assert np.isnan([found.pearson, found.low, found.spearman]).all()


def test_the_same_numbers_give_the_same_interval() -> None:
    x, y = np.arange(8.0), np.array([1.0, 0, 3, 2, 5, 4, 7, 6])
    assert correlate(x, y) == correlate(x, y)
