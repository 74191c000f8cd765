"""What a user may choose about a dataset, and what the paper's variants prescribe.

    CTL  train  any composition up to a length           ood  longer ones
    A    train  a b a b …  or  b a b a …                 ood  a a a …  or  b b b …
    R    train  a a a …    or  b b b …                   ood  a b a b …  or  b a b a …
    S    train  pairs a1 (a2 | o)  or  b1 (b2 | o)       ood  pairs a1 b2  or  b1 a2

Example:
    >>> spec = specify(Settings(variant="S", train=1000))
    >>> {group: len(members) for group, members in spec.groups.items()}
    {'a1': 6, 'b1': 6, 'a2': 6, 'b2': 6, 'o': 8}
    >>> Settings(variant="A", symbols=0)
    Traceback (most recent call last):
    ctlpp.files.UserError: symbols 0: use 2 to 1000
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from ctlpp.benchmark.authors import TABLE_SHAPE, Habits
from ctlpp.benchmark.graph import (
    IN,
    LONGEST,
    MOST_FUNCTIONS,
    Graph,
    Restriction,
    VariantSpec,
    function_names,
    read_spec,
)
from ctlpp.benchmark.sampling import WEIGHTINGS, Stream, Weighting
from ctlpp.files import UserError

Protocol = Literal["paper", "released", "authors"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "released", "authors")
SWITCHES = ("repeats", "nesting", "twins", "doubled_pairs")
Order = Literal["right-to-left", "left-to-right"]
ORDERS: tuple[Order, ...] = ("right-to-left", "left-to-right")
VARIANTS = ("CTL", "A", "R", "S")
MOST_PAIRS = 50_000_000  # the split `pairs` holds them all

ANY = {IN: "f", "f": "f OUT"}
ALTERNATE = {IN: "a b", "a": "b OUT", "b": "a OUT"}
REPEAT = {IN: "a b", "a": "a OUT", "b": "b OUT"}
STAGES = {IN: "a1 b1", "a1": "a2 o", "b1": "b2 o", "a2": "a1 b1 OUT", "b2": "a1 b1 OUT", "o": "a1 b1 OUT"}
SWAPPED = {IN: "a1 b1", "a1": "b2", "b1": "a2", "a2": "a1 b1 OUT", "b2": "a1 b1 OUT"}
SHARED = {IN: "a1 b1", "a1": "o", "b1": "o", "o": "a1 b1 OUT"}
EDGES = {  # train, ood
    "CTL": (ANY, ANY),
    "A": (ALTERNATE, REPEAT),
    "R": (REPEAT, ALTERNATE),
    "S": (STAGES, SWAPPED),
}
RANGES = {
    "symbols": (2, 1000),
    "functions": (1, MOST_FUNCTIONS),
    "max_length": (2, 64),
    "ood_max_length": (3, LONGEST),
    "train": (1, 10**9),
    "iid": (0, 10**9),
    "ood": (0, 10**9),
    "seed": (0, 2**63 - 1),
    "workers": (1, 1000),
}
FEWEST_FUNCTIONS = {"A": 2, "R": 2, "S": 5}
CHOICES: dict[str, tuple[str, ...]] = {"protocol": PROTOCOLS, "order": ORDERS, "weighting": WEIGHTINGS}
OWNERS = {"shared_functions": "S", "shared_symbols": "S", "ood_max_length": "CTL"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides the bytes of a dataset."""

    variant: str | Path | VariantSpec  # CTL, A, R, S, the path of a TOML file, or your own
    symbols: int = 8
    functions: int | None = None  # 32, or what the groups of your own variant have
    max_length: int = 6  # functions in an example, at most
    train: int = 300_000  # examples
    iid: int = 1_000
    ood: int = 1_000  # also the size of the diagnostic splits that are sampled
    seed: int = 0
    protocol: Protocol = "paper"
    order: Order = "right-to-left"
    shared_functions: int | None = None  # S only: |G_o|, default 8
    shared_symbols: int | None = None  # S only: default 4
    ood_max_length: int | None = None  # CTL only: default max_length + 4
    fill: float = 0.5  # share of the existing examples of a length ≥ 2 that train and iid may use
    weighting: Weighting | None = None  # default: sequential for S, uniform otherwise
    table: str | int | Path | None = None  # of functions: a name in `TABLES`, a seed, or a file
    workers: int | None = None  # of the authors' generator, default 24; see `ctlpp.benchmark.authors`
    repeats: bool | None = None  # these four: on with the protocol `authors`, off otherwise
    nesting: bool | None = None
    twins: bool | None = None
    doubled_pairs: bool | None = None  # train has all pairs once more, on top of those that were drawn

    def __post_init__(self) -> None:
        ours = self.variant in VARIANTS
        if not (ours or isinstance(self.variant, VariantSpec) or str(self.variant).endswith(".toml")):
            raise UserError(
                f"unknown variant {str(self.variant)!r}: choose from {', '.join(VARIANTS)}, "
                "or a TOML file with a graph"
            )
        defaults: dict[str, str | int] = {"weighting": "sequential" if self.variant == "S" else "uniform"}
        defaults |= {"functions": 32} if ours else {}
        defaults |= {"shared_functions": 8, "shared_symbols": 4} if self.variant == "S" else {}
        if self.protocol == "authors":
            fits = (self.symbols, self.functions or 32) == TABLE_SHAPE
            defaults |= {"workers": Habits.workers, "table": "authors" if fits else self.seed}
            defaults |= dict.fromkeys(SWITCHES, True)
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if name == "functions" and self.variant in VARIANTS:
                low = FEWEST_FUNCTIONS.get(str(self.variant), low)
            if value is not None and not (isinstance(value, int) and low <= value <= high):
                raise UserError(f"‹{name}› {value!r}: use {low} to {high}")
        if self.functions is not None:
            _check_functions(self.functions, self.symbols)
        if not (isinstance(self.fill, float | int) and 0 < self.fill <= 1):
            raise UserError(f"‹fill› {self.fill!r}: use a share above 0 and up to 1")
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise UserError(f"‹{name}› {value}: choose from {', '.join(choices)}")
        for name, owner in OWNERS.items():
            if self.variant != owner and getattr(self, name) is not None:
                here = getattr(self.variant, "name", self.variant)
                raise UserError(f"‹{name}› is an option of {owner} alone; leave it out for {here}")

        if self.protocol == "paper" and (given := [name for name in SWITCHES if getattr(self, name)]):
            raise UserError(f"‹{given[0]}› is not for the protocol paper; choose authors or released")

    @property
    def habits(self) -> Habits | None:
        """How the authors' generator would draw these data; None if they are not drawn in its way."""
        if not any((self.repeats, self.nesting, self.twins)):
            return None
        switches = {name: bool(getattr(self, name)) for name in ("repeats", "nesting", "twins")}
        return Habits(workers=self.workers or Habits.workers, **switches)

    def of_splits(self) -> dict[str, Any]:
        """The settings behind the splits, which a task does not hold; `task.json` calls them `recipe`."""
        names = ("max_length", "train", "iid", "ood", "ood_max_length", "fill", "weighting")
        values = {name: getattr(self, name) for name in (*names, "table", "workers", *SWITCHES)}
        values["table"] = str(self.table) if isinstance(self.table, Path) else self.table
        return {name: value for name, value in values.items() if value is not None}


def specify(settings: Settings) -> VariantSpec:
    """The groups and graphs that the settings ask for: the paper's, or your own."""
    variant = settings.variant
    if variant in VARIANTS:
        return _staged(settings) if variant == "S" else _unstaged(settings)
    own = variant if isinstance(variant, VariantSpec) else read_spec(Path(variant), settings.max_length)
    if own.name in VARIANTS:
        raise UserError(f"{own.name} is a variant of the paper: give your graph a name of its own")
    n_functions = sum(map(len, own.groups.values()))
    if settings.functions not in (None, n_functions):
        there = f"the groups of {own.name} have {n_functions} together"
        raise UserError(f"‹functions› {settings.functions}: {there}; leave it out")
    _check_functions(n_functions, settings.symbols)
    return own


def _check_functions(n_functions: int, n_symbols: int) -> None:
    if n_functions > (most := math.factorial(min(n_symbols, 20))):
        raise UserError(
            f"‹functions› {n_functions}: only {most} different bijections of {n_symbols} symbols exist"
        )
    if (pairs := n_functions**2 * n_symbols) > MOST_PAIRS:
        raise UserError(
            f"‹functions› {n_functions}: on {n_symbols} symbols they make {pairs:,} pairs; use fewer"
        )


def _unstaged(settings: Settings) -> VariantSpec:
    """CTL, A and R."""
    variant, longest = str(settings.variant), settings.max_length
    names = function_names(settings.functions or 0)
    train_edges, ood_edges = EDGES[variant]
    groups, ood_lengths = _deal(names, ("a", "b")), range(2, longest + 1)
    if variant == "CTL":
        furthest = settings.ood_max_length or longest + 4
        if furthest <= longest:
            raise UserError(
                f"‹ood_max_length› {furthest}: CTL tests on longer examples; use {longest + 1} or more"
            )
        groups, ood_lengths = {"f": names}, range(longest + 1, furthest + 1)
    train = Graph.of(train_edges, lengths=range(1, longest + 1))
    return VariantSpec(name=variant, groups=groups, train=train, ood=Graph.of(ood_edges, lengths=ood_lengths))


def _staged(settings: Settings) -> VariantSpec:
    """S: shared functions are the first ones."""
    n_shared, overlap = settings.shared_functions or 0, settings.shared_symbols or 0
    _check_staged(settings, n_shared, overlap)
    names = function_names(settings.functions or 0)
    groups = _deal(names[n_shared:], ("a1", "b1", "a2", "b2")) | {"o": names[:n_shared]}
    stream = Stream(settings.seed, "restrictions")
    restrictions = _share_symbols(groups["o"], settings.symbols, overlap, stream)
    even = range(2, settings.max_length + 1, 2)
    train = Graph.of(STAGES, lengths=even, restrictions=restrictions)
    return VariantSpec(name="S", groups=groups, train=train, ood=Graph.of(SWAPPED, lengths=even))


def _check_staged(settings: Settings, n_shared: int, overlap: int) -> None:
    n_symbols, longest, most = settings.symbols, settings.max_length, (settings.functions or 0) - 4
    if longest % 2:
        raise UserError(
            f"‹max_length› {longest} is odd: S has even lengths only; use {longest - 1} or {longest + 1}"
        )
    if not 1 <= n_shared <= most:
        raise UserError(
            f"‹shared_functions› {n_shared}: use 1 to {most}; a1, a2, b1 and b2 need functions too"
        )
    if not 1 <= overlap <= n_symbols:
        raise UserError(f"‹shared_symbols› {overlap}: use 1 to {n_symbols}, the number of symbols")
    if n_shared * overlap < n_symbols:
        together = f"{n_shared} shared functions must cover {n_symbols} symbols together"
        raise UserError(f"‹shared_symbols› {overlap}: {together}; use {-(-n_symbols // n_shared)} or more")


def _deal(names: Sequence[str], groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Split the functions over the groups in order, as evenly as possible: the first get what is over."""
    size, over = divmod(len(names), len(groups))
    left = iter(names)
    return {group: tuple(islice(left, size + (i < over))) for i, group in enumerate(groups)}


def _share_symbols(shared: Iterable[str], n_symbols: int, overlap: int, stream: Stream) -> list[Restriction]:
    """The symbols that each shared function may receive in training from either path.

    The two sets of a function overlap in exactly `overlap` symbols; the other symbols are divided between the
    paths (an odd one goes to a and to b in turn); the overlaps of all functions together cover every symbol.
    """
    restrictions = []
    deck: list[int] = []
    for turn, function in enumerate(shared):
        common: list[int] = []
        while len(common) < overlap:
            fresh = [symbol for symbol in deck if symbol not in common]
            if not fresh:  # a new deck; what this function cannot take twice stays for the next
                deck += stream.permutation(n_symbols).tolist()
                continue
            deck.remove(fresh[0])
            common.append(fresh[0])
        apart = [symbol for symbol in stream.permutation(n_symbols).tolist() if symbol not in common]
        half = (len(apart) + (turn + 1) % 2) // 2
        for source, own in (("a1", apart[:half]), ("b1", apart[half:])):
            symbols = tuple(sorted(common + own))
            restrictions.append(Restriction(source=source, function=function, symbols=symbols))
    return restrictions


def shared_path(train: Graph) -> Graph:
    """S with only stage 1 → o: what the shared functions do with symbols seen in training."""
    return Graph.of(SHARED, lengths=train.lengths, restrictions=train.restrictions)


def unseen_symbols(train: Graph, n_symbols: int) -> Graph:
    """S with only stage 1 → o, each time on a symbol that the training restriction excludes."""
    excluded = []
    for rule in train.restrictions:
        others = tuple(symbol for symbol in range(n_symbols) if symbol not in rule.symbols)
        excluded.append(Restriction(source=rule.source, function=rule.function, symbols=others))
    return Graph.of(SHARED, lengths=train.lengths, restrictions=excluded)
