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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

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
from ctlpp.files import UserError
from ctlpp.words import OLD_PROTOCOLS


@dataclass(frozen=True)
class Protocol:
    """How the examples of a dataset are drawn."""

    about: str
    complete: int  # the length of which train has all examples
    as_generator: bool = False  # as the authors' generator, with its habits unless they are switched off


PROTOCOLS = {
    "authors": Protocol("as the authors' generator drew them", complete=2, as_generator=True),
    "clean": Protocol("with the authors' rules, every example drawn anew", complete=2),
    "text": Protocol("as the paper's text says", complete=1),
}
ORDERS = ("right-to-left", "left-to-right")
WEIGHTINGS = ("uniform", "sequential")
HABITS = ("repeats", "nesting", "twins")  # of the authors' generator; see `ctlpp.benchmark.authors`
WORKERS = 24  # of the generator: the published runs' machines had 24 threads
TABLE_SHAPE = (8, 32)  # symbols and functions of the authors' table
MOST_EXAMPLES = range(10**9 + 1)
MOST_PAIRS = 50_000_000  # the split `pairs` holds them all

ANY = {IN: "f", "f": "f OUT"}
ALTERNATE = {IN: "a b", "a": "b OUT", "b": "a OUT"}
REPEAT = {IN: "a b", "a": "a OUT", "b": "b OUT"}
STAGES = {IN: "a1 b1", "a1": "a2 o", "b1": "b2 o", "a2": "a1 b1 OUT", "b2": "a1 b1 OUT", "o": "a1 b1 OUT"}
SWAPPED = {IN: "a1 b1", "a1": "b2", "b1": "a2", "a2": "a1 b1 OUT", "b2": "a1 b1 OUT"}
SHARED = {IN: "a1 b1", "a1": "o", "b1": "o", "o": "a1 b1 OUT"}
VARIANTS = {  # edges of the training graph, and of the OOD graph
    "CTL": (ANY, ANY),
    "A": (ALTERNATE, REPEAT),
    "R": (REPEAT, ALTERNATE),
    "S": (STAGES, SWAPPED),
}
SPLIT_SETTINGS = ["max_length", "train", "iid", "ood", "ood_max_length", "fill", "weighting"]
SPLIT_SETTINGS += ["table", "workers", *HABITS, "doubled_pairs"]
FEWEST_FUNCTIONS = {"A": 2, "R": 2, "S": 5}


def _option(default: Any, help: str, values: Collection[Any] = (), *, only: str = "") -> Any:
    """A setting: its help on the command line, the values it may have, and the only variant that has it."""
    help = f"{only} only: {help}" if only else help
    return field(default=default, metadata={"help": help, "values": values, "only": only})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides the bytes of a dataset. The options of the command line are made from it."""

    variant: str | Path | VariantSpec  # CTL, A, R, S, the path of a TOML file, or your own
    symbols: int = _option(8, "Number of symbols.", range(2, 1001))
    functions: int | None = _option(None, "Number of functions. [default: 32]", range(1, MOST_FUNCTIONS + 1))
    max_length: int = _option(6, "Functions in an example, at most.", range(2, 65))
    train: int = _option(300_000, "Training examples.", MOST_EXAMPLES[1:])
    iid: int = _option(1_000, "IID test examples.", MOST_EXAMPLES)
    ood: int = _option(1_000, "OOD test examples; sampled diagnostic splits have as many.", MOST_EXAMPLES)
    seed: int = _option(0, "Fixes functions and examples, bit for bit.", range(2**63))
    protocol: str = _option(
        "authors", "; ".join(f"{name}: {one.about}" for name, one in PROTOCOLS.items()) + ".", PROTOCOLS
    )
    table: str | int | Path | None = _option(  # noqa: RUF009
        None, "Functions: authors, authors-py37, a number to draw from, or a file. [default: the protocol's]"
    )
    workers: int | None = _option(None, f"Of the authors' generator. [default: {WORKERS}]", range(1, 1001))
    repeats: bool | None = _option(None, "All workers choose the same functions. [default: the protocol's]")
    nesting: bool | None = _option(None, "So do all lengths. [default: the protocol's]")
    twins: bool | None = _option(None, "So does the OOD split. [default: the protocol's]")
    doubled_pairs: bool | None = _option(
        None, "Add all pairs to train, also those drawn before. [default: the protocol's]"
    )
    order: str = _option(
        "right-to-left", "right-to-left: d(a(b(3))) is written `d a b 3`; left-to-right: `3 b a d`.", ORDERS
    )
    shared_functions: int | None = _option(None, "functions in the shared group o. [default: 8]", only="S")
    shared_symbols: int | None = _option(
        None, "symbols that both paths may pass to a shared function. [default: 4]", only="S"
    )
    ood_max_length: int | None = _option(
        None,
        "functions in an OOD example, at most. [default: max length + 4]",
        range(3, LONGEST + 1),
        only="CTL",
    )
    fill: float = _option(0.5, "Share of the existing examples of a length ≥ 2 that train and iid may use.")
    weighting: str = _option(
        None,
        "uniform: among distinct examples; sequential: path by path. [default: uniform; sequential for S]",
        WEIGHTINGS,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", OLD_PROTOCOLS.get(self.protocol, self.protocol))
        own = isinstance(self.variant, VariantSpec) or str(self.variant).endswith(".toml")
        if not own and not self.of_paper:
            choices = f"{', '.join(VARIANTS)}, or a TOML file with a graph"
            raise UserError(f"unknown variant {str(self.variant)!r}: choose from {choices}")
        defaults: dict[str, str | int] = {"weighting": "sequential" if self.variant == "S" else "uniform"}
        defaults |= {"functions": 32} if self.of_paper else {}
        defaults |= {"shared_functions": 8, "shared_symbols": 4} if self.variant == "S" else {}
        if self.protocol in PROTOCOLS and self.rules.as_generator:
            fits = (self.symbols, self.functions or 32) == TABLE_SHAPE
            defaults |= {"workers": WORKERS, "table": "authors" if fits else self.seed}
            defaults |= dict.fromkeys((*HABITS, "doubled_pairs"), True)
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for setting in fields(self)[1:]:
            name, value = setting.name, getattr(self, setting.name)
            values, only = setting.metadata["values"], setting.metadata["only"]
            if value is None and setting.default is None:
                continue
            if only and self.variant != only:
                here = getattr(self.variant, "name", self.variant)
                raise UserError(f"‹{name}› is an option of {only} alone; leave it out for {here}")
            if isinstance(values, range) and not (isinstance(value, int) and value in values):
                raise UserError(f"‹{name}› {value!r}: use {values[0]} to {values[-1]}")
            if values and value not in values:
                raise UserError(f"‹{name}› {value}: choose from {', '.join(values)}")
        if self.functions is not None:
            if self.functions < (fewest := FEWEST_FUNCTIONS.get(str(self.variant), 1)):
                raise UserError(f"‹functions› {self.functions}: use {fewest} to {MOST_FUNCTIONS}")
            _check_functions(self.functions, self.symbols)
        if not (isinstance(self.fill, float | int) and 0 < self.fill <= 1):
            raise UserError(f"‹fill› {self.fill!r}: use a share above 0 and up to 1")
        given = [name for name in (*HABITS, "doubled_pairs") if getattr(self, name)]
        if given and self.rules.complete == 1:
            others = " or ".join(name for name, other in PROTOCOLS.items() if other.complete > 1)
            raise UserError(f"‹{given[0]}› is not for the protocol {self.protocol}; choose {others}")

    @property
    def of_paper(self) -> bool:
        """Whether the variant is one of the paper's."""
        return isinstance(self.variant, str) and self.variant in VARIANTS

    @property
    def rules(self) -> Protocol:
        """What the protocol prescribes."""
        return PROTOCOLS[self.protocol]

    @property
    def as_generator(self) -> bool:
        """Whether the examples are drawn as the authors' generator draws them."""
        return any(getattr(self, habit) for habit in HABITS)

    def split_settings(self) -> dict[str, Any]:
        """The settings behind the splits, which a task does not hold; `task.json` calls them `recipe`."""
        values = {name: getattr(self, name) for name in SPLIT_SETTINGS}
        values["table"] = str(self.table) if isinstance(self.table, Path) else self.table
        return {name: value for name, value in values.items() if value is not None}


def specify(settings: Settings) -> VariantSpec:
    """The groups and graphs that the settings ask for: the paper's, or your own."""
    variant = settings.variant
    if settings.of_paper:
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
    wrong = ""
    if n_functions > (most := math.factorial(min(n_symbols, 20))):
        wrong = f"only {most} different bijections of {n_symbols} symbols exist"
    elif (pairs := n_functions**2 * n_symbols) > MOST_PAIRS:
        wrong = f"on {n_symbols} symbols they make {pairs:,} pairs; use fewer"
    if wrong:
        raise UserError(f"‹functions› {n_functions}: {wrong}")


def _unstaged(settings: Settings) -> VariantSpec:
    """CTL, A and R."""
    variant, longest = str(settings.variant), settings.max_length
    names = function_names(settings.functions or 0)
    train_edges, ood_edges = VARIANTS[variant]
    groups, ood_lengths = _deal(names, ("a", "b")), range(2, longest + 1)
    if variant == "CTL":
        furthest = settings.ood_max_length or longest + 4
        if furthest <= longest:
            right = f"CTL tests on longer examples; use {longest + 1} or more"
            raise UserError(f"‹ood_max_length› {furthest}: {right}")
        groups, ood_lengths = {"f": names}, range(longest + 1, furthest + 1)
    train = Graph.of(train_edges, lengths=range(1, longest + 1))
    return VariantSpec(name=variant, groups=groups, train=train, ood=Graph.of(ood_edges, lengths=ood_lengths))


def _staged(settings: Settings) -> VariantSpec:
    """S: shared functions are the first ones."""
    n_shared, overlap = settings.shared_functions or 0, settings.shared_symbols or 0
    _check_staged(settings, n_shared, overlap)
    names = function_names(settings.functions or 0)
    groups = _deal(names[n_shared:], ("a1", "b1", "a2", "b2")) | {"o": names[:n_shared]}
    restrictions = _share_symbols(groups["o"], settings.symbols, overlap, settings.seed)
    even = range(2, settings.max_length + 1, 2)
    train = Graph.of(STAGES, lengths=even, restrictions=restrictions)
    return VariantSpec(name="S", groups=groups, train=train, ood=Graph.of(SWAPPED, lengths=even))


def _check_staged(settings: Settings, n_shared: int, overlap: int) -> None:
    n_symbols, longest, most = settings.symbols, settings.max_length, (settings.functions or 0) - 4
    if longest % 2:
        even = f"S has even lengths only; use {longest - 1} or {longest + 1}"
        raise UserError(f"‹max_length› {longest} is odd: {even}")
    if not 1 <= n_shared <= most:
        right = f"use 1 to {most}; a1, a2, b1 and b2 need functions too"
        raise UserError(f"‹shared_functions› {n_shared}: {right}")
    if not 1 <= overlap <= n_symbols:
        raise UserError(f"‹shared_symbols› {overlap}: use 1 to {n_symbols}, the number of symbols")
    if n_shared * overlap < n_symbols:
        together = f"{n_shared} shared functions must cover {n_symbols} symbols together"
        raise UserError(f"‹shared_symbols› {overlap}: {together}; use {-(-n_symbols // n_shared)} or more")


def _deal(names: Sequence[str], groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Deal the functions out to the groups in order, as evenly as possible: the first get what is over."""
    size, over = divmod(len(names), len(groups))
    left = iter(names)
    return {group: tuple(islice(left, size + (i < over))) for i, group in enumerate(groups)}


def _share_symbols(shared: Iterable[str], n_symbols: int, overlap: int, seed: int) -> list[Restriction]:
    """The symbols that each shared function may receive in training from either path.

    The two sets of a function overlap in exactly `overlap` symbols; the other symbols are divided between the
    paths (an odd one goes to a and to b in turn); the overlaps of all functions together cover every symbol.
    """
    from ctlpp.benchmark.sampling import Stream  # not above: the options of commands are there without NumPy

    stream = Stream(seed, "restrictions")
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


def shared_paths(train: Graph, n_symbols: int) -> dict[str, Graph]:
    """S with only stage 1 → o: on symbols seen in training, and on those that its restrictions exclude."""
    every = set(range(n_symbols))
    excluded = [replace(rule, symbols=tuple(sorted(every - {*rule.symbols}))) for rule in train.restrictions]
    return {
        "shared_path": Graph.of(SHARED, lengths=train.lengths, restrictions=train.restrictions),
        "unseen_symbols": Graph.of(SHARED, lengths=train.lengths, restrictions=excluded),
    }
