"""The rows of a split as text, and back. Columns are handled whole: no loop over examples.

A row has `input` (`d a b 3`), `output` (`5`), `length` (3) and `allowed`: whether the training graph allows every
succession of functions in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ctlpp.benchmark.examples import Examples
from ctlpp.benchmark.splits import Split
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError

ROWS_AT_ONCE = 1 << 17
SCHEMA = pa.schema(
    [("input", pa.string()), ("output", pa.string()), ("length", pa.int32()), ("allowed", pa.bool_())]
)


def rows(task: Task, split: Split) -> Iterator[pa.RecordBatch]:
    """The split's rows, short examples first."""
    tokens, symbols = pa.array(task.vocabulary.tokens), pa.array(task.symbols)
    train = task.language("train")
    for length, examples in split.items():
        for start in range(0, len(examples), ROWS_AT_ONCE):
            part = examples[start : start + ROWS_AT_ONCE]
            written = task.vocabulary.written(part, task.order)
            words = [tokens.take(pa.array(np.ascontiguousarray(column))) for column in written.T]
            columns = [
                pc.binary_join_element_wise(*words, " "),
                symbols.take(pa.array(part.outputs(task.table))),
                pa.array(np.full(len(part), length, dtype=np.int32)),
                pa.array(train.allows_successions(part)),
            ]
            yield pa.record_batch(columns, schema=SCHEMA)


def lines(batch: pa.RecordBatch) -> bytes:
    """`input<TAB>output<LF>` of every row."""
    text = pc.binary_join_element_wise(batch["input"], batch["output"], "\t")
    text = pc.binary_join_element_wise(text, "", "\n")
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return b""
    ends = np.frombuffer(offsets, dtype=np.int32)
    return bytes(memoryview(data)[ends[text.offset] : ends[text.offset + len(text)]])


class Digest:
    """The sha256 of a split: that of its lines, whatever the file format."""

    def __init__(self) -> None:
        self._total = hashlib.sha256()

    def follow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, taken into account as they pass."""
        for batch in batches:
            self._total.update(lines(batch))
            yield batch

    def hexdigest(self) -> str:
        """The sum over all that has passed."""
        return self._total.hexdigest()


def digest(batches: Iterable[pa.RecordBatch]) -> str:
    """The sha256 of these rows."""
    total = Digest()
    for _ in total.follow(batches):
        pass
    return total.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class Parsed:
    """Rows of one length, back as numbers."""

    at: NDArray[np.int64]  # where in the file each row stands
    examples: Examples
    outputs: NDArray[Any]


def parse(task: Task, table: pa.Table, where: str) -> dict[int, Parsed]:
    """Length -> rows. Raises UserError for the first row that is not written as an example of this task."""
    words = pc.split_pattern(table["input"].combine_chunks(), " ")
    counts = pc.list_value_length(words).to_numpy(zero_copy_only=False)
    ids = pc.index_in(words.flatten(), value_set=pa.array(task.vocabulary.tokens[:-1]))
    ids = pc.fill_null(ids, -1).to_numpy(zero_copy_only=False)
    outputs = pc.fill_null(pc.index_in(table["output"], value_set=pa.array(task.symbols)), -1).to_numpy()
    lengths = table["length"].to_numpy() if "length" in table.column_names else counts - 1
    first = np.cumsum(counts) - counts
    result = {}
    for length in np.unique(counts - 1).tolist():
        at = np.flatnonzero(counts - 1 == length)
        written = ids[first[at][:, None] + np.arange(length + 1)]
        wrong = (
            (lengths[at] != length) | (outputs[at] < 0) | _misplaced(task, written).any(axis=1) | (length < 1)
        )
        if wrong.any():
            row = int(at[np.argmax(wrong)])
            raise UserError(f"{where}: row {row} is no example of this task: {_row(table, row)}")
        examples = task.vocabulary.read(written, task.order)
        result[length] = Parsed(at=at, examples=_small(task, examples), outputs=outputs[at])
    return result


def _misplaced(task: Task, written: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a function stands in the symbol's place, or the other way round, or something unknown. (N, L + 1)"""
    is_symbol = np.zeros(written.shape[1], dtype=bool)
    is_symbol[-1 if task.order == "right-to-left" else 0] = True
    return np.asarray((written < 0) | ((written >= task.n_functions) != is_symbol))


def _small(task: Task, examples: Examples) -> Examples:
    room = task.language("train").empty(examples.length, len(examples))
    room.starts[:], room.functions[:] = examples.starts, examples.functions
    return room


def _row(table: pa.Table, row: int) -> str:
    cells = {name: str(table[name][row].as_py())[:60] for name in ("input", "output")}
    return f"input {cells['input']!r}, output {cells['output']!r}"
