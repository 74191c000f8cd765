"""A task: functions, groups and the two graphs. It decides which examples are right and where they may occur.

Example:
    >>> from ctlpp.benchmark.variants import plan_variant
    >>> plan = plan_variant("R", n_symbols=4, n_functions=8, max_length=3, seed=0)
    >>> task = make_task(plan, variant="R", n_symbols=4, seed=0)
    >>> task.language("train").count(2)
    128
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ctlpp.benchmark.examples import Examples, smallest_integer
from ctlpp.benchmark.functions import random_bijections, symbol_names
from ctlpp.benchmark.graph import IN, OUT, Graph, check_graph, complete_graph
from ctlpp.benchmark.language import Language
from ctlpp.benchmark.streams import Stream
from ctlpp.benchmark.variants import Plan, check_plan, shared_path, unseen_symbols
from ctlpp.benchmark.vocabulary import Order, Vocabulary
from ctlpp.files import UserError

Protocol = Literal["paper", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "released")
ORDERS: tuple[Order, ...] = ("right-to-left", "left-to-right")


@dataclass(frozen=True, kw_only=True)
class Task:
    """Everything that `task.json` says about the task itself."""

    variant: str
    protocol: Protocol
    seed: int
    order: Order
    symbols: tuple[str, ...]
    functions: Mapping[str, tuple[int, ...]]  # name -> output symbol for each input symbol
    groups: Mapping[str, tuple[str, ...]]  # group -> names of its functions
    train_graph: Graph
    ood_graph: Graph
    shared_functions: int | None = None  # S only
    shared_symbols: int | None = None  # S only

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
        return np.array(list(self.functions.values()), dtype=smallest_integer(self.n_symbols))

    @cached_property
    def group_indices(self) -> dict[str, tuple[int, ...]]:
        """The functions of each group by index."""
        index = {name: i for i, name in enumerate(self.functions)}
        return {group: tuple(index[name] for name in names) for group, names in self.groups.items()}

    @cached_property
    def graphs(self) -> dict[str, Graph]:
        """The graph behind each split that this task can have."""
        lengths = sorted({*self.train_graph.lengths, *self.ood_graph.lengths})
        graphs = {
            "train": self.train_graph,
            "iid": self.train_graph,
            "ood": self.ood_graph,
            "singles": complete_graph(self.groups, [1]),
            "pairs": complete_graph(self.groups, [2]),
            "any": complete_graph(self.groups, [length for length in lengths if length > 1]),
        }
        if self.variant == "S":
            graphs["shared_path"] = shared_path(self.train_graph)
            graphs["unseen_symbols"] = unseen_symbols(self.train_graph, self.n_symbols)
        return graphs

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


def make_task(
    plan: Plan,
    *,
    variant: str,
    n_symbols: int,
    seed: int,
    protocol: Protocol = "paper",
    order: Order = "right-to-left",
    shared_functions: int | None = None,
    shared_symbols: int | None = None,
) -> Task:
    """Give the functions of a plan their tables, and check the whole."""
    names = [name for members in plan.groups.values() for name in members]
    tables = random_bijections(n_symbols, len(names), Stream(seed, "functions"))
    task = Task(
        variant=variant,
        protocol=protocol,
        seed=seed,
        order=order,
        symbols=symbol_names(n_symbols),
        functions={
            name: tuple(row) for name, row in zip(sorted(names, key=_alphabet), tables.tolist(), strict=True)
        },
        groups=plan.groups,
        train_graph=plan.train,
        ood_graph=plan.ood,
        shared_functions=shared_functions,
        shared_symbols=shared_symbols,
    )
    check_task(task)
    return task


def check_task(task: Task) -> None:
    """Raise UserError for the first thing in the task that cannot be."""
    _check_names(task)
    for name, outputs in task.functions.items():
        if sorted(outputs) != list(range(task.n_symbols)):
            raise UserError(
                f"function {name} is no bijection of the {task.n_symbols} symbols: {list(outputs)}"
            )
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
    plan = Plan(groups=dict(task.groups), train=task.train_graph, ood=task.ood_graph)
    check_plan(plan, task.variant, task.n_symbols, task.shared_functions, task.shared_symbols)
    _check_disjoint(task)


def _check_names(task: Task) -> None:
    if task.n_symbols < 2 or task.n_functions < 1:
        raise UserError("a task needs at least two symbols and a function")
    for name in task.functions:
        if not name.isidentifier():
            raise UserError(
                f"{name!r} cannot name a function; use letters and digits, beginning with a letter"
            )
    for name in task.symbols:
        if not name.isalnum():
            raise UserError(f"{name!r} cannot name a symbol; use letters and digits")
    if repeated := [name for name, n in Counter((*task.functions, *task.symbols)).items() if n > 1]:
        raise UserError(f"{repeated[0]!r} is the name of two things; all functions and symbols must differ")
    for group in task.groups:
        if group in (IN, OUT) or not group.isidentifier():
            raise UserError(f"{group!r} cannot name a group; use letters and digits, but not IN or OUT")


def _check_disjoint(task: Task) -> None:
    both = task.language_of(task.train_graph.shared_with(task.ood_graph))
    for length in both.graph.lengths:
        if n := both.count(length):
            example = task.describe(both.unrank(length, np.array([0])))
            raise UserError(
                f"the train and OOD graphs share {n:,} examples of length {length}, for instance {example!r}; "
                "OOD data must be new: give the graphs different edges or lengths"
            )


def _alphabet(name: str) -> tuple[int, str]:
    """a … z A … Z, then longer names."""
    return len(name), name.swapcase()
