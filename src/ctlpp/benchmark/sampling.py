"""Drawing distinct examples of a language, with the same result on every machine.

`uniform`: every set of examples is equally likely; drawing them is drawing distinct numbers.
`sequential`: pick a path, then a function, each uniformly among what is allowed; what was drawn before is
dropped. (After 16 walks per example, because nearly all are drawn or most are very unlikely, the rest is
uniform.) The paths at a point are the groups that may follow, where groups after which the graph goes on
alike count as one: in S, a1 and b1 are two paths, while a2 and o, which both lead back to stage 1, are one
pool.

Example:
    >>> from ctlpp.benchmark.graph import IN, Graph
    >>> graph = Graph.of({IN: "f", "f": "f OUT"}, lengths=[2])
    >>> language = Language(graph, table=np.array([[1, 0], [0, 1]]), groups={"f": (0, 1)})
    >>> len(draw(language, 2, 8, "uniform", Stream(0, "coffee")))
    8
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.language import Examples, Integers, Language, join

Words = NDArray[np.uint64]
NO_NUMBERS: Integers = np.zeros(0, dtype=np.int64)
WALKS_PER_EXAMPLE = 16  # at most; the rest is drawn uniformly


class Stream:
    """Random words, named by a seed and by what they are for, so that no two uses share numbers.

    Only the raw 64-bit words of Philox are used: NumPy keeps those fixed for ever, unlike its `Generator`.
    """

    def __init__(self, seed: int, *purpose: str | int) -> None:
        name = "/".join(map(str, ("ctlpp", seed, *purpose)))
        key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u8")
        self._bits = np.random.Philox(key=key.astype(np.uint64))

    def words(self, n: int) -> Words:
        """The next n words."""
        return self._bits.random_raw(n)

    def below(self, bound: int, n: int) -> Integers:
        """n integers, each uniform over 0 … bound − 1: top bits of a word, drawn again while too large."""
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
            chosen = np.concatenate([chosen, more[~is_in(more, chosen)]])
        return chosen

    def _top_bits(self, bits: int, n: int) -> Integers:
        if bits < 63:
            return (self.words(n) >> np.uint64(64 - bits)).astype(np.int64)
        limbs = -(-bits // 64)
        words = self.words(n * limbs).astype(object).reshape(n, limbs)
        whole = sum(words[:, i] << (64 * i) for i in range(limbs))
        return np.asarray(whole >> (64 * limbs - bits), dtype=object)


def first_occurrences(values: Integers) -> Integers:
    """The different values, in order of their first occurrence."""
    return np.asarray(values[is_first(values)])


def is_first(values: Integers) -> NDArray[np.bool_]:
    """Whether each value stands for the first time."""
    first = np.zeros(len(values), dtype=bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def is_in(values: Integers, of: Integers) -> NDArray[np.bool_]:
    """For each value, whether `of` contains it (any integer type, also Python integers)."""
    if len(of) == 0:
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(of)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values, dtype=bool)


def draw(
    language: Language, length: int, n: int, weighting: str, stream: Stream, taken: Integers = NO_NUMBERS
) -> Examples:
    """n distinct examples of this length, none of which has a number in `taken`."""
    free = language.count(length) - len(taken)
    assert n <= free, "more examples asked for than there are"
    if weighting == "sequential" and n < free:
        return _draw_walks(language, length, n, stream, taken)
    return language.unrank(length, _draw_numbers(language.count(length), n, stream, taken))


def _draw_numbers(count: int, n: int, stream: Stream, taken: Integers) -> Integers:
    """n distinct numbers below `count`, none of them taken."""
    if len(taken) == 0:
        return stream.distinct_below(count, n)
    if 3 * (n + len(taken)) > count:  # crowded: list the free numbers
        free = np.flatnonzero(~is_in(np.arange(count), taken))
        return np.asarray(free[stream.distinct_below(len(free), n)])
    chosen = taken[:0]
    while len(chosen) < n:
        fresh = stream.below(count, n - len(chosen) + n // 16 + 16)
        fresh = first_occurrences(np.concatenate([chosen, fresh]))
        chosen = fresh[~is_in(fresh, taken)][:n]
    return chosen


def _draw_walks(language: Language, length: int, n: int, stream: Stream, taken: Integers) -> Examples:
    chosen, walked = language.empty(length), 0
    while len(chosen) < n and walked <= WALKS_PER_EXAMPLE * n:
        more = n - len(chosen) + n // 16 + 1000
        walked += more
        chosen = join([chosen, random_walks(language, length, more, stream)])
        numbers = language.rank(chosen)
        chosen = chosen[is_first(numbers) & ~is_in(numbers, taken)][:n]
    return uniformly_among_the_rest(language, chosen, n, stream, taken)


def uniformly_among_the_rest(
    language: Language, chosen: Examples, n: int, stream: Stream, taken: Integers = NO_NUMBERS
) -> Examples:
    """The chosen examples, filled up to n with others that are not in `taken`, all equally likely."""
    if len(chosen) == n:
        return chosen
    taken = np.concatenate([taken, language.rank(chosen)])
    rest = _draw_numbers(language.count(chosen.length), n - len(chosen), stream, taken)
    return join([chosen, language.unrank(chosen.length, rest)])


def random_walks(language: Language, length: int, n: int, stream: Stream) -> Examples:
    """n examples of random walks from IN to OUT, with repetitions."""
    examples = language.empty(length, n)
    possible = np.flatnonzero(language.ways(length)[: language.n_symbols] > 0)
    node = possible[_pick(stream.words(n) >> np.uint64(32), len(possible))]
    examples.starts[:] = node
    for i in range(length):
        n_paths, n_functions, functions = _pools(language, length - i)
        words = stream.words(n)
        path = _pick(words >> np.uint64(32), n_paths[node])
        option = _pick(words & np.uint64(0xFFFFFFFF), n_functions[node, path])
        examples.functions[:, i] = function = functions[node, path, option]
        node = language.next_node[node * language.n_functions + function]
    return examples


def _pick(words: Words, options: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """32-bit words to choices 0 … options − 1 (uniform up to one part in 2^32 / options)."""
    return ((words * np.asarray(options, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def _pools(language: Language, left: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each node: the number of paths (N,), of functions on each (N, P), and the functions (N, P, F)."""
    possible = (language.behind(left) > 0).reshape(-1, language.n_functions)  # (N, F)
    onward = [frozenset(language.graph.after(group)) for group in language.nodes]
    path_of = np.array([onward.index(targets) for targets in onward])[language.group_of]  # (F,)
    on_path = np.arange(path_of.max() + 1)[:, None] == path_of  # (P, F)
    pools = possible[:, None, :] & on_path
    sizes = pools.sum(axis=2)
    full_first = np.argsort(sizes == 0, axis=1, kind="stable")  # paths without a function come last
    functions = np.take_along_axis(np.argsort(~pools, axis=2, kind="stable"), full_first[..., None], axis=1)
    return (sizes > 0).sum(axis=1), np.take_along_axis(sizes, full_first, axis=1), functions
