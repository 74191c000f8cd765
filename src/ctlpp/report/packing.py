"""Numbers of a run in few bytes: arrays of one byte a number, deflated, as base64 text that a browser unpacks.

A package is four bytes with the length of a JSON text (little-endian), that text, and the arrays one after the other;
the JSON says under "arrays" where each begins and how long it is.

Example:
    >>> package = Package({"name": "x"})
    >>> package.add("numbers", quantise(np.array([0.0, 0.5, 1.0, np.nan]), 0, 1))
    >>> unpack(package.text())[1]["numbers"].tolist()
    [0, 127, 254, 255]
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = 255
Bytes = NDArray[np.uint8]


class Package:
    """Facts and arrays of one run."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.arrays: dict[str, Bytes] = {}

    def add(self, name: str, array: Bytes) -> None:
        """Append an array of bytes, whatever its shape."""
        self.arrays[name] = np.ascontiguousarray(array, dtype=np.uint8).ravel()

    def text(self) -> str:
        """As base64."""
        places, start = {}, 0
        for name, array in self.arrays.items():
            places[name] = [start, len(array)]
            start += len(array)
        head = json.dumps({**self.facts, "arrays": places}, separators=(",", ":"), allow_nan=False).encode()
        body = b"".join(array.tobytes() for array in self.arrays.values())
        return b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + body, 9)).decode("ascii")


def unpack(text: str) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """What the browser does: facts and arrays of a package."""
    whole = zlib.decompress(b64decode(text))
    size = int.from_bytes(whole[:4], "little")
    facts = json.loads(whole[4 : 4 + size])
    body = np.frombuffer(whole, np.uint8, offset=4 + size)
    return facts, {name: body[start : start + length] for name, (start, length) in facts["arrays"].items()}


def quantise(values: NDArray[Any], low: float, high: float, levels: int = 255) -> Bytes:
    """Numbers from low to high as 0 … levels - 1, rounded; 255 where there is no number."""
    assert 2 <= levels <= 255
    known = np.isfinite(values)
    scaled = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    return np.where(known, np.clip(np.rint(scaled * (levels - 1)), 0, levels - 1), MISSING).astype(np.uint8)
