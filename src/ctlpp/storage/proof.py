"""The proof of a dataset folder, from its `task.json` alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ctlpp.benchmark.language import Examples, join
from ctlpp.benchmark.sampling import Limit, first_positions, max_sequences, member
from ctlpp.benchmark.splits import ENUMERATED, filled
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.storage.card import files_in_card
from ctlpp.storage.folder import Parsed, parse, read_split, read_task
from ctlpp.storage.task_json import ENDINGS

COMPLETE = {"paper": 1, "released": 2}  # the length of which train has all there is, outside the fill rule


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was proved."""

    task: Task
    examples: dict[str, int]  # of each split
    lengths: dict[str, tuple[int, ...]]
    overlaps: dict[tuple[str, str], int]  # examples that two splits share
    sequences: dict[
        int, int
    ]  # distinct function sequences of train and iid, for each length that must have few
    max_sequences: Limit | None  # as the recipe has it


def check(folder: str | Path) -> Proof:
    """Prove every claim of a dataset folder. Raises UserError with the first offending example."""
    folder = Path(folder)
    task, recipe, entries = read_task(folder)
    _check_names(folder, task, entries)
    parsed: dict[str, dict[int, Parsed]] = {}
    for name, entry in entries.items():
        table = read_split(folder, entry)
        parsed[name] = parse(task, table, str(folder / entry["file"]))
        _check_counts(folder, name, entry, parsed[name])
        for part in parsed[name].values():
            _check_part(task, f"{folder / entry['file']}", name, part, table)
        if name in ENUMERATED:
            _check_complete(task, folder, name, parsed[name])
    overlaps = _check_overlaps(folder, task, entries, parsed)
    _check_sizes(folder, task, recipe, entries)
    _check_protocol(folder, task, recipe, parsed)
    return Proof(
        task=task,
        examples={name: int(entry["examples"]) for name, entry in entries.items()},
        lengths={name: tuple(sorted(parts)) for name, parts in parsed.items()},
        overlaps=overlaps,
        sequences=_check_sequences(folder, task, recipe, parsed),
        max_sequences=recipe.get("distinct_sequences"),
    )


def _check_names(folder: Path, task: Task, entries: dict[str, dict[str, Any]]) -> None:
    if "train" not in entries:
        raise UserError(f"{folder / 'task.json'}: the split train is missing")
    if unknown := [name for name in entries if name not in task.graphs]:
        raise UserError(
            f"{folder / 'task.json'}: unknown split {unknown[0]!r}; choose from {', '.join(task.graphs)}"
        )
    listed = {entry["file"] for entry in entries.values()}
    found = {path.name for path in folder.iterdir() if path.suffix in ENDINGS.values()}
    if stray := sorted(found - listed):
        raise UserError(f"{folder / stray[0]}: task.json does not list this file; remove it")
    card = folder / "README.md"
    if not card.is_file() or files_in_card(card.read_bytes()) != {
        n: entry["file"] for n, entry in entries.items()
    }:
        raise UserError(
            f"{card}: its header does not name the files of task.json; generate the dataset again"
        )


def _check_counts(folder: Path, name: str, entry: dict[str, Any], parts: dict[int, Parsed]) -> None:
    counted = {str(length): len(part.at) for length, part in sorted(parts.items())}
    if counted != entry["by_length"]:
        raise UserError(
            f"{folder / 'task.json'}: {name} has by_length {entry['by_length']}, its file has {counted}"
        )


def _check_part(task: Task, file: str, name: str, part: Parsed, table: pa.Table) -> None:
    """Outputs, membership, the `allowed` label and duplicates of the rows of one length."""
    results = part.examples.outputs(task.table)
    claims = [(results == part.outputs, "has the wrong output")]
    claims += [(task.language(name).contains(part.examples), f"is not in the graph of {name}")]
    if "allowed" in table.column_names:
        label = table["allowed"].to_numpy()[part.at]
        claims += [
            (
                label == task.language("train").allows_successions(part.examples),
                "has the wrong label `allowed`",
            )
        ]
    claims += [(first_positions(part.examples.keys()), "occurs twice")]
    for holds, problem in claims:
        if not holds.all():
            at = int(np.argmin(holds))
            hint = f"; right is {task.symbols[results[at]]!r}" if "output" in problem else ""
            output = task.symbols[part.outputs[at]]
            raise UserError(
                f"{file}: row {part.at[at]}, {task.describe(part.examples, at)!r} -> {output!r}, {problem}{hint}"
            )


def _check_complete(task: Task, folder: Path, name: str, parts: dict[int, Parsed]) -> None:
    for length in task.graphs[name].lengths:
        expected = task.language(name).count(length)
        if (found := len(parts[length].at) if length in parts else 0) != expected:
            raise UserError(
                f"{folder}: {name} must hold all {expected} examples of length {length}, it has {found}"
            )


def _check_overlaps(
    folder: Path, task: Task, entries: dict[str, dict[str, Any]], parsed: dict[str, dict[int, Parsed]]
) -> dict[tuple[str, str], int]:
    """The splits that must be disjoint are; the released protocol has the pairs of iid in train, and says so."""
    overlaps = {}
    sampled = [name for name in task.graphs if name in parsed and name not in ENUMERATED]
    for one, other in combinations(sampled, 2):
        if one not in ("train", "iid"):
            continue
        shared = _shared(parsed[one], parsed[other])
        found = overlaps[one, other] = sum(map(len, shared))
        both = (one, other) == ("train", "iid") and task.protocol == "released" and 2 in parsed["iid"]
        if found != (right := len(parsed["iid"][2].at) if both else 0):
            example = f"; the first is {task.describe(shared[0])!r}" if shared else ""
            raise UserError(f"{folder}: {one} and {other} share {found} examples, not {right}{example}")
        if one == "train" and found != (claimed := entries[other].get("in_train", 0)):
            raise UserError(f"{folder / 'task.json'}: {other} has in_train {claimed}, its file has {found}")
    return overlaps


def _shared(one: dict[int, Parsed], other: dict[int, Parsed]) -> list[Examples]:
    """The examples of `other` that are in `one` as well, by length."""
    both = [(part.examples, one[n].examples) for n, part in other.items() if n in one]
    common = [theirs[member(theirs.keys(), ours.keys())] for theirs, ours in both]
    return [examples for examples in common if len(examples)]


def _check_sizes(
    folder: Path, task: Task, recipe: dict[str, Any], entries: dict[str, dict[str, Any]]
) -> None:
    """The splits have the sizes of the recipe; the released protocol adds pairs to train."""
    for name in ("train", "iid", "ood"):
        found = entries[name]["examples"] if name in entries else 0
        wanted = recipe.get(name, found)
        if found != wanted and not (name == "train" and task.protocol == "released" and found > wanted):
            raise UserError(
                f"{folder}: {name} has {found} examples, the recipe in task.json asks for {wanted}"
            )


def _check_protocol(
    folder: Path, task: Task, recipe: dict[str, Any], parsed: dict[str, dict[int, Parsed]]
) -> None:
    """paper: train has all single applications; released: none, but all pairs. The rest respects the fill rule."""
    language, fill = task.language("train"), recipe.get("fill", 1.0)
    train, iid = ({n: len(part.at) for n, part in parsed.get(name, {}).items()} for name in ("train", "iid"))
    complete = COMPLETE[task.protocol]
    if (found := train.get(complete, 0)) != (exist := language.count(complete)):
        raise UserError(
            f"{folder}: train must hold all {exist} examples of length {complete}, it has {found}"
        )
    if complete == 2 and 1 in train:
        raise UserError(f"{folder}: train has {train[1]} single applications, the released protocol has none")
    for n in language.graph.lengths:
        used, exist = train.get(n, 0) + iid.get(n, 0), language.count(n)
        if n > complete and used > filled(fill, exist):
            raise UserError(
                f"{folder}: train and iid use {used} of {exist} examples of length {n}, above fill {fill}"
            )


def _check_sequences(
    folder: Path, task: Task, recipe: dict[str, Any], parsed: dict[str, dict[int, Parsed]]
) -> dict[int, int]:
    """Where the recipe limits the function sequences of a length, train and iid together have no more."""
    counted: dict[int, int] = {}
    if (limit := recipe.get("distinct_sequences")) is None:
        return counted
    for n in [n for n in task.train_graph.lengths if n > COMPLETE[task.protocol]]:
        parts = [parsed[name][n].examples for name in ("train", "iid") if n in parsed.get(name, {})]
        if not parts:
            continue
        both = join(parts)
        counted[n] = int(first_positions(both.sequences()).sum())
        if counted[n] > (most := max_sequences(limit, len(both))):
            raise UserError(
                f"{folder}: train and iid have {counted[n]} function sequences of length {n}, "
                f"the recipe in task.json allows {most} (distinct_sequences {limit})"
            )
    return counted
