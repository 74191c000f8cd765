"""A piece that failed leaves a note beside its folder, `<first>-<last>.failed.json`; `--retry` takes it up again."""

from __future__ import annotations

import json
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ctlpp.files import write_json


def note_of(folder: Path) -> Path:
    """Where the note about a piece lies."""
    return folder.with_name(f"{folder.name}.failed.json")


def note_failure(folder: Path, error: BaseException) -> str:
    """Write down why a piece failed; gives the reason in one line."""
    lines = str(error).split("\n")
    reason = lines[0] if isinstance(error, ValueError) else f"{type(error).__name__}: {lines[0]}"
    about = {
        "reason": reason,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "traceback": traceback.format_exception(error),
    }
    write_json(note_of(folder), about)
    return reason


def read_failure(folder: Path) -> str:
    """Why a piece failed; empty if it did not, or if its folder is gone: it then begins anew."""
    path = note_of(folder)
    if not path.is_file() or not folder.is_dir():
        return ""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(path.read_text())["reason"])
    return f"{path.name} cannot be read"


def forget_failure(folder: Path) -> None:
    """Let a piece be tried again."""
    note_of(folder).unlink(missing_ok=True)
