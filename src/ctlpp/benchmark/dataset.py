"""A dataset: a task and its splits, in memory.

Example:
    >>> small = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}
    >>> dataset = generate("R", protocol="text", **small)
    >>> {name: dataset.size(name) for name in ("train", "iid", "ood")}
    {'train': 200, 'iid': 20, 'ood': 20}
    >>> tokens, targets = dataset.tensors("train")[3]
    >>> tuple(tokens.shape)
    (111, 5)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from inspect import cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctlpp.benchmark.authors import Generator
from ctlpp.benchmark.graph import VariantSpec
from ctlpp.benchmark.language import Examples, Integers, Language, join
from ctlpp.benchmark.sampling import NO_NUMBERS, Stream, draw, first_occurrences, is_in
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.files import UserError, as_frame
from ctlpp.words import plain

if TYPE_CHECKING:
    from torch import Tensor

    from ctlpp.benchmark.view import SplitView

Split = Mapping[int, Examples]  # length -> examples
Sizes = dict[int, int]  # length -> number of examples
ENUMERATED = ("singles", "pairs")  # complete by definition, so they overlap with the others
EXACT = 2**53  # below, a float has every whole number


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """A task, how its data was drawn, and the splits by length."""

    task: Task
    settings: Mapping[str, Any]  #: sizes, fill rule and weighting behind the splits
    splits: Mapping[str, Split]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.size(split):,} {split}" for split in self.splits)
        return f"<{self.task.variant}, {self.task.protocol}: {sizes}>"

    def __getitem__(self, split: str) -> Split:
        if split not in self.splits:
            raise UserError(f"unknown split {split!r}: choose from {', '.join(self.splits)}")
        return self.splits[split]

    def size(self, split: str) -> int:
        """How many examples a split has."""
        return sum(map(len, self[split].values()))

    def common(self, one: str, other: str) -> list[Examples]:
        """The examples of split `other` that `one` has, too; those of a length together."""
        both = [(self[other][n], self[one][n]) for n in self[other] if n in self[one]]
        return [theirs[is_in(theirs.keys(), ours.keys())] for theirs, ours in both]

    def shared(self, one: str, other: str) -> int:
        """How many examples two splits have in common."""
        return sum(map(len, self.common(one, other)))

    def targets(self, examples: Examples) -> np.ndarray[Any, Any]:
        """The result symbols (N,) of examples of this task."""
        return examples.outputs(self.task.table)

    def tensors(self, split: str) -> dict[int, tuple[Tensor, Tensor]]:
        """Length -> (token ids (N, L + 2) with the end token, result symbols (N,)), both int64."""
        import torch

        vocabulary, order = self.task.vocabulary, self.task.order
        result = {}
        for length, examples in self[split].items():
            ids = np.full((len(examples), length + 2), vocabulary.end, dtype=np.int64)
            ids[:, :-1] = vocabulary.written(examples, order)
            targets = self.targets(examples).astype(np.int64)
            result[length] = torch.from_numpy(ids), torch.from_numpy(targets)
        return result

    def padded(self, split: str) -> tuple[Tensor, Tensor, Tensor]:
        """A whole split: token ids (N, T) filled up with the end token, result symbols (N,), lengths (N,)."""
        import torch

        parts = self.tensors(split)
        width = max(parts) + 2
        end = self.task.vocabulary.end
        tokens = [torch.nn.functional.pad(t, (0, width - t.shape[1]), value=end) for t, _ in parts.values()]
        lengths = [torch.full((len(t),), length) for length, (t, _) in parts.items()]
        return torch.cat(tokens), torch.cat([targets for _, targets in parts.values()]), torch.cat(lengths)

    def view(self, split: str) -> SplitView:
        """A split for `torch.utils.data.DataLoader`, with its `collate` as `collate_fn`."""
        from ctlpp.benchmark.view import SplitView

        return SplitView(self.tensors(split).values(), self.task.vocabulary.end)

    def frame(self, split: str) -> Any:
        """A split as a table, as it is written to files: input, output, length, allowed.

        Returns:
            A `pandas.DataFrame`, or a `pyarrow.Table` where pandas is not installed.
        """
        from ctlpp.storage.folder import to_table

        return as_frame(to_table(self, split))

    def texts(self, split: str) -> list[tuple[str, str]]:
        """(input, output) of every example, as they are written to files."""
        from ctlpp.storage.folder import to_table

        table = to_table(self, split)
        return list(zip(table["input"].to_pylist(), table["output"].to_pylist(), strict=True))

    def save(self, folder: str | Path, *, format: str = "parquet", force: bool = False) -> None:
        """Write the dataset folder."""
        from ctlpp.storage.folder import save

        save(self, Path(folder), format=format, force=force)

    def push(self, address: str, *, private: bool = False) -> str:
        """Upload the dataset to the Hugging Face Hub, at `hf://owner/name`; gives the commit's address."""
        from ctlpp.storage.hub import push

        return push(self, address, private=private)


def generate(variant: str | Path | VariantSpec, **options: Any) -> Dataset:
    """The dataset of a variant of the paper, or of your own.

    Args:
        variant: `CTL`, `A`, `R`, `S`, the path of a TOML file with a graph, or a `VariantSpec`.
    """
    names = [field.name for field in fields(Settings)[1:]]
    if unknown := [name for name in options if name not in names]:
        raise UserError(f"unknown setting {unknown[0]!r}: choose from {', '.join(names)}")
    settings = Settings(variant=variant, **{name: plain(value) for name, value in options.items()})
    task = make_task(settings)
    return Dataset(task=task, settings=settings.split_settings(), splits=draw_splits(task, settings))


def _document(function: Any) -> None:
    """Give `generate` the signature of `Settings`, and its docstring a line for each option."""
    known = signature(Settings)
    first, *others = known.parameters.values()
    first = first.replace(kind=first.POSITIONAL_OR_KEYWORD)
    function.__signature__ = known.replace(parameters=[first, *others], return_annotation="Dataset")
    lines = [f"    {field.name}: {field.metadata['help']}" for field in fields(Settings)[1:]]
    function.__doc__ = cleandoc(function.__doc__) + "\n" + "\n".join(lines) + "\n\nReturns:\n    The dataset."


_document(generate)


def draw_splits(task: Task, settings: Settings) -> dict[str, Split]:
    """All splits of a dataset. Raises UserError where fewer examples exist than were asked for."""
    draw_train = _draw_singles_first if settings.rules.complete == 1 else _draw_pairs_at_last
    train, iid = draw_train(task, settings)
    splits: dict[str, Split] = {"train": train, "iid": iid}
    for name, graph in task.graphs.items():
        language = task.language(name)
        if name in ENUMERATED:
            splits[name] = {length: language.all(length) for length in graph.lengths}
        elif name not in splits and (name != "ood_independent" or settings.as_generator):
            splits[name] = _draw_unseen(task, settings, name, seen=(train, iid))
    for name, split in splits.items():
        splits[name] = {n: examples for n, examples in sorted(split.items()) if len(examples)}
    return {name: split for name, split in splits.items() if split}


def _draw_singles_first(task: Task, settings: Settings) -> tuple[Split, Split]:
    """train and iid, with balanced lengths, and with all single applications in train.

    Of longer ones, the two together use at most the share `fill` of what exists.
    """
    language = task.language("train")
    room = {
        n: language.count(n) if n == 1 else usable(settings.fill, language.count(n))
        for n in language.graph.lengths
    }
    _check_room(settings, room)
    singles = room.pop(1, 0)
    if settings.train < singles:
        needed = f"at least {singles} are needed, all single applications belong to it"
        raise UserError(f"‹train› {settings.train}: {needed}")
    longer = settings.train - singles
    # a tenth of each length, or iid's share if that is more: scarce short examples stay in train
    share = max(Fraction(1, 10), Fraction(settings.iid, max(1, settings.iid + longer)))
    iid_sizes = balance(settings.iid, {n: math.ceil(share * size) for n, size in room.items()})
    train_sizes = balance(longer, {n: room[n] - iid_sizes[n] for n in room})
    train: dict[int, Examples] = {1: language.all(1)} if singles else {}
    iid = {}
    for n in room:
        both = _draw(task, settings, "train", n, train_sizes[n] + iid_sizes[n])
        chosen = Stream(settings.seed, "split", n).distinct_below(len(both), iid_sizes[n])
        in_iid = is_in(np.arange(len(both)), chosen)
        iid[n], train[n] = both[in_iid], both[~in_iid]
    return train, iid


def usable(fill: float, count: int) -> int:
    """How many of `count` examples may be used, which may be too many for a float."""
    return int(fill * count) if count < EXACT else int(Fraction(fill) * count)


def _draw_pairs_at_last(task: Task, settings: Settings) -> tuple[Split, Split]:
    """train and iid as in the authors' code: one draw with balanced lengths, divided at random.

    There are no single applications. Afterwards all pairs are added to train, also those that are in iid.
    """
    language = task.language("train")
    count = partial(authors_count, task) if settings.as_generator else language.count
    room = {n: usable(settings.fill, count(n)) for n in language.graph.lengths if n > 1}
    _check_room(settings, room)
    sizes = balance(settings.train + settings.iid, room)
    total = sum(sizes.values())
    chosen = Stream(settings.seed, "split").distinct_below(total, settings.iid)
    train, iid, before = {}, {}, 0
    for n, size in sizes.items():
        both = _draw(task, settings, "train", n, size)
        in_iid = is_in(np.arange(before, before + len(both)), chosen)
        iid[n], train[n] = both[in_iid], both[~in_iid]
        before += len(both)
    if 2 in room:
        pairs = language.all(2)
        drawn = is_in(language.rank(pairs), language.rank(train[2]))
        train[2] = join([train[2], pairs if settings.doubled_pairs else pairs[~drawn]])
    return train, iid


def authors_count(task: Task, length: int) -> int:
    """How many training examples the authors' generator counts: it restricts only the first two functions."""
    exact = task.language("train").count(length)
    if not task.train_graph.restrictions:
        return exact
    unrestricted = task.language_of(replace(task.train_graph, restrictions=()))
    sequences = unrestricted.count(2) // task.n_symbols
    counted: int = task.language("train").count(2) * sequences ** (length // 2 - 1)
    return min(counted, 2 * exact)


def _draw_unseen(task: Task, settings: Settings, name: str, seen: tuple[Split, Split]) -> Split:
    """`ood` examples, or for a diagnostic split all there are, that are in neither train nor iid."""
    language = task.language(name)
    taken = {n: _numbers(language, n, seen) for n in language.graph.lengths}
    room = {n: language.count(n) - len(numbers) for n, numbers in taken.items()}
    if name == "ood":
        _check_size("ood", settings.ood, sum(room.values()))
    sizes = balance(min(settings.ood, sum(room.values())), room)
    return {n: _draw(task, settings, name, n, size, taken[n]) for n, size in sizes.items()}


def _draw(
    task: Task, settings: Settings, name: str, length: int, n: int, taken: Integers = NO_NUMBERS
) -> Examples:
    if settings.as_generator and name in ("train", "ood"):
        return Generator(task.language(name), length, name, settings).draw(n)
    stream = Stream(settings.seed, name, length)
    return draw(task.language(name), length, n, settings.weighting, stream, taken)


def _numbers(language: Language, length: int, splits: Iterable[Split]) -> Integers:
    """The numbers of those examples of the splits that are in the language, each once."""
    parts = [split[length] for split in splits if length in split]
    numbers = [language.rank(part[language.contains(part)]) for part in parts]
    return first_occurrences(np.concatenate(numbers)) if numbers else NO_NUMBERS


def balance(total: int, room: Mapping[int, int]) -> Sizes:
    """Share `total` over the lengths: equally, but to each at most its room; the longest take what is over.

    >>> balance(100, {1: 8, 2: 64, 3: 512})
    {1: 8, 2: 46, 3: 46}
    """
    assert total <= sum(room.values())
    sizes = {}
    for i, length in enumerate(sorted(room, key=lambda n: (room[n], n))):
        sizes[length] = min(room[length], total // (len(room) - i))
        total -= sizes[length]
    return dict(sorted(sizes.items()))


def _check_room(settings: Settings, room: Sizes) -> None:
    most = sum(room.values())
    if settings.train > most:
        exist = f"only {most} distinct training examples exist (fill rule)"
        fewer = f"ask for at most {max(0, most - settings.iid)}, or longer ones"
        raise UserError(f"‹train› {settings.train}: {exist}, and iid takes {settings.iid} of them; {fewer}")
    _check_size("iid", settings.iid, most - settings.train)


def _check_size(name: str, asked: int, most: int) -> None:
    if asked > most:
        left = f"only {most} distinct examples are left"
        raise UserError(f"‹{name}› {asked}: {left}; ask for fewer, or longer ones")
