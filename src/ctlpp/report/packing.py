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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.runs.untrusted import as_float

MISSING = 255
FINEST = 255  # levels of a quantised number
Bytes = NDArray[np.uint8]


@dataclass
class Package:
    """Facts and arrays of one run."""

    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Bytes] = field(default_factory=dict)  # of any shape
    damage: list[str] = field(default_factory=list)  # why something of the analysis cannot be used

    def text(self, levels: int = FINEST) -> str:
        """As base64, with so many levels of the array "similarity", which is by far the largest."""
        arrays = {name: array.ravel() for name, array in self.arrays.items()}
        if "similarity" in arrays and levels < FINEST:
            arrays["similarity"] = coarsen(arrays["similarity"], levels)
        places, start = {}, 0
        for name, array in arrays.items():
            places[name] = [start, len(array)]
            start += len(array)
        facts = {**self.facts, "levels": levels, "arrays": places}
        head = json.dumps(facts, separators=(",", ":"), allow_nan=False).encode()
        body = b"".join(array.tobytes() for array in arrays.values())
        return b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + body, 6)).decode("ascii")


def coarsen(array: Bytes, levels: int) -> Bytes:
    """An array quantised as finely as can be, with fewer levels."""
    scaled = np.rint(array * ((levels - 1) / (FINEST - 1)))
    return np.where(array == MISSING, MISSING, scaled).astype(np.uint8)


def quantise(values: NDArray[Any], low: float, high: float) -> Bytes:
    """Numbers from low to high as 0 … 254, rounded; 255 where there is no number."""
    known = np.isfinite(values)
    scaled = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    return np.where(known, np.rint(np.clip(scaled, 0, 1) * (FINEST - 1)), MISSING).astype(np.uint8)


def rounded(value: object) -> float | None:
    """A number as the page has it; None for what is none."""
    number = as_float(value)
    return None if number is None else round(number, 5)
