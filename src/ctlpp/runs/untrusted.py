"""Reading files that anybody may have written: at worst the outcome is a `DamagedError` with a reason."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any

LARGEST_JSON = 64 * 2**20  # bytes
MOST_ROWS = 50_000_000


class DamagedError(Exception):
    """A file that cannot be used, and why, in one line."""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise DamagedError(f"{path.name} is too large to be one of ours")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path.name} cannot be read: {first_line(error)}") from error
    if not isinstance(found, dict):
        raise DamagedError(f"{path.name} holds no JSON object")
    return found


def read_columns(path: Path, names: list[str]) -> Any:
    """Some columns of a Parquet file, as a table.

    From the file, not from bytes in Python: Arrow's threads let these go late, sometimes too late for Python.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > MOST_ROWS:
                raise DamagedError(f"{path.name} is too large to be one of ours")
            return file.read(columns=names).select(names)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DamagedError(f"{path.name} cannot be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """What an error says, shortened to one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = str(error).partition("\n")[0]
    return first[:160].rstrip(".") or type(error).__name__


def as_str(value: object) -> str:
    """A value as text, if it is one that reads well."""
    return value[:400] if isinstance(value, str) else ""


def as_int(value: object) -> int | None:
    """A whole number, if it is one that a page can show."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else None


def as_float(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and isfinite(value) else None


def as_dict(value: object) -> dict[str, Any]:
    """An object, empty if there is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A list, empty if there is none."""
    return value if isinstance(value, list) else []
