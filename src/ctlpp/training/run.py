"""Train a crowd of seeds, from a notebook or the command line.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    >>> run = train("gru", data, seeds=range(2), preset="quick", recipe=Recipe(steps=4, batch=16))
    >>> sorted(run.table()[0])
    ['diverged', 'iid', 'ood', 'seed']
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import ctlpp
from ctlpp.files import UserError
from ctlpp.models.zoo import Factory, find_model, load_callable
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import FORMAT, check_kept, check_last, claim, locked, move, read_config, where
from ctlpp.runs.observers import Notes, tell
from ctlpp.training.batches import Batches, Curriculum
from ctlpp.training.crowd import gather
from ctlpp.training.inputs import Data, find_device, read_data
from ctlpp.training.loop import Training, fit
from ctlpp.training.probe import memory_budget, probe, rehearse, seeds_at_a_time, try_kernels
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.result import Run
from ctlpp.training.step import Optimizer, Stepper


def train(
    model: str | Factory,
    data: Any,
    *,
    seeds: Sequence[int] = range(5),
    recipe: Recipe | None = None,
    preset: str = "released",
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    splits: Sequence[str] | None = None,
    curriculum: Curriculum | None = None,
    observers: Sequence[object] = (Notes(),),
    memory: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Train seeds of a model together and evaluate them.

    model: a name of the zoo, "package.module:factory", or a callable `factory(vocab_size, n_classes) -> nn.Module`.
    data: a dataset, or {"train": {length: (tokens, targets)}, "iid": …}.
    recipe: by default that of the model and preset. options: other sizes for the model, by keyword.
    out: the run folder, if the run is to be kept. splits: those to evaluate, by default iid and ood.
    memory: bytes that activations may take, by default measured. about: anything else to note in `config.json`.
    """
    if isinstance(seeds, int):
        raise UserError(f"seeds {seeds}: give several numbers, such as range({seeds})")
    name, factory, sizes = find_model(model, preset, options or {})
    known = read_data(data, splits)
    recipe = recipe or recipe_for(name, preset, known.variant)
    place = find_device(device)
    curriculum = curriculum or (
        load_callable(recipe.curriculum, "curriculum", "function") if recipe.curriculum else None
    )
    batches = Batches(known.splits["train"], recipe, list(seeds), place, curriculum)
    if curriculum is not None:
        batches.at(0)  # one that fails does so before anything is written
    crowd = gather(factory, known.vocab_size, known.n_classes, list(seeds), place, name)
    bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and place.type == "cuda")
    stepper = Stepper(crowd, recipe, Optimizer.of(crowd), 1, bf16)
    _arrange(stepper, batches, memory, observers)
    config = _config(name, preset, sizes, known, stepper, curriculum) | {"about": dict(about or {})}
    held_out = {split: known.splits[split] for split in known.held_out}
    training = Training(stepper, batches, held_out, config, tuple(observers))
    if out is None:
        return fit(training)
    with locked(Path(out)):
        training.config, training.folder = claim(Path(out), config, resume), Path(out)
        if resume:
            training.restore()
            _note_move(training, where(config))
            if training.step == 0:
                tell(observers, "on_note", f"nothing is saved in {out} yet: the run begins at step 0")
        return fit(training)


def _note_move(training: Training, here: str) -> None:
    """Tell, and note in the folder, that a run goes on elsewhere than it was."""
    assert training.folder is not None
    if not training.over:
        training.config, line = move(training.folder, training.config, here, training.step)
        if line:
            tell(training.observers, "on_note", line)


def load_run(folder: Path | str, factory: Factory | None = None, device: str = "cpu") -> Run:
    """A run from its folder: the trained crowd, its settings and its history.

    Of an unfinished run whose newest checkpoint is damaged it takes the older one, and `notes` say so.
    factory: that of a model of one's own which was given as a callable; others are found by their names.
    """
    folder = Path(folder)
    config = read_config(folder)
    if factory is None:
        _, factory, _ = find_model(config["model"], config["preset"], config["options"])
    check_kept(folder, "train it again in a new folder to evaluate or analyse it")
    found = checkpoint.newest(folder / "checkpoint")
    if found is None:
        raise UserError(f"the run in {folder} has no checkpoint yet: resume it first")
    tensors, facts, damaged = found
    check_last(folder, facts.get("step", 0), damaged)
    place = find_device(device)
    crowd = gather(
        factory, config["vocab_size"], config["n_classes"], config["seeds"], place, config["model"]
    )
    crowd.vectorised = config["engine"]["vectorised"]
    run = Run.from_checkpoint(config, crowd, tensors, facts, folder)
    run.notes = tuple(f"{line}: taken is the checkpoint before, of step {run.step}" for line in damaged)
    return run


def _arrange(stepper: Stepper, batches: Batches, memory: int | None, observers: Sequence[object]) -> None:
    """Try the model, and decide how many seeds go through a step at a time."""
    crowd, recipe, shapes = stepper.crowd, stepper.recipe, batches.shapes()
    rehearse(crowd, recipe, shapes, stepper.bf16)
    batch = shapes[-1]
    failure = try_kernels(crowd, recipe, *batch, stepper.bf16)
    if failure:
        tell(
            observers,
            "on_note",
            f"the fast kernels fail on this machine ({failure}): training goes on without them",
        )
    reason = probe(crowd, recipe, *batch, stepper.bf16)
    crowd.vectorised = not reason
    if reason:
        line = f"{type(crowd.module).__name__} cannot be vectorised ({reason}): its seeds train one after the other"
        tell(observers, "on_note", line)
    budget = memory_budget(crowd.device) if memory is None else memory
    group, line = seeds_at_a_time(crowd, recipe, *batch, stepper.bf16, budget)
    stepper.regroup(group)
    if line:
        tell(observers, "on_note", line)


def _config(
    name: str, preset: str, sizes: dict[str, Any], data: Data, stepper: Stepper, curriculum: Curriculum | None
) -> dict[str, Any]:
    """Everything that decides the result, and where it came about."""
    crowd, recipe = stepper.crowd, asdict(stepper.recipe)
    if curriculum is not None and not recipe["curriculum"]:
        recipe["curriculum"] = f"{curriculum.__module__}:{getattr(curriculum, '__qualname__', '?')}"
    return {
        "format": FORMAT,
        "model": name,
        "preset": preset,
        "options": sizes,
        "variant": data.variant,
        "protocol": data.protocol,
        "vocab_size": data.vocab_size,
        "n_classes": data.n_classes,
        "parameters": crowd.n_parameters,
        "seeds": list(crowd.seeds),
        "recipe": recipe | {"betas": list(recipe["betas"])},
        "data": data.digests(),
        "task": data.task,
        "engine": {
            "device": crowd.device.type,
            "device_name": torch.cuda.get_device_name(crowd.device) if crowd.device.type == "cuda" else "CPU",
            "precision": "bf16" if stepper.bf16 else "float32",
            "vectorised": crowd.vectorised,
            "seeds_at_a_time": stepper.group,
            "threads": torch.get_num_threads(),
        },
        "versions": {
            "ctlpp": ctlpp.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
