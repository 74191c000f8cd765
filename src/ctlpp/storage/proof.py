"""The proof of a dataset folder, from its `task.json` alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ctlpp.benchmark.language import Examples, row_values
from ctlpp.benchmark.sampling import first_positions, member
from ctlpp.benchmark.splits import ENUMERATED, authors_count, filled
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.storage.card import files_in_card
from ctlpp.storage.folder import Parsed, parse, read_split, read_task
from ctlpp.storage.task_json import ENDINGS

COMPLETE = {"paper": 1, "released": 2, "authors": 2}  # the length of which train has all there is
TESTS = ("iid", "ood", "ood_independent")


@dataclass(frozen=True)
class SharedSequences:
    """How many distinct function sequences a split has, and how many of them train has, too."""

    distinct: int
    in_train: int  # with other start symbols
    twins: int  # train has one with the same first function and everywhere the same number within a group


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was proved."""

    task: Task
    examples: dict[str, int]  # of each split
    lengths: dict[str, tuple[int, ...]]
    overlaps: dict[tuple[str, str], int]  # examples that two splits share
    shared: dict[str, SharedSequences]  # what the test splits share with train
    doubled: int  # pairs that occur twice in train


@dataclass(frozen=True)
class _Content:
    """What is in a dataset folder."""

    folder: Path
    task: Task
    settings: dict[str, Any]
    entries: dict[str, dict[str, Any]]  # of the splits in task.json
    parts: dict[str, dict[int, Parsed]] = field(default_factory=dict)  # of the splits, by length

    def sizes(self, split: str) -> dict[int, int]:
        """Length -> how many examples the file of a split has."""
        return {length: len(part.at) for length, part in sorted(self.parts.get(split, {}).items())}

    def distinct(self, split: str, length: int) -> int:
        """How many different examples of a length a split has."""
        part = self.parts.get(split, {}).get(length)
        return 0 if part is None else int(first_positions(part.examples.keys()).sum())

    def may_repeat(self, split: str, examples: Examples) -> bool:
        """Whether examples may occur twice: only pairs in train that were drawn and are added once more."""
        return split == "train" and examples.length == 2 and bool(self.settings.get("doubled_pairs"))

    def error(self, text: str) -> UserError:
        """What is wrong in the folder."""
        return UserError(f"{self.folder}: {text}")


def check(folder: str | Path) -> Proof:
    """Prove every claim of a dataset folder. Raises UserError with the first offending example."""
    content = _Content(Path(folder), *read_task(Path(folder)))
    task, entries, parts = content.task, content.entries, content.parts
    _check_files(content)
    for name, entry in entries.items():
        file, table = content.folder / entry["file"], read_split(content.folder, entry)
        parts[name] = parse(task, table, str(file))
        _check_counts(content, name)
        for part in parts[name].values():
            _check_rows(task, file, name, part, table, content.may_repeat(name, part.examples))
    overlaps = _check_overlaps(content)
    _check_sizes(content)
    _check_protocol(content)
    return Proof(
        task=task,
        examples={name: int(entry["examples"]) for name, entry in entries.items()},
        lengths={name: tuple(content.sizes(name)) for name in parts},
        overlaps=overlaps,
        shared={name: _shared_sequences(content, name) for name in TESTS if name in parts},
        doubled=content.sizes("train").get(2, 0) - content.distinct("train", 2),
    )


def _check_files(content: _Content) -> None:
    """All splits are known, and the folder and the card have their files and no others."""
    known, card = content.task.graphs, content.folder / "README.md"
    if "train" not in content.entries:
        raise content.error("task.json lacks the split train")
    if unknown := [name for name in content.entries if name not in known]:
        raise content.error(f"task.json has the unknown split {unknown[0]!r}; choose from {', '.join(known)}")
    listed = {name: entry["file"] for name, entry in content.entries.items()}
    found = {path.name for path in content.folder.iterdir() if path.suffix in ENDINGS.values()}
    if stray := sorted(found - {*listed.values()}):
        raise content.error(f"task.json does not list {stray[0]}; remove that file")
    if not card.is_file() or files_in_card(card.read_bytes()) != listed:
        raise content.error("the header of README.md does not name the files of task.json; generate it again")


def _check_counts(content: _Content, name: str) -> None:
    """The entry in task.json counts right; a split that is complete by definition is."""
    claimed = content.entries[name]["by_length"]
    sizes = content.sizes(name)
    if (found := {str(length): n for length, n in sizes.items()}) != claimed:
        raise content.error(f"task.json has by_length {claimed} for {name}, its file has {found}")
    if name in ENUMERATED:
        for length in content.task.graphs[name].lengths:
            _check_complete(content, name, length)


def _check_complete(content: _Content, name: str, length: int) -> None:
    exist, found = content.task.language(name).count(length), content.distinct(name, length)
    if found != exist:
        raise content.error(f"{name} must hold all {exist} examples of length {length}, it has {found}")


def _check_rows(
    task: Task, file: Path, name: str, part: Parsed, table: pa.Table, may_repeat: bool = False
) -> None:
    """Outputs, membership, the label `allowed` and duplicates of the rows of one length."""
    examples, results = part.examples, part.examples.outputs(task.table)
    claims = {
        "has the wrong output": results == part.outputs,
        f"is not in the graph of {name}": task.language(name).contains(examples),
    }
    if not may_repeat:
        claims["occurs twice"] = first_positions(examples.keys())
    if "allowed" in table.column_names:
        allowed = task.language("train").allows_successions(examples)
        claims["has the wrong label `allowed`"] = table["allowed"].to_numpy()[part.at] == allowed
    for problem, holds in claims.items():
        if not holds.all():
            at = int(np.argmin(holds))
            right, found = (task.symbols[outputs[at]] for outputs in (results, part.outputs))
            hint = f"; right is {right!r}" if right != found else ""
            row = f"row {part.at[at]}, {task.describe(examples, at)!r} -> {found!r}"
            raise UserError(f"{file}: {row}, {problem}{hint}")


def _check_overlaps(content: _Content) -> dict[tuple[str, str], int]:
    """Splits are disjoint; but where all pairs are added to train, it has those of iid, and says so."""
    overlaps, parts = {}, content.parts
    sampled = [name for name in content.task.graphs if name in parts and name not in ENUMERATED]
    for one, other in combinations(sampled, 2):
        if one not in ("train", "iid"):
            continue
        shared = _shared(parts[one], parts[other])
        found = overlaps[one, other] = sum(map(len, shared))
        pairs_twice = COMPLETE[content.task.protocol] == 2 and (one, other) == ("train", "iid")
        if found != (right := content.sizes("iid").get(2, 0) if pairs_twice else 0):
            example = f"; the first is {content.task.describe(shared[0])!r}" if shared else ""
            raise content.error(f"{one} and {other} share {found} examples, not {right}{example}")
        if one == "train" and found != (claimed := content.entries[other].get("in_train", 0)):
            raise content.error(f"task.json has in_train {claimed} for {other}, its file has {found}")
    return overlaps


def _shared(one: dict[int, Parsed], other: dict[int, Parsed]) -> list[Examples]:
    """The examples of `other` that are in `one` as well, by length."""
    both = [(part.examples, one[n].examples) for n, part in other.items() if n in one]
    common = [theirs[member(theirs.keys(), ours.keys())] for theirs, ours in both]
    return [examples for examples in common if len(examples)]


def _check_sizes(content: _Content) -> None:
    """The splits have the sizes asked for; some protocols add pairs to train."""
    for name in ("train", "iid", "ood"):
        found = sum(content.sizes(name).values())
        wanted = content.settings.get(name, found)
        more = found > wanted and name == "train" and COMPLETE[content.task.protocol] == 2
        if found != wanted and not more:
            raise content.error(f"{name} has {found} examples, the recipe in task.json asks for {wanted}")


def _check_protocol(content: _Content) -> None:
    """paper: train has all single applications; others: none, but all pairs. The fill rule holds beyond."""
    language, fill = content.task.language("train"), content.settings.get("fill", 1.0)
    train, iid = content.sizes("train"), content.sizes("iid")
    complete = COMPLETE[content.task.protocol]
    _check_complete(content, "train", complete)
    if complete == 2 and 1 in train:
        raise content.error(f"train has {train[1]} single applications, its protocol has none")
    for n in [n for n in language.graph.lengths if n > complete]:
        used = train.get(n, 0) + iid.get(n, 0)
        exist = authors_count(content.task, n) if "workers" in content.settings else language.count(n)
        if used > filled(fill, exist):
            raise content.error(
                f"train and iid use {used} of {exist} examples of length {n}, above fill {fill}"
            )


def _shared_sequences(content: _Content, split: str) -> SharedSequences:
    """What a test split shares with train: stated, not judged."""
    number = np.zeros(content.task.n_functions, dtype=content.task.table.dtype)
    group = np.zeros_like(number)
    for at, members in enumerate(content.task.group_indices.values()):
        number[list(members)], group[list(members)] = np.arange(len(members)), at
    distinct = in_train = twins = 0
    for n, part in content.parts[split].items():
        functions = part.examples[first_positions(part.examples.sequences())].functions
        others = (
            content.parts["train"][n].examples.functions if n in content.parts["train"] else functions[:0]
        )
        distinct += len(functions)
        in_train += int(member(row_values(functions), row_values(others)).sum())
        ours, theirs = (np.column_stack([group[one[:, 0]], number[one]]) for one in (functions, others))
        twins += int(member(row_values(ours), row_values(theirs)).sum())
    return SharedSequences(distinct, in_train, twins)
