"""Entries of JSON and TOML files that anybody may have written: of the right kind, or a one-line error.

Example:
    >>> get({"seed": 3}, "seed", int), get_list({"lengths": [2, 4]}, "lengths", int)
    (3, (2, 4))
    >>> get({"seed": "3"}, "seed", int)
    Traceback (most recent call last):
    ctlpp.files.UserError: the entry 'seed' must have a whole number, not '3'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctlpp.files import UserError

REQUIRED = object()
KINDS = {str: "a printable text", int: "a whole number", float: "a number", list: "a list", dict: "an object"}


def get(entries: Mapping[str, Any], key: str, kind: type, missing: Any = REQUIRED) -> Any:
    """The entry under a key, if it is of this kind."""
    if key not in entries and missing is REQUIRED:
        raise UserError(f"the entry {key!r} is missing")
    return check_items([entries[key]], key, kind)[0] if key in entries else missing


def get_list(entries: Mapping[str, Any], key: str, kind: type, missing: Any = REQUIRED) -> tuple[Any, ...]:
    """The list under a key, if all it holds is of this kind."""
    return check_items(get(entries, key, list, missing), key, kind)


def check_items(values: Sequence[Any], key: str, kind: type) -> tuple[Any, ...]:
    """The values as they are, if all are of this kind."""
    for value in values:
        fits = type(value) in (int, float) if kind is float else type(value) is kind
        if not fits or (kind is str and not value.isprintable()):
            raise UserError(f"the entry {key!r} must have {KINDS[kind]}, not {shown(value)}")
    return tuple(values)


def shown(value: Any) -> str:
    """A value in few words."""
    return KINDS[type(value)] if isinstance(value, list | dict) else f"{value!r:.60}"


def choose(entries: Mapping[str, Any], key: str, choices: tuple[Any, ...]) -> Any:
    """The entry under a key, if it is one of these."""
    if (value := get(entries, key, str)) not in choices:
        raise UserError(f"{value!r} is not one of {', '.join(choices)}")
    return value


def check_keys(entries: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise UserError for a key that means nothing."""
    if unknown := [key for key in entries if key not in known]:
        raise UserError(f"unknown key {unknown[0]!r}; choose from {', '.join(known)}")
