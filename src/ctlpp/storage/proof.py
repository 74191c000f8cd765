"""The proof of a dataset folder, from its `task.json` alone.

Reading the files (`ctlpp.storage.folder`) has checked the checksums and every single row. What is proved
here is which examples there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from ctlpp.benchmark.dataset import ENUMERATED, Dataset, authors_count, usable
from ctlpp.benchmark.language import row_values
from ctlpp.benchmark.sampling import is_first, is_in
from ctlpp.benchmark.variants import HABITS, PROTOCOLS
from ctlpp.files import UserError
from ctlpp.storage.card import files_in_card
from ctlpp.storage.folder import ENDINGS, Entries, read_folder

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

    dataset: Dataset
    overlaps: dict[tuple[str, str], int]  # examples that two splits share
    shared: dict[str, SharedSequences]  # what the test splits share with train
    doubled: int  # pairs that occur twice in train

    @property
    def examples(self) -> dict[str, int]:
        """How many examples each split has."""
        return {name: self.dataset.size(name) for name in self.dataset.splits}


def check(folder: str | Path) -> Proof:
    """Prove every claim of a dataset folder.

    Args:
        folder: The dataset folder.

    Returns:
        What was proved, with the dataset and what its splits have in common.

    Raises:
        UserError: With the first offending example.
    """
    folder = Path(folder)
    dataset, entries = read_folder(folder)
    try:
        _check_files(folder, dataset, entries)
        for name in dataset.splits:
            _check_split(dataset, name, entries[name]["by_length"])
        overlaps = _check_overlaps(dataset, entries)
        _check_sizes(dataset)
        _check_protocol(dataset)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    return Proof(
        dataset=dataset,
        overlaps=overlaps,
        shared={name: _shared_sequences(dataset, name) for name in TESTS if name in dataset.splits},
        doubled=_sizes(dataset, "train").get(2, 0) - _distinct(dataset, "train", 2),
    )


def _sizes(dataset: Dataset, split: str) -> dict[int, int]:
    """Length -> how many examples a split has."""
    return {length: len(examples) for length, examples in sorted(dataset.splits.get(split, {}).items())}


def _distinct(dataset: Dataset, split: str, length: int) -> int:
    """How many different examples of a length a split has."""
    examples = dataset[split].get(length)
    return 0 if examples is None else int(is_first(examples.keys()).sum())


def _check_files(folder: Path, dataset: Dataset, entries: Entries) -> None:
    """All splits are known, and the folder and the card have their files and no others."""
    known, card = dataset.task.graphs, folder / "README.md"
    if "train" not in entries:
        raise UserError("task.json lacks the split train")
    if unknown := [name for name in entries if name not in known]:
        raise UserError(f"task.json has the unknown split {unknown[0]!r}; choose from {', '.join(known)}")
    listed = {name: entry["file"] for name, entry in entries.items()}
    found = {path.name for path in folder.iterdir() if path.suffix in ENDINGS.values()}
    if stray := sorted(found - {*listed.values()}):
        raise UserError(f"task.json does not list {stray[0]}; remove that file")
    if not card.is_file() or files_in_card(card.read_bytes()) != listed:
        raise UserError("the header of README.md does not name the files of task.json; generate it again")


def _check_split(dataset: Dataset, name: str, claimed: dict[str, int]) -> None:
    """A split has the claimed counts, and only examples of its graph, each once; some have all of them."""
    task, language = dataset.task, dataset.task.language(name)
    if (found := {str(length): n for length, n in _sizes(dataset, name).items()}) != claimed:
        raise UserError(f"task.json has by_length {claimed} for {name}, its file has {found}")
    if name in ENUMERATED:
        for length in language.graph.lengths:
            _check_complete(dataset, name, length)
    for length, examples in dataset[name].items():
        inside = language.contains(examples)
        if not inside.all():
            example = task.describe(examples, int(np.argmin(inside)))
            raise UserError(f"{name} has {example!r}, which is not in its graph")
        once = is_first(examples.keys())
        if not once.all() and not (name == "train" and length == 2 and dataset.settings.get("doubled_pairs")):
            raise UserError(f"{name} has {task.describe(examples, int(np.argmin(once)))!r} twice")


def _check_complete(dataset: Dataset, name: str, length: int) -> None:
    exist, found = dataset.task.language(name).count(length), _distinct(dataset, name, length)
    if found != exist:
        raise UserError(f"{name} must hold all {exist} examples of length {length}, it has {found}")


def _check_overlaps(dataset: Dataset, entries: Entries) -> dict[tuple[str, str], int]:
    """Splits are disjoint; only where all pairs are added to train, it has those of iid, and says so."""
    overlaps = {}
    sampled = [name for name in dataset.task.graphs if name in entries and name not in ENUMERATED]
    for one, other in combinations(sampled, 2):
        if one not in ("train", "iid"):
            continue
        common = dataset.common(one, other)
        found = overlaps[one, other] = sum(map(len, common))
        pairs_twice = _adds_pairs(dataset) and (one, other) == ("train", "iid")
        if found != (right := _sizes(dataset, "iid").get(2, 0) if pairs_twice else 0):
            example = f"; the first is {dataset.task.describe(next(filter(len, common)))!r}" if found else ""
            raise UserError(f"{one} and {other} share {found} examples, not {right}{example}")
        if one == "train" and found != (claimed := entries[other].get("in_train", 0)):
            raise UserError(f"task.json has in_train {claimed} for {other}, its file has {found}")
    return overlaps


def _adds_pairs(dataset: Dataset) -> bool:
    """Whether the protocol adds all pairs to train."""
    return PROTOCOLS[dataset.task.protocol].complete == 2


def _check_sizes(dataset: Dataset) -> None:
    """The splits have the sizes asked for; train may have more where the protocol adds pairs."""
    for name in ("train", "iid", "ood"):
        found = sum(_sizes(dataset, name).values())
        wanted = dataset.settings.get(name, found)
        may_have_more = name == "train" and _adds_pairs(dataset)
        if found < wanted or (found > wanted and not may_have_more):
            raise UserError(f"{name} has {found} examples, the recipe in task.json asks for {wanted}")


def _check_protocol(dataset: Dataset) -> None:
    """train has all single applications, or none and all pairs. The fill rule holds beyond."""
    language, fill = dataset.task.language("train"), dataset.settings.get("fill", 1.0)
    train, iid = _sizes(dataset, "train"), _sizes(dataset, "iid")
    complete = PROTOCOLS[dataset.task.protocol].complete
    _check_complete(dataset, "train", complete)
    if _adds_pairs(dataset) and 1 in train:
        raise UserError(f"train has {train[1]} single applications, its protocol has none")
    as_generator = any(dataset.settings.get(habit) for habit in HABITS)
    for n in [n for n in language.graph.lengths if n > complete]:
        used = train.get(n, 0) + iid.get(n, 0)
        exist = authors_count(dataset.task, n) if as_generator else language.count(n)
        if used > usable(fill, exist):
            raise UserError(f"train and iid use {used} of {exist} examples of length {n}, above fill {fill}")


def _shared_sequences(dataset: Dataset, split: str) -> SharedSequences:
    """What a test split shares with train; nothing is demanded of it."""
    number = np.zeros(dataset.task.n_functions, dtype=dataset.task.table.dtype)
    group = np.zeros_like(number)
    for at, members in enumerate(dataset.task.group_indices.values()):
        number[list(members)], group[list(members)] = np.arange(len(members)), at
    distinct = in_train = twins = 0
    for n, examples in dataset[split].items():
        functions = examples.functions[is_first(row_values(examples.functions))]
        others = dataset["train"][n].functions if n in dataset["train"] else functions[:0]
        distinct += len(functions)
        in_train += int(is_in(row_values(functions), row_values(others)).sum())
        ours, theirs = (np.column_stack([group[one[:, 0]], number[one]]) for one in (functions, others))
        twins += int(is_in(row_values(ours), row_values(theirs)).sum())
    return SharedSequences(distinct, in_train, twins)
