"""A dataset folder: one file per split, `task.json` and a dataset card; read with its checksums verified.

A row has `input` (`d a b 3`), `output` (`5`), `length` (3) and `allowed`: whether the training graph allows
every succession of functions in it. Columns are handled whole: no loop over examples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ctlpp.benchmark.dataset import ENUMERATED, Dataset, Split
from ctlpp.benchmark.graph import Graph, abbreviate, check_items, choose, get, get_list, read_graph
from ctlpp.benchmark.task import Task, check_task
from ctlpp.benchmark.variants import ORDERS, PROTOCOLS
from ctlpp.files import FolderKind, UserError, check_folder, write_folder
from ctlpp.storage.card import dataset_card
from ctlpp.words import OLD_PROTOCOLS

Entries = dict[str, dict[str, Any]]  # what `task.json` says of each split
FORMAT = 1  # of task.json
ENDINGS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}  # of the files in each format
DATASET = FolderKind("a dataset folder", mark="task.json")
ROWS_AT_ONCE = 1 << 17
SCHEMA = pa.schema(
    [("input", pa.string()), ("output", pa.string()), ("length", pa.int32()), ("allowed", pa.bool_())]
)

check_target = partial(check_folder, DATASET)


def save(
    dataset: Dataset,
    folder: Path,
    *,
    format: str = "parquet",
    force: bool = False,
    advance: Callable[[int], object] = lambda rows: None,
) -> None:
    """Write `task.json`, one file per split and a dataset card; call `advance` with numbers of rows."""
    if format not in ENDINGS:
        raise UserError(f"‹format› {format}: choose from {', '.join(ENDINGS)}")
    with write_folder(DATASET, folder, force=force) as place:
        entries = {}
        for name, split in dataset.splits.items():
            file = name + ENDINGS[format]
            sha256 = write_rows(place / file, rows(dataset.task, split, advance))
            entries[name] = _count(dataset, name) | {"sha256": sha256, "file": file}
        content = task_to_dict(dataset.task, dataset.settings, entries)
        content["sha256"] = digest_of_task(content)
        card = dataset_card(dataset.task, dataset.settings, entries)
        for name, text in {"task.json": pretty(content) + "\n", "README.md": card}.items():
            (place / name).write_text(text, encoding="utf-8")


def _count(dataset: Dataset, name: str) -> dict[str, Any]:
    """How many examples a split has, by length, and how many of them train has, too."""
    by_length = {str(length): len(examples) for length, examples in dataset[name].items()}
    entry: dict[str, Any] = {"examples": dataset.size(name), "by_length": by_length}
    if name not in ("train", *ENUMERATED) and (overlap := dataset.shared("train", name)):
        entry["in_train"] = overlap
    return entry


def load(folder: str | Path) -> Dataset:
    """The dataset in a folder, or on the Hugging Face Hub at `hf://owner/name`.

    Args:
        folder: A dataset folder, or an address on the Hub, which may end in `@revision`.

    Returns:
        The dataset, with every checksum, output and label compared.

    Raises:
        UserError: If a file is missing, damaged or was changed.
    """
    if not isinstance(folder, str | Path):
        raise UserError(f"this {type(folder).__name__} is neither a dataset nor the path of one")
    if str(folder).startswith("hf://"):
        from ctlpp.storage.hub import pull

        folder = pull(str(folder))
    return read_folder(Path(folder))[0]


def read_folder(folder: Path) -> tuple[Dataset, Entries]:
    """The dataset in a folder, and what its `task.json` says of the splits."""
    task, settings, entries = read_task(folder)
    splits = {}
    for name, entry in entries.items():
        splits[name] = parse(task, read_split(folder, entry), folder / entry["file"])
    return Dataset(task=task, settings=settings, splits=splits), entries


def to_table(dataset: Dataset, split: str) -> pa.Table:
    """The rows of a split."""
    return pa.Table.from_batches(rows(dataset.task, dataset[split]), SCHEMA)


def rows(
    task: Task, split: Split, advance: Callable[[int], object] = lambda rows: None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split in batches, short examples first; calls `advance` with numbers of rows."""
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
            advance(len(part))


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


def digest(batches: Iterable[pa.RecordBatch], write: Callable[[pa.RecordBatch], Any] | None = None) -> str:
    """The sha256 of a split's lines, whatever the file format; `write` gets each batch."""
    total = hashlib.sha256()
    for batch in batches:
        total.update(lines(batch))
        if write is not None:
            write(batch)
    return total.hexdigest()


def write_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> str:
    """Write the rows of a split in the format that the file's ending says, and return their sha256."""
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        repetitive = ["output", "length", "allowed"]
        with pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=repetitive) as table:
            return digest(batches, table.write_batch)
    to_bytes = lines if path.suffix == ".txt" else _json_lines
    with path.open("wb") as file:
        return digest(batches, lambda batch: file.write(to_bytes(batch)))


def read_split(folder: Path, entry: dict[str, Any]) -> pa.Table:
    """The rows of a split, which must have the number and the checksum in `task.json`."""
    path = folder / entry["file"]
    table = read_rows(path)
    if table.num_rows != entry["examples"]:
        found = f"{path} has {table.num_rows} rows, task.json says {entry['examples']}"
        raise UserError(f"{found}: the file was changed")
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


def parse(task: Task, table: pa.Table, file: Path) -> Split:
    """Length -> examples. Raises UserError for the first row that is wrong, whatever else the file has."""
    words = pc.split_pattern(table["input"].combine_chunks(), " ")
    counts = pc.list_value_length(words).to_numpy(zero_copy_only=False)
    ids = pc.index_in(words.flatten(), value_set=pa.array(task.vocabulary.tokens[:-1]))
    ids = pc.fill_null(ids, -1).to_numpy(zero_copy_only=False)
    outputs = pc.fill_null(pc.index_in(table["output"], value_set=pa.array(task.symbols)), -1).to_numpy()
    lengths = table["length"].to_numpy() if "length" in table.column_names else counts - 1
    train, first = task.language("train"), np.cumsum(counts) - counts
    split = {}
    for length in np.unique(counts - 1).tolist():
        at = np.flatnonzero(counts - 1 == length)
        written = ids[first[at][:, None] + np.arange(length + 1)]
        known = (lengths[at] == length) & (outputs[at] >= 0) & _in_form(task, written) & (length > 0)
        _check_rows(table, file, at, known, "is no example of this task")
        examples, read = train.empty(length, len(at)), task.vocabulary.read(written, task.order)
        examples.starts[:], examples.functions[:] = read.starts, read.functions
        right = examples.outputs(task.table) == outputs[at]
        _check_rows(table, file, at, right, "has the wrong output")
        if "allowed" in table.column_names:
            right = train.allows_successions(examples) == table["allowed"].to_numpy()[at]
            _check_rows(table, file, at, right, "has the wrong label `allowed`")
        split[length] = examples
    return split


def _in_form(task: Task, written: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have a symbol at the start symbol's place, and functions everywhere else."""
    is_symbol = np.zeros(written.shape[1], dtype=bool)
    is_symbol[-1 if task.order == "right-to-left" else 0] = True
    return np.asarray(((written >= 0) & ((written >= task.n_functions) == is_symbol)).all(axis=1))


def _check_rows(
    table: pa.Table, file: Path, at: NDArray[Any], right: NDArray[np.bool_], problem: str
) -> None:
    """Raise UserError for the first of the rows `at` that is not right."""
    if not right.all():
        row = int(at[np.argmin(right)])
        question, answer = (table[name][row].as_py()[:60] for name in ("input", "output"))
        raise UserError(f"{file}: row {row}, {question!r} -> {answer!r}, {problem}")


def task_to_dict(task: Task, settings: Mapping[str, Any], splits: Entries) -> dict[str, Any]:
    """The content of `task.json`; run folders have it, too, without splits."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "variant": task.variant,
        "protocol": task.protocol,
        "seed": task.seed,
        "order": task.order,
        "symbols": list(task.symbols),
        "functions": {name: list(outputs) for name, outputs in task.functions.items()},
        "groups": {name: list(functions) for name, functions in task.groups.items()},
        "train_graph": _graph_to_dict(task.train_graph),
        "ood_graph": _graph_to_dict(task.ood_graph),
    }
    if task.shared_functions is not None:
        content |= {"shared_functions": task.shared_functions, "shared_symbols": task.shared_symbols}
    return content | {"recipe": dict(settings), "splits": splits}


def _graph_to_dict(graph: Graph) -> dict[str, Any]:
    entry: dict[str, Any] = {"lengths": list(graph.lengths), "edges": [list(edge) for edge in graph.edges]}
    for rule in graph.restrictions:
        restriction = {"from": rule.source, "function": rule.function, "symbols": list(rule.symbols)}
        entry.setdefault("restrictions", []).append(restriction)
    return entry


def task_from_dict(content: Any) -> Task:
    """The task in the content of a `task.json`, whoever wrote it. Raises UserError if it is none."""
    found = content.get("format") if isinstance(content, dict) else None
    if type(found) is not int or found != FORMAT:
        raise UserError(f"format {abbreviate(found)} is not known; this version reads format {FORMAT}")
    functions, groups = get(content, "functions", dict), get(content, "groups", dict)
    protocol = get(content, "protocol", str)
    named = {"protocol": OLD_PROTOCOLS.get(protocol, protocol)}
    task = Task(
        variant=get(content, "variant", str),
        protocol=choose(named, "protocol", PROTOCOLS),
        seed=get(content, "seed", int),
        order=choose(content, "order", ORDERS),
        symbols=get_list(content, "symbols", str),
        functions={name: get_list(functions, name, int) for name in functions},
        groups={name: get_list(groups, name, str) for name in groups},
        train_graph=read_graph(get(content, "train_graph", dict)),
        ood_graph=read_graph(get(content, "ood_graph", dict)),
        shared_functions=get(content, "shared_functions", int, missing=None),
        shared_symbols=get(content, "shared_symbols", int, missing=None),
    )
    check_task(task)
    return task


def digest_of_task(content: Mapping[str, Any]) -> str:
    """The sha256 of what `task.json` says, but for the checksum itself."""
    said = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def read_task(folder: Path) -> tuple[Task, dict[str, Any], Entries]:
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
        content = json.loads(text)
        task = task_from_dict(content)
        settings, splits = get(content, "recipe", dict, missing={}), get(content, "splits", dict)
        _check_settings(settings)
        for name in splits:
            _check_entry(name, get(splits, name, dict))
        if content.get("sha256", digest := digest_of_task(content)) != digest:  # folders of 0.1 have none
            raise UserError("the content does not have its own sha256: the file was changed")
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from error
    return task, settings, splits


def _check_entry(name: str, entry: dict[str, Any]) -> None:
    for key, kind in (("file", str), ("examples", int), ("by_length", dict), ("sha256", str)):
        get(entry, key, kind)
    check_items([*entry["by_length"].values()], "by_length", int)
    get(entry, "in_train", int, missing=0)
    if (file := PurePath(entry["file"])).name != entry["file"] or file.suffix not in ENDINGS.values():
        raise UserError(f"split {name!r} needs the name of a file in the folder, not {entry['file']!r}")


def _check_settings(settings: dict[str, Any]) -> None:
    for name in ("train", "iid", "ood"):
        get(settings, name, int, missing=0)
    if not 0 < get(settings, "fill", float, missing=1.0) <= 1:
        raise UserError(f"fill {settings['fill']} must be a share above 0 and up to 1")


def pretty(value: Any, depth: int = 0) -> str:
    """JSON with short things on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= 110 or not isinstance(value, dict | list):
        return flat
    if isinstance(value, dict):
        keys = [json.dumps(key, ensure_ascii=False) for key in value]
        items = [f"{key}: {pretty(one, depth + 1)}" for key, one in zip(keys, value.values(), strict=True)]
    else:
        items = [pretty(one, depth + 1) for one in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    line = "\n" + " " * depth
    return left + ",".join(f"{line} {item}" for item in items) + line + right
