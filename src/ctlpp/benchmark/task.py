"""A task: functions, groups and the two graphs. It decides which examples are right and where they may occur.

Example:
    >>> task = make_task(Settings(variant="R", symbols=4, functions=8, max_length=3))
    >>> task.language("train").count(2)
    128
    >>> task.vocabulary.encode("d a b 3")
    [3, 0, 1, 11, 12]
    >>> task.vocabulary.decode([3, 0, 1, 11, 12])
    'd a b 3'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.graph import IN, OUT, Graph, Groups, check_graph
from ctlpp.benchmark.language import Examples, Language
from ctlpp.benchmark.sampling import Stream
from ctlpp.benchmark.variants import VARIANTS, Settings, shared_paths, specify
from ctlpp.files import UserError
from ctlpp.words import plain

END = "<end>"  # ends a sequence; also fills up shorter ones in padded tensors
TABLES = {  # what each function makes of the symbols 0 … 7; the first 16 functions are group a of A and R
    "authors": """
        76021453 43721065 26540173 14527036 62173054 14052763 14752306 64057132
        67142350 16432750 42601375 61534207 65123704 51042736 45163207 16370425
        25673410 27640351 51360742 57241360 23714065 75163402 42710635 12746053
        56341072 61275340 23740165 46320157 12035764 04651732 24637105 52347061
    """,
    "authors-py37": """
        14527036 12746053 64057132 51360742 14752306 23714065 23740165 43721065
        52347061 45163207 46320157 76021453 57241360 16370425 67142350 75163402
        61275340 26540173 25673410 24637105 56341072 51042736 65123704 16432750
        61534207 62173054 14052763 04651732 12035764 27640351 42601375 42710635
    """,  # the order that Python 3.7 and older give the same functions
}


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Ids 0 … F − 1 are the functions, then the symbols, then the end token."""

    functions: tuple[str, ...]
    symbols: tuple[str, ...]

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens, by id."""
        return (*self.functions, *self.symbols, END)

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.functions) + len(self.symbols) + 1

    @property
    def end(self) -> int:
        """The id of the end token."""
        return self.size - 1

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens, and the end token."""
        if unknown := [word for word in text.split() if word not in self._ids]:
            raise UserError(f"unknown token {unknown[0]!r}; the tokens are {' '.join(self.tokens[:-1])}")
        return [*(self._ids[word] for word in text.split()), self.end]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence of ids; end tokens are left out."""
        if getattr(ids, "ndim", 1) != 1:
            raise UserError("the ids are no single sequence: decode one at a time")
        known = [plain(i) for i in ids]
        if unknown := [i for i in known if i not in range(self.size)]:
            raise UserError(f"no token has the id {unknown[0]}: use 0 to {self.end}")
        return " ".join(self.tokens[i] for i in known if i != self.end)

    def written(self, examples: Examples, order: str) -> NDArray[Any]:
        """The ids of the examples as they are written, without the end token. (N, L + 1)"""
        symbols = examples.starts.astype(np.min_scalar_type(self.size - 1)) + len(self.functions)
        columns = [symbols, *examples.functions.T.astype(symbols.dtype)]
        return np.stack(columns[::-1] if order == "right-to-left" else columns, axis=1)

    def read(self, ids: NDArray[Any], order: str) -> Examples:
        """The examples behind written ids (N, L + 1); the inverse of `written`."""
        columns = ids[:, ::-1] if order == "right-to-left" else ids
        return Examples(starts=columns[:, 0] - len(self.functions), functions=columns[:, 1:])


@dataclass(frozen=True, kw_only=True)
class Task:
    """Everything that `task.json` says about the task itself."""

    variant: str  #: its name
    protocol: str  #: how examples are drawn
    seed: int  #: of the data
    order: str  #: "right-to-left" or "left-to-right"
    symbols: tuple[str, ...]  #: their names
    functions: Mapping[str, tuple[int, ...]]  #: name -> output symbol for each input symbol
    groups: Groups  #: the functions of each
    train_graph: Graph  #: of train and iid
    ood_graph: Graph  #: of ood
    shared_functions: int | None = None  #: S only
    shared_symbols: int | None = None  #: S only

    @property
    def n_symbols(self) -> int:
        """How many symbols there are, which is the number of classes."""
        return len(self.symbols)

    @property
    def n_functions(self) -> int:
        """How many functions there are."""
        return len(self.functions)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens and their ids."""
        return Vocabulary(functions=tuple(self.functions), symbols=self.symbols)

    @cached_property
    def table(self) -> NDArray[Any]:
        """`[f, s]` is what function f makes of symbol s."""
        return np.array(list(self.functions.values()), dtype=np.min_scalar_type(self.n_symbols - 1))

    @cached_property
    def group_indices(self) -> dict[str, tuple[int, ...]]:
        """The functions of each group by index."""
        index = {name: i for i, name in enumerate(self.functions)}
        return {group: tuple(index[name] for name in names) for group, names in self.groups.items()}

    @cached_property
    def graphs(self) -> dict[str, Graph]:
        """The graph behind each split that this task can have."""
        lengths = sorted({*self.train_graph.lengths, *self.ood_graph.lengths} - {1})
        every = " ".join(self.groups)
        anything = partial(Graph.of, {IN: every} | dict.fromkeys(self.groups, f"{every} {OUT}"))
        graphs = {
            "train": self.train_graph,
            "iid": self.train_graph,
            "ood": self.ood_graph,
            "ood_independent": self.ood_graph,
            "singles": anything(lengths=[1]),
            "pairs": anything(lengths=[2]),
            "any": anything(lengths=lengths),
        }
        return graphs | (shared_paths(self.train_graph, self.n_symbols) if self.variant == "S" else {})

    @cached_property
    def _languages(self) -> dict[Graph, Language]:
        return {}

    def language(self, split: str) -> Language:
        """The examples that may occur in a split."""
        return self.language_of(self.graphs[split])

    def language_of(self, graph: Graph) -> Language:
        """The examples of any graph over this task's groups."""
        if graph not in self._languages:
            self._languages[graph] = Language(
                graph, table=self.table, groups=self.group_indices, names=tuple(self.functions)
            )
        return self._languages[graph]

    def describe(self, examples: Examples, row: int = 0) -> str:
        """One example as it is written."""
        ids = self.vocabulary.written(examples[row : row + 1], self.order)
        return self.vocabulary.decode(ids[0].tolist())


def make_task(settings: Settings) -> Task:
    """The task that the settings describe, with random functions."""
    spec, n_symbols = specify(settings), settings.symbols
    names = [name for members in spec.groups.values() for name in members]
    names.sort(key=lambda name: (len(name), name.swapcase()))  # a … z A … Z, then longer ones
    tables = function_table(settings.table, settings.seed, n_symbols, len(names))
    task = Task(
        variant=spec.name,
        protocol=settings.protocol,
        seed=settings.seed,
        order=settings.order,
        symbols=tuple(map(str, range(n_symbols))),
        functions={name: tuple(row) for name, row in zip(names, tables.tolist(), strict=True)},
        groups=spec.groups,
        train_graph=spec.train,
        ood_graph=spec.ood,
        shared_functions=settings.shared_functions,
        shared_symbols=settings.shared_symbols,
    )
    check_task(task)
    return task


def function_table(
    table: str | int | Path | None, seed: int, n_symbols: int, n_functions: int
) -> NDArray[np.int64]:
    """`[f, s]` is what f makes of s: the authors' table, drawn from a seed, or read from a file."""
    number = seed if table is None else int(str(table)) if str(table).isdecimal() else None
    if number is not None:
        return random_bijections(n_symbols, n_functions, Stream(number, "functions"))
    if str(table) in TABLES:
        rows = TABLES[str(table)].split()
    else:
        try:
            rows = Path(str(table)).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            choices = f"{', '.join(TABLES)}, a number, or a file with a table"
            raise UserError(f"‹table› {table}: choose from {choices}") from error
    found = [_outputs(row) for row in rows if row.strip()]
    if [sorted(row) for row in found] != [list(range(n_symbols))] * n_functions:
        right = f"{n_functions} bijections of {n_symbols} symbols, one per line"
        raise UserError(f"‹table› {table}: it must have {right}")
    return np.array(found, dtype=np.int64)


def _outputs(row: str) -> list[int]:
    """`3 0 2 1`, or `3021` where every symbol is a digit; empty if it is neither."""
    words = row.replace(",", " ").split()
    digits = words if len(words) > 1 else list(row.strip())
    return [int(word) for word in digits] if all(word.isdecimal() for word in digits) else []


def random_bijections(n_symbols: int, n_functions: int, stream: Stream) -> NDArray[np.int64]:
    """`[f, s]` is what function f makes of symbol s; every choice of different rows is equally likely."""
    rows = []
    for rank in stream.distinct_below(math.factorial(n_symbols), n_functions).tolist():
        left, row = list(range(n_symbols)), []
        for size in range(n_symbols, 0, -1):  # the permutation with this rank in lexicographic order
            at, rank = divmod(rank, math.factorial(size - 1))
            row.append(left.pop(at))
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def check_task(task: Task) -> None:
    """Raise UserError for the first thing in the task that cannot be."""
    _check_names(task)
    for name, outputs in task.functions.items():
        if sorted(outputs) != list(range(task.n_symbols)):
            raise UserError(f"function {name} is no bijection of {task.n_symbols} symbols: {list(outputs)}")
    if len(set(task.functions.values())) < task.n_functions:
        raise UserError("two functions have the same table; all must differ")
    members = [name for names in task.groups.values() for name in names]
    if sorted(members) != sorted(task.functions):
        raise UserError("every function must be in exactly one group")
    for name, graph in (("train", task.train_graph), ("OOD", task.ood_graph)):
        check_graph(graph, name, task.groups, task.n_symbols)
        if not any(task.language_of(graph).count(length) for length in graph.lengths):
            raise UserError(f"{name} graph: it has no example of any of the lengths {list(graph.lengths)}")
    used = task.train_graph.groups() | task.ood_graph.groups()
    if unused := [group for group in task.groups if group not in used]:
        raise UserError(f"group {unused[0]} has no edge in either graph; add one or drop the group")
    if task.variant in VARIANTS:
        _check_variant(task)
    _check_disjoint(task)


def _check_names(task: Task) -> None:
    if task.n_symbols < 2 or task.n_functions < 1:
        raise UserError("a task needs at least two symbols and a function")
    if not task.variant.strip() or not task.variant.isprintable():
        raise UserError(f"{task.variant!r} cannot name a variant: use a printable text")
    names = {"function": task.functions, "symbol": task.symbols, "group": task.groups}
    for kind, found in names.items():
        right = str.isalnum if kind == "symbol" else str.isidentifier
        if wrong := [name for name in found if not right(name) or (kind == "group" and name in (IN, OUT))]:
            raise UserError(f"{wrong[0]!r} cannot name a {kind}: use letters and digits, but not IN or OUT")
    if repeated := [name for name, n in Counter((*task.functions, *task.symbols)).items() if n > 1]:
        raise UserError(f"{repeated[0]!r} is the name of two things; all functions and symbols must differ")


def _check_variant(task: Task) -> None:
    """A task with the name of a variant of the paper must be that variant."""
    graphs = (("train", task.train_graph), ("OOD", task.ood_graph))
    for (name, graph), after in zip(graphs, VARIANTS[task.variant], strict=True):
        if set(graph.edges) != set(Graph.of(after, lengths=[]).edges):
            right = f"the edges of variant {task.variant}"
            raise UserError(f"the {name} graph must have {right}; or use another name")
    shared, every = task.groups["o"] if task.variant == "S" else (), set(range(task.n_symbols))
    if len(shared) != (task.shared_functions or 0):
        raise UserError(f"shared_functions is {task.shared_functions}, but group o has {len(shared)}")
    rules = [*task.train_graph.restrictions, *task.ood_graph.restrictions]
    expected = {(path, function) for path in ("a1", "b1") for function in shared}
    sets = {(rule.source, rule.function): set(rule.symbols) for rule in task.train_graph.restrictions}
    if len(rules) != len(expected) or set(sets) != expected:
        raise UserError("variants restrict each shared function once after a1 and once after b1, no others")
    covered: set[int] = set()
    for function in shared:
        from_a, from_b = sets["a1", function], sets["b1", function]
        if len(from_a & from_b) != task.shared_symbols or from_a | from_b != every:
            wanted = f"share {task.shared_symbols} symbols and have all {task.n_symbols} together"
            raise UserError(f"the restrictions of {function} must {wanted}")
        covered |= from_a & from_b
    if shared and covered != every:
        raise UserError("the symbols that shared functions receive from both paths must be all together")


def _check_disjoint(task: Task) -> None:
    both = task.language_of(task.train_graph.shared_with(task.ood_graph))
    for length in both.graph.lengths:
        if n := both.count(length):
            example = task.describe(both.unrank(length, np.array([0])))
            shared = f"{n:,} examples of length {length}, for instance {example!r}"
            raise UserError(f"the train and OOD graphs share {shared}; give them different edges or lengths")
