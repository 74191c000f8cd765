"""Random numbers that are the same on every machine and with every NumPy version.

A stream is named by a seed and by words that say what it is for, so no two uses share numbers. Only the raw
64-bit words of Philox are used: NumPy keeps those fixed for ever, unlike the methods of its `Generator`.

Example:
    >>> Stream(0, "coffee").below(6, 5).tolist() == Stream(0, "coffee").below(6, 5).tolist()
    True
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.distinct import Integers, first_occurrences, member

Words = NDArray[np.uint64]


class Stream:
    """An endless sequence of random words."""

    def __init__(self, seed: int, *purpose: str | int) -> None:
        name = "/".join(map(str, ("ctlpp", seed, *purpose)))
        key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u8")
        self._bits = np.random.Philox(key=key.astype(np.uint64))

    def words(self, n: int) -> Words:
        """The next n words."""
        return self._bits.random_raw(n)

    def below(self, bound: int, n: int) -> Integers:
        """n integers, each uniform over 0 … bound − 1: the top bits of a word, drawn again while too large."""
        bits = max(1, (bound - 1).bit_length())
        found: list[Integers] = []
        missing = n
        while missing:
            tries = missing if 1 << bits == bound else int(missing * (1 << bits) / bound * 1.05) + 8
            drawn = self._top_bits(bits, tries)
            found.append(drawn[drawn < bound][:missing])
            missing -= len(found[-1])
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """The integers 0 … n − 1 in random order."""
        return np.argsort(self.words(n), kind="stable")

    def distinct_below(self, bound: int, n: int) -> Integers:
        """n different integers out of 0 … bound − 1: every ordered choice is equally likely."""
        assert n <= bound
        if 3 * n > bound:
            return self.permutation(bound)[:n]
        chosen = first_occurrences(self.below(bound, n))
        while len(chosen) < n:
            more = first_occurrences(self.below(bound, n - len(chosen)))
            chosen = np.concatenate([chosen, more[~member(more, chosen)]])
        return chosen

    def _top_bits(self, bits: int, n: int) -> Integers:
        if bits < 63:
            return (self.words(n) >> np.uint64(64 - bits)).astype(np.int64)
        limbs = -(-bits // 64)
        words = self.words(n * limbs).astype(object).reshape(n, limbs)
        whole = sum(words[:, i] << (64 * i) for i in range(limbs))
        return np.asarray(whole >> (64 * limbs - bits), dtype=object)
