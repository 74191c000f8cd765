"""The obvious way to make the data: draw one example at a time, drop it if it is there already.

It is the reference for the speed of `ctlpp.generate` (`ctlpp bench data`) and makes the same splits by the
same rules: balanced lengths, the fill rule, iid apart from train, and the diagnostic splits.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any, NamedTuple

Example = tuple[int, ...]  # start symbol, then the functions in order of application
AFTER: dict[str, dict[str, tuple[str, ...]]] = {
    "A": {"IN": ("a", "b"), "a": ("b",), "b": ("a",)},
    "R": {"IN": ("a", "b"), "a": ("a",), "b": ("b",)},
}
OTHER = {"A": "R", "R": "A"}


class Row(NamedTuple):
    """An example and its result."""

    example: Example
    output: int


def generate(
    variant: str,
    *,
    symbols: int = 8,
    functions: int = 32,
    max_length: int = 6,
    train: int = 300_000,
    iid: int = 1_000,
    ood: int = 1_000,
    seed: int = 0,
    fill: float = 0.5,
) -> dict[str, list[Row]]:
    """The default dataset of A or R, as lists of rows."""
    rng = random.Random(seed)
    tables = make_functions(rng, symbols, functions)
    groups = {"a": list(range(functions // 2)), "b": list(range(functions // 2, functions))}
    seen, unseen = AFTER[variant], AFTER[OTHER[variant]]
    half = functions // 2
    exist = {n: 2 * half**n * symbols for n in range(1, max_length + 1)}
    room = {n: int(fill * exist[n]) for n in range(2, max_length + 1)}
    singles = set(product(range(symbols), range(functions)))
    iid_set = draw(rng, seen, groups, symbols, balance(iid, room), set())
    left = {n: room[n] - iid // len(room) for n in room}
    train_set = singles | draw(rng, seen, groups, symbols, balance(train - len(singles), left), iid_set)
    ood_set = draw(rng, unseen, groups, symbols, balance(ood, {n: exist[n] for n in room}), set())
    everywhere: dict[str, tuple[str, ...]] = {"IN": ("f",), "f": ("f",)}
    any_set = draw(
        rng, everywhere, {"f": list(range(functions))}, symbols, balance(ood, room), train_set | iid_set
    )
    pairs = set(product(range(symbols), range(functions), range(functions)))
    splits: dict[str, set[Any]] = {
        "train": train_set,
        "iid": iid_set,
        "ood": ood_set,
        "singles": singles,
        "pairs": pairs,
        "any": any_set,
    }
    return {name: [Row(e, apply(tables, e)) for e in examples] for name, examples in splits.items()}


def make_functions(rng: random.Random, symbols: int, functions: int) -> list[list[int]]:
    """Distinct random permutations."""
    tables: set[tuple[int, ...]] = set()
    while len(tables) < functions:
        tables.add(tuple(rng.sample(range(symbols), symbols)))
    return [list(table) for table in sorted(tables)]


def draw(
    rng: random.Random,
    after: dict[str, tuple[str, ...]],
    groups: dict[str, list[int]],
    symbols: int,
    sizes: dict[int, int],
    exclude: set[Example],
) -> set[Example]:
    """So many different examples of each length, none of which is excluded."""
    result: set[Example] = set()
    for length, size in sizes.items():
        target = len(result) + size
        while len(result) < target:
            example = [rng.randrange(symbols)]
            group = "IN"
            for _ in range(length):
                group = rng.choice(after[group])
                example.append(rng.choice(groups[group]))
            if (found := tuple(example)) not in exclude:
                result.add(found)
    return result


def balance(total: int, room: dict[int, int]) -> dict[int, int]:
    """Equal numbers per length as far as there is room, short lengths first."""
    sizes = {}
    for i, length in enumerate(sorted(room)):
        sizes[length] = min(room[length], total // (len(room) - i))
        total -= sizes[length]
    return sizes


def apply(tables: list[list[int]], example: Example) -> int:
    """The result symbol."""
    symbol = example[0]
    for function in example[1:]:
        symbol = tables[function][symbol]
    return symbol
