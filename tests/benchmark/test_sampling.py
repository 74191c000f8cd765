"""Random numbers, and what is drawn with them: how often each example, compared with exact probabilities."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from ctlpp.benchmark.graph import IN, OUT, Graph, Restriction
from ctlpp.benchmark.language import Examples, Integers, Language
from ctlpp.benchmark.sampling import Stream, draw, random_walks
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import WEIGHTINGS, Settings

UNLIKELY = 1e-4  # fixed seeds: a test that passes once passes for ever


def test_streams_of_different_seeds_or_purposes_have_nothing_in_common() -> None:
    streams = [Stream(0, "train", 2), Stream(1, "train", 2), Stream(0, "train", 3), Stream(0)]
    assert len({word for stream in streams for word in stream.words(1000).tolist()}) == 4000


def test_integers_below_a_bound_are_equally_likely() -> None:
    for bound in (2, 3, 7, 8, 1000):
        counts = np.bincount(Stream(1, "below").below(bound, 50 * bound), minlength=bound)
        assert (counts.sum(), len(counts)) == (50 * bound, bound)
        assert chisquare(counts).pvalue > UNLIKELY
    for bound in (2**62 + 1, 3 * 2**62, 10**30, 2**200 + 1):
        drawn = Stream(0, "large").below(bound, 5000).tolist()
        quarters, sevenths = Counter(4 * n // bound for n in drawn), Counter(n % 7 for n in drawn)
        assert chisquare([quarters[i] for i in range(4)]).pvalue > UNLIKELY
        assert chisquare([sevenths[i] for i in range(7)]).pvalue > UNLIKELY


bounds = st.integers(1, 300).flatmap(lambda bits: st.integers(2 ** (bits - 1), 2**bits))


@given(bounds, st.integers(0, 50))
def test_integers_of_any_size_stay_below_their_bound(bound: int, n: int) -> None:
    drawn = Stream(0, bound).below(bound, n).tolist()
    few = min(n, bound)
    distinct = Stream(0, bound).distinct_below(bound, few).tolist()
    assert (len(drawn), len(distinct), len(set(distinct))) == (n, few, few)
    assert all(0 <= number < bound for number in drawn + distinct)


def test_every_ordered_choice_of_distinct_integers_is_equally_likely() -> None:
    for bound, n in ((5, 3), (4, 4), (7, 2)):
        choices = list(permutations(range(bound), n))
        streams = [Stream(i, "choice") for i in range(30 * len(choices))]
        drawn = Counter(tuple(stream.distinct_below(bound, n).tolist()) for stream in streams)
        assert set(drawn) <= set(choices)
        assert chisquare([drawn[choice] for choice in choices]).pvalue > UNLIKELY


def small(after: dict[str, str], sizes: dict[str, int], *rules: Restriction) -> Language:
    """Groups of so many functions over 3 symbols, for examples of 1 to 4 functions."""
    members = iter(range(sum(sizes.values())))
    groups = {group: [next(members) for _ in range(size)] for group, size in sizes.items()}
    table = np.array([Stream(f, "table").permutation(3) for f in range(sum(sizes.values()))])
    graph = Graph.of(after, lengths=range(1, 5), restrictions=rules)
    return Language(graph, table=table, groups=groups, names=[f"f{i}" for i in range(len(table))])


def rule(source: str, function: str, *symbols: int) -> Restriction:
    return Restriction(source=source, function=function, symbols=symbols)


def train_language(variant: str, **options: Any) -> Language:
    return make_task(Settings(variant=variant, **options)).language("train")


SMALL_S: dict[str, Any] = {"symbols": 4, "functions": 7, "max_length": 4}
SMALL_S |= {"shared_functions": 3, "shared_symbols": 2}
LOPSIDED = {IN: "a b", "a": "a b OUT", "b": "a OUT"}
DEAD_END = {IN: "a b", "a": "b", "b": "a OUT"}
LANGUAGES = {
    "any": small({IN: "f", "f": "f OUT"}, {"f": 3}),
    "alternating": small({IN: "a b", "a": "b OUT", "b": "a OUT"}, {"a": 2, "b": 2}),
    "lopsided": small(LOPSIDED, {"a": 1, "b": 3}),
    "restricted": small(LOPSIDED, {"a": 2, "b": 2}, rule("a", "f2", 0), rule(IN, "f0", 1, 2)),
    "with a dead end": small(DEAD_END, {"a": 1, "b": 1}, rule("a", "f1", 0, 1), rule("b", "f0", 2)),
    "staged": train_language("S", **SMALL_S),
}
each_language = pytest.mark.parametrize("name", LANGUAGES)


def step_by_step(language: Language, length: int) -> list[Fraction]:
    """The probability of each example, by number, if choices are made as the paper says."""
    names = list(language.nodes)

    def followers(group: str, symbol: int, left: int) -> dict[tuple[str, ...], list[int]]:
        """The functions that may come next and lead to OUT, by path: what their groups lead to."""
        paths: dict[tuple[str, ...], list[int]] = {}
        for f in range(language.n_functions):
            home = names[language.group_of[f]]
            allowed = language.allowed[language.nodes[group], f, symbol]
            if allowed and can_end(home, int(language.table[f, symbol]), left - 1):
                paths.setdefault(tuple(sorted(language.graph.after(home))), []).append(f)
        return paths

    def can_end(group: str, symbol: int, left: int) -> bool:
        return bool(followers(group, symbol, left)) if left else (group, OUT) in language.graph.edges

    probability = [Fraction(0)] * language.count(length)

    def walk(start: int, functions: tuple[int, ...], group: str, symbol: int, chance: Fraction) -> None:
        if len(functions) == length:
            example = Examples(starts=np.array([start]), functions=np.array([functions]))
            probability[int(language.rank(example)[0])] = chance
            return
        paths = followers(group, symbol, length - len(functions))
        for members in paths.values():
            for f in members:
                here = chance / len(paths) / len(members)
                onward = names[language.group_of[f]], int(language.table[f, symbol])
                walk(start, (*functions, f), *onward, here)

    starts = [s for s in range(language.n_symbols) if can_end(IN, s, length)]
    for start in starts:
        walk(start, (), IN, start, Fraction(1, len(starts)))
    assert sum(probability) == 1
    return probability


def lengths(language: Language) -> list[int]:
    return [n for n in language.graph.lengths if language.count(n) > 1]


@each_language
def test_a_walk_has_the_probability_of_its_choices_path_first_then_function(name: str) -> None:
    language = LANGUAGES[name]
    for length in lengths(language):
        probability = step_by_step(language, length)
        n = int(10 / min(probability)) + 1000
        walks = random_walks(language, length, n, Stream(5, name, length))
        seen = np.bincount(language.rank(walks), minlength=len(probability))
        assert chisquare(seen, [float(p * n) for p in probability]).pvalue > UNLIKELY


@each_language
def test_after_an_example_is_drawn_the_others_keep_their_proportions(name: str) -> None:
    language, n = LANGUAGES[name], 800
    length = lengths(language)[0]
    p = step_by_step(language, length)
    streams = [Stream(i, name) for i in range(n)]
    drawn = [tuple(language.rank(draw(language, length, 2, "sequential", s)).tolist()) for s in streams]
    if len(p) == 2:  # both examples: then all are drawn, in any order
        assert set(drawn) <= {(0, 1), (1, 0)}
        return
    expected = {(i, j): float(n * p[i] * p[j] / (1 - p[i])) for i, j in permutations(range(len(p)), 2)}
    seen = Counter(drawn)
    assert seen.keys() <= expected.keys()
    assert chisquare([seen[pair] for pair in expected], list(expected.values())).pvalue > UNLIKELY


def chance_of_counts(draws: Iterable[Integers], among: Integers) -> float:
    """How likely it is that numbers drawn without replacement are this unevenly often in the draws."""
    drawn = list(draws)
    share = len(drawn[0]) / len(among)
    times = np.bincount(np.concatenate(drawn), minlength=among.max() + 1)
    assert times.sum() == times[among].sum()
    spread = ((times[among] - len(drawn) * share) ** 2).sum() / (len(drawn) * share * (1 - share))
    return float(chi2.sf(spread * (len(among) - 1) / len(among), len(among) - 1))


@each_language
@pytest.mark.parametrize("share", [0.1, 0.8])
def test_every_example_that_is_not_taken_is_equally_likely_in_a_uniform_draw(name: str, share: float) -> None:
    language = LANGUAGES[name]
    length = max(lengths(language), key=lambda n: (language.count(n) < 500) * language.count(n))
    count = language.count(length)
    for n_taken in (0, count // 2 - 1):
        taken = Stream(0, "taken").distinct_below(count, n_taken)
        free = np.setdiff1d(np.arange(count), taken)
        n = min(max(1, round(share * len(free))), len(free) - 1)
        draws = [draw(language, length, n, "uniform", Stream(i, name), taken) for i in range(120)]
        assert chance_of_counts(map(language.rank, draws), free) > UNLIKELY


@settings(max_examples=80)
@given(st.sampled_from(sorted(LANGUAGES)), st.integers(1, 4), st.sampled_from(WEIGHTINGS), st.data())
def test_a_draw_has_the_size_asked_for_no_duplicates_and_nothing_taken(
    name: str, length: int, weighting: str, data: st.DataObject
) -> None:
    language = LANGUAGES[name]
    count = language.count(length)
    n_taken = data.draw(st.integers(0, count) | st.just(count))
    taken = Stream(data.draw(st.integers(0, 9)), "taken").distinct_below(count, n_taken)
    n = data.draw(st.integers(0, count - n_taken) | st.just(count - n_taken))
    examples = draw(language, length, n, weighting, Stream(1), taken)
    assert examples.length == length
    assert language.contains(examples).all()
    numbers = language.rank(examples).tolist()
    assert len(numbers) == len(set(numbers)) == n
    assert not set(numbers) & set(taken.tolist())
