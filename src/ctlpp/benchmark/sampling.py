"""Drawing distinct examples of a language, with the same result on every machine.

`uniform`: every set of examples is equally likely; drawing them is drawing distinct numbers.
`sequential`: pick a path, then a function, each uniformly among what is allowed; what was drawn before is
dropped. (After 16 walks per example, because nearly all are drawn or most are very unlikely, the rest is
uniform.) The paths at a point are the groups that may follow, where groups after which the graph goes on
alike count as one: in S, a1 and b1 are two paths, while a2 and o, which both lead back to stage 1, are one
pool.

`draw_sequences` and `draw_examples` make examples of few function sequences, each on several start symbols,
as in the data of the authors' code: its worker processes share random state, and all draw the same
functions, with different start symbols. With 16 of them, 88,728 examples of six functions had 12,599
different sequences, seven of the eight symbols for each: `RELEASED`. Sequences are drawn like examples,
with the same weighting. Each keeps the example that brought it, the rest is a random choice among their
further examples.

Example:
    >>> from ctlpp.benchmark.graph import IN, Graph
    >>> graph = Graph.of({IN: "f", "f": "f OUT"}, lengths=[2])
    >>> language = Language(graph, table=np.array([[1, 0], [0, 1]]), groups={"f": (0, 1)})
    >>> len(draw(language, 2, 8, "uniform", Stream(0, "coffee")))
    8
    >>> max_sequences("n/7", 88_728), max_sequences(12_599, 88_728)
    (12676, 12599)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.language import Examples, Integers, Language, join
from ctlpp.files import UserError

Weighting = Literal["uniform", "sequential"]
WEIGHTINGS: tuple[Weighting, ...] = ("uniform", "sequential")
Limit = int | str  # 12599 sequences of each length, or "n/7": one to every 7 examples of a length
RELEASED: Limit = "n/7"
Words = NDArray[np.uint64]
NOTHING: Integers = np.zeros(0, dtype=np.int64)
PATIENCE = 16  # walks per example


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
            chosen = np.concatenate([chosen, more[~member(more, chosen)]])
        return chosen

    def _top_bits(self, bits: int, n: int) -> Integers:
        if bits < 63:
            return (self.words(n) >> np.uint64(64 - bits)).astype(np.int64)
        limbs = -(-bits // 64)
        words = self.words(n * limbs).astype(object).reshape(n, limbs)
        whole = sum(words[:, i] << (64 * i) for i in range(limbs))
        return np.asarray(whole >> (64 * limbs - bits), dtype=object)


def first_occurrences(values: Integers) -> Integers:
    """`values` in order, without the repetitions."""
    return np.asarray(values[first_positions(values)])


def first_positions(values: Integers) -> NDArray[np.bool_]:
    """Where in `values` a value stands for the first time."""
    first = np.zeros(len(values), dtype=bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def member(values: Integers, of: Integers) -> NDArray[np.bool_]:
    """For each value, whether `of` contains it (any integer type, also Python integers)."""
    if len(of) == 0:
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(of)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values, dtype=bool)


def draw(
    language: Language, length: int, n: int, weighting: Weighting, stream: Stream, taken: Integers = NOTHING
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
        free = np.flatnonzero(~member(np.arange(count), taken))
        return np.asarray(free[stream.distinct_below(len(free), n)])
    chosen = taken[:0]
    while len(chosen) < n:
        fresh = stream.below(count, n - len(chosen) + n // 16 + 16)
        fresh = first_occurrences(np.concatenate([chosen, fresh]))
        chosen = fresh[~member(fresh, taken)][:n]
    return chosen


def _draw_walks(language: Language, length: int, n: int, stream: Stream, taken: Integers) -> Examples:
    chosen, walked = language.empty(length), 0
    while len(chosen) < n and walked <= PATIENCE * n:
        more = n - len(chosen) + n // 16 + 1000
        walked += more
        chosen = join([chosen, random_walks(language, length, more, stream)])
        numbers = language.rank(chosen)
        chosen = chosen[first_positions(numbers) & ~member(numbers, taken)][:n]
    return uniformly_among_the_rest(language, chosen, n, stream, taken)


def uniformly_among_the_rest(
    language: Language, chosen: Examples, n: int, stream: Stream, taken: Integers = NOTHING
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
    path_of = _paths(language)[language.group_of]  # (F,)
    on_path = np.arange(path_of.max() + 1)[:, None] == path_of  # (P, F)
    pools = possible[:, None, :] & on_path
    sizes = pools.sum(axis=2)
    full_first = np.argsort(sizes == 0, axis=1, kind="stable")  # paths without a function come last
    functions = np.take_along_axis(np.argsort(~pools, axis=2, kind="stable"), full_first[..., None], axis=1)
    return (sizes > 0).sum(axis=1), np.take_along_axis(sizes, full_first, axis=1), functions


def _paths(language: Language) -> NDArray[np.int64]:
    """A number for each group (IN is 0), the same for groups after which the graph goes on alike."""
    onward = [frozenset(language.graph.after(group)) for group in language.nodes]
    return np.array([onward.index(targets) for targets in onward])


def parse_limit(value: object) -> Limit:
    """A limit as it is, or a number written as text. Raises UserError for anything else."""
    found = re.fullmatch(r"(n/)?([1-9][0-9]{0,9})", str(value)) if type(value) in (int, str) else None
    if not found:
        raise UserError(
            f"‹distinct_sequences› {value}: use a whole number from 1, or n/7 for one to every 7 examples"
        )
    return str(value) if found[1] else int(found[2])


def max_sequences(limit: Limit, n: int) -> int:
    """How many sequences n examples of one length may have."""
    return limit if isinstance(limit, int) else -(-n // int(limit.removeprefix("n/")))


def draw_sequences(
    language: Language, sizes: Mapping[int, int], limit: Limit, weighting: Weighting, seed: int
) -> dict[int, Examples]:
    """One example of each sequence, for the lengths at which more sequences would be drawn without a limit.

    `sizes` says how many examples are wanted of each length. Raises UserError where the sequences have fewer.
    """
    found, short = {}, []
    for length, n in sizes.items():
        most = max_sequences(limit, n)
        if n <= most:
            continue
        firsts, room = _draw_firsts(language, length, n, most, weighting, Stream(seed, "sequences", length))
        needed = int(np.searchsorted(np.cumsum(room), n)) + 1
        if needed > most:
            short.append((needed, n, length))
        if len(firsts) > most:
            found[length] = firsts[:most]
    if short:
        raise _too_few(limit, short)
    return found


def draw_examples(language: Language, firsts: Examples, n: int, stream: Stream) -> Examples:
    """n distinct examples of the sequences of `firsts`, which are among them."""
    pool, of = on_all_symbols(language, firsts)
    others = pool[pool.starts != firsts.starts[of]]
    both = join([firsts, others[stream.distinct_below(len(others), n - len(firsts))]])
    return both[stream.permutation(n)]


def on_all_symbols(language: Language, firsts: Examples) -> tuple[Examples, NDArray[np.int64]]:
    """The sequences of `firsts` on every start symbol that is allowed, and the row of each one's sequence."""
    symbols = np.arange(language.n_symbols, dtype=firsts.starts.dtype)
    of = np.repeat(np.arange(len(firsts)), len(symbols))
    grid = Examples(starts=np.tile(symbols, len(firsts)), functions=firsts.functions[of])
    allowed = language.contains(grid)
    return grid[allowed], of[allowed]


def _draw_firsts(
    language: Language, length: int, n: int, most: int, weighting: Weighting, stream: Stream
) -> tuple[Examples, NDArray[np.int64]]:
    """More than `most` sequences with n examples together, or all there are; and the examples of each."""
    firsts, room, taken = language.empty(length), np.zeros(0, dtype=np.int64), NOTHING
    while (free := language.count(length) - len(taken)) and (len(firsts) <= most or len(taken) < n):
        wanted = max(len(firsts), -(-n // language.n_symbols))
        more = draw(language, length, min(wanted, free), weighting, stream, taken)
        more = more[first_positions(more.sequences())]
        pool, of = on_all_symbols(language, more)
        firsts, room = join([firsts, more]), np.concatenate([room, np.bincount(of)])
        taken = np.concatenate([taken, language.rank(pool)])
    return firsts, room


def _too_few(limit: Limit, short: list[tuple[int, int, int]]) -> UserError:
    """`short` has how many sequences are needed for how many examples of which length."""
    if isinstance(limit, int):
        needed, n, length = max(short)
        right = f"{needed} or more, or fewer examples"
    else:  # n / k, rounded up, is enough while k is at most (n - 1) // (needed - 1)
        needed, n, length = min(short, key=lambda case: ((case[1] - 1) // (case[0] - 1), -case[2]))
        right = f"n/{(n - 1) // (needed - 1)}"
    what = f"{n} examples of {length} functions need {needed} sequences"
    return UserError(f"‹distinct_sequences› {limit}: {what}; use {right}")
