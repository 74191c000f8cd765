"""Drawing distinct examples of a language: uniformly, or step by step as the paper describes it.

`uniform`: every set of examples is equally likely; drawing them is drawing distinct numbers.
`sequential`: pick a path, then a function, each uniformly among what is allowed; an example already drawn is dropped.
(After 16 walks an example, because nearly all are drawn or most are very unlikely, the rest is drawn uniformly.)
The paths at a point are the groups that may follow, where groups after which the graph goes on alike count as one
path: in S, a1 and b1 are two paths, while a2 and o, which both lead back to stage 1, are one pool of functions.

Example:
    >>> from ctlpp.benchmark.graph import IN, Graph
    >>> graph = Graph.of({IN: "f", "f": "f OUT"}, lengths=[2])
    >>> language = Language(graph, table=np.array([[1, 0], [0, 1]]), groups={"f": (0, 1)})
    >>> len(draw(language, 2, 8, "uniform", Stream(0)))
    8
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.distinct import Integers, first_occurrences, first_positions, member
from ctlpp.benchmark.examples import Examples, join
from ctlpp.benchmark.language import Language
from ctlpp.benchmark.streams import Stream, Words

Weighting = Literal["uniform", "sequential"]
WEIGHTINGS: tuple[Weighting, ...] = ("uniform", "sequential")
NOTHING: Integers = np.zeros(0, dtype=np.int64)
PATIENCE = 16  # walks an example


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
    walks, chosen, walked = Walks(language, length), language.empty(length), 0
    while len(chosen) < n and walked <= PATIENCE * n:
        more = n - len(chosen) + n // 16 + 1000
        walked += more
        chosen = join([chosen, walks.draw(more, stream)])
        numbers = language.rank(chosen)
        chosen = chosen[first_positions(numbers) & ~member(numbers, taken)][:n]
    if len(chosen) == n:
        return chosen
    taken = np.concatenate([taken, language.rank(chosen)])
    rest = _draw_numbers(language.count(length), n - len(chosen), stream, taken)
    return join([chosen, language.unrank(length, rest)])


class Walks:
    """Random walks through a graph from IN to OUT, for examples of one length."""

    def __init__(self, language: Language, length: int) -> None:
        self.language, self.length = language, length
        self._pools = [_pools(language, left) for left in range(length, 0, -1)]

    def draw(self, n: int, stream: Stream) -> Examples:
        """n examples, with repetitions."""
        language = self.language
        examples = language.empty(self.length, n)
        possible = np.flatnonzero(language.ways(self.length)[: language.n_symbols] > 0)
        node = possible[_pick(stream.words(n) >> np.uint64(32), len(possible))]
        examples.starts[:] = node
        for i, (n_paths, n_functions, members) in enumerate(self._pools):
            words = stream.words(n)
            path = _pick(words >> np.uint64(32), n_paths[node])
            pool = node * n_functions.shape[1] + path
            option = _pick(words & np.uint64(0xFFFFFFFF), n_functions.reshape(-1)[pool])
            function = members.reshape(-1)[pool * language.n_functions + option]
            node = language.next_node[node * language.n_functions + function]
            examples.functions[:, i] = function
        return examples


def _pick(words: Words, options: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """32-bit words to choices 0 … options − 1 (uniform up to one part in 2^32 / options)."""
    return ((words * np.asarray(options, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def _pools(language: Language, left: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each node: the number of paths, of functions on each path, and the functions. (N,), (N, P), (N, P, F)"""
    possible = (language.behind(left) > 0).reshape(-1, language.n_functions)  # (N, F)
    path_of = _paths(language)[language.group_of]  # (F,)
    on_path = np.arange(path_of.max() + 1)[:, None] == path_of  # (P, F)
    pools = possible[:, None, :] & on_path
    sizes = pools.sum(axis=2)
    full_first = np.argsort(sizes == 0, axis=1, kind="stable")  # paths without a function come last
    members = np.argsort(~pools, axis=2, kind="stable")
    return (
        (sizes > 0).sum(axis=1),
        np.take_along_axis(sizes, full_first, axis=1),
        np.take_along_axis(members, full_first[..., None], axis=1),
    )


def _paths(language: Language) -> NDArray[np.int64]:
    """A number for each group (IN is 0), the same for groups after which the graph goes on alike."""
    onward = [frozenset(language.graph.after(group)) for group in language.nodes]
    return np.array([onward.index(targets) for targets in onward])
