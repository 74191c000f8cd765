"""Drawing few function sequences, and examples from them: compared with going through everything there is."""

import re
from collections import Counter
from functools import cache
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ctlpp.benchmark.language import Examples, Language
from ctlpp.benchmark.sampling import (
    Limit,
    Stream,
    Weighting,
    draw_examples,
    draw_sequences,
    max_sequences,
    on_all_symbols,
)
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings

UNLIKELY = 1e-4  # fixed seeds: a test that passes once passes for ever
VARIANTS = ("CTL", "A", "R", "S")


@cache
def language_of(variant: str, symbols: int = 4) -> Language:
    staged: dict[str, Any] = {"shared_functions": 3, "shared_symbols": 2} if variant == "S" else {}
    chosen = Settings(variant=variant, symbols=symbols, functions=7, max_length=4, **staged)
    return make_task(chosen).language("train")


def written(examples: Examples) -> list[tuple[int, tuple[int, ...]]]:
    """(start, functions) of each example, as Python values."""
    return list(zip(examples.starts.tolist(), map(tuple, examples.functions.tolist()), strict=True))


def symbols_of(language: Language, length: int) -> dict[tuple[int, ...], set[int]]:
    """The start symbols that each function sequence of the language may have, by going through all examples."""
    found: dict[tuple[int, ...], set[int]] = {}
    for start, functions in written(language.all(length)):
        found.setdefault(functions, set()).add(start)
    return found


def draw_limited(
    language: Language, length: int, n: int, limit: Limit, weighting: Weighting, seed: int
) -> Examples:
    """n examples under a limit that matters."""
    firsts = draw_sequences(language, {length: n}, limit, weighting, seed)
    return draw_examples(language, firsts[length], n, Stream(seed, "start symbols", length))


@pytest.mark.parametrize(
    ("limit", "n", "most"), [(5, 100, 5), ("n/7", 88_728, 12_676), ("n/7", 7, 1), ("n/1", 9, 9)]
)
def test_a_limit_is_a_number_or_a_share_of_the_examples(limit: Limit, n: int, most: int) -> None:
    assert max_sequences(limit, n) == most


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_examples_of_a_sequence_are_those_on_the_symbols_that_the_graph_allows(variant: str) -> None:
    language = language_of(variant)
    symbols = symbols_of(language, 4)
    firsts = language.all(4)[::7]
    pool, of = on_all_symbols(language, firsts)
    expected = [(s, functions) for _, functions in written(firsts) for s in sorted(symbols[functions])]
    assert written(pool) == expected
    assert [written(firsts)[i][1] for i in of] == [functions for _, functions in expected]


@settings(max_examples=200)
@given(
    variant=st.sampled_from(VARIANTS),
    length=st.sampled_from([2, 4]),
    weighting=st.sampled_from(["uniform", "sequential"]),
    seed=st.integers(0, 50),
    data=st.data(),
)
def test_the_examples_are_distinct_in_the_graph_and_of_exactly_so_many_sequences(
    variant: str, length: int, weighting: Weighting, seed: int, data: st.DataObject
) -> None:
    language = language_of(variant)
    n = data.draw(st.integers(1, min(300, language.count(length))), label="examples")
    most = data.draw(st.integers(1, n), label="sequences")
    exist = len(symbols_of(language, length))
    try:
        firsts = draw_sequences(language, {length: n}, most, weighting, seed)
    except ValueError as error:
        needed = int(re.findall(r"use (\d+) or more", str(error))[0])
        assert most < needed <= exist
        assert_enough(language, length, n, needed, weighting, seed)
        with pytest.raises(ValueError, match=f"use {needed} or more"):
            draw_sequences(language, {length: n}, needed - 1, weighting, seed)
        return
    if length not in firsts:
        assert most >= min(n, exist)
        return
    assert most < min(n, exist)
    assert_enough(language, length, n, most, weighting, seed)


@settings(max_examples=100)
@given(
    st.sampled_from(VARIANTS),
    st.sampled_from(["uniform", "sequential"]),
    st.integers(5, 300),
    st.integers(0, 50),
)
def test_the_share_that_is_recommended_is_the_smallest_that_will_do(
    variant: str, weighting: Weighting, n: int, seed: int
) -> None:
    language = language_of(variant)
    sizes = {length: min(n, language.count(length)) for length in (2, 4)}
    with pytest.raises(ValueError, match=r"use n/\d+$") as caught:
        draw_sequences(language, sizes, f"n/{10 * n}", weighting, seed)
    share = int(str(caught.value).rpartition("/")[2])
    draw_sequences(language, sizes, f"n/{share}", weighting, seed)
    with pytest.raises(ValueError, match=f"use n/{share}$"):
        draw_sequences(language, sizes, f"n/{share + 1}", weighting, seed)


def assert_enough(
    language: Language, length: int, n: int, most: int, weighting: Weighting, seed: int
) -> None:
    if most >= min(n, len(symbols_of(language, length))):
        assert draw_sequences(language, {length: n}, most, weighting, seed) == {}
        return
    drawn = written(draw_limited(language, length, n, most, weighting, seed))
    assert len(drawn) == len(set(drawn)) == n
    assert len({functions for _, functions in drawn}) == most
    symbols = symbols_of(language, length)
    assert all(start in symbols[functions] for start, functions in drawn)


@settings(max_examples=60)
@given(st.sampled_from(VARIANTS), st.sampled_from(["uniform", "sequential"]), st.integers(0, 50), st.data())
def test_the_sequences_of_a_smaller_limit_are_the_first_of_a_larger_one(
    variant: str, weighting: Weighting, seed: int, data: st.DataObject
) -> None:
    language, n = language_of(variant), 60
    fewer, more = sorted(data.draw(st.lists(st.integers(45, n - 1), min_size=2, max_size=2)))
    one, other = (draw_sequences(language, {4: n}, most, weighting, seed)[4] for most in (fewer, more))
    assert written(one) == written(other)[:fewer]


@pytest.mark.parametrize("weighting", ["uniform", "sequential"])
def test_a_sequence_is_as_likely_as_its_examples_are(weighting: Weighting) -> None:
    language, n = language_of("S"), 4000
    symbols = symbols_of(language, 2)
    expected = dict.fromkeys(symbols, 0.0)
    if weighting == "uniform":
        for functions, starts in symbols.items():
            expected[functions] = len(starts) / language.count(2)
    else:  # a function after the other, each path alike: a start, one of two paths, a first function, then the pool
        every = written(language.all(2))
        seconds = Counter((start, f) for start, (f, _) in every)  # that may follow
        for start, (f, g) in every:
            firsts = [h for h in range(language.n_functions) if language.group_of[h] == language.group_of[f]]
            expected[f, g] += 1 / language.n_symbols / 2 / len(firsts) / seconds[start, f]
    drawn = Counter(
        written(draw_sequences(language, {2: 4}, 3, weighting, seed)[2])[0][1] for seed in range(n)
    )
    assert sum(expected.values()) == pytest.approx(1)
    assert chisquare([drawn[f] for f in expected], [n * p for p in expected.values()]).pvalue > UNLIKELY


def test_further_examples_are_a_random_choice_among_those_of_the_sequences() -> None:
    """Of 10 sequences on 4 symbols one example is given; 15 of the other 30 are drawn."""
    language, times = language_of("A"), 600
    firsts = draw_sequences(language, {3: 25}, 10, "uniform", 0)[3]
    others = set(written(on_all_symbols(language, firsts)[0])) - set(written(firsts))
    assert len(others) == 30
    draws = [set(written(draw_examples(language, firsts, 25, Stream(i)))) for i in range(times)]
    assert all(set(written(firsts)) <= drawn for drawn in draws)
    seen = Counter(example for drawn in draws for example in drawn & others)
    spread = sum((seen[example] - times / 2) ** 2 for example in others) / (times / 4)
    assert 10 < spread < 60  # about 29
    assert comb(30, 15) > times == len({frozenset(drawn) for drawn in draws})
