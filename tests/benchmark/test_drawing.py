"""What is drawn: how often each example, compared with exact probabilities."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from ctlpp.benchmark.graph import IN, OUT, Graph, Restriction
from ctlpp.benchmark.language import Language
from ctlpp.benchmark.sampling import WEIGHTINGS, Integers, Stream, Walks, Weighting, draw
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings

UNLIKELY = 1e-4  # fixed seeds: a test that passes once passes for ever


def small(after: dict[str, str], sizes: dict[str, int], *rules: Restriction) -> Language:
    """Groups of so many functions over 3 symbols, for examples of 1 to 4 functions."""
    members = iter(range(sum(sizes.values())))
    groups = {group: [next(members) for _ in range(size)] for group, size in sizes.items()}
    table = np.array([Stream(f, "table").permutation(3) for f in range(sum(sizes.values()))])
    graph = Graph.of(after, lengths=range(1, 5), restrictions=rules)
    return Language(graph, table=table, groups=groups, names=[f"f{i}" for i in range(len(table))])


def task_of(variant: str, **options: Any) -> Task:
    return make_task(Settings(variant=variant, max_length=4, **options))


STAGED = task_of("S", symbols=4, functions=7, shared_functions=3, shared_symbols=2)


LANGUAGES = {
    "any": small({IN: "f", "f": "f OUT"}, {"f": 3}),
    "alternating": small({IN: "a b", "a": "b OUT", "b": "a OUT"}, {"a": 2, "b": 2}),
    "repeating": small({IN: "a b", "a": "a OUT", "b": "b OUT"}, {"a": 2, "b": 2}),
    "lopsided": small({IN: "a b", "a": "a b OUT", "b": "a OUT"}, {"a": 1, "b": 3}),
    "restricted": small(
        {IN: "a b", "a": "a b OUT", "b": "a OUT"},
        {"a": 2, "b": 2},
        Restriction(source="a", function="f2", symbols=(0,)),
        Restriction(source=IN, function="f0", symbols=(1, 2)),
    ),
    "with a dead end": small(
        {IN: "a b", "a": "b", "b": "a OUT"},
        {"a": 1, "b": 1},
        Restriction(source="a", function="f1", symbols=(0, 1)),
        Restriction(source="b", function="f0", symbols=(2,)),
    ),
    "staged": STAGED.language("train"),
}
each_language = pytest.mark.parametrize("name", LANGUAGES)
each_weighting = pytest.mark.parametrize("weighting", WEIGHTINGS)


def step_by_step(language: Language, length: int) -> list[Fraction]:
    """The probability of each example, by number, if every choice is made as the paper says: path, then function."""
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
            example = language.empty(length, 1)
            example.starts[:], example.functions[:] = start, functions
            probability[int(language.rank(example)[0])] = chance
            return
        paths = followers(group, symbol, length - len(functions))
        for members in paths.values():
            for f in members:
                here = chance / len(paths) / len(members)
                walk(
                    start, (*functions, f), names[language.group_of[f]], int(language.table[f, symbol]), here
                )

    starts = [s for s in range(language.n_symbols) if can_end(IN, s, length)]
    for start in starts:
        walk(start, (), IN, start, Fraction(1, len(starts)))
    return probability


def lengths(language: Language) -> list[int]:
    return [n for n in language.graph.lengths if language.count(n) > 1]


@each_language
def test_the_reference_gives_probabilities(name: str) -> None:
    for length in lengths(LANGUAGES[name]):
        probability = step_by_step(LANGUAGES[name], length)
        assert sum(probability) == 1
        assert min(probability) > 0


@each_language
def test_a_walk_has_the_probability_of_its_choices_path_first_then_function(name: str) -> None:
    language = LANGUAGES[name]
    for length in lengths(language):
        probability = step_by_step(language, length)
        n = int(10 / min(probability)) + 1000
        walks = Walks(language, length).draw(n, Stream(5, name, length))
        seen = np.bincount(language.rank(walks), minlength=len(probability))
        assert chisquare(seen, [float(p * n) for p in probability]).pvalue > UNLIKELY


@each_language
def test_after_an_example_is_drawn_the_others_keep_their_proportions(name: str) -> None:
    language, n = LANGUAGES[name], 2000
    length = lengths(language)[0]
    p = step_by_step(language, length)
    drawn = [
        language.rank(draw(language, length, 2, "sequential", Stream(i, name))).tolist() for i in range(n)
    ]
    if len(p) == 2:  # both examples: then all are drawn, in any order
        assert all(sorted(pair) == [0, 1] for pair in drawn)
        return
    expected = {
        (i, j): float(n * p[i] * p[j] / (1 - p[i])) for i in range(len(p)) for j in range(len(p)) if i != j
    }
    seen = Counter(map(tuple, drawn))
    assert seen.keys() <= expected.keys()
    assert chisquare([seen[pair] for pair in expected], list(expected.values())).pvalue > UNLIKELY


def test_in_s_a_walk_picks_a_path_a_first_function_and_then_any_second_function_of_the_path_or_shared_one() -> (
    None
):
    language, groups = STAGED.language("train"), STAGED.group_indices
    rules = {(r.source, r.function): r.symbols for r in STAGED.train_graph.restrictions}
    names = list(STAGED.functions)
    expected = []
    for start, (f, g) in zip(language.all(2).starts, language.all(2).functions.tolist(), strict=True):
        path = "a" if f in groups["a1"] else "b"
        symbol = STAGED.table[f, start]
        shared = [o for o in groups["o"] if symbol in rules[f"{path}1", names[o]]]
        seconds = [*groups[f"{path}2"], *shared]
        assert g in seconds
        expected.append(
            Fraction(1, 4) * Fraction(1, 2) * Fraction(1, len(groups[f"{path}1"])) * Fraction(1, len(seconds))
        )
    assert step_by_step(language, 2) == expected
    assert len(set(expected)) > 1, "so this is not uniform"


@pytest.mark.parametrize("variant", ["A", "R", "CTL"])
@pytest.mark.parametrize("functions", [4, 6])
def test_step_by_step_is_uniform_for_groups_of_one_size(variant: str, functions: int) -> None:
    language = task_of(variant, symbols=3, functions=functions).language("train")
    for length in (1, 2, 3):
        assert set(step_by_step(language, length)) == {Fraction(1, language.count(length))}


def chance_of_counts(draws: Iterable[Integers], among: Integers) -> float:
    """How likely it is that numbers drawn without replacement are this unevenly often in the draws."""
    drawn = list(draws)
    share = len(drawn[0]) / len(among)
    times = np.bincount(np.concatenate(drawn), minlength=among.max() + 1)
    assert times.sum() == times[among].sum()
    spread = ((times[among] - len(drawn) * share) ** 2).sum() / (len(drawn) * share * (1 - share))
    return float(chi2.sf(spread * (len(among) - 1) / len(among), len(among) - 1))


@each_language
@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_every_example_is_equally_likely_to_be_in_a_uniform_draw(name: str, share: float) -> None:
    language = LANGUAGES[name]
    length = max(lengths(language), key=lambda n: (language.count(n) < 500) * language.count(n))
    count = language.count(length)
    n = min(max(1, round(share * count)), count - 1)
    draws = [language.rank(draw(language, length, n, "uniform", Stream(i, name))) for i in range(400)]
    assert chance_of_counts(draws, np.arange(count)) > UNLIKELY


@pytest.mark.parametrize("taken", [1, 20, 70, 107])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_every_free_example_is_equally_likely_whatever_is_taken(taken: int, share: float) -> None:
    language = LANGUAGES["any"]
    assert language.count(4) == 3**5
    numbers = Stream(0, "taken").distinct_below(3**5, taken)
    free = np.setdiff1d(np.arange(3**5), numbers)
    n = int(share * len(free))
    draws = [language.rank(draw(language, 4, n, "uniform", Stream(i), numbers)) for i in range(400)]
    assert chance_of_counts(draws, free) > UNLIKELY


@settings(max_examples=200)
@given(st.sampled_from(sorted(LANGUAGES)), st.integers(1, 4), st.sampled_from(WEIGHTINGS), st.data())
def test_a_draw_has_the_size_asked_for_no_duplicates_and_nothing_taken(
    name: str, length: int, weighting: Weighting, data: st.DataObject
) -> None:
    language = LANGUAGES[name]
    count = language.count(length)
    taken = Stream(data.draw(st.integers(0, 9)), "taken").distinct_below(
        count, data.draw(st.integers(0, count))
    )
    n = data.draw(st.integers(0, count - len(taken)))
    examples = draw(language, length, n, weighting, Stream(1), taken)
    assert examples.length == length
    assert language.contains(examples).all()
    numbers = language.rank(examples).tolist()
    assert len(numbers) == len(set(numbers)) == n
    assert not set(numbers) & set(taken.tolist())


@each_weighting
def test_a_draw_of_everything_or_nothing_or_all_that_is_left_ends(weighting: Weighting) -> None:
    language = LANGUAGES["lopsided"]
    for length in range(1, 5):
        count = language.count(length)
        for taken in (0, 1, count // 2, count - 1, count):
            numbers = np.arange(taken)
            assert len(draw(language, length, 0, weighting, Stream(0), numbers)) == 0
            rest = draw(language, length, count - taken, weighting, Stream(0), numbers)
            assert sorted(language.rank(rest).tolist()) == list(range(taken, count))


@each_weighting
def test_drawing_the_few_examples_that_are_left_of_many_is_quick(weighting: Weighting) -> None:
    language = task_of("A", symbols=8, functions=32).language("train")
    count = language.count(4)
    assert count == 2**20
    left = Stream(0, "left").distinct_below(count, 3)
    examples = draw(language, 4, 3, weighting, Stream(0), np.setdiff1d(np.arange(count), left))
    assert sorted(language.rank(examples).tolist()) == sorted(left.tolist())


def test_numbers_of_any_size_can_be_taken() -> None:
    language = make_task(Settings(variant="CTL", functions=60, max_length=12)).language("train")
    first = draw(language, 12, 500, "uniform", Stream(0))
    second = draw(language, 12, 500, "uniform", Stream(0), language.rank(first))
    both = language.rank(first).tolist() + language.rank(second).tolist()
    assert len(set(both)) == 1000
