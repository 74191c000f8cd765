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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import ctlpp
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError, write_json
from ctlpp.models.zoo import Factory, find_model, load_callable
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import FORMAT, check_kept, check_last, claim, locked, move, read_config, where
from ctlpp.runs.history import TRAINING, Metrics, Score
from ctlpp.runs.observers import Notes, tell
from ctlpp.training.batches import Batches, Curriculum, Data, Split, digest, read_data
from ctlpp.training.crowd import Crowd, init_crowd
from ctlpp.training.engine import find_device, prepare
from ctlpp.training.evaluate import Tally, evaluate
from ctlpp.training.loop import Training, metrics_of
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.step import Optimizer, Stepper
from ctlpp.words import plural


def train(
    model: str | Factory,
    data: Any,
    *,
    seeds: Sequence[int] = range(5),
    recipe: Recipe | None = None,
    preset: str = "released",
    sizes: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    splits: Sequence[str] | None = None,
    curriculum: Curriculum | None = None,
    observers: Sequence[object] = (Notes(),),
    memory: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> "Run":
    """Train seeds of a model together and evaluate them.

    model: a name of the zoo, "package.module:factory", or a callable, (vocab_size, n_classes) -> nn.Module.
    data: a dataset, or {"train": {length: (tokens, targets)}, "iid": …}.
    recipe: by default that of the model and preset. sizes: other sizes for the model, by keyword.
    out: the run folder, if the run is to be kept. splits: those to evaluate, by default iid and ood.
    memory: bytes that activations may take, by default measured. about: anything to note in `config.json`.
    """
    if isinstance(seeds, int):
        raise UserError(f"‹seeds› {seeds}: give several numbers, such as range({seeds})")
    name, factory, every_size = find_model(model, preset, sizes)
    known = read_data(data, splits)
    recipe = recipe or recipe_for(name, preset, known.variant)
    place = find_device(device)
    if curriculum is None and recipe.curriculum:
        curriculum = load_callable(recipe.curriculum, "curriculum", "function")
    batches = Batches(known.splits["train"], recipe, list(seeds), place, curriculum)
    if curriculum is not None:
        batches.at(0)  # one that fails does so before anything is written
    crowd = init_crowd(factory, known.vocab_size, known.n_classes, list(seeds), place, name)
    bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and place.type == "cuda")
    stepper = Stepper(crowd, recipe, Optimizer.of(crowd), 1, bf16)
    for note in prepare(stepper, batches.shapes(), memory):
        tell(observers, "on_note", note)
    config = {"format": FORMAT, "model": name, "preset": preset, "options": every_size}
    config |= _describe(known, stepper, curriculum) | {"about": dict(about or {})}
    held_out = {split: known.splits[split] for split in known.held_out}
    training = Training(stepper, batches, held_out, config, tuple(observers))
    if out is None:
        return _finish(training)
    with locked(Path(out)):
        training.config, training.folder = claim(Path(out), config, resume), Path(out)
        if resume:
            _restore(training, where(config))
        return _finish(training)


def _restore(training: Training, here: str) -> None:
    """Go on where the run was; tell, and note in the folder, if that was elsewhere."""
    assert training.folder is not None
    training.restore()
    if not training.over:
        training.config, line = move(training.folder, training.config, here, training.step)
        if line:
            tell(training.observers, "on_note", line)
    if training.step == 0:
        line = f"nothing is saved in {training.folder} yet: the run begins at step 0"
        tell(training.observers, "on_note", line)


def _finish(training: Training) -> "Run":
    """Train to the end and write the results."""
    training.fit()
    spent = training.spent(), training.overhead_seconds
    known = training.config, training.stepper.crowd, training.metrics, training.diverged()
    run = Run(*known, training.step, *spent, training.folder)
    if training.folder is not None:
        write_json(training.folder / "result.json", run.result())
    tell(training.observers, "on_end", run)
    return run


def _describe(data: Data, stepper: Stepper, curriculum: Curriculum | None) -> dict[str, Any]:
    """What decides the result besides the model, and where it came about; for `config.json`."""
    crowd, recipe = stepper.crowd, asdict(stepper.recipe)
    if curriculum is not None and not recipe["curriculum"]:
        recipe["curriculum"] = f"{curriculum.__module__}:{getattr(curriculum, '__qualname__', '?')}"
    return {
        "variant": data.variant,
        "protocol": data.protocol,
        "vocab_size": data.vocab_size,
        "n_classes": data.n_classes,
        "parameters": crowd.n_parameters,
        "seeds": list(crowd.seeds),
        "recipe": recipe | {"betas": list(recipe["betas"])},
        "data": {name: digest(split) for name, split in data.splits.items()},
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


def load_run(folder: Path | str, factory: Factory | None = None, device: str = "cpu") -> "Run":
    """A run from its folder: the trained crowd, its settings and its history.

    Of an unfinished run whose newest checkpoint is damaged it takes the older one, and `notes` say so.
    factory: for your own model, if it was given as a callable; others are found by their names.
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
    step = facts["step"]
    check_last(folder, step, damaged)
    shape, place = (config["vocab_size"], config["n_classes"]), find_device(device)
    crowd = init_crowd(factory, *shape, config["seeds"], place, config["model"])
    crowd.vectorised = config["engine"]["vectorised"]
    crowd.fill(tensors)
    crowd.set_progress(step / config["recipe"]["steps"])
    frozen = zip(crowd.seeds, tensors["diverged"].tolist(), strict=True)
    diverged = {seed: at for seed, at in frozen if at >= 0}
    notes = tuple(f"{line}: taken is the checkpoint before, of step {step}" for line in damaged)
    spent = facts["seconds"], facts.get("aside", 0.0)
    return Run(config, crowd, metrics_of(tensors, facts), diverged, step, *spent, folder, notes)


@dataclass
class Run:
    """What `train` and `load_run` give back."""

    config: dict[str, Any]  # as in config.json
    crowd: Crowd  # trained; `crowd.member(seed)` is an ordinary module
    metrics: Metrics  # all evaluations
    diverged: dict[int, int]  # seed -> the step at which it was frozen
    step: int  # steps done
    seconds: float  # spent, over all sittings …
    overhead_seconds: float = 0.0  # … and how many of them on evaluations and checkpoints
    folder: Path | None = None
    notes: tuple[str, ...] = ()  # what was not as usual when it was loaded

    def __repr__(self) -> str:
        about, many = self.config, plural(len(self.crowd.seeds))
        return f"<{about['model']} on {about['variant'] or 'own data'}: {many}, {plural(self.step, 'step')}>"

    def evaluate(self, splits: Mapping[str, Split]) -> list[Score]:
        """Scores of all seeds on other data."""
        tally = Tally.of(self.crowd, self.config["engine"]["seeds_at_a_time"])
        return evaluate(self.crowd, splits, tally=tally)

    def table(self) -> list[dict[str, Any]]:
        """One row per seed: its number, its last accuracy on every split, the step it diverged at or None."""
        seeds = self.result()["seeds"]
        return [{"seed": one["seed"], "diverged": one["diverged_at"], **one["accuracy"]} for one in seeds]

    def result(self) -> dict[str, Any]:
        """As in result.json."""
        seeds: dict[int, dict[str, Any]] = {
            seed: {
                "seed": seed,
                "accuracy": {},
                "loss": {},
                "by_length": {},
                "diverged": seed in self.diverged,
                "diverged_at": self.diverged.get(seed),
            }
            for seed in self.crowd.seeds
        }
        for score in self.metrics.at_end():
            of_seed = seeds[score.seed]
            if score.split == TRAINING:
                continue
            if score.length == 0:
                of_seed["accuracy"][score.split], of_seed["loss"][score.split] = score.accuracy, score.loss
            else:
                of_seed["by_length"].setdefault(score.split, {})[str(score.length)] = score.accuracy
        about = {key: self.config[key] for key in ("model", "variant", "protocol", "parameters")}
        about |= {"steps": self.step, "seconds": round(self.seconds, 3)}
        about |= {"seconds_aside": round(self.overhead_seconds, 3)}
        about |= {"device": self.config["engine"]["device_name"]}
        if "continued" in self.config:
            about["continued"] = self.config["continued"]
        return about | {"versions": self.config["versions"], "seeds": list(seeds.values())}


def check_data_matches_run(config: dict[str, Any], task: Task, run: Path, data: Path) -> None:
    """Refuse data whose tokens mean something else than in training."""
    for what, ours, theirs in (
        ("tokens", config["vocab_size"], task.vocabulary.size),
        ("symbols", config["n_classes"], task.n_symbols),
    ):
        if ours != theirs:
            here = f"the run in {run} was trained with {ours}"
            raise UserError(f"{data} has {theirs} {what}, {here}: they do not fit")
    trained = config.get("task")
    if not trained:
        return
    if trained["order"] != task.order:
        raise UserError(f"{data} is written {task.order}, the run in {run} was trained {trained['order']}")
    tables = {name: list(table) for name, table in task.functions.items()}
    if trained["functions"] != tables:
        differing = (name for name in tables if trained["functions"].get(name) != tables[name])
        other = f"the run in {run} was trained with ({next(differing, 'the order of names')})"
        raise UserError(f"{data} has other functions than {other}; use its task")
