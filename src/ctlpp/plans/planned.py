"""A planned run: seeds of one model on one dataset with one recipe, its name and its cost.

Example:
    >>> run = PlannedRun(name="ndr-R", model="ndr", variant="R", seeds=tuple(range(25)))
    >>> run.steps
    80000
    >>> round(seconds(run, len(run.seeds), "cuda") / 60)  # 25 seeds on an H200
    15
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET
from ctlpp.models.zoo import find_model, parameters
from ctlpp.storage.folder import load, read_task, task_to_dict
from ctlpp.training.batches import digest, read_data
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.words import OLD_PROTOCOLS

Options = tuple[tuple[str, Any], ...]  # keyword arguments, hashable

SHARED = {"shared_functions": "o", "shared_symbols": "s"}  # of a cell of S, and how a run's name says it
REPEATS = "distinct_sequences"  # how the data of `repeats` were limited; they are no longer made
CHECKPOINTS: dict[str, Any] = {"checkpoint_every": 0, "checkpoint_minutes": 0.75}  # what a kill may cost


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """Seeds of one model on one dataset with one recipe."""

    name: str  # its folder
    model: str
    variant: str
    seeds: tuple[int, ...]
    data: Options = ()  # any options of `ctlpp.generate`, besides the variant …
    small: Options = ()  # … and those that make the data smaller than the paper's
    preset: str = DEFAULT_PRESET
    sizes: Options = ()  # of the model, where they are not the preset's
    changes: Options = ()  # to the preset's recipe
    code: tuple[tuple[str, str], ...] = ()  # files of the model's own, each with its sha256
    experiments: tuple[str, ...] = ()  # the parts of the paper that ask for it
    ended: bool = False  # what has run is shown, nothing more is trained

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return recipe_for(self.model, self.preset, self.variant, **{**CHECKPOINTS, **dict(self.changes)})

    @property
    def steps(self) -> int:
        """The steps of its recipe."""
        return self.recipe.steps

    @property
    def about(self) -> dict[str, Any]:
        """What the configs of its run folders say under `about`."""
        code = {Path(path).name: checksum for path, checksum in self.code}
        return {"cell": self.name} | ({"code": code} if code else {})

    @property
    def options(self) -> dict[str, Any]:
        """All options of its data."""
        return dict(self.data + self.small)

    @property
    def protocol(self) -> str:
        """The protocol of its data."""
        return str(self.options.get("protocol", Settings.protocol))

    @property
    def special(self) -> list[str]:
        """Options of the data for which results have no column, in words: `table 3`, `no nesting`."""
        rest = {
            name: value for name, value in self.data if name not in ("protocol", "seed", *SHARED, REPEATS)
        }
        return [_words(name.replace("_", " "), value, " ") for name, value in rest.items()]

    def setting(self, **changes: Any) -> tuple[object, ...]:
        """All that differs between runs, with these options of the data changed; None leaves one out."""
        data = {**dict(self.data), **changes}
        special = frozenset(pair for pair in data.items() if pair[1] is not None)
        return self.model, self.variant, self.preset, special


def name_run(model: str, variant: str, data: Mapping[str, Any], preset: str = DEFAULT_PRESET) -> str:
    """A name for a run, made of everything that is special about it.

    >>> name_run("ndr", "S", {"protocol": "clean", "shared_functions": 16, "shared_symbols": 6}, "quick")
    'ndr-S-clean-o16-s6-quick'
    >>> name_run("lstm", "A", {"protocol": "authors", "table": 3, "nesting": False}, "text")
    'lstm-A-authors-table3-no-nesting-text-preset'
    """
    parts = [model, variant]
    for option, value in data.items():
        word = {"protocol": "", **SHARED}.get(option, option)
        parts.append("repeats" if option == REPEATS else _words(word, value))
    parts += {"authors": [], "text": ["text-preset"]}.get(preset, [preset])
    return "-".join(parts).replace("_", "-").replace(" ", "-")


def current_name(name: str) -> str:
    """The name of a run today; it may have been given in old words: `ndr-R-released` is `ndr-R-clean`."""
    return "-".join(OLD_PROTOCOLS.get(part, part) for part in name.split("-"))


def _words(option: str, value: object, between: str = "") -> str:
    """`table3`, `with nesting`, `no nesting`."""
    if isinstance(value, bool):
        return f"{'with' if value else 'no'} {option}"
    return f"{option}{' ' if option and isinstance(value, str) else between}{value}"


def choose(runs: Sequence[PlannedRun], only: Sequence[str], what: str) -> list[PlannedRun]:
    """The runs that `only` names, or all if it is empty; what: the plan, for the message."""
    words = {run.name: {run.name, f"{run.model}/{run.variant}"} for run in runs}
    only = [current_name(word) for word in only]
    for word in only:
        if not any(word in own for own in words.values()):
            listed = ", ".join(dict.fromkeys(f"{run.model}/{run.variant}" for run in runs))
            raise UserError(f"‹only› {word}: {what} has {listed}; or give the name of a run (see ‹plan›)")
    return [run for run in runs if not only or words[run.name] & {*only}]


def draw_data(run: PlannedRun) -> Dataset:
    """The data of a run: generated, or read if its variant is a dataset folder."""
    return load(run.variant) if Path(run.variant).is_dir() else _generate(run.variant, run.data + run.small)


@lru_cache(maxsize=2)
def _generate(variant: str, options: Options) -> Dataset:
    return generate(variant, **dict(options))


def data_digests(run: PlannedRun) -> dict[str, str]:
    """The checksums of a run's splits. Raises UserError if there are not as many examples as it wants."""
    if Path(run.variant).is_dir():
        return _digests(draw_data(run))
    return _digests_of(run.variant, run.data + run.small)


@cache
def _digests_of(variant: str, options: Options) -> dict[str, str]:
    return _digests(_generate(variant, options))


def _digests(data: Dataset) -> dict[str, str]:
    return {name: digest(split) for name, split in read_data(data).splits.items()}


def describe_task(run: PlannedRun) -> dict[str, Any]:
    """The task of a run, as its config has it; no data are drawn."""
    if Path(run.variant).is_dir():
        task, recipe, _ = read_task(Path(run.variant))
    else:
        settings = Settings(variant=run.variant, **run.options)
        task, recipe = make_task(settings), settings.split_settings()
    found: dict[str, Any] = json.loads(json.dumps(task_to_dict(task, recipe, {})))
    return found


DEVICES = {"cuda": "one NVIDIA H200", "cpu": "two CPU cores"}  # where this was measured
START = {"cuda": 50.0, "cpu": 0.0}  # seconds, once: kernels are compiled

# Milliseconds of a step for each seed, by the number of seeds that are trained together.
_FULL: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {
        "lstm": {1: 0.2315, 2: 0.1386, 5: 0.0771, 10: 0.0573, 25: 0.0486, 50: 0.0448, 100: 0.0423},
        "transformer": {1: 1.281, 2: 0.712, 5: 0.366, 10: 0.255, 25: 0.214, 50: 0.199, 100: 0.189},
        "ndr": {1: 1.492, 2: 0.927, 5: 0.590, 10: 0.506, 25: 0.456, 50: 0.447, 100: 0.440},
    },
    "cpu": {"lstm": {1: 80.0}, "transformer": {1: 400.0}, "ndr": {1: 700.0}},
}
_QUICK: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {"lstm": {1: 0.5, 50: 0.01}, "transformer": {1: 1.0, 50: 0.02}, "ndr": {1: 2.0, 100: 0.02}},
    "cpu": {"lstm": {1: 6.0, 4: 1.6}, "transformer": {1: 30.0, 2: 16.0}, "ndr": {1: 30.0, 2: 17.0}},
}
_LIKE = dict.fromkeys(("lstm_uni", "gru", "rnn", "symrnn", "permrnn"), "lstm") | dict.fromkeys(
    ("transformer_untied", "transformer_looped", "deltanet", "ssm", "slots"), "transformer"
)
_BATCH = {"quick": 32}  # with which it was measured; 512 otherwise
KEPT = 40  # bytes for every weight: itself, gradient and moments, and a checkpoint of them; measured on a CPU
_AROUND = {"cuda": 10.0, "cpu": 3.0}  # seconds a piece: beginning, evaluations, analysis


def seconds(run: PlannedRun, seeds: int, device: str = "cuda", steps: int | None = None) -> float:
    """For training so many seeds of a planned run in one piece, with all that belongs to it.

    Between the crowds that were measured the time of a step is interpolated, beyond them it is in proportion.
    A model that was not measured counts as the one most like it, your own as an NDR.
    """
    if not seeds:
        return 0.0
    device = device if device in DEVICES else "cpu"
    measured = (_QUICK if run.preset == "quick" else _FULL)[device]
    each = measured.get(_LIKE.get(run.model, run.model), measured["ndr"])
    crowd = seeds * run.recipe.batch / _BATCH.get(run.preset, 512)
    most = max(each)
    step = np.interp(min(crowd, most), list(each), [many * time for many, time in each.items()])
    milliseconds = float(step) * max(1.0, crowd / most)
    return (run.steps if steps is None else steps) * milliseconds / 1000 + _AROUND[device]


def seeds_that_fit(run: PlannedRun, minutes: float, device: str, memory: float) -> int:
    """How many seeds can be trained together in so many minutes and bytes: at least one.

    What a step computes does not count, because it takes as many seeds at a time as fit. A run that may stop
    early is never cut, because when it stops depends on all of its seeds.
    """
    most = len(run.seeds)
    if run.recipe.early_stop:
        return most
    if each := KEPT * _parameters(replace(run, seeds=())):
        most = int(min(most, memory / each))
    return max((n for n in range(1, most + 1) if seconds(run, n, device) <= 60 * minutes), default=1)


@lru_cache
def _parameters(run: PlannedRun) -> int:
    """Of one seed; 0 if the model cannot be made, which training will tell."""
    task = describe_task(run)
    symbols, functions = len(task["symbols"]), len(task["functions"])
    try:
        factory = find_model(run.model, run.preset, dict(run.sizes))[1]
        with torch.random.fork_rng(devices=[]):
            return parameters(factory(symbols + functions + 1, symbols))
    except Exception:
        return 0
