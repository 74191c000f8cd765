"""Numbers of a run in few bytes: arrays of one byte per number, deflated, as base64 that a browser unpacks.

A package is four bytes with the length of a JSON text (little-endian), that text, and the arrays one after
the other; the JSON says under "arrays" where each begins and how long it is.

Example:
    >>> quantise(np.array([0.0, 0.5, 1.0, np.nan]), 0, 1).tolist()
    [0, 127, 254, 255]
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.runs.untrusted import as_float

MISSING = 255
FINEST = 255  # levels of a quantised number
Bytes = NDArray[np.uint8]


class Package:
    """Facts and arrays of one run."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.arrays: dict[str, Bytes] = {}
        self.damage: list[str] = []  # why something of the analysis is missing that should be there

    def add(self, name: str, array: Bytes) -> None:
        """Append an array of bytes, whatever its shape."""
        self.arrays[name] = np.ascontiguousarray(array, dtype=np.uint8).ravel()

    def text(self, levels: int = FINEST) -> str:
        """As base64, with so many levels of the array "similarity", which is by far the largest."""
        arrays = dict(self.arrays)
        if "similarity" in arrays and levels < FINEST:
            arrays["similarity"] = coarsen(arrays["similarity"], levels)
        places, start = {}, 0
        for name, array in arrays.items():
            places[name] = [start, len(array)]
            start += len(array)
        head = json.dumps(
            {**self.facts, "levels": levels, "arrays": places}, separators=(",", ":"), allow_nan=False
        ).encode()
        body = b"".join(array.tobytes() for array in arrays.values())
        return b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + body, 6)).decode("ascii")


def coarsen(array: Bytes, levels: int) -> Bytes:
    """An array quantised as finely as can be, with fewer levels."""
    return np.where(array == MISSING, MISSING, np.rint(array * ((levels - 1) / (FINEST - 1)))).astype(
        np.uint8
    )


def quantise(values: NDArray[Any], low: float, high: float, levels: int = FINEST) -> Bytes:
    """Numbers from low to high as 0 … levels - 1, rounded; 255 where there is no number."""
    assert 2 <= levels <= FINEST
    known = np.isfinite(values)
    scaled = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    return np.where(known, np.clip(np.rint(scaled * (levels - 1)), 0, levels - 1), MISSING).astype(np.uint8)


def rounded(value: object) -> float | None:
    """A number as the page has it; None for what is none."""
    number = as_float(value)
    return None if number is None else round(number, 5)
