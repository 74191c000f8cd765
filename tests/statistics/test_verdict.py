"""Verdicts: what one word says of two sets of seeds; and how much function tables matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import f_oneway, permutation_test

from ctlpp.statistics.published import PUBLISHED, ROUNDING
from ctlpp.statistics.summary import MANY_SEEDS, spread_of_tables, summarise
from ctlpp.statistics.verdict import HIGHER, LOWER, NEGLIGIBLE, REPRODUCED, UNDECIDED, Verdict, judge

NDR = (0.75, 0.27)


def normal(mean: float, std: float, count: int) -> list[float]:
    """Numbers with exactly this mean and sample standard deviation."""
    values = np.random.Generator(np.random.PCG64(count)).normal(size=count)
    values = (values - values.mean()) / values.std(ddof=1) if std else values * 0
    return [float(value) for value in mean + std * values]


def verdict(values: list[float], published: tuple[float, float] = NDR) -> Verdict:
    return judge(summarise(values, interval=(0, 1)), published)


def word(values: list[float], published: tuple[float, float] = NDR) -> str:
    return verdict(values, published).word


def test_seeds_like_the_published_ones_reproduce_them() -> None:
    for row in PUBLISHED.values():
        for published in (row.iid, row.ood):
            assert word(normal(*published, 25), published) == REPRODUCED


def test_the_farther_the_mean_is_off_the_less_it_is_reproduced() -> None:
    shifts = {0.04: REPRODUCED, 0.13: UNDECIDED, 0.18: HIGHER, -0.18: LOWER}
    assert {shift: word(normal(0.75 + shift, 0.27, 25)) for shift in shifts} == shifts


def test_without_spread_the_rounding_decides_and_differences_below_two_hundredths_do_not_matter() -> None:
    assert word([0.97] * 25, (1.0, 0.0)) == LOWER
    assert word([0.99] * 25, (1.0, 0.0)) == REPRODUCED
    assert verdict([0.99] * 25, (1.0, 0.0)).interval == pytest.approx((-0.015, -0.005))


def test_few_seeds_never_reproduce_and_are_not_taken_for_certain_however_well_they_agree() -> None:
    for count in (2, 5, MANY_SEEDS - 1):
        assert word([1.0] * count, (1.0, 0.0)) == UNDECIDED
    assert word([1.0] * MANY_SEEDS, (1.0, 0.0)) == REPRODUCED
    assert word([1.0] * 5) == UNDECIDED
    assert word([0.2] * 5, (0.95, 0.03)) == LOWER  # but what is far beyond the published spread is
    assert (word([0.9]), word([])) == (UNDECIDED, UNDECIDED)
    assert verdict([0.9]).difference == pytest.approx(0.15)
    assert verdict([]).difference is None


def test_more_seeds_decide_what_few_leave_open_but_do_not_make_up_for_few_published_ones() -> None:
    assert [word(normal(0.78, 0.27, count)) for count in (5, 400)] == [UNDECIDED, REPRODUCED]
    assert [word(normal(0.9, 0.27, count)) for count in (5, 400)] == [UNDECIDED, HIGHER]
    assert word(normal(0.85, 0.2, 100_000)) == UNDECIDED


@given(values=st.lists(st.floats(0, 1), min_size=4, max_size=30), mean=st.floats(0, 1), std=st.floats(0, 0.4))
def test_a_verdict_agrees_with_its_interval_and_mirrors_when_success_and_failure_are_exchanged(
    values: list[float], mean: float, std: float
) -> None:
    found, mirrored = verdict(values, (mean, std)), verdict([1 - value for value in values], (1 - mean, std))
    assert found.interval is not None
    low, high = found.interval
    assert found.difference is not None
    assert low <= found.difference <= high
    if found.word in (HIGHER, LOWER):
        assert (low > 0) if found.word == HIGHER else (high < 0)
    if found.word == REPRODUCED:
        assert max(-low, high) <= max(NEGLIGIBLE, std) + ROUNDING
    border = min(abs(abs(end) - limit) for end in (low, high) for limit in (0, NEGLIGIBLE)) < 1e-6
    if UNDECIDED not in (found.word, mirrored.word) and not border:
        assert mirrored.word == {HIGHER: LOWER, LOWER: HIGHER}.get(found.word, found.word)


def test_a_repetition_of_the_published_experiment_is_seldom_called_different() -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    shape = 0.75 * 0.25 / 0.27**2 - 1  # of a beta distribution with the published mean and spread
    repetitions = draw.beta(0.75 * shape, 0.25 * shape, size=(200, 25)).tolist()
    words = [word(values) for values in repetitions]
    assert words.count(REPRODUCED) > 110
    assert words.count(HIGHER) + words.count(LOWER) < 12


any_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=6).filter(lambda sizes: sum(sizes) > len(sizes))


def tables(between: float, within: float, sizes: list[int], seed: int) -> list[list[float]]:
    draw = np.random.Generator(np.random.PCG64(seed))
    return [list(0.5 + between * draw.normal() + within * draw.normal(size=size)) for size in sizes]


@settings(max_examples=30)
@given(sizes=any_sizes, seed=st.integers(0, 1000))
def test_tables_count_alike_however_many_seeds_they_have(sizes: list[int], seed: int) -> None:
    values = tables(0.1, 0.05, sizes, seed)
    found = spread_of_tables(values)
    assert found is not None
    pooled = sum(((np.array(own) - np.mean(own)) ** 2).sum() for own in values) / (sum(sizes) - len(sizes))
    assert found[1] == pytest.approx(np.sqrt(pooled))
    of_means = np.var([np.mean(own) for own in values], ddof=1)
    by_seeds = np.mean([pooled / size for size in sizes])  # what the seeds alone make the means vary
    assert found[0] ** 2 == pytest.approx(max(0.0, of_means - by_seeds), abs=1e-12)


def test_equal_accuracies_have_no_spread_and_one_table_or_one_seed_on_each_tells_nothing() -> None:
    assert spread_of_tables([[1.0, 1.0], [1.0, 1.0]]) == (0, 0, 1)
    assert spread_of_tables([[0.5, 0.7], []]) is None
    assert spread_of_tables([[0.5], [0.7]]) is None


def test_p_is_that_of_a_permutation_test() -> None:
    values = tables(0.05, 0.05, [8, 3, 3], 3)
    rng = np.random.Generator(np.random.PCG64(1))
    how = {"permutation_type": "independent", "alternative": "greater", "n_resamples": 1000, "rng": rng}
    reference = permutation_test(values, lambda *groups: f_oneway(*groups).statistic, **how)
    found = spread_of_tables(values)
    assert found is not None
    assert found[2] == pytest.approx(reference.pvalue, abs=0.04)
