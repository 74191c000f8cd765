"""Writing one file: whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the place first, then rename; a full disk leaves an old file as it was and is one line."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}; choose another place or make room") from error
    finally:
        with suppress(OSError):  # such as a parent that is a file: then there is nothing to remove
            part.unlink()
