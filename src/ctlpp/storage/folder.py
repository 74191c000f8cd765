"""A dataset folder: one file per split, `task.json` and a dataset card; read with its checksums verified.

A row has `input` (`d a b 3`), `output` (`5`), `length` (3) and `allowed`: whether the training graph allows
every succession of functions in it. Columns are handled whole: no loop over examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ctlpp.benchmark.dataset import Dataset
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.splits import ENUMERATED, Split
from ctlpp.benchmark.task import Task
from ctlpp.files import FolderKind, UserError, check_folder, write_folder
from ctlpp.storage.card import dataset_card
from ctlpp.storage.task_json import ENDINGS, from_json, to_json

DATASET = FolderKind("a dataset folder", mark="task.json")
ROWS_AT_ONCE = 1 << 17
SCHEMA = pa.schema(
    [("input", pa.string()), ("output", pa.string()), ("length", pa.int32()), ("allowed", pa.bool_())]
)

check_target = partial(check_folder, DATASET)


def save(dataset: Dataset, folder: Path, *, format: str = "parquet", force: bool = False) -> None:
    """Write `task.json`, one file per split and a dataset card."""
    if format not in ENDINGS:
        raise UserError(f"‹format› {format}: choose from {', '.join(ENDINGS)}")
    with write_folder(DATASET, folder, force=force) as place:
        entries = {}
        for name, split in dataset.splits.items():
            file = name + ENDINGS[format]
            sha256 = write_rows(place / file, rows(dataset.task, split))
            entries[name] = _entry(dataset, name) | {"sha256": sha256, "file": file}
        texts = {
            "task.json": to_json(dataset.task, dataset.settings, entries),
            "README.md": dataset_card(dataset.task, dataset.settings, entries),
        }
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")


def load(folder: str | Path) -> Dataset:
    """The dataset in a folder. Raises UserError if a file is missing, damaged or was changed."""
    folder = Path(folder)
    task, settings, entries = read_task(folder)
    splits = {}
    for name, entry in entries.items():
        parts = parse(task, read_split(folder, entry), name)
        splits[name] = {length: part.examples for length, part in parts.items()}
    return Dataset(task=task, settings=settings, splits=splits)


def _entry(dataset: Dataset, name: str) -> dict[str, Any]:
    """What `task.json` says of a split, but for the file."""
    by_length = {str(length): len(examples) for length, examples in dataset[name].items()}
    entry: dict[str, Any] = {"examples": dataset.size(name), "by_length": by_length}
    if name not in ("train", *ENUMERATED) and (overlap := dataset.shared("train", name)):
        entry["in_train"] = overlap
    return entry


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
    return _join(batch["input"], "\t", batch["output"], "\n")


def _json_lines(batch: pa.RecordBatch) -> bytes:
    """One object per line. Tokens are letters and digits: nothing needs escaping."""
    length, allowed = (pc.cast(batch[name], pa.string()) for name in ("length", "allowed"))
    texts = ('{"input": "', batch["input"], '", "output": "', batch["output"])
    return _join(*texts, '", "length": ', length, ', "allowed": ', allowed, "}\n")


def _join(*columns: pa.Array | str) -> bytes:
    """Columns and constants side by side, row after row."""
    text = pc.binary_join_element_wise(*columns, "")
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return b""
    ends = np.frombuffer(offsets, dtype=np.int32)
    return bytes(memoryview(data)[ends[0] : ends[len(text)]])


def digest(batches: Iterable[pa.RecordBatch]) -> str:
    """The sha256 of a split: that of its lines, whatever the file format."""
    total = hashlib.sha256()
    for batch in batches:
        total.update(lines(batch))
    return total.hexdigest()


def write_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> str:
    """Write the rows of a split in the format that the file's ending says, and return their sha256."""
    total = hashlib.sha256()
    with _writer(path) as write:
        for batch in batches:
            total.update(lines(batch))
            write(batch)
    return total.hexdigest()


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[pa.RecordBatch], Any]]:
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        repetitive = ["output", "length", "allowed"]
        with pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=repetitive) as table:
            yield table.write_batch
        return
    to_bytes = lines if path.suffix == ".txt" else _json_lines
    with path.open("wb") as file:
        yield lambda batch: file.write(to_bytes(batch))


def read_task(folder: Path) -> tuple[Task, dict[str, Any], dict[str, dict[str, Any]]]:
    """What `task.json` in the folder says: the task, the settings and an entry for each split."""
    if folder.is_file():
        raise UserError(f"{folder} is a file; name the dataset folder, which has a task.json")
    path = folder / "task.json"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = "is no dataset folder: it has no readable task.json" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}; name a dataset folder, as `ctlpp generate` writes it") from error
    try:
        return from_json(text)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def read_split(folder: Path, entry: dict[str, Any]) -> pa.Table:
    """The rows of a split, if they are those that `task.json` vouches for."""
    path = folder / entry["file"]
    table = read_rows(path)
    if table.num_rows != entry["examples"]:
        raise UserError(
            f"{path} has {table.num_rows} rows, task.json says {entry['examples']}: the file was changed"
        )
    is_text = path.suffix == ".txt"  # nothing but the lines of its split
    found = hashlib.sha256(path.read_bytes()).hexdigest() if is_text else digest(table.to_batches())
    if found != entry["sha256"]:
        raise UserError(f"{path} does not have the sha256 in task.json: the file was changed")
    return table


def read_rows(path: Path) -> pa.Table:
    """The table behind a file: `input`, `output` and, but for text, `length` and `allowed`."""
    if not path.is_file():
        raise UserError(f"{path}: the file is missing; generate the dataset again")
    known = pa.schema(list(SCHEMA)[:2]) if path.suffix == ".txt" else SCHEMA
    try:
        table = _read_table(path, known)
        if wrong := [name for name in known.names if table.column_names.count(name) != 1]:
            raise pa.ArrowInvalid(f"it must have one column {wrong[0]}")
        table = table.select(known.names).cast(known)
        table.validate(full=True)
        if any(column.null_count for column in table.columns):
            raise pa.ArrowInvalid("a cell is empty")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: the file is damaged ({reason}); generate the dataset again") from error
    return table


def _read_table(path: Path, schema: pa.Schema) -> pa.Table:
    import pyarrow.csv as pcsv
    import pyarrow.json as pj
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            return file.read()
    if path.suffix == ".jsonl":
        options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        return pj.read_json(path, parse_options=options)
    return pcsv.read_csv(
        path,
        read_options=pcsv.ReadOptions(column_names=schema.names),
        parse_options=pcsv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pcsv.ConvertOptions(column_types=schema),
    )


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
        wrong = (lengths[at] != length) | (outputs[at] < 0) | _misplaced(task, written) | (length < 1)
        if wrong.any():
            row = int(at[np.argmax(wrong)])
            shown = ", ".join(f"{name} {table[name][row].as_py()[:60]!r}" for name in ("input", "output"))
            raise UserError(f"{where}: row {row} is no example of this task: {shown}")
        examples = task.language("train").empty(length, len(at))
        read = task.vocabulary.read(written, task.order)
        examples.starts[:], examples.functions[:] = read.starts, read.functions
        result[length] = Parsed(at=at, examples=examples, outputs=outputs[at])
    return result


def _misplaced(task: Task, written: NDArray[Any]) -> NDArray[np.bool_]:
    """In which rows a function stands in the symbol's place, or the other way round, or something unknown."""
    is_symbol = np.zeros(written.shape[1], dtype=bool)
    is_symbol[-1 if task.order == "right-to-left" else 0] = True
    return np.asarray(((written < 0) | ((written >= task.n_functions) != is_symbol)).any(axis=1))
