"""A dataset: a task and its splits, in memory.

Example:
    >>> dataset = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    >>> {name: dataset.size(name) for name in ("train", "iid", "ood")}
    {'train': 200, 'iid': 20, 'ood': 20}
    >>> tokens, targets = dataset.tensors("train")[3]
    >>> tuple(tokens.shape)
    (111, 5)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctlpp.benchmark.graph import VariantSpec
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.sampling import member
from ctlpp.benchmark.splits import Split, draw_splits
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.files import UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """A task, how its data was drawn, and the splits by length."""

    task: Task
    settings: Mapping[str, Any]  # sizes, fill rule and weighting behind the splits
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

    def shared(self, one: str, other: str) -> int:
        """How many examples two splits have in common."""
        pairs = [
            (self[one][n].keys(), examples.keys()) for n, examples in self[other].items() if n in self[one]
        ]
        return sum(int(member(theirs, ours).sum()) for ours, theirs in pairs)

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

    def texts(self, split: str) -> list[tuple[str, str]]:
        """(input, output) of every example, as they are written to files."""
        from ctlpp.storage.folder import rows

        batches = [batch.to_pydict() for batch in rows(self.task, self[split])]
        return [pair for batch in batches for pair in zip(batch["input"], batch["output"], strict=True)]

    def save(self, folder: str | Path, *, format: str = "parquet", force: bool = False) -> None:
        """Write the dataset folder."""
        from ctlpp.storage.folder import save

        save(self, Path(folder), format=format, force=force)


def generate(variant: str | Path | VariantSpec, **options: Any) -> Dataset:
    """The dataset of a variant of the paper, or of your own; `options` are the fields of `Settings`."""
    settings = Settings(variant=variant, **options)
    task = make_task(settings)
    return Dataset(task=task, settings=settings.of_splits(), splits=draw_splits(task, settings))
