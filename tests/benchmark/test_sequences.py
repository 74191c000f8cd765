"""Few function sequences on many start symbols: the limit holds, and everything else stays as it was."""

import re
from collections import Counter
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.drawing import Weighting
from ctlpp.benchmark.examples import Examples, join
from ctlpp.benchmark.language import Language
from ctlpp.benchmark.sequences import RELEASED, Limit, draw_examples, draw_sequences, max_sequences, on_all_symbols
from ctlpp.benchmark.settings import Settings, make_task_from
from ctlpp.benchmark.streams import Stream
from ctlpp.storage.rows import digest, rows

UNLIKELY = 1e-4  # fixed seeds: a test that passes once passes for ever
VARIANTS = ("CTL", "A", "R", "S")
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_protocol = pytest.mark.parametrize("protocol", ["paper", "released"])


@cache
def language_of(variant: str, symbols: int = 4) -> Language:
    staged: dict[str, Any] = {"shared_functions": 3, "shared_symbols": 2} if variant == "S" else {}
    chosen = Settings(variant=variant, symbols=symbols, functions=7, max_length=4, **staged)
    return make_task_from(chosen).language("train")


def written(examples: Examples) -> list[tuple[int, tuple[int, ...]]]:
    """(start, functions) of each example, as Python values."""
    return list(zip(examples.starts.tolist(), map(tuple, examples.functions.tolist()), strict=True))


def symbols_of(language: Language, length: int) -> dict[tuple[int, ...], set[int]]:
    """The start symbols that each function sequence of the language may have, by going through all examples."""
    found: dict[tuple[int, ...], set[int]] = {}
    for start, functions in written(language.all(length)):
        found.setdefault(functions, set()).add(start)
    return found


def draw_limited(language: Language, length: int, n: int, limit: Limit, weighting: Weighting, seed: int) -> Examples:
    """n examples under a limit that matters."""
    firsts = draw_sequences(language, {length: n}, limit, weighting, seed)
    return draw_examples(language, firsts[length], n, Stream(seed, "start symbols", length))


def both_splits(dataset: Dataset) -> dict[int, Examples]:
    parts = {n: [dataset[name][n] for name in ("train", "iid") if n in dataset[name]] for n in dataset["train"]}
    return {n: join(examples) for n, examples in parts.items()}


def counted(dataset: Dataset) -> dict[int, int]:
    """Length -> distinct function sequences of train and iid."""
    return {n: len(set(map(tuple, both.functions.tolist()))) for n, both in both_splits(dataset).items()}


@pytest.mark.parametrize(("limit", "n", "most"), [(5, 100, 5), ("n/7", 88_728, 12_676), ("n/7", 7, 1), ("n/1", 9, 9)])
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


@settings(max_examples=200, deadline=None)
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


def assert_enough(language: Language, length: int, n: int, most: int, weighting: Weighting, seed: int) -> None:
    if most >= min(n, len(symbols_of(language, length))):
        assert draw_sequences(language, {length: n}, most, weighting, seed) == {}
        return
    drawn = written(draw_limited(language, length, n, most, weighting, seed))
    assert len(drawn) == len(set(drawn)) == n
    assert len({functions for _, functions in drawn}) == most
    symbols = symbols_of(language, length)
    assert all(start in symbols[functions] for start, functions in drawn)


@settings(max_examples=60, deadline=None)
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
        for start, (f, g) in written(language.all(2)):
            firsts = [h for h in range(language.n_functions) if language.group_of[h] == language.group_of[f]]
            seconds = {second for _, (first, second) in written(language.all(2)[language.all(2).starts == start])
                       if first == f}  # fmt: skip
            expected[f, g] += 1 / language.n_symbols / 2 / len(firsts) / len(seconds)
    drawn = Counter(written(draw_sequences(language, {2: 4}, 3, weighting, seed)[2])[0][1] for seed in range(n))
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


@each_variant
@each_protocol
def test_train_and_iid_together_keep_to_the_limit_at_every_length_that_is_not_complete(
    variant: str, protocol: str
) -> None:
    dataset = generate(variant, protocol=protocol, train=20_000, distinct_sequences=3000)
    complete = 2 if protocol == "released" else 1
    found = {n: count for n, count in counted(dataset).items() if n > complete}
    plain = counted(generate(variant, protocol=protocol, train=20_000))
    assert found == {n: min(plain[n], 3000) for n in found}
    assert max(found.values()) == 3000
    assert not dataset.shared("train", "iid") or protocol == "released"


@each_variant
@each_protocol
def test_sizes_and_test_splits_are_as_without_the_limit(variant: str, protocol: str) -> None:
    one, other = (
        generate(variant, protocol=protocol, train=20_000, distinct_sequences=limit) for limit in (None, "n/3")
    )
    lengths = [n for n in one["train"] if n > 2]
    assert {n: len(part) for n, part in one["iid"].items()} == {n: len(part) for n, part in other["iid"].items()}
    assert {n: len(one["train"][n]) for n in lengths} == {n: len(other["train"][n]) for n in lengths}
    for name in ("ood", "singles", "pairs"):
        assert digest(rows(one.task, one[name])) == digest(rows(other.task, other[name]))
    assert digest(rows(one.task, one["train"])) != digest(rows(other.task, other["train"]))


@each_variant
def test_a_limit_that_allows_everything_changes_nothing(variant: str) -> None:
    one, other = (generate(variant, train=5000, distinct_sequences=limit) for limit in (None, 10**6))
    for name in one.splits:
        assert digest(rows(one.task, one[name])) == digest(rows(other.task, other[name]))


def test_a_length_with_fewer_sequences_than_the_limit_is_drawn_as_without_it() -> None:
    one, other = (generate("A", train=20_000, distinct_sequences=limit) for limit in (None, 3000))
    assert one.task.language("train").count(2) == 8 * 512
    assert written(one["train"][2]) == written(other["train"][2])
    assert written(one["train"][4]) != written(other["train"][4])


def test_the_data_of_the_authors_code_has_about_seven_symbols_a_sequence() -> None:
    dataset = generate("R", protocol="released", distinct_sequences=RELEASED)
    assert counted(dataset) == {2: 512, 3: 4682, 4: 12_676, 5: 12_676, 6: 12_676}
    exactly = generate("R", protocol="released", distinct_sequences=12_599)
    both = both_splits(exactly)[6]
    assert len(both) == 88_728
    _, symbols = np.unique(both.sequences(), return_counts=True)
    assert len(symbols) == 12_599
    assert (symbols.min() >= 1, symbols.max(), round(symbols.mean(), 2)) == (True, 8, 7.04)


def test_sequences_of_any_length_can_be_few() -> None:
    dataset = generate("CTL", functions=60, max_length=12, train=20_000, iid=100, ood=100, distinct_sequences="n/5")
    both = both_splits(dataset)
    assert {n: count for n, count in counted(dataset).items() if n > 2} == {
        n: -(-len(both[n]) // 5) for n in range(3, 13)
    }
    assert all(len(set(written(part))) == len(part) for part in both.values())


# sha256 of train and iid; to pin them again after a wanted change, paste what the assertion shows
PINNED: dict[str, dict[str, str]] = {
    "A released n/7": {
        "train": "4028a68674493d508a3c41be49aef0853e874a62309eaf11506cf6fa62a93bac",
        "iid": "16aebb99b17902e5ee297872cb298505db574ba787699625428a54a04239fadd",
    },
    "S paper 5000": {
        "train": "f6ebb1fc3684cc7b5dae3ea1a1ae90a080cb47a32c1055ccc3c239a45679d944",
        "iid": "a12d68a812f05c783e71530b18c746d5be60560ef43683236328046b7219a2b2",
    },
}


@pytest.mark.parametrize(("variant", "protocol", "limit"), [("A", "released", "n/7"), ("S", "paper", 5000)])
def test_limited_datasets_are_pinned(variant: str, protocol: str, limit: Limit) -> None:
    dataset = generate(variant, protocol=protocol, train=20_000, distinct_sequences=limit)
    sums = {name: digest(rows(dataset.task, dataset[name])) for name in ("train", "iid")}
    assert sums == PINNED[f"{variant} {protocol} {limit}"]


def too_few(limit: Limit, **options: Any) -> str:
    with pytest.raises(ValueError, match=r"^distinct_sequences ") as caught:
        generate(options.pop("variant", "A"), protocol="released", distinct_sequences=limit, **options)
    return str(caught.value)


def test_too_few_sequences_for_so_many_examples_is_a_mistake_that_says_how_many_it_takes() -> None:
    assert too_few(1000) == (
        "distinct_sequences 1000: 88728 examples of 6 functions need 11091 sequences; "
        "use 11091 or more, or fewer examples"
    )
    assert counted(generate("A", protocol="released", distinct_sequences=11_091))[6] == 11_091
    assert too_few("n/9") == "distinct_sequences n/9: 88728 examples of 6 functions need 11091 sequences; use n/8"


def test_in_s_a_sequence_has_fewer_symbols_so_it_takes_more_of_them() -> None:
    needed = int(re.findall(r"need (\d+) ", too_few(12_599, variant="S"))[0])
    assert needed > 217_771 / 8
    assert counted(generate("S", protocol="released", distinct_sequences=needed))[6] == needed
    assert str(needed) in too_few(needed - 1, variant="S")
    assert "use n/5" in too_few("n/7", variant="S")
    assert counted(generate("S", protocol="released", distinct_sequences="n/5"))[6] == -(-217_771 // 5)


@pytest.mark.parametrize("value", [0, -1, "0", "n/0", "n", "7/n", "n/7 ", " 5", "n/-1", "", 5.0, True, "٣", 10**10])
def test_what_is_no_limit_is_refused(value: Any) -> None:
    line = f"distinct_sequences {value!r}: use a whole number from 1, or n/7 for one to every 7 examples"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        Settings(variant="A", distinct_sequences=value)


def test_a_number_may_be_written_as_text() -> None:
    assert Settings(variant="A", distinct_sequences="12599").distinct_sequences == 12_599
    assert Settings(variant="A", distinct_sequences="n/7").recipe()["distinct_sequences"] == "n/7"
    assert "distinct_sequences" not in Settings(variant="A").recipe()
