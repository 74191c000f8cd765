"""Graphs of one's own, from a TOML file.

    name = "never-meet"            # optional: the file's name otherwise

    [groups]                       # how many functions each group has; they are named a, b, c, … in this order
    a = 11
    b = 11
    c = 10

    [train]
    edges = ["IN -> a b c", "a -> c OUT", "b -> c OUT", "c -> a b OUT"]

    [ood]
    edges = ["IN -> a b", "a -> b OUT", "b -> a OUT"]
    lengths = [2, 3, 4]            # optional: 1 … max_length for train, 2 … max_length for ood

Each graph may have `restrictions`, a list of tables such as { from = "a", function = "x", symbols = [0, 1] }.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctlpp.benchmark.functions import function_names
from ctlpp.benchmark.graph import IN, OUT, Graph, Restriction
from ctlpp.benchmark.variants import VARIANTS, Plan
from ctlpp.files import UserError

MOST_FUNCTIONS = 10_000


def read_plan(path: Path, max_length: int) -> Plan:
    """The plan in a TOML file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist: name a TOML file with a graph") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not a readable TOML file: {error}") from error
    try:
        _only(content, "the file", ("name", "groups", "train", "ood"), required=("groups", "train", "ood"))
        name = content.get("name", path.stem)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise UserError(f"name: must be a printable text, not {name!r}")
        if name in VARIANTS:
            raise UserError(f"name: {name} is a variant of the paper; give your graph a name of its own")
        groups = _groups(content["groups"])
        train = _graph(content["train"], "train", range(1, max_length + 1))
        ood = _graph(content["ood"], "ood", range(2, max_length + 1))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return Plan(name=name, groups=groups, train=train, ood=ood)


def _groups(sizes: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(sizes, dict) or not sizes:
        raise UserError("[groups]: give each group a number of functions, such as a = 16")
    for group, size in sizes.items():
        if group in (IN, OUT) or not group.isidentifier():
            raise UserError(
                f"[groups]: {group!r} cannot name a group; use letters and digits, but not IN or OUT"
            )
        if type(size) is not int or not 1 <= size <= MOST_FUNCTIONS:
            raise UserError(f"[groups]: {group} = {size!r} must be a whole number from 1 to {MOST_FUNCTIONS}")
    left = iter(function_names(sum(sizes.values())))
    return {group: tuple(next(left) for _ in range(size)) for group, size in sizes.items()}


def _graph(content: Any, where: str, default_lengths: range) -> Graph:
    if not isinstance(content, dict):
        raise UserError(f"[{where}]: must be a table with edges")
    _only(content, f"[{where}]", ("edges", "lengths", "restrictions"), required=("edges",))
    lengths = content.get("lengths", list(default_lengths))
    if not isinstance(lengths, list) or not lengths or any(type(n) is not int or n < 1 for n in lengths):
        raise UserError(f"[{where}] lengths: must be a list of whole numbers from 1, such as [2, 3, 4]")
    lines, rules = content["edges"], content.get("restrictions", [])
    if not isinstance(lines, list) or not isinstance(rules, list):
        raise UserError(f"[{where}]: edges and restrictions must be lists")
    edges = [edge for line in lines for edge in _edges(line, where)]
    return Graph(
        edges=tuple(edges),
        lengths=tuple(sorted(set(lengths))),
        restrictions=tuple(_restriction(rule, where) for rule in rules),
    )


def _edges(line: Any, where: str) -> list[tuple[str, str]]:
    source, arrow, targets = line.partition("->") if isinstance(line, str) else ("", "", "")
    if len(source.split()) != 1 or not arrow or not targets.split():
        raise UserError(f'[{where}] edges: {line!r} must look like "a -> b c OUT"')
    return [(source.strip(), target) for target in targets.split()]


def _restriction(rule: Any, where: str) -> Restriction:
    keys = ("from", "function", "symbols")
    if not isinstance(rule, dict):
        raise UserError(f"[{where}] restrictions: {rule!r} must be a table with from, function and symbols")
    _only(rule, f"[{where}] restrictions", keys, required=keys)
    source, function, symbols = (rule[key] for key in keys)
    if not isinstance(symbols, list) or any(type(s) is not int for s in symbols):
        raise UserError(f"[{where}] restrictions: symbols must be a list of symbol indices, not {symbols!r}")
    return Restriction(source=str(source), function=str(function), symbols=tuple(symbols))


def _only(table: Mapping[str, Any], where: str, known: tuple[str, ...], required: tuple[str, ...]) -> None:
    """Only known keys, and all required ones."""
    if unknown := [key for key in table if key not in known]:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; choose from {', '.join(known)}")
    if missing := [key for key in required if key not in table]:
        raise UserError(f"{where}: {missing[0]} is missing")
