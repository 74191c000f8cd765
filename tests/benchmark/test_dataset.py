"""Tensors, texts and the vocabulary: several views of the same examples."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.task import Vocabulary
from ctlpp.benchmark.variants import Order

ORDERS: tuple[Order, ...] = ("right-to-left", "left-to-right")
SMALL: dict[str, Any] = {"symbols": 4, "functions": 8, "max_length": 4, "train": 600, "iid": 40, "ood": 40}


@cache
def dataset_of(variant: str = "A", order: Order = "right-to-left") -> Dataset:
    return generate(variant, order=order, **SMALL)


def test_ids_are_functions_then_symbols_then_the_end_token() -> None:
    vocabulary = generate("A", train=300, iid=5, ood=5).task.vocabulary
    assert vocabulary.tokens[:3] == ("a", "b", "c")
    assert vocabulary.tokens[31:34] == ("F", "0", "1")
    assert vocabulary.tokens[40] == "<end>"
    assert (vocabulary.size, vocabulary.end) == (41, 40)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("split", ["train", "iid", "ood", "singles", "pairs", "any"])
def test_tensors_by_length_are_the_texts_and_the_end_token(order: Order, split: str) -> None:
    dataset = dataset_of(order=order)
    vocabulary, n_symbols = dataset.task.vocabulary, dataset.task.n_symbols
    tensors = dataset.tensors(split)
    texts = iter(dataset.texts(split))
    for length, (tokens, targets) in tensors.items():
        assert tokens.dtype == targets.dtype == torch.int64
        assert tokens.shape == (len(targets), length + 2)
        assert (tokens[:, -1] == vocabulary.end).all()
        assert 0 <= int(targets.min()) <= int(targets.max()) < n_symbols
        for row, target in zip(tokens.tolist(), targets.tolist(), strict=True):
            text, output = next(texts)
            assert vocabulary.decode(row) == text
            assert vocabulary.encode(text) == row
            assert dataset.task.symbols[target] == output
    assert next(texts, None) is None


@pytest.mark.parametrize("split", ["train", "ood", "pairs"])
def test_padded_tensors_hold_the_same_rows_filled_up_with_end_tokens(split: str) -> None:
    dataset = dataset_of()
    tokens, targets, lengths = dataset.padded(split)
    assert len(tokens) == len(targets) == len(lengths) == dataset.size(split)
    assert tokens.shape[1] == max(dataset[split]) + 2
    for length, (expected, expected_targets) in dataset.tensors(split).items():
        here = lengths == length
        assert torch.equal(tokens[here][:, : length + 2], expected)
        assert torch.equal(targets[here], expected_targets)
        assert (tokens[here][:, length + 1 :] == dataset.task.vocabulary.end).all()


def test_left_to_right_is_the_mirror_image_of_right_to_left() -> None:
    right, left = (dataset_of(order=order) for order in ORDERS)
    for split in right.splits:
        mirrored = [(" ".join(text.split()[::-1]), output) for text, output in left.texts(split)]
        assert mirrored == right.texts(split)


def test_right_to_left_applies_the_function_next_to_the_symbol_first() -> None:
    dataset = dataset_of()
    table = dataset.task.functions
    text, output = next(pair for pair in dataset.texts("train") if len(pair[0].split()) == 4)
    third, second, first, start = text.split()
    assert output == str(table[third][table[second][table[first][int(start)]]])


vocabularies = st.builds(
    lambda n, m: Vocabulary(functions=tuple(f"f{i}" for i in range(n)), symbols=tuple(map(str, range(m)))),
    st.integers(1, 400),
    st.integers(1, 10),
)


@given(vocabularies, st.sampled_from(ORDERS), st.integers(1, 5), st.integers(0, 20), st.integers(0, 99))
def test_what_is_written_is_read_back(
    vocabulary: Vocabulary, order: Order, length: int, n: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    starts = random.integers(len(vocabulary.symbols), size=n)
    functions = random.integers(len(vocabulary.functions), size=(n, length))
    ids = vocabulary.written(Examples(starts=starts, functions=functions), order)
    assert ids.shape == (n, length + 1)
    back = vocabulary.read(ids, order)
    assert (back.starts == starts).all()
    assert (back.functions == functions).all()


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(ValueError, match="unknown token 'zz'; the tokens are a b c d e f g h 0 1 2 3"):
        dataset_of().task.vocabulary.encode("a zz 3")


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(
        ValueError, match="unknown split 'test': choose from train, iid, ood, singles, pairs, any"
    ):
        dataset_of()["test"]


@pytest.mark.parametrize(("n_functions", "length"), [(8, 3), (8, 12), (400, 2), (400, 9)])
def test_examples_have_equal_keys_if_and_only_if_they_are_equal(n_functions: int, length: int) -> None:
    kind = np.uint8 if n_functions <= 256 else np.uint16
    random = np.random.default_rng(0)
    functions = random.integers(n_functions, size=(60, length)).astype(kind)
    functions[:, 1:] = functions[0, 1:]
    examples = Examples(starts=random.integers(3, size=60).astype(np.uint8), functions=functions)
    rows = np.column_stack([examples.starts, functions]).tolist()
    keys = examples.keys()
    for i in range(60):
        assert [bool(same) for same in keys == keys[i]] == [row == rows[i] for row in rows]


def test_shared_examples_are_counted_also_where_they_are_long() -> None:
    dataset = generate("CTL", symbols=4, functions=8, max_length=9, train=600, iid=40, ood=40)
    assert dataset.shared("train", "train") == dataset.size("train")
    assert dataset.shared("ood", "ood") == 40
    assert dataset.shared("train", "ood") == dataset.shared("train", "iid") == 0


def test_a_dataset_is_shown_in_one_line() -> None:
    assert repr(dataset_of()).startswith("<A, paper: 600 train, 40 iid, 40 ood, ")
