"""The option `distinct_sequences` of a dataset: the limit holds, and everything else stays as it was."""

import re
from typing import Any

import numpy as np
import pytest

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.language import Examples, join
from ctlpp.benchmark.sampling import RELEASED, Limit
from ctlpp.benchmark.variants import Settings
from ctlpp.storage.folder import digest, rows

each_variant = pytest.mark.parametrize("variant", ["CTL", "A", "R", "S"])
each_protocol = pytest.mark.parametrize("protocol", ["paper", "released"])


def written(examples: Examples) -> list[tuple[int, tuple[int, ...]]]:
    """(start, functions) of each example, as Python values."""
    return list(zip(examples.starts.tolist(), map(tuple, examples.functions.tolist()), strict=True))


def both_splits(dataset: Dataset) -> dict[int, Examples]:
    parts = {
        n: [dataset[name][n] for name in ("train", "iid") if n in dataset[name]] for n in dataset["train"]
    }
    return {n: join(examples) for n, examples in parts.items()}


def counted(dataset: Dataset) -> dict[int, int]:
    """Length -> distinct function sequences of train and iid."""
    return {n: len(set(map(tuple, both.functions.tolist()))) for n, both in both_splits(dataset).items()}


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
        generate(variant, protocol=protocol, train=20_000, distinct_sequences=limit)
        for limit in (None, "n/3")
    )
    lengths = [n for n in one["train"] if n > 2]
    assert {n: len(part) for n, part in one["iid"].items()} == {
        n: len(part) for n, part in other["iid"].items()
    }
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
    dataset = generate(
        "CTL", functions=60, max_length=12, train=20_000, iid=100, ood=100, distinct_sequences="n/5"
    )
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
    assert (
        too_few("n/9")
        == "distinct_sequences n/9: 88728 examples of 6 functions need 11091 sequences; use n/8"
    )


def test_in_s_a_sequence_has_fewer_symbols_so_it_takes_more_of_them() -> None:
    needed = int(re.findall(r"need (\d+) ", too_few(12_599, variant="S"))[0])
    assert needed > 217_771 / 8
    assert counted(generate("S", protocol="released", distinct_sequences=needed))[6] == needed
    assert str(needed) in too_few(needed - 1, variant="S")
    assert "use n/5" in too_few("n/7", variant="S")
    assert counted(generate("S", protocol="released", distinct_sequences="n/5"))[6] == -(-217_771 // 5)


@pytest.mark.parametrize(
    "value", [0, -1, "0", "n/0", "n", "7/n", "n/7 ", " 5", "n/-1", "", 5.0, True, "٣", 10**10]
)
def test_what_is_no_limit_is_refused(value: Any) -> None:
    line = f"distinct_sequences {value!r}: use a whole number from 1, or n/7 for one to every 7 examples"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        Settings(variant="A", distinct_sequences=value)


def test_a_number_may_be_written_as_text() -> None:
    assert Settings(variant="A", distinct_sequences="12599").distinct_sequences == 12_599
    assert Settings(variant="A", distinct_sequences="n/7").recipe()["distinct_sequences"] == "n/7"
    assert "distinct_sequences" not in Settings(variant="A").recipe()
