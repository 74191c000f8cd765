"""Sampling graphs: which group of functions may follow which; also from a TOML file.

    name = "never-meet"            # optional: the file's name otherwise

    [groups]                       # how many functions each has; they are named a, b, c, … in this order
    a = 11
    b = 11
    c = 10

    [train]
    edges = ["IN -> a b c", "a -> c OUT", "b -> c OUT", "c -> a b OUT"]

    [ood]
    edges = ["IN -> a b", "a -> b OUT", "b -> a OUT"]
    lengths = [2, 3, 4]            # optional: 1 … max_length for train, 2 … max_length for ood

Each graph may have `restrictions`, a list of tables such as { from = "a", function = "x", symbols = [0, 1] }.

Example:
    >>> graph = Graph.of({IN: "a b", "a": "b OUT", "b": "a OUT"}, lengths=range(1, 4))
    >>> graph.after("a")
    ('b', 'OUT')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from pathlib import Path
from string import ascii_letters
from typing import Any

from ctlpp.files import UserError

IN, OUT = "IN", "OUT"
Edge = tuple[str, str]
Groups = Mapping[str, tuple[str, ...]]  # group -> names of its functions
LONGEST = 128  # functions in an example
MOST_FUNCTIONS = 10_000
REQUIRED = object()
TYPES = {str: "a printable text", int: "a whole number", float: "a number", list: "a list", dict: "an object"}


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """After a function of group `source`, `function` may follow only on one of these symbols."""

    source: str
    function: str
    symbols: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Walks from IN to OUT; each step applies one function of the group it enters."""

    edges: tuple[Edge, ...]
    lengths: tuple[int, ...]  #: how many functions an example may have
    restrictions: tuple[Restriction, ...] = ()

    @classmethod
    def of(
        cls, after: Mapping[str, str], *, lengths: Iterable[int], restrictions: Iterable[Restriction] = ()
    ) -> Graph:
        """From a table `group -> the groups that may follow, separated by spaces`."""
        edges = tuple((source, target) for source, targets in after.items() for target in targets.split())
        return cls(edges=edges, lengths=tuple(lengths), restrictions=tuple(restrictions))

    def after(self, group: str) -> tuple[str, ...]:
        """The groups (or OUT) that may follow `group`."""
        return tuple(target for source, target in self.edges if source == group)

    def groups(self) -> set[str]:
        """The groups that this graph uses."""
        return {node for edge in self.edges for node in edge} - {IN, OUT}

    def shared_with(self, other: Graph) -> Graph:
        """The graph of what both allow."""
        return Graph(
            edges=tuple(edge for edge in self.edges if edge in other.edges),
            lengths=tuple(length for length in self.lengths if length in other.lengths),
            restrictions=self.restrictions + other.restrictions,
        )


@dataclass(frozen=True, kw_only=True)
class VariantSpec:
    """What a variant prescribes: everything of a task but the functions' tables."""

    groups: Groups  #: the functions of each
    train: Graph  #: of the training data, and of the IID test
    ood: Graph  #: of the OOD test
    name: str = "own"  #: what the variant is called


def function_names(n: int) -> tuple[str, ...]:
    """a … z A … Z, then aa, ab, …"""
    words = ("".join(letters) for size in count(1) for letters in product(ascii_letters, repeat=size))
    return tuple(islice(words, n))


def check_graph(graph: Graph, name: str, groups: Groups, n_symbols: int) -> None:
    """Raise UserError for the first mistake in the graph."""
    _check_edges(graph, name, groups)
    reachable = _closure(IN, graph.edges)
    leaving = _closure(OUT, [(target, source) for source, target in graph.edges])
    if OUT not in reachable:
        raise UserError(f"{name} graph: there is no way from IN to OUT; add edges that lead there")
    for group in sorted(graph.groups()):
        where = f"{name} graph: group {group}"
        if group not in reachable:
            raise UserError(f"{where} cannot be reached from IN; add an edge to it or drop its edges")
        if group not in leaving:
            raise UserError(f"{where} is a dead end; add an edge from it toward OUT")
    if not graph.lengths or not 1 <= min(graph.lengths) <= max(graph.lengths) <= LONGEST:
        raise UserError(f"{name} graph: lengths must be 1 to {LONGEST}, not {list(graph.lengths)}")
    for restriction in graph.restrictions:
        _check_restriction(restriction, graph, name, groups, n_symbols)


def _check_edges(graph: Graph, name: str, groups: Groups) -> None:
    for source, target in graph.edges:
        where = f"{name} graph: edge {source} -> {target}"
        for node, choices in ((source, (IN, *groups)), (target, (OUT, *groups))):
            if node not in choices:
                raise UserError(f"{where}: unknown group {node!r}; choose from {', '.join(choices)}")
        if (source, target) == (IN, OUT):
            raise UserError(f"{where}: an example needs at least one function")
        if graph.edges.count((source, target)) > 1:
            raise UserError(f"{where} is given twice; once is enough")


def _check_restriction(
    restriction: Restriction, graph: Graph, name: str, groups: Groups, n_symbols: int
) -> None:
    where = f"{name} graph: restriction of {restriction.function!r} after {restriction.source!r}"
    home = next((group for group, members in groups.items() if restriction.function in members), None)
    if home is None:
        raise UserError(f"{where}: there is no function {restriction.function!r}")
    if (restriction.source, home) not in graph.edges:
        raise UserError(f"{where}: there is no edge {restriction.source} -> {home}; restrict one that exists")
    if bad := [s for s in restriction.symbols if s not in range(n_symbols)]:
        raise UserError(f"{where}: no symbol has the index {bad[0]}; use 0 to {n_symbols - 1}")


def _closure(start: str, edges: Iterable[Edge]) -> set[str]:
    """All nodes that can be reached from `start`."""
    edges, found = tuple(edges), {start}
    while fresh := {target for source, target in edges if source in found} - found:
        found |= fresh
    return found


def read_graph(entry: Mapping[str, Any], lengths: Iterable[int] = ()) -> Graph:
    """The graph in an entry of a TOML or JSON file; `lengths` is for one that has none."""
    check_keys(entry, ("edges", "lengths", "restrictions"))
    restrictions = []
    for rule in get_list(entry, "restrictions", dict, missing=[]):
        check_keys(rule, ("from", "function", "symbols"))
        source, function = get(rule, "from", str), get(rule, "function", str)
        symbols = get_list(rule, "symbols", int)
        restrictions.append(Restriction(source=source, function=function, symbols=symbols))
    return Graph(
        edges=tuple(edge for line in get(entry, "edges", list) for edge in _read_edges(line)),
        lengths=tuple(dict.fromkeys(get_list(entry, "lengths", int, missing=list(lengths) or REQUIRED))),
        restrictions=tuple(restrictions),
    )


def _read_edges(line: Any) -> list[Edge]:
    """`"a -> b c"`, or `["a", "b"]` for just one."""
    if isinstance(line, list) and len(line) == 2:
        source, target = check_items(line, "edges", str)
        return [(source, target)]
    source, arrow, targets = line.partition("->") if isinstance(line, str) else ("", "", "")
    if len(source.split()) != 1 or not arrow or not targets.split():
        raise UserError(f'the edge {abbreviate(line)} must look like "a -> b c OUT"')
    return [(source.strip(), target) for target in targets.split()]


def read_spec(path: Path, max_length: int) -> VariantSpec:
    """The groups and graphs in a TOML file."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist: name a TOML file with a graph") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not a readable TOML file: {error}") from error
    try:
        check_keys(content, ("name", "groups", "train", "ood"))
        return VariantSpec(
            name=get(content, "name", str, missing=path.stem),
            groups=_read_groups(get(content, "groups", dict)),
            train=read_graph(get(content, "train", dict), range(1, max_length + 1)),
            ood=read_graph(get(content, "ood", dict), range(2, max_length + 1)),
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _read_groups(sizes: dict[str, Any]) -> Groups:
    for group, size in sizes.items():
        if type(size) is not int or not 1 <= size <= MOST_FUNCTIONS:
            found = abbreviate(size)
            raise UserError(f"group {group} must have 1 to {MOST_FUNCTIONS} functions, not {found}")
    left = iter(function_names(sum(sizes.values())))
    return {group: tuple(islice(left, size)) for group, size in sizes.items()}


def get(entries: Mapping[str, Any], key: str, kind: type, missing: Any = REQUIRED) -> Any:
    """The entry under a key, which must be of this kind."""
    if key not in entries and missing is REQUIRED:
        raise UserError(f"the entry {key!r} is missing")
    return check_items([entries[key]], key, kind)[0] if key in entries else missing


def get_list(entries: Mapping[str, Any], key: str, kind: type, missing: Any = REQUIRED) -> tuple[Any, ...]:
    """The list under a key, whose items must all be of this kind."""
    return check_items(get(entries, key, list, missing), key, kind)


def check_items(values: Sequence[Any], key: str, kind: type) -> tuple[Any, ...]:
    """The values unchanged; all must be of this kind."""
    for value in values:
        fits = type(value) in (int, float) if kind is float else type(value) is kind
        if not fits or (kind is str and not value.isprintable()):
            raise UserError(f"the entry {key!r} must have {TYPES[kind]}, not {abbreviate(value)}")
    return tuple(values)


def abbreviate(value: Any) -> str:
    """A value in few words."""
    return TYPES[type(value)] if isinstance(value, list | dict) else f"{value!r:.60}"


def choose(entries: Mapping[str, Any], key: str, choices: Iterable[str]) -> Any:
    """The entry under a key, which must be one of these."""
    if (value := get(entries, key, str)) not in (choices := tuple(choices)):
        raise UserError(f"{value!r} is not one of {', '.join(choices)}")
    return value


def check_keys(entries: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise UserError for an unknown key."""
    if unknown := [key for key in entries if key not in known]:
        raise UserError(f"unknown key {unknown[0]!r}; choose from {', '.join(known)}")
