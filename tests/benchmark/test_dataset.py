"""Tensors and texts are views of the same examples; the same bytes in every process, and they are pinned."""

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.variants import ORDERS, PROTOCOLS, VARIANTS, Order
from ctlpp.storage.folder import digest, rows
from ctlpp.storage.task_json import to_json

SMALL: dict[str, Any] = {"symbols": 4, "functions": 8, "max_length": 4, "train": 600, "iid": 40, "ood": 40}


@cache
def small(order: Order = "right-to-left") -> Dataset:
    return generate("A", order=order, **SMALL)


@pytest.mark.parametrize("order", ORDERS)
def test_tensors_by_length_are_the_texts_and_the_end_token(order: Order) -> None:
    dataset = small(order)
    vocabulary = dataset.task.vocabulary
    for split in dataset.splits:
        texts = iter(dataset.texts(split))
        for length, (tokens, targets) in dataset.tensors(split).items():
            assert tokens.dtype == targets.dtype == torch.int64
            assert tokens.shape == (len(targets), length + 2)
            assert (tokens[:, -1] == vocabulary.end).all()
            for row, target in zip(tokens.tolist(), targets.tolist(), strict=True):
                text, output = next(texts)
                assert vocabulary.decode(row) == text
                assert vocabulary.encode(text) == row
                assert dataset.task.symbols[target] == output
        assert next(texts, None) is None


def test_padded_tensors_hold_the_same_rows_filled_up_with_end_tokens() -> None:
    dataset = small()
    for split in ("train", "ood", "pairs"):
        tokens, targets, lengths = dataset.padded(split)
        assert len(tokens) == len(targets) == len(lengths) == dataset.size(split)
        assert tokens.shape[1] == max(dataset[split]) + 2
        for length, (expected, expected_targets) in dataset.tensors(split).items():
            here = lengths == length
            assert torch.equal(tokens[here][:, : length + 2], expected)
            assert torch.equal(targets[here], expected_targets)
            assert (tokens[here][:, length + 1 :] == dataset.task.vocabulary.end).all()


def test_left_to_right_is_the_mirror_image_of_right_to_left() -> None:
    right, left = (small(order) for order in ORDERS)
    for split in right.splits:
        mirrored = [(" ".join(text.split()[::-1]), output) for text, output in left.texts(split)]
        assert mirrored == right.texts(split)


def test_right_to_left_applies_the_function_next_to_the_symbol_first() -> None:
    table = small().task.functions
    text, output = next(pair for pair in small().texts("train") if len(pair[0].split()) == 4)
    third, second, first, start = text.split()
    assert output == str(table[third][table[second][table[first][int(start)]]])


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(
        ValueError, match="unknown split 'test': choose from train, iid, ood, singles, pairs, any"
    ):
        small()["test"]


def test_shared_examples_are_counted_also_where_they_are_long() -> None:
    dataset = generate("CTL", symbols=4, functions=8, max_length=9, train=600, iid=40, ood=40)
    assert dataset.shared("train", "train") == dataset.size("train")
    assert dataset.shared("ood", "ood") == 40
    assert dataset.shared("train", "ood") == dataset.shared("train", "iid") == 0


def test_a_dataset_is_shown_in_one_line() -> None:
    assert repr(small()).startswith("<A, paper: 600 train, 40 iid, 40 ood, ")


# sha256 of every split of the default datasets, and of what defines the task.
# To pin them again after a wanted change: python tests/benchmark/test_dataset.py > …/checksums.json
PINNED = json.loads((Path(__file__).parent / "checksums.json").read_text())


def sums_of(variant: str, **options: Any) -> dict[str, str]:
    dataset = generate(variant, **options)
    task = to_json(dataset.task, dataset.settings, {})
    splits = {name: digest(rows(dataset.task, split)) for name, split in dataset.splits.items()}
    return {"task": hashlib.sha256(task.encode()).hexdigest()} | splits


@cache
def sums() -> dict[str, dict[str, str]]:
    return {f"{v} {protocol}": sums_of(v, protocol=protocol) for v in VARIANTS for protocol in PROTOCOLS}


def test_the_bytes_of_datasets_are_pinned() -> None:
    assert sums() == PINNED


def test_a_second_process_makes_the_same_bytes_with_another_hash_seed_and_more_threads() -> None:
    other = {"PYTHONHASHSEED": "31337", "OMP_NUM_THREADS": "4", "ARROW_IO_THREADS": "4"}
    program = [sys.executable, __file__]
    done = subprocess.run(program, env=os.environ | other, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == PINNED


def test_another_seed_makes_other_data_and_a_smaller_test_set_changes_nothing_else() -> None:
    one, other, smaller = (
        sums_of("A", train=1000, iid=50, ood=ood, seed=seed) for ood, seed in ((60, 0), (60, 1), (50, 0))
    )
    assert all(one[name] != other[name] for name in ("train", "iid", "ood", "any", "singles", "task"))
    assert (one["train"], one["iid"]) == (smaller["train"], smaller["iid"])
    assert one["ood"] != smaller["ood"]


if __name__ == "__main__":
    print(json.dumps(sums(), indent=1))
