"""Examples drawn as the authors' generator draws them: workers that read one stream of random words.

The generator forks its workers anew for every length and split. All of them inherit the state of one random
generator, which decides the functions; only the start symbols are their own. Hence

repeats  the k-th sequence of every worker is the same, so each sequence occurs with several start symbols;
nesting  every length reads the same words, so the k-th sequence of length L begins at choice k · L;
twins    every split reads them, so an OOD sequence is made of the choices that made a training sequence.

Each of the three can be switched off: then workers, lengths or splits read words of their own. Where the
functions that may come next depend on the symbol (S), workers drift apart and repeat less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.language import Examples, Language, join
from ctlpp.benchmark.sampling import Stream, is_first, uniformly_among_the_rest
from ctlpp.benchmark.variants import WORKERS, Settings

ROUND = 100  # examples that a worker draws before the next one has its turn
DRAWS_PER_EXAMPLE = 50  # at most; the rest is drawn uniformly
_WORDS = 1 << 14  # words read at a time
_BITS = 64  # in a word


class Generator:
    """The workers of one length and split."""

    def __init__(self, language: Language, length: int, split: str, settings: Settings) -> None:
        self.language, self.length, self.repeats = language, length, bool(settings.repeats)
        self.steps = [_options(language, left) for left in range(length, 0, -1)]
        self.next_node = language.next_node.tolist()
        seed, workers = settings.seed, range(settings.workers or WORKERS)
        self.starts = [Stream(seed, "authors' start symbols", split, length, worker) for worker in workers]
        apart = ("train" if settings.twins else split, 0 if settings.nesting else length)
        streams = [Stream(seed, "authors' choices", *apart, worker) for worker in workers]
        self.streams = streams[:1] * len(workers) if self.repeats else streams
        self.words: dict[Stream, list[int]] = {stream: [] for stream in self.streams}  # that were read
        self.at = [0] * len(workers)  # where each worker reads on

    def draw(self, n: int) -> Examples:
        """n distinct examples, in the order in which they are drawn."""
        chosen, drawn = self.language.empty(self.length), 0
        while len(chosen) < n and drawn <= DRAWS_PER_EXAMPLE * n:
            most = min(len(self.starts), self.language.n_symbols) * ROUND  # new ones in a round
            rounds = [self.draw_round() for _ in range(max(1, (n - len(chosen)) // most))]
            drawn += sum(map(len, rounds))
            chosen = join([chosen, *rounds])
            chosen = chosen[is_first(chosen.keys())][:n]
        return uniformly_among_the_rest(self.language, chosen, n, self.starts[0])

    def draw_round(self) -> Examples:
        """The next `ROUND` examples of every worker, worker by worker."""
        same = self.repeats and not self.language.graph.restrictions  # nothing depends on the symbol
        parts: list[Examples] = []
        for worker, stream in enumerate(self.starts):
            part = self.language.empty(self.length, ROUND)
            part.starts[:] = stream.below(self.language.n_symbols, ROUND)
            part.functions[:] = parts[0].functions if same and parts else self._sequences(worker, part.starts)
            parts.append(part)
        return join(parts)

    def _sequences(self, worker: int, starts: NDArray[Any]) -> list[list[int]]:
        """The next functions that a worker chooses, one sequence per start symbol."""
        stream, at, next_node = self.streams[worker], self.at[worker], self.next_node
        words, sequences = self.words[stream], []
        for node in starts.tolist():
            sequence = []
            for step in self.steps:
                functions, shift = step[node]
                choice = n = len(functions)
                while choice >= n:  # the next word that is a choice
                    if at == len(words):
                        words += stream.words(_WORDS).tolist()
                    choice = words[at] >> shift
                    at += 1
                sequence.append(functions[choice])
                node = next_node[node * self.language.n_functions + functions[choice]]
            sequences.append(sequence)
        self.at[worker] = at
        return sequences


def _options(language: Language, left: int) -> list[tuple[list[int], int]]:
    """For each node the functions that may come next, and by how much a word is shifted to choose one.

    They are in the order of their number within their group, then of the groups.
    """
    number = np.zeros(language.n_functions, dtype=np.int64)
    for group in np.unique(language.group_of):
        members = np.flatnonzero(language.group_of == group)
        number[members] = np.arange(len(members))
    order = np.lexsort((language.group_of, number))
    possible = (language.behind(left) > 0).reshape(-1, language.n_functions)
    functions = [order[row[order]].tolist() for row in possible]
    return [(row, _BITS - len(row).bit_length()) for row in functions]
