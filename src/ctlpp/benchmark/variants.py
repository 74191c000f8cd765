"""The variants of the paper: how functions are grouped, and which graphs make training and OOD data.

    CTL  train  any composition up to a length           ood  longer ones
    A    train  a b a b …  or  b a b a …                 ood  a a a …  or  b b b …
    R    train  a a a …    or  b b b …                   ood  a b a b …  or  b a b a …
    S    train  pairs a1 (a2 | o)  or  b1 (b2 | o)       ood  pairs a1 b2  or  b1 a2

Example:
    >>> plan = plan_variant("S", n_symbols=8, n_functions=32, max_length=6, seed=0)
    >>> {group: len(members) for group, members in plan.groups.items()}
    {'a1': 6, 'b1': 6, 'a2': 6, 'b2': 6, 'o': 8}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ctlpp.benchmark.functions import function_names
from ctlpp.benchmark.graph import IN, Graph, Restriction
from ctlpp.benchmark.streams import Stream
from ctlpp.files import UserError

VARIANTS = ("CTL", "A", "R", "S")
FURTHER = 4  # CTL tests on compositions of up to so many functions more than in training

ANY = {IN: "f", "f": "f OUT"}
ALTERNATE = {IN: "a b", "a": "b OUT", "b": "a OUT"}
REPEAT = {IN: "a b", "a": "a OUT", "b": "b OUT"}
STAGES = {IN: "a1 b1", "a1": "a2 o", "b1": "b2 o", "a2": "a1 b1 OUT", "b2": "a1 b1 OUT", "o": "a1 b1 OUT"}
SWAPPED = {IN: "a1 b1", "a1": "b2", "b1": "a2", "a2": "a1 b1 OUT", "b2": "a1 b1 OUT"}
SHARED = {IN: "a1 b1", "a1": "o", "b1": "o", "o": "a1 b1 OUT"}
EDGES = {
    "CTL": (ANY, ANY),
    "A": (ALTERNATE, REPEAT),
    "R": (REPEAT, ALTERNATE),
    "S": (STAGES, SWAPPED),
}  # train, ood


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a variant prescribes: everything of a task but the functions' tables."""

    groups: Mapping[str, tuple[str, ...]]  # group -> names of its functions
    train: Graph
    ood: Graph
    name: str = "own"


def plan_variant(
    variant: str,
    *,
    n_symbols: int,
    n_functions: int,
    max_length: int,
    seed: int,
    shared_functions: int = 8,
    shared_symbols: int = 4,
    ood_max_length: int | None = None,
) -> Plan:
    """The groups and graphs of one of the paper's variants."""
    names = function_names(n_functions)
    lengths, longer = range(1, max_length + 1), range(2, max_length + 1)
    seen, unseen = EDGES[variant]
    if variant == "CTL":
        furthest = ood_max_length or max_length + FURTHER
        if furthest <= max_length:
            raise UserError(
                f"ood_max_length {furthest} must be above max_length {max_length}: CTL tests on longer compositions"
            )
        train, ood = (
            Graph.of(seen, lengths=lengths),
            Graph.of(unseen, lengths=range(max_length + 1, furthest + 1)),
        )
        return Plan(groups={"f": names}, train=train, ood=ood)
    if variant in ("A", "R"):
        return Plan(
            groups=deal(names, ("a", "b")),
            train=Graph.of(seen, lengths=lengths),
            ood=Graph.of(unseen, lengths=longer),
        )
    assert variant == "S"
    _check_staged(n_symbols, n_functions, max_length, shared_functions, shared_symbols)
    groups = deal(names[shared_functions:], ("a1", "b1", "a2", "b2")) | {"o": names[:shared_functions]}
    restrictions = share_symbols(groups["o"], n_symbols, shared_symbols, Stream(seed, "restrictions"))
    even = range(2, max_length + 1, 2)
    train = Graph.of(seen, lengths=even, restrictions=restrictions)
    return Plan(groups=groups, train=train, ood=Graph.of(unseen, lengths=even))


def deal(names: Sequence[str], groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Split the functions over the groups in order, as evenly as possible: the first groups get what is over."""
    size, over = divmod(len(names), len(groups))
    left = iter(names)
    return {group: tuple(islice(left, size + (i < over))) for i, group in enumerate(groups)}


def share_symbols(shared: Iterable[str], n_symbols: int, overlap: int, stream: Stream) -> list[Restriction]:
    """The symbols that each shared function may receive in training from either path.

    The two sets of a function overlap in exactly `overlap` symbols; the other symbols are divided between the
    paths (an odd one goes to a and to b in turn); the overlaps of all functions together cover every symbol.
    """
    restrictions = []
    deck: list[int] = []
    for turn, function in enumerate(shared):
        common: list[int] = []
        while len(common) < overlap:
            deck = deck or stream.permutation(n_symbols).tolist()
            card = next((symbol for symbol in deck if symbol not in common), None)
            if (
                card is None
            ):  # only symbols left that this function already has: take from a new deck, keep these
                deck += stream.permutation(n_symbols).tolist()
                continue
            deck.remove(card)
            common.append(card)
        apart = [symbol for symbol in stream.permutation(n_symbols).tolist() if symbol not in common]
        half = (len(apart) + (turn + 1) % 2) // 2
        for source, own in (("a1", apart[:half]), ("b1", apart[half:])):
            restrictions.append(
                Restriction(source=source, function=function, symbols=tuple(sorted(common + own)))
            )
    return restrictions


def shared_path(plan_train: Graph) -> Graph:
    """S with only stage 1 → o: what the shared functions do with symbols seen in training."""
    return Graph.of(SHARED, lengths=plan_train.lengths, restrictions=plan_train.restrictions)


def unseen_symbols(plan_train: Graph, n_symbols: int) -> Graph:
    """S with only stage 1 → o, each time on a symbol that the training restriction excludes."""
    excluded = [
        Restriction(
            source=r.source,
            function=r.function,
            symbols=tuple(sorted(set(range(n_symbols)) - set(r.symbols))),
        )
        for r in plan_train.restrictions
    ]
    return Graph.of(SHARED, lengths=plan_train.lengths, restrictions=excluded)


def check_plan(
    plan: Plan, variant: str, n_symbols: int, shared_functions: int | None, shared_symbols: int | None
) -> None:
    """Raise UserError if the plan goes by the name of a variant of the paper, but is not that variant."""
    if variant not in EDGES:
        return
    for name, graph, after in zip(("train", "OOD"), (plan.train, plan.ood), EDGES[variant], strict=True):
        if set(graph.edges) != set(Graph.of(after, lengths=[]).edges):
            raise UserError(
                f"the {name} graph does not have the edges of variant {variant}; use another name"
            )
    sets = {(rule.source, rule.function): set(rule.symbols) for rule in plan.train.restrictions}
    shared = plan.groups["o"] if variant == "S" else ()
    if len(shared) != (shared_functions or 0):
        raise UserError(
            f"shared_functions is {shared_functions}, but there are {len(shared)} shared functions"
        )
    n_rules = len(plan.train.restrictions) + len(plan.ood.restrictions)
    if n_rules != 2 * len(shared) or set(sets) != {(path, f) for path in ("a1", "b1") for f in shared}:
        raise UserError(
            f"variant {variant} restricts each shared function once after a1 and once after b1, no others"
        )
    for f in shared:
        if (
            len(sets["a1", f] & sets["b1", f]) != shared_symbols
            or len(sets["a1", f] | sets["b1", f]) != n_symbols
        ):
            raise UserError(
                f"the restrictions of {f} must share {shared_symbols} symbols and have all {n_symbols} together"
            )
    if shared and set.union(*(sets["a1", f] & sets["b1", f] for f in shared)) != set(range(n_symbols)):
        raise UserError(
            "the symbols that the shared functions receive from both paths must be all symbols together"
        )


def _check_staged(
    n_symbols: int, n_functions: int, max_length: int, shared_functions: int, shared_symbols: int
) -> None:
    if max_length % 2:
        raise UserError(
            f"max_length {max_length} is odd: S has even lengths only; use {max_length - 1} or {max_length + 1}"
        )
    most = n_functions - 4
    if shared_functions > n_functions:
        raise UserError(
            f"shared_functions {shared_functions} is more than the {n_functions} functions; use at most {most}"
        )
    if not 1 <= shared_functions <= most:
        raise UserError(
            f"shared_functions {shared_functions}: use 1 to {most}; a1, a2, b1 and b2 need functions too"
        )
    if not 1 <= shared_symbols <= n_symbols:
        raise UserError(f"shared_symbols {shared_symbols}: use 1 to {n_symbols}, the number of symbols")
    if shared_functions * shared_symbols < n_symbols:
        raise UserError(
            f"{shared_functions} shared functions with {shared_symbols} shared symbols each cannot cover all "
            f"{n_symbols} symbols; use shared_symbols {-(-n_symbols // shared_functions)} or more"
        )
