"""Sampling graphs: which group of functions may follow which.

Example:
    >>> graph = Graph.of({IN: "a b", "a": "b OUT", "b": "a OUT"}, lengths=range(1, 4))
    >>> graph.after("a")
    ('b', 'OUT')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctlpp.files import UserError

IN, OUT = "IN", "OUT"
Edge = tuple[str, str]
LONGEST = 128  # functions in an example


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
    lengths: tuple[int, ...]  # how many functions an example may have
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


def complete_graph(groups: Iterable[str], lengths: Iterable[int]) -> Graph:
    """Every group may follow every group."""
    names = tuple(groups)
    edges = [(IN, g) for g in names] + [(g, h) for g in names for h in (*names, OUT)]
    return Graph(edges=tuple(edges), lengths=tuple(lengths))


def check_graph(graph: Graph, name: str, groups: Mapping[str, tuple[str, ...]], n_symbols: int) -> None:
    """Raise UserError for the first mistake in the graph."""
    _check_edges(graph, name, groups)
    reachable = _closure(IN, graph.edges)
    leaving = _closure(OUT, [(target, source) for source, target in graph.edges])
    if OUT not in reachable:
        raise UserError(f"{name} graph: there is no way from IN to OUT; add edges that lead there")
    for group in sorted(graph.groups()):
        if group not in reachable:
            raise UserError(
                f"{name} graph: group {group} cannot be reached from IN; add an edge to it or drop its edges"
            )
        if group not in leaving:
            raise UserError(f"{name} graph: group {group} is a dead end; add an edge from it toward OUT")
    if not graph.lengths or not 1 <= min(graph.lengths) <= max(graph.lengths) <= LONGEST:
        raise UserError(f"{name} graph: lengths must be 1 to {LONGEST}, not {list(graph.lengths)}")
    for restriction in graph.restrictions:
        _check_restriction(restriction, graph, name, groups, n_symbols)


def _check_edges(graph: Graph, name: str, groups: Mapping[str, tuple[str, ...]]) -> None:
    for source, target in graph.edges:
        where = f"{name} graph: edge {source} -> {target}"
        for node, special in ((source, IN), (target, OUT)):
            if node != special and node not in groups:
                raise UserError(
                    f"{where}: unknown group {node!r}; choose from {special}, {', '.join(groups)}"
                )
        if (source, target) == (IN, OUT):
            raise UserError(f"{where}: an example needs at least one function; go through a group")
    for edge in graph.edges:
        if graph.edges.count(edge) > 1:
            raise UserError(f"{name} graph: edge {edge[0]} -> {edge[1]} is given twice; once is enough")


def _check_restriction(
    restriction: Restriction, graph: Graph, name: str, groups: Mapping[str, tuple[str, ...]], n_symbols: int
) -> None:
    where = f"{name} graph: restriction of {restriction.function!r} after {restriction.source!r}"
    home = next((group for group, members in groups.items() if restriction.function in members), None)
    if home is None:
        raise UserError(
            f"{where}: there is no function {restriction.function!r}; choose from those of the groups"
        )
    if (restriction.source, home) not in graph.edges:
        raise UserError(
            f"{where}: there is no edge {restriction.source} -> {home}; restrict an edge that exists"
        )
    if bad := [s for s in restriction.symbols if s not in range(n_symbols)]:
        raise UserError(f"{where}: no symbol has the index {bad[0]}; use 0 to {n_symbols - 1}")


def _closure(start: str, edges: Iterable[Edge]) -> set[str]:
    """All nodes that can be reached from `start`."""
    edges = tuple(edges)
    found, border = {start}, [start]
    while border:
        node = border.pop()
        fresh = {target for source, target in edges if source == node} - found
        found |= fresh
        border += sorted(fresh)
    return found
