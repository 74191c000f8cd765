"""The data of a run, in batches of one length that are a pure function of the step.

The training examples are visited in rounds. In a round the examples of each length are shuffled and cut into
batches (a last partial batch is left out), and the batches of all lengths come in random order. A length with
fewer examples than one batch fills a single batch by repeating them, so that it is not lost. With
`length_mix="even"` every length has the same number of batches in a round, however many examples it has.

A *curriculum* is a function `weights(progress, length, tokens) -> (N,)`. It gives each example of a length
its chance, 0 to 1, to take part in the round that begins when the share `progress` of the training is over.
Those that take part are repeated to fill the round, which is then at most a twentieth of the training. A
recipe names one of your own, `package.module:function`, or those here: `short_first`, `shared_first`.

Example:
    >>> from ctlpp.training.recipe import Recipe
    >>> data = {2: (torch.zeros(8, 4, dtype=torch.int64), torch.zeros(8, dtype=torch.int64))}
    >>> batches = Batches(data, Recipe(batch=4, steps=10), seeds=[0, 1])
    >>> tokens, targets = batches.at(9)
    >>> tokens.shape, targets.shape
    (torch.Size([4, 4]), torch.Size([4]))
    >>> tokens = torch.tensor([[0, 1, 8], [5, 1, 8]])
    >>> weights = shared_first([5])  # the token of a function that only one path uses
    >>> weights(0.0, 1, tokens), weights(0.5, 1, tokens)
    (tensor([1., 0.]), tensor([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ctlpp.benchmark.dataset import Dataset
from ctlpp.files import UserError
from ctlpp.models.zoo import error_line, load_callable
from ctlpp.runs.history import TRAINING
from ctlpp.storage.folder import load, task_to_dict
from ctlpp.training.crowd import BATCHES, seed_keys
from ctlpp.words import as_names

if TYPE_CHECKING:
    from ctlpp.training.recipe import Recipe

Split = dict[int, tuple[Tensor, Tensor]]  # length -> tokens (N, T), targets (N,)
Curriculum = Callable[[float, int, Tensor], Tensor]
_FIRST = 0.5  # until this share of the training a curriculum leaves examples out


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


def read_data(data: Any, splits: str | Sequence[str] | None = None, *, train: bool = True) -> Data:
    """Splits of a dataset, its folder or a dictionary. splits: those to evaluate, by default iid and ood.

    train: whether that split is needed, too.
    """
    data = open_data(data)
    names = list(data if isinstance(data, Mapping) else data.splits)
    usual = [name for name in ("iid", "ood", "ood_independent") if name in names]
    default = usual or [name for name in names if name != "train"]
    held_out = as_names(default if splits is None else splits)
    if train and "train" not in names:
        found = ", ".join(map(str, names)) or "none"
        raise UserError(f"there is no split 'train' to learn from: the splits are {found}")
    tensors = read_splits(data, [*["train"] * train, *held_out])
    if TRAINING in tensors:
        raise UserError(f"a split cannot be called {TRAINING!r}: that is the name of the training loss")
    for name, split in tensors.items():
        if not any(len(targets) for _, targets in split.values()):
            raise UserError(f"the split {name!r} has no examples")
    if isinstance(data, Mapping):
        pairs = [pair for split in tensors.values() for pair in split.values() if len(pair[1])]
        vocab_size, n_classes = (1 + max(int(pair[i].max()) for pair in pairs) for i in (0, 1))
        return Data(splits=tensors, held_out=held_out, vocab_size=vocab_size, n_classes=n_classes)
    return Data(
        splits=tensors,
        held_out=held_out,
        vocab_size=data.task.vocabulary.size,
        n_classes=data.task.n_symbols,
        variant=data.task.variant,
        protocol=str(data.task.protocol),
        task=task_to_dict(data.task, data.settings, {}),
    )


def open_data(data: Any) -> Any:
    """A dataset, perhaps from its folder, or {name: {length: (tokens, targets)}}."""
    if isinstance(data, str | Path):
        return load(data)
    if not isinstance(data, Mapping | Dataset):
        kinds = "give a dataset or its folder, or a dictionary of splits"
        raise UserError(f"data of type {type(data).__name__}: {kinds}")
    return data


def read_splits(data: Any, names: str | Sequence[str] | None = None) -> dict[str, Split]:
    """The tensors of some splits of what `open_data` gives, by default of all but train."""
    every = data if isinstance(data, Mapping) else data.splits
    wanted = [name for name in every if name != "train"] if names is None else as_names(names)
    if unknown := [name for name in wanted if name not in every]:
        raise UserError(f"unknown split {unknown[0]!r}: choose from {', '.join(map(str, every))}")
    if data is every:
        return {name: _read_own_split(name, data[name]) for name in wanted}
    return {name: data.tensors(name) for name in wanted}


def _read_own_split(name: str, split: Any) -> Split:
    """Your own split, by length; one pair of tensors has a single length, that of its tokens."""
    try:
        parts = split if isinstance(split, Mapping) else {split[0].shape[1]: split}
        found = {n: (torch.as_tensor(one), torch.as_tensor(two)) for n, (one, two) in parts.items()}
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError):
        found = {}
    if not found or not all(_is_labelled(*pair) for pair in found.values()):
        kinds = "{length: (tokens, targets)} or (tokens, targets), of whole numbers ≥ 0, (N, T) and (N,)"
        raise UserError(f"split {name!r}: give {kinds}")
    return {n: (one.long(), two.long()) for n, (one, two) in found.items()}


def _is_labelled(tokens: Tensor, targets: Tensor) -> bool:
    if tokens.ndim != 2 or targets.shape != tokens.shape[:1]:
        return False
    return not any(one.is_floating_point() or bool((one < 0).any()) for one in (tokens, targets))


def check_tokens(config: dict[str, Any], splits: dict[str, Split]) -> None:
    """Refuse tokens and targets that the model has no numbers for."""
    most = config["vocab_size"], config["n_classes"]
    for name, split in splits.items():
        for pair in split.values():
            for what, part, size in zip(("tokens", "targets"), pair, most, strict=True):
                if part.numel() and int(part.max()) >= size:
                    raise UserError(f"split {name!r}: {what} up to {int(part.max())}, the model has {size}")


def digest(split: Split) -> str:
    """The sha256 of a split's tensors."""
    total = sha256()
    for length in sorted(split):
        total.update(str(length).encode())
        for tensor in split[length]:
            total.update(tensor.cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


class Batches:
    """The training data on the device, and which of it each step uses."""

    def __init__(
        self,
        split: Split,
        recipe: Recipe,
        seeds: Sequence[int],
        device: torch.device | str = "cpu",
        curriculum: Curriculum | None = None,
    ) -> None:
        total = sum(len(targets) for _, targets in split.values())
        if recipe.batch > total:
            known = f"there are {total} training examples; use at most {total}, or the preset quick"
            raise UserError(f"‹batch› {recipe.batch} is larger than the data: {known}")
        self.split = {length: split[length] for length in sorted(split) if len(split[length][1])}
        self.on_device = {
            n: (tokens.to(device), targets.to(device)) for n, (tokens, targets) in self.split.items()
        }
        self.recipe, self.curriculum, self.device = recipe, curriculum, torch.device(device)
        self.per_seed = recipe.batch_order == "per_seed"
        self.readers = [seed + 2 for seed in seeds] if self.per_seed else [1]  # 0 is common to all
        self.per_round = sum(max(1, len(targets) // recipe.batch) for _, targets in self.split.values())
        if curriculum is not None:
            self.per_round = min(self.per_round, -(-recipe.steps // 20))
        self._round, self._plan = -1, list[tuple[int, Tensor]]()

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """The batch of a step: tokens (B, T) and targets (B,), or with a seed axis if seeds differ."""
        round_, place = divmod(step, self.per_round)
        if round_ != self._round:
            self._round, self._plan = round_, self._make_plan(round_)
        length, index = self._plan[place]
        tokens, targets = self.on_device[length]
        return tokens[index], targets[index]

    def shapes(self) -> list[tuple[Tensor, Tensor]]:
        """A batch of every length, shaped like those of `at`, the longest last; for measuring."""
        batches = []
        for tokens, targets in self.on_device.values():
            index = torch.arange(self.recipe.batch, device=self.device) % len(targets)
            index = index.expand(len(self.readers), -1) if self.per_seed else index
            batches.append((tokens[index], targets[index]))
        return batches

    def _make_plan(self, round_: int) -> list[tuple[int, Tensor]]:
        """Length and example numbers of every batch of a round, (B,) or (S, B) each."""
        common, own = self._generator(round_, 0), [self._generator(round_, reader) for reader in self.readers]
        plan: list[tuple[int, Tensor]] = []
        while len(plan) < self.per_round:
            batches, lengths = [], self._taking_part(round_, common)
            share = -(-self.per_round // len(lengths)) if self.recipe.length_mix == "even" else 0
            for length, taking_part in lengths.items():
                orders = torch.stack([self._shuffled(taking_part, generator, share) for generator in own])
                orders = orders.to(self.device, non_blocking=True).view(len(own), -1, self.recipe.batch)
                batches += [(length, part if self.per_seed else part[0]) for part in orders.unbind(1)]
            plan += [batches[i] for i in torch.randperm(len(batches), generator=common).tolist()]
        return plan[: self.per_round]

    def _shuffled(self, numbers: Tensor, generator: torch.Generator, share: int) -> Tensor:
        """The numbers in random order, as many as fill whole batches, or `share` batches if it is above 0."""
        batch = self.recipe.batch
        wanted = batch * (share or max(1, len(numbers) // batch))
        if share:
            times = -(-wanted // len(numbers))
            orders = [torch.randperm(len(numbers), generator=generator) for _ in range(times)]
            return numbers[torch.cat(orders)][:wanted]
        shuffled = numbers[torch.randperm(len(numbers), generator=generator)]
        return shuffled.repeat(-(-wanted // len(numbers)))[:wanted]

    def _taking_part(self, round_: int, generator: torch.Generator) -> dict[int, Tensor]:
        """Numbers of the examples of each length that take part in a round."""
        if self.curriculum is None:
            return {length: torch.arange(len(targets)) for length, (_, targets) in self.split.items()}
        step, numbers = round_ * self.per_round, {}
        for length, (tokens, targets) in self.split.items():
            weights = self._weights(self.curriculum, self.recipe.progress(step), length, tokens)
            drawn = (torch.rand(len(targets), generator=generator) < weights).nonzero()[:, 0]
            if len(drawn):
                numbers[length] = drawn
        if not numbers:
            raise UserError(f"the curriculum leaves no examples at step {step}: some weights must be above 0")
        return numbers

    def _weights(self, curriculum: Curriculum, progress: float, length: int, tokens: Tensor) -> Tensor:
        try:
            weights = torch.as_tensor(curriculum(progress, length, tokens)).cpu().float()
        except Exception as error:
            raise UserError(f"the curriculum failed: {error_line(error)}") from error
        if weights.shape != (len(tokens),) or not bool(((weights >= 0) & (weights <= 1)).all()):
            each = f"for each of {len(tokens)} examples"
            raise UserError(f"the curriculum must give one weight from 0 to 1 {each}")
        return weights

    def _generator(self, round_: int, reader: int) -> torch.Generator:
        first, second, third = seed_keys([self.recipe.batch_seed, round_, reader], purpose=BATCHES).tolist()
        mixed = (first + 3 * second + 5 * third) % 2**63
        return torch.Generator().manual_seed(mixed)


def find_curriculum(names: str, task: Mapping[str, Any] | None, lengths: Iterable[int]) -> Curriculum:
    """The curricula of a recipe, with `+` between them. task: as in `task.json`; lengths: of the data."""
    parts = [_find_one(name, task, lengths) for name in names.split("+")]

    def weights(progress: float, length: int, tokens: Tensor) -> Tensor:
        each = [torch.as_tensor(part(progress, length, tokens)) for part in parts]
        return torch.stack(each).prod(0) if len(each) > 1 else each[0]

    return weights


def _find_one(name: str, task: Mapping[str, Any] | None, lengths: Iterable[int]) -> Curriculum:
    if name == "short_first":
        return short_first(sorted(length for length in lengths if length > 1))
    if name != "shared_first":
        found: Curriculum = load_callable(name, "curriculum", "function")
        return found
    groups = task["groups"] if task else {}
    if "o" not in groups:
        raise UserError("curriculum shared_first: only the variant S has shared functions; choose another")
    assert task is not None
    one_path = {*groups["a2"], *groups["b2"]}
    return shared_first([token for token, name in enumerate(task["functions"]) if name in one_path])


def short_first(lengths: Sequence[int]) -> Curriculum:
    """At first only the shortest of these, then the two shortest: one length alone is learned by heart."""

    def weights(progress: float, length: int, tokens: Tensor) -> Tensor:
        longest = lengths[0] if progress < _FIRST / 2 else lengths[:2][-1]
        return torch.full((len(tokens),), float(progress >= _FIRST or length <= longest))

    return weights


def shared_first(others: Sequence[int]) -> Curriculum:
    """For S: at first no functions that follow on one path alone. others: their tokens.

    The functions that both paths share then decide how the paths' results are written.
    """

    def weights(progress: float, length: int, tokens: Tensor) -> Tensor:
        if progress >= _FIRST:
            return torch.ones(len(tokens))
        left_out = torch.zeros(int(tokens.max()) + 1 + max(others), dtype=torch.bool, device=tokens.device)
        left_out[list(others)] = True
        return 1 - left_out[tokens].any(-1).float()

    return weights
