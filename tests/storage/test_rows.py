"""Examples as text and back, and the sum over the text."""

import hashlib
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctlpp.benchmark.dataset import Dataset
from ctlpp.storage import rows as module
from ctlpp.storage.folder import SCHEMA, digest, lines, parse, rows

VARIANTS = ("CTL", "A", "R", "S")


def table_of(dataset: Dataset, split: str) -> pa.Table:
    return pa.Table.from_batches(list(rows(dataset.task, dataset[split])), schema=SCHEMA)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_what_is_written_as_text_is_read_back(
    small: Callable[..., Dataset], variant: str, order: str
) -> None:
    dataset = small(variant, order=order)
    for split, parts in dataset.splits.items():
        parsed = parse(dataset.task, table_of(dataset, split), split)
        assert list(parsed) == list(parts)
        for length, examples in parts.items():
            assert (parsed[length].examples.starts == examples.starts).all()
            assert (parsed[length].examples.functions == examples.functions).all()
            assert (parsed[length].outputs == dataset.targets(examples)).all()


def test_rows_have_input_output_length_and_a_label(small: Callable[..., Dataset]) -> None:
    dataset = small("A")
    table = table_of(dataset, "train")
    assert table.column_names == ["input", "output", "length", "allowed"]
    assert [len(text.split()) - 1 for text in table["input"].to_pylist()] == table["length"].to_pylist()
    assert table["length"].to_pylist() == sorted(table["length"].to_pylist()), "short examples first"
    assert set(table["allowed"].to_pylist()) == {True}
    assert set(table_of(dataset, "ood")["allowed"].to_pylist()) == {False}


def test_the_sum_is_that_of_the_lines_and_does_not_depend_on_batches(
    small: Callable[..., Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = small("R")
    text = "".join(f"{question}\t{answer}\n" for question, answer in dataset.texts("train"))
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert digest(rows(dataset.task, dataset["train"])) == expected
    for at_once in (1, 7, 100):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
        assert digest(rows(dataset.task, dataset["train"])) == expected


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(st.tuples(cells, cells), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_lines_are_input_tab_output_newline_also_of_a_slice(
    pairs: list[tuple[str, str]], start: int, length: int
) -> None:
    columns = {
        name: pa.array([pair[i] for pair in pairs], pa.string()) for i, name in enumerate(("input", "output"))
    }
    batch = pa.RecordBatch.from_pydict(columns).slice(min(start, len(pairs)), length)
    expected = "".join(f"{question}\t{answer}\n" for question, answer in pairs[start : start + length])
    assert lines(batch) == expected.encode()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"input": "a zz 1"}, "an unknown function"),
        ({"input": "a b 9"}, "an unknown symbol"),
        ({"input": "a b"}, "no symbol"),
        ({"input": "1 2"}, "no function"),
        ({"input": "a 1 b"}, "a symbol in a function's place"),
        ({"input": "a b <end>"}, "the end token"),
        ({"input": "1"}, "no function at all"),
        ({"input": ""}, "nothing"),
        ({"input": "a  1"}, "two spaces"),
        ({"input": "a b 1 "}, "a space at the end"),
        ({"output": "9"}, "an unknown output"),
        ({"output": "a"}, "a function as output"),
        ({"length": 3}, "a wrong length"),
    ],
)
def test_a_row_that_is_no_example_of_the_task_is_shown(
    small: Callable[..., Dataset], row: dict[str, str | int], why: str
) -> None:
    task = small("A").task
    right = {"input": "a b 1", "output": "1", "length": 2, "allowed": True}
    table = pa.Table.from_pylist([right, right, right | row, right], schema=SCHEMA)
    shown = f"here: row 2 is no example of this task: input {(right | row)['input']!r}, output"
    with pytest.raises(ValueError, match=f"^{shown}"):
        parse(task, table, "here")


def test_a_split_without_rows_has_no_parts(small: Callable[..., Dataset]) -> None:
    assert parse(small("A").task, SCHEMA.empty_table(), "here") == {}
    assert digest([]) == hashlib.sha256(b"").hexdigest()
