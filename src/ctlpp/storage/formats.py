"""The file formats of a split: Parquet, JSONL and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ctlpp.files import UserError
from ctlpp.storage.rows import SCHEMA, lines

ENDINGS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}


def write_rows(path: Path, batches: Iterable[pa.RecordBatch], format: str) -> None:
    """Write the rows of a split to a file."""
    if format == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(
            path, SCHEMA, compression="zstd", use_dictionary=["output", "length", "allowed"]
        ) as file:
            for batch in batches:
                file.write_batch(batch)
        return
    with path.open("wb") as stream:
        for batch in batches:
            stream.write(lines(batch) if format == "text" else _json_lines(batch))


def read_rows(path: Path) -> pa.Table:
    """The table behind a file: `input`, `output` and, but for text, `length` and `allowed`."""
    if not path.is_file():
        raise UserError(f"{path}: the file is missing; generate the dataset again")
    with _one_line_errors(path):
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                table = file.read()
        elif path.suffix == ".jsonl":
            import pyarrow.json as pj

            options = pj.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="error")
            table = pj.read_json(path, parse_options=options)
        else:
            import pyarrow.csv as pcsv

            table = pcsv.read_csv(
                path,
                read_options=pcsv.ReadOptions(column_names=["input", "output"]),
                parse_options=pcsv.ParseOptions(delimiter="\t", quote_char=False),
                convert_options=pcsv.ConvertOptions(
                    column_types={"input": pa.string(), "output": pa.string()}
                ),
            )
        known = pa.schema(list(SCHEMA)[:2] if path.suffix == ".txt" else SCHEMA)
        if wrong := [name for name in known.names if table.column_names.count(name) != 1]:
            raise pa.ArrowInvalid(f"it must have one column {wrong[0]}")
        table = table.select(known.names).cast(known)
        table.validate(full=True)
        if any(column.null_count for column in table.columns):
            raise pa.ArrowInvalid("a cell is empty")
        return table


def _json_lines(batch: pa.RecordBatch) -> bytes:
    """One object a line. Tokens are letters and digits: nothing needs escaping."""
    cells = [pc.cast(batch["length"], pa.string()), pc.cast(batch["allowed"], pa.string())]
    text = pc.binary_join_element_wise(
        '{"input": "',
        batch["input"],
        '", "output": "',
        batch["output"],
        '", "length": ',
        cells[0],
        ', "allowed": ',
        cells[1],
        "}",
        "",
    )
    return "".join(line + "\n" for line in text.to_pylist()).encode()


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: the file is damaged ({reason}); generate the dataset again") from error
