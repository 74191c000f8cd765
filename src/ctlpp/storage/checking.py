"""The proof of a dataset folder, from its `task.json` alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ctlpp.benchmark.distinct import first_positions, member
from ctlpp.benchmark.examples import Examples
from ctlpp.benchmark.splits import ENUMERATED
from ctlpp.benchmark.task import Task
from ctlpp.storage.formats import ENDINGS
from ctlpp.storage.reading import read_split, read_task
from ctlpp.storage.rows import Parsed, parse


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was proved."""

    task: Task
    examples: dict[str, int]  # of each split
    lengths: dict[str, tuple[int, ...]]
    overlaps: dict[tuple[str, str], int]  # examples that two splits share
    singles_in_train: bool


def check(folder: str | Path) -> Proof:
    """Prove every claim of a dataset folder. Raises ValueError with the first offending example."""
    folder = Path(folder)
    task, recipe, entries = read_task(folder)
    _check_names(folder, task, entries)
    parsed: dict[str, dict[int, Parsed]] = {}
    for name, entry in entries.items():
        table = read_split(folder, name, entry)
        parsed[name] = parse(task, table, str(folder / entry["file"]))
        _check_counts(folder, name, entry, parsed[name])
        for part in parsed[name].values():
            _check_part(task, f"{folder / entry['file']}", name, part, table)
        if name in ENUMERATED:
            _check_complete(task, folder, name, parsed[name])
    overlaps = _check_overlaps(folder, task, entries, parsed)
    _check_fill(folder, task, recipe, parsed)
    return Proof(
        task=task,
        examples={name: int(entry["examples"]) for name, entry in entries.items()},
        lengths={name: tuple(sorted(parts)) for name, parts in parsed.items()},
        overlaps=overlaps,
        singles_in_train=1 in parsed["train"],
    )


def _check_names(folder: Path, task: Task, entries: dict[str, dict[str, Any]]) -> None:
    if "train" not in entries:
        raise ValueError(f"{folder / 'task.json'}: the split train is missing")
    if unknown := [name for name in entries if name not in task.graphs]:
        raise ValueError(f"{folder / 'task.json'}: unknown split {unknown[0]!r}; choose from {', '.join(task.graphs)}")
    listed = {str(entry.get("file")) for entry in entries.values()}
    found = {path.name for path in folder.iterdir() if path.suffix in ENDINGS.values()}
    if stray := sorted(found - listed):
        raise ValueError(f"{folder / stray[0]}: task.json does not list this file; remove it")


def _check_counts(folder: Path, name: str, entry: dict[str, Any], parts: dict[int, Parsed]) -> None:
    counted = {str(length): len(part.at) for length, part in sorted(parts.items())}
    if counted != entry.get("by_length"):
        raise ValueError(
            f"{folder / 'task.json'}: {name} has by_length {entry.get('by_length')}, its file has {counted}"
        )


def _check_part(task: Task, file: str, name: str, part: Parsed, table: pa.Table) -> None:
    """Outputs, membership, the `allowed` label and duplicates of the rows of one length."""
    results = part.examples.outputs(task.table)
    claims = [(results == part.outputs, "has the wrong output")]
    claims += [(task.language(name).contains(part.examples), f"is not in the graph of {name}")]
    if "allowed" in table.column_names:
        label = table["allowed"].to_numpy()[part.at]
        claims += [(label == task.language("train").allows_successions(part.examples), "has the wrong label `allowed`")]
    claims += [(first_positions(part.examples.keys()), "occurs twice")]
    for holds, problem in claims:
        if not holds.all():
            at = int(np.argmin(holds))
            hint = f"; right is {task.symbols[results[at]]!r}" if "output" in problem else ""
            output = task.symbols[part.outputs[at]]
            raise ValueError(
                f"{file}: row {part.at[at]}, {task.describe(part.examples, at)!r} -> {output!r}, {problem}{hint}"
            )


def _check_complete(task: Task, folder: Path, name: str, parts: dict[int, Parsed]) -> None:
    for length in task.graphs[name].lengths:
        expected = task.language(name).count(length)
        if (found := len(parts[length].at) if length in parts else 0) != expected:
            raise ValueError(f"{folder}: {name} must hold all {expected} examples of length {length}, it has {found}")


def _check_overlaps(
    folder: Path, task: Task, entries: dict[str, dict[str, Any]], parsed: dict[str, dict[int, Parsed]]
) -> dict[tuple[str, str], int]:
    """The splits that must be disjoint are; the released protocol's overlap is the one that task.json admits."""
    overlaps = {}
    sampled = [name for name in parsed if name not in ENUMERATED]
    for one, other in combinations(sampled, 2):
        if one not in ("train", "iid"):
            continue
        shared = _shared(parsed[one], parsed[other])
        overlaps[one, other] = sum(map(len, shared))
        admitted = int(entries[other].get("in_train", 0)) if one == "train" and task.protocol == "released" else 0
        if overlaps[one, other] != admitted:
            example = f"; the first is {task.describe(shared[0])!r}" if shared else ""
            raise ValueError(
                f"{folder}: {one} and {other} share {overlaps[one, other]} examples, not {admitted}{example}"
            )
    return overlaps


def _shared(one: dict[int, Parsed], other: dict[int, Parsed]) -> list[Examples]:
    """The examples of `other` that are in `one` as well, by length."""
    both = [(part.examples, one[n].examples) for n, part in other.items() if n in one]
    common = [theirs[member(theirs.keys(), ours.keys())] for theirs, ours in both]
    return [examples for examples in common if len(examples)]


def _check_fill(folder: Path, task: Task, recipe: dict[str, Any], parsed: dict[str, dict[int, Parsed]]) -> None:
    """The paper's protocol: all single applications are in train, and at most `fill` of every other length is used."""
    if task.protocol != "paper" or "fill" not in recipe:
        return
    language = task.language("train")
    for length in language.graph.lengths:
        used = sum(len(parsed[name][length].at) for name in ("train", "iid") if length in parsed.get(name, {}))
        exist = language.count(length)
        if length == 1 and used != exist:
            raise ValueError(f"{folder}: train must hold all {exist} single applications, it has {used}")
        fill = float(recipe["fill"])
        if length > 1 and used > fill * exist:
            raise ValueError(
                f"{folder}: train and iid use {used} of {exist} examples of length {length}, above fill {fill}"
            )
