"""Writing one file: whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_file(path: Path, text: str, *, force: bool) -> None:
    """Write beside the place first, then rename."""
    if os.path.lexists(path) and not force:
        raise ValueError(f"{path} exists already; choose another file, or say --force to replace it")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}; choose another place or make room") from error
    finally:
        with suppress(OSError):  # such as a parent that is a file: then there is nothing to remove
            part.unlink()
