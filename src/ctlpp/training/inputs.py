"""What a user asks for, found and checked: the model, the data, the device."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch

from ctlpp.files import UserError
from ctlpp.runs.history import TRAINING
from ctlpp.storage.task_json import to_json
from ctlpp.training.batches import Split


def find_device(name: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:1` means here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name != "cpu" and not re.fullmatch(r"cuda(:\d{1,4})?", name):
        raise UserError(f"unknown device {name!r}: choose from auto, cpu, cuda")
    if name != "cpu" and not torch.cuda.is_available():
        raise UserError(f"device {name!r}: PyTorch finds no CUDA GPU on this machine; use cpu")
    number = name.partition(":")[2]
    if number and int(number) >= (count := torch.cuda.device_count()):
        raise UserError(
            f"device {name!r}: this machine has cuda:0" + (f" to cuda:{count - 1}" if count > 1 else "")
        )
    if number:
        torch.cuda.set_device(int(number))  # graphs and kernels take the current one
    return torch.device(name)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Tensors of the splits a run uses, and where they come from."""

    splits: dict[str, Split]  # "train" and those to evaluate
    held_out: tuple[str, ...]  # the names of those to evaluate
    vocab_size: int
    n_classes: int
    variant: str = ""
    protocol: str = ""
    task: dict[str, Any] | None = None  # as in task.json, without the splits

    def digests(self) -> dict[str, str]:
        """The sha256 of every split's tensors."""
        return {name: _digest(split) for name, split in self.splits.items()}


def read_data(data: Any, splits: Sequence[str] | None = None) -> Data:
    """The splits of a dataset, or of {name: {length: (tokens, targets)}}; iid and ood are evaluated unless told."""
    if not isinstance(data, Mapping) and not hasattr(data, "task"):
        kinds = "give a dataset, as `ctlpp.load(folder)` reads it, or a dictionary of splits"
        raise UserError(f"data of type {type(data).__name__}: {kinds}")
    task = None if isinstance(data, Mapping) else data.task
    names = list(data) if task is None else list(data.splits)
    usual = [name for name in ("iid", "ood") if name in names] or [name for name in names if name != "train"]
    held_out = usual if splits is None else list(splits)
    for name in ["train", *held_out]:
        if name not in names:
            raise UserError(f"unknown split {name!r}: choose from {', '.join(names)}")
        if name == TRAINING:
            raise UserError(f"a split cannot be called {name!r}: that is the name of the training loss")
    tensors = {name: data[name] if task is None else data.tensors(name) for name in ["train", *held_out]}
    pairs = [pair for split in tensors.values() for pair in split.values() if len(pair[1])]
    if not any(len(targets) for _, targets in tensors["train"].values()):
        raise UserError("the split 'train' has no examples: there is nothing to train on")
    return Data(
        splits=tensors,
        held_out=tuple(held_out),
        vocab_size=task.vocabulary.size if task else 1 + max(int(tokens.max()) for tokens, _ in pairs),
        n_classes=task.n_symbols if task else 1 + max(int(targets.max()) for _, targets in pairs),
        variant=task.variant if task else "",
        protocol=str(task.protocol) if task else "",
        task=json.loads(to_json(task, data.settings, {})) if task else None,
    )


def _digest(split: Split) -> str:
    """The sha256 of a split's tensors."""
    total = sha256()
    for length in sorted(split):
        total.update(str(length).encode())
        for tensor in split[length]:
            total.update(tensor.cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
