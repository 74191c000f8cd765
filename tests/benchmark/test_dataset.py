"""Splits and tensors of a dataset; its bytes are pinned, and the same in every process."""

import hashlib
import json
import os
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctlpp.benchmark.dataset import Dataset, generate, usable
from ctlpp.benchmark.variants import ORDERS, PROTOCOLS, VARIANTS, WEIGHTINGS
from ctlpp.storage.folder import digest, pretty, rows, task_to_dict

SMALL: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4, "train": 700, "iid": 90, "ood": 90}
STAGED: dict[str, Any] = {"shared_functions": 4, "shared_symbols": 2}
SINGLES = "text"  # the protocol with all single applications in train, where the others have all pairs
each_variant = pytest.mark.parametrize("variant", VARIANTS)


@cache
def small(variant: str, protocol: str = SINGLES, **options: Any) -> Dataset:
    return generate(variant, protocol=protocol, **(SMALL | (STAGED if variant == "S" else {}) | options))


@cache
def default(variant: str, protocol: str = SINGLES) -> Dataset:
    return generate(variant, protocol=protocol)


@cache
def inputs(dataset: Dataset, split: str) -> set[str]:
    return {text for text, _ in dataset.texts(split)}


def distinct(dataset: Dataset, split: str) -> int:
    """How many different examples a split must have: with doubled pairs, train has some of them twice."""
    sizes = {length: len(examples) for length, examples in dataset[split].items()}
    if split == "train" and dataset.settings.get("doubled_pairs"):
        sizes[2] = dataset.task.language("train").count(2)
    return sum(sizes.values())


# sha256 of every split of the default datasets, and of what defines the task.
# To pin them again after a wanted change: python tests/benchmark/test_dataset.py > …/checksums.json
PINNED = json.loads((Path(__file__).parent / "checksums.json").read_text())


def sums_of(dataset: Dataset) -> dict[str, str]:
    task = pretty(task_to_dict(dataset.task, dataset.settings, {})) + "\n"
    splits = {name: digest(rows(dataset.task, split)) for name, split in dataset.splits.items()}
    return {"task": hashlib.sha256(task.encode()).hexdigest()} | splits


def all_sums(make: Any) -> dict[str, dict[str, str]]:
    return {f"{v} {protocol}": sums_of(make(v, protocol)) for v in VARIANTS for protocol in PROTOCOLS}


def test_the_bytes_of_datasets_are_pinned() -> None:
    assert all_sums(default) == PINNED


def test_a_second_process_makes_the_same_bytes_with_another_hash_seed_and_more_threads() -> None:
    other = {"PYTHONHASHSEED": "31337", "OMP_NUM_THREADS": "4", "ARROW_IO_THREADS": "4"}
    program = [sys.executable, __file__, "small"]
    done = subprocess.run(program, env=os.environ | other, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == all_sums(small)


def test_another_seed_makes_other_data_and_a_smaller_test_set_changes_nothing_else() -> None:
    one, other, smaller = (sums_of(small("A", **options)) for options in ({}, {"seed": 1}, {"ood": 50}))
    assert all(one[name] != other[name] for name in ("train", "iid", "ood", "any", "singles", "task"))
    assert (one["train"], one["iid"]) == (smaller["train"], smaller["iid"])
    assert one["ood"] != smaller["ood"]


def test_tensors_by_length_are_the_texts_and_the_end_token_and_padded_ones_are_filled_up_with_it() -> None:
    import torch  # not above: the second process needs none

    for dataset in (small("A", order=order) for order in ORDERS):
        vocabulary = dataset.task.vocabulary
        for split in dataset.splits:
            texts, (padded, answers, lengths) = dataset.texts(split), dataset.padded(split)
            inputs = [vocabulary.decode(row) for row in padded]
            outputs = [dataset.task.symbols[answer] for answer in answers]
            assert list(zip(inputs, outputs, strict=True)) == texts
            for length, (tokens, targets) in dataset.tensors(split).items():
                here = lengths == length
                assert tokens.dtype == targets.dtype == torch.int64
                assert torch.equal(padded[here][:, : length + 2], tokens)
                assert torch.equal(answers[here], targets)
                assert (padded[here][:, length + 1 :] == vocabulary.end).all()


def test_left_to_right_is_the_mirror_image_of_right_to_left() -> None:
    right, left = (small("A", order=order) for order in ORDERS)
    for split in right.splits:
        mirrored = [(" ".join(text.split()[::-1]), output) for text, output in left.texts(split)]
        assert mirrored == right.texts(split)


@given(st.floats(0, 1), st.integers(0, 10**400))
def test_a_share_of_a_number_of_any_size_is_a_whole_number_next_to_it(fill: float, count: int) -> None:
    part = usable(fill, count)
    assert 0 <= part <= count
    assert abs(part - Fraction(fill) * count) <= 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@each_variant
def test_every_example_is_right_in_its_graph_in_no_split_twice_and_in_no_other_but_for_added_pairs(
    variant: str, protocol: str
) -> None:
    dataset = small(variant, protocol)
    for name, split in dataset.splits.items():
        assert len(inputs(dataset, name)) == distinct(dataset, name) > 0
        assert all(dataset.task.language(name).contains(examples).all() for examples in split.values())
        for text, output in dataset.texts(name):
            *functions, start = text.split()
            symbol = int(start)
            for function in reversed(functions):
                symbol = dataset.task.functions[function][symbol]
            assert output == str(symbol)
    sampled = [name for name in dataset.splits if name not in ("train", "iid", "singles", "pairs")]
    drawn_anew = ["ood_independent"] * PROTOCOLS[protocol].as_generator
    assert sampled == ["ood", *drawn_anew, "any"] + ["shared_path", "unseen_symbols"] * (variant == "S")
    for name in sampled:
        assert not inputs(dataset, name) & (inputs(dataset, "train") | inputs(dataset, "iid"))
    both = inputs(dataset, "train") & inputs(dataset, "iid")
    assert len(both) == dataset.shared("train", "iid")
    assert len(both) == (0 if protocol == SINGLES else len(dataset["iid"][2]))


def test_diagnostic_splits_have_what_is_left_if_fewer_exist_than_in_ood() -> None:
    dataset = small("S", functions=8, max_length=2, train=10, iid=2, ood=8)
    task = dataset.task
    shared = task.language("shared_path").all(2)
    texts = {task.describe(shared, row) for row in range(len(shared))}
    left = texts - inputs(dataset, "train") - inputs(dataset, "iid")
    assert inputs(dataset, "shared_path") <= left
    assert dataset.size("shared_path") == min(8, len(left))


@settings(max_examples=40)
@given(
    variant=st.sampled_from(sorted(VARIANTS)),
    protocol=st.sampled_from(sorted(PROTOCOLS)),
    fill=st.sampled_from([0.1, 0.3, 0.5, 0.999, 1.0]),
    sizes=st.tuples(st.integers(1, 700), st.integers(0, 300), st.integers(0, 300)),
    weighting=st.sampled_from(WEIGHTINGS),
)
def test_any_sizes_are_either_met_exactly_or_refused(
    variant: str, protocol: str, fill: float, sizes: tuple[int, int, int], weighting: str
) -> None:
    options: dict[str, Any] = {"symbols": 3, "functions": 5, "max_length": 4, "fill": fill}
    options |= {"shared_functions": 1, "shared_symbols": 3} if variant == "S" else {}
    options |= dict(zip(("train", "iid", "ood"), sizes, strict=True))
    try:
        dataset = generate(variant, protocol=protocol, weighting=weighting, **options)
    except ValueError as error:
        assert str(error).startswith(("train ", "iid ", "ood "))  # noqa: PT017
        return
    found = {name: dataset.size(name) for name in dataset.splits}
    assert (found.get("iid", 0), found.get("ood", 0)) == sizes[1:]
    assert found["train"] == sizes[0] if protocol == SINGLES else found["train"] >= sizes[0]
    if "iid" in found and protocol == SINGLES:
        assert dataset.shared("train", "iid") == 0
    assert all(len(inputs(dataset, name)) == distinct(dataset, name) for name in found)


def test_train_and_iid_may_use_all_there_is() -> None:
    most = 32 + (128 + 512 + 2048) // 2
    for iid in (1, 500, 1344):
        sizes = {"functions": 8, "train": most - iid, "ood": 5}
        dataset = small("A", **sizes, iid=iid)
        assert (dataset.size("train"), dataset.size("iid")) == (most - iid, iid)
        with pytest.raises(ValueError, match="distinct"):
            small("A", **sizes, iid=iid + 1)


def test_without_iid_and_ood_examples_those_splits_are_left_out() -> None:
    dataset = generate("A", protocol=SINGLES, symbols=4, functions=8, max_length=3, train=100, iid=0, ood=0)
    assert repr(dataset) == f"<A, {SINGLES}: 100 train, 32 singles, 256 pairs>"
    with pytest.raises(ValueError, match="unknown split 'iid': choose from train, singles, pairs"):
        dataset["iid"]


def test_counts_beyond_64_bits_make_data_like_any_other() -> None:
    dataset = generate("CTL", protocol=SINGLES, functions=60, max_length=12, train=4_000, iid=100, ood=100)
    assert dataset.task.language("train").count(12) == 8 * 60**12
    assert set(dataset["ood"]) == {13, 14, 15, 16}
    names = ("train", "iid", "ood", "any")
    assert len(set().union(*(inputs(dataset, name) for name in names))) == 4_300


def test_a_million_training_examples_need_less_than_a_hundred_mebibytes() -> None:
    program = """
import resource
from ctlpp.benchmark.dataset import generate

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dataset = generate("A", protocol="text", functions=64, max_length=10, train=1_000_000)
print(dataset.size("train"), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    examples, mebibytes = map(int, done.stdout.split())
    assert examples == 1_000_000
    assert mebibytes < 100


if __name__ == "__main__":
    print(json.dumps(all_sums(small if "small" in sys.argv else default), indent=1))
