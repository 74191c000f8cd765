"""Locks in a results folder, so that several processes can share its work. The system lets go when a process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ctlpp.files import UserError, make_folder


class BusyError(UserError):
    """Another process has it."""


@contextmanager
def held(out: Path, what: str, *, wait: bool = False) -> Iterator[None]:
    """Hold something of a results folder, by name; if another process has it, wait or raise `BusyError`."""
    make_folder(out / ".locks")
    handle = os.open(out / ".locks" / what, os.O_RDWR | os.O_CREAT)
    try:
        with suppress(ImportError):  # there is no fcntl on Windows
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(f"{what} is in use by another process") from error
        yield
    finally:
        os.close(handle)
