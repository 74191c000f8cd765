from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from ctlpp.benchmark.functions import bijection, function_names, random_bijections
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ctlpp.benchmark.sampling import Stream, first_occurrences, member

UNLIKELY = 1e-4  # fixed seeds: a test that passes once passes for ever


def test_the_words_of_a_stream_are_pinned() -> None:
    assert Stream(0, "test").words(3).tolist() == [
        9862641349049052503,
        101756643989302325,
        2964843191182563025,
    ]


def test_streams_of_different_seeds_or_purposes_have_nothing_in_common() -> None:
    names: list[tuple[int, tuple[str | int, ...]]] = [
        (0, ("train", 2)),
        (1, ("train", 2)),
        (0, ("train", 3)),
        (0, ()),
    ]
    words = [word for seed, purpose in names for word in Stream(seed, *purpose).words(1000).tolist()]
    assert len(set(words)) == 4000


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 8, 1000])
def test_integers_below_a_bound_are_equally_likely(bound: int) -> None:
    drawn = Stream(1, "below").below(bound, 50 * bound)
    assert len(drawn) == 50 * bound
    counts = np.bincount(drawn, minlength=bound)
    assert len(counts) == bound
    assert bound == 1 or chisquare(counts).pvalue > UNLIKELY


@given(
    st.integers(1, 300).flatmap(lambda bits: st.integers(max(1, 2 ** (bits - 1)), 2**bits)),
    st.integers(0, 50),
)
def test_integers_of_any_size_stay_below_their_bound(bound: int, n: int) -> None:
    drawn = Stream(0, bound).below(bound, n).tolist()
    assert len(drawn) == n
    assert all(0 <= number < bound for number in drawn)


@pytest.mark.parametrize("bound", [2**62 + 1, 3 * 2**62, 10**30, 2**200 + 1])
def test_large_integers_are_equally_likely_in_both_halves_and_by_remainder(bound: int) -> None:
    drawn = Stream(0, "large").below(bound, 5000).tolist()
    quarters = Counter(4 * number // bound for number in drawn)
    sevenths = Counter(number % 7 for number in drawn)
    assert chisquare([quarters[i] for i in range(4)]).pvalue > UNLIKELY
    assert chisquare([sevenths[i] for i in range(7)]).pvalue > UNLIKELY


@pytest.mark.parametrize(("bound", "n"), [(5, 3), (4, 4), (10, 2), (7, 2)])
def test_every_ordered_choice_of_distinct_integers_is_equally_likely(bound: int, n: int) -> None:
    choices = list(permutations(range(bound), n))
    drawn = Counter(
        tuple(Stream(i, "choice").distinct_below(bound, n).tolist()) for i in range(30 * len(choices))
    )
    assert set(drawn) <= set(choices)
    assert chisquare([drawn[choice] for choice in choices]).pvalue > UNLIKELY


@given(st.integers(1, 2**70), st.integers(0, 200))
def test_distinct_integers_are_distinct(bound: int, n: int) -> None:
    n = min(n, bound)
    drawn = Stream(0, bound, n).distinct_below(bound, n).tolist()
    assert len(drawn) == len(set(drawn)) == n
    assert all(0 <= number < bound for number in drawn)


integers = st.lists(st.integers(-3, 3) | st.integers(2**63, 2**63 + 3))


@given(integers, integers)
def test_first_occurrences_and_membership_are_those_of_python(values: list[int], of: list[int]) -> None:
    these, those = np.array(values, dtype=object), np.array(of, dtype=object)
    assert first_occurrences(these).tolist() == list(dict.fromkeys(values))
    assert member(these, those).tolist() == [value in of for value in values]


@pytest.mark.parametrize("n_symbols", [1, 2, 3, 4])
def test_the_numbers_of_bijections_are_all_permutations_in_dictionary_order(n_symbols: int) -> None:
    expected = list(permutations(range(n_symbols)))
    assert [tuple(bijection(rank, n_symbols)) for rank in range(len(expected))] == expected


def test_every_set_of_functions_is_equally_likely() -> None:
    drawn = Counter(tuple(map(tuple, random_bijections(3, 2, Stream(i)).tolist())) for i in range(3000))
    assert set(drawn) == set(permutations(permutations(range(3)), 2))
    assert chisquare(list(drawn.values())).pvalue > UNLIKELY


@pytest.mark.parametrize(("n_symbols", "n_functions"), [(2, 2), (4, 24), (8, 32), (25, 60), (200, 5)])
def test_functions_are_distinct_bijections_up_to_all_there_are(n_symbols: int, n_functions: int) -> None:
    table = random_bijections(n_symbols, n_functions, Stream(0)).tolist()
    assert len(set(map(tuple, table))) == n_functions
    assert all(sorted(row) == list(range(n_symbols)) for row in table)


def test_functions_are_named_by_letters() -> None:
    assert " ".join(function_names(32)) == "a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F"
    assert function_names(54)[50:] == ("Y", "Z", "aa", "ab")
    assert len(set(function_names(10_000))) == 10_000
