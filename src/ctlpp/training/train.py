"""Train a crowd of seeds, from a notebook or the command line.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    >>> run = train("gru", data, seeds=range(2), preset="quick", recipe=Recipe(steps=4, batch=16))
    >>> sorted(run.table()[0])
    ['diverged', 'iid', 'ood', 'ood_independent', 'seed']
"""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import ctlpp
from ctlpp.files import UserError, as_frame
from ctlpp.models import DEFAULT_PRESET
from ctlpp.models.zoo import Factory, error_line, find_model, load_callable, name_of, tie
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import FORMAT, read_config
from ctlpp.runs.history import History, Notes, read_observers, tell, to_table
from ctlpp.training.batches import Batches, Data, digest, read_data
from ctlpp.training.crowd import Crowd, init_crowd, read_seeds
from ctlpp.training.curriculum import Curriculum, find_curriculum
from ctlpp.training.engine import find_device, prepare, threads_for
from ctlpp.training.loop import Run, Training
from ctlpp.training.recipe import OWN_CODE, Recipe, recipe_for
from ctlpp.training.step import Stepper
from ctlpp.words import OLD_PRESETS, name_seeds, plural


def train(
    model: str | Factory,
    data: Any,
    *,
    seeds: Iterable[int] = range(5),
    recipe: Recipe | Mapping[str, Any] | None = None,
    preset: str | None = None,
    sizes: Mapping[str, Any] | None = None,
    device: str | torch.device = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    splits: str | Sequence[str] | None = None,
    curriculum: Curriculum | str | None = None,
    start: Run | Path | str | nn.Module | Mapping[str, Tensor] | None = None,
    observers: Sequence[object] = (Notes(),),
    memory: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Train seeds of a model together and evaluate them.

    Args:
        model: A name of the zoo, `package.module:factory`, or a callable that makes a module of
            `(vocab_size, n_classes)`.
        data: A dataset, or `{"train": {length: (tokens, targets)}, "iid": …}`.
        seeds: The seeds to train, such as `range(25)`.
        recipe: By default that of the model and preset; or what to change in it, as a dictionary.
        preset: Of sizes and recipe; by default that of the recipe, or else `authors`.
        sizes: Other sizes for the model, by keyword.
        device: `auto`, `cpu` or `cuda`.
        out: The run folder, if the run is to be kept.
        resume: Go on with the run in the folder.
        splits: Those to evaluate; by default `iid` and `ood`.
        curriculum: The chance of each example to take part, from `(progress, length, tokens)`; or a name, as
            in a recipe.
        start: Weights to begin with. A run or its folder lends those of the same seeds; a module, or its
            `state_dict()`, is for all seeds.
        observers: Objects with some of the methods `on_start`, `on_note`, `on_step`, `on_evaluate`,
            `on_checkpoint`, `on_end` and `on_close`.
        memory: Bytes that activations may take; by default measured.
        about: Anything to note in `config.json`.

    Returns:
        The run, with the trained crowd, its settings and its history.
    """
    if resume and out is None:
        raise UserError("‹resume=True›: name the run folder, too, as ‹out›")
    observers = read_observers(observers)
    seeds, known, device = read_seeds(seeds), read_data(data, splits), find_device(str(device))
    preset = find_preset(preset, recipe)
    name, factory, every_size = find_model(model, preset, sizes)
    if not isinstance(recipe, Recipe):
        recipe = recipe_for(name, preset, known.variant, **(recipe or {}))
    if isinstance(curriculum, str):
        recipe, curriculum = replace(recipe, curriculum=curriculum), None
    recipe = _with_own_code(recipe)
    if recipe.swap and known.task and known.task["order"] != "right-to-left":
        raise UserError("swap: the data must be written right-to-left")
    factory = tie(factory, name) if recipe.tied else factory
    if curriculum is None and recipe.curriculum:
        curriculum = find_curriculum(recipe.curriculum, known.task, known.splits["train"])
    batches = Batches(known.splits["train"], recipe, seeds, device, curriculum)
    if curriculum is not None:
        batches.at(0)  # one that fails does so before anything is written
    begin = None if start is None else _first_states(start, factory, seeds)
    crowd = init_crowd(factory, known.vocab_size, known.n_classes, seeds, device, name, begin)
    bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")
    stepper = Stepper(crowd, recipe, 1, bf16)
    notes = prepare(stepper, batches.shapes(), memory)
    threads = threads_for(stepper, batches.shapes()[-1])
    if recipe.warmup_steps != recipe.warmup:
        rises = f"a warm-up of {recipe.warmup} steps does not fit into {recipe.steps}"
        notes.append(f"{rises}: the learning rate rises over {plural(recipe.warmup_steps, 'step')}")
    for note in notes:
        tell(observers, "on_note", note)
    config = {"format": FORMAT, "model": name, "preset": preset, "options": every_size}
    if start is not None:
        config["start"] = sha256(crowd.weights.cpu().numpy().tobytes()).hexdigest()[:16]
    config |= _describe(known, stepper, threads, curriculum) | {"about": dict(about or {})}
    run = Run(config, crowd, History.empty(seeds))
    held_out = {split: known.splits[split] for split in known.held_out}
    training = Training(run, stepper, batches, held_out, observers)
    if out is None:
        training.fit()
        return run
    with checkpoint.claimed(Path(out), config, resume) as run.config:
        run.folder = Path(out)
        if resume:
            training.resume(here=config)
        training.fit()
    return run


def _first_states(
    start: Run | Path | str | nn.Module | Mapping[str, Tensor], factory: Factory, seeds: Sequence[int]
) -> Callable[[int], Mapping[str, Tensor]]:
    """The state that each seed's module begins with."""
    if isinstance(start, Path | str):
        start = load_run(start, factory)
    if isinstance(start, Run):
        crowd = start.crowd
        if missing := [seed for seed in seeds if seed not in crowd.seeds]:
            theirs = f"its seeds are {name_seeds(crowd.seeds)}"
            raise UserError(f"‹start›: that run has no seed {missing[0]} to begin with: {theirs}")
        return lambda seed: crowd.member(seed).state_dict()
    state: Any = start.state_dict() if isinstance(start, nn.Module) else start
    if not isinstance(state, Mapping):
        kinds = "give a run, its folder, a module or its state"
        raise UserError(f"‹start› of type {type(state).__name__}: {kinds}")
    return lambda seed: state


def find_preset(preset: str | None, recipe: object) -> str:
    """The one preset of sizes and recipe."""
    if not isinstance(recipe, Recipe | Mapping | None):
        kinds = "give a Recipe, as `recipe_for` makes it, or a dictionary of changes"
        raise UserError(f"recipe of type {type(recipe).__name__}: {kinds}")
    theirs = recipe.preset if isinstance(recipe, Recipe) else ""
    preset = OLD_PRESETS.get(preset or "", preset) or theirs or DEFAULT_PRESET
    if theirs not in ("", preset):
        remedy = "leave one of them out, or give other ‹sizes›"
        raise UserError(f"‹preset› {preset}: the recipe is that of the preset {theirs}; {remedy}")
    return preset


def _with_own_code(recipe: Recipe) -> Recipe:
    """The recipe with functions in place of their names, `package.module:function`; tries its schedule."""
    chosen = {name: getattr(recipe, name) for name in OWN_CODE}
    named = {name: own for name, own in chosen.items() if isinstance(own, str) and ":" in own}
    recipe = replace(recipe, **{name: load_callable(own, name, "function") for name, own in named.items()})
    try:
        rates = [recipe.rate(step) for step in (0, recipe.steps - 1)]
    except Exception as error:
        raise UserError(f"the schedule failed: {error_line(error)}") from error
    if not all(0 <= rate < inf for rate in rates):
        raise UserError(f"the schedule gives rates of {rates[0]} and {rates[1]}: they must be 0 or more")
    return recipe


def _describe(data: Data, stepper: Stepper, threads: int, curriculum: Curriculum | None) -> dict[str, Any]:
    """What decides the result besides the model, and where it came about; for `config.json`."""
    crowd, recipe = stepper.crowd, dict(vars(stepper.recipe))
    on_gpu = crowd.device.type == "cuda"
    recipe |= {name: name_of(recipe[name]) for name in OWN_CODE if callable(recipe[name])}
    del recipe["preset"]  # stands beside the recipe
    if curriculum is not None and not recipe["curriculum"]:
        recipe["curriculum"] = name_of(curriculum)
    return {
        "variant": data.variant,
        "protocol": data.protocol,
        "vocab_size": data.vocab_size,
        "n_classes": data.n_classes,
        "parameters": sum(shape.numel() for _, shape in crowd.slices.values()),  # of one seed
        "seeds": list(crowd.seeds),
        "recipe": recipe | {"betas": list(recipe["betas"])},
        "data": {name: digest(split) for name, split in data.splits.items()},
        "task": data.task,
        "engine": {
            "device": crowd.device.type,
            "device_name": torch.cuda.get_device_name(crowd.device) if on_gpu else crowd.device.type.upper(),
            "precision": "bf16" if stepper.bf16 else "float32",
            "vectorised": crowd.vectorised,
            "seeds_at_a_time": stepper.group,
            "threads": threads,
        },
        "versions": {
            "ctlpp": ctlpp.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def load_run(folder: Path | str, factory: Factory | None = None, device: str = "cpu") -> Run:
    """A run from its folder: the trained crowd, its settings and its history.

    Of an unfinished run whose newest checkpoint is damaged it takes the older one, and `notes` say so.

    Args:
        folder: The run folder.
        factory: For a model of your own that was given as a callable; others are found by their names.
        device: Where to load it.

    Returns:
        The run, as `train` gives it.
    """
    if not isinstance(folder, str | Path):
        raise UserError(f"this {type(folder).__name__} is neither a run nor the path of one")
    folder = Path(folder)
    config = read_config(folder)
    tensors, facts, damaged = checkpoint.last(folder)
    if factory is None:
        _, factory, _ = find_model(config["model"], config["preset"], config["options"])
    if config["recipe"]["tied"]:
        factory = tie(factory, config["model"])
    shape = config["vocab_size"], config["n_classes"]
    crowd = init_crowd(factory, *shape, config["seeds"], find_device(device), config["model"])
    crowd.vectorised = config["engine"]["vectorised"]
    run = Run(config, crowd, History.empty(crowd.seeds), folder)
    run.restore(tensors, facts)
    crowd.set_progress(run.step / config["recipe"]["steps"])
    run.notes = tuple(f"{line}: taken is the checkpoint before, of step {run.step}" for line in damaged)
    return run


def load_seed(
    run: Run | Path | str, seed: int, factory: Factory | None = None, device: str = "cpu"
) -> nn.Module:
    """One seed of a run as an ordinary module, to use or to train on.

    Args:
        run: A run, or its folder.
        seed: The seed's number.
        factory: For a model of your own that was given as a callable.
        device: Where to load a folder.

    Returns:
        The module in evaluation mode, with gradients for the parameters that were trained.
    """
    trained = run if isinstance(run, Run) else load_run(run, factory, device)
    return trained.crowd.member(seed)


def evaluate(
    run: Run | Path | str, data: Any, splits: str | Sequence[str] | None = None, *, device: str = "auto"
) -> Any:
    """Accuracy and loss of all seeds of a run on other data, as a table.

    Args:
        run: A run, or its folder.
        data: A dataset or its folder, with the functions and symbols of the run; or
            `{name: {length: (tokens, targets)}}`.
        splits: Those to evaluate; by default all but `train`.
        device: Where to load a folder.

    Returns:
        A `pandas.DataFrame`, or a `pyarrow.Table` where pandas is not installed. A row for each seed, split
        and length (0: all of the split): step, seed, split, length, accuracy, loss.
    """
    if callable(run):
        raise UserError(f"this {type(run).__name__} is one model, not a run: use ctlpp.accuracy")
    trained = run if isinstance(run, Run) else load_run(run, device=device)
    return as_frame(to_table(trained.evaluate(data, splits)))


@torch.no_grad()
def accuracy(
    model: Callable[[Tensor], Tensor],
    data: Any,
    splits: str | Sequence[str] | None = None,
    *,
    batch: int = 1024,
) -> dict[str, dict[int, float]]:
    """The share of right answers on each split, by length; length 0 stands for the whole split.

    Args:
        model: Any callable that makes logits (B, C) of tokens (B, T), int64. A module is put into evaluation
            mode meanwhile.
        data: A dataset, or `{name: {length: (tokens, targets)}}`.
        splits: Those to evaluate; by default `iid` and `ood`.
        batch: Examples that the model is given at a time.

    Returns:
        For each split a dictionary from length to accuracy.
    """
    given: object = model
    if isinstance(given, Run | Crowd):
        one = "run.crowd.member(seed)" if isinstance(given, Run) else "crowd.member(seed)"
        raise UserError(f"this {type(given).__name__} has many seeds: give {one}, or use ctlpp.evaluate")
    if not callable(given):
        raise UserError(f"model of type {type(given).__name__}: give a module or function of tokens")
    known, shares = read_data(data, splits, train=False), {}
    training = isinstance(model, nn.Module) and model.training
    if isinstance(model, nn.Module):
        model.eval()
    try:
        for name in known.held_out:
            pairs = {length: pair for length, pair in known.splits[name].items() if len(pair[1])}
            right = {length: _right(model, *pair, known.n_classes, batch) for length, pair in pairs.items()}
            whole = torch.cat(list(right.values()))
            shares[name] = {length: part.mean().item() for length, part in {0: whole, **right}.items()}
    finally:
        if isinstance(model, nn.Module):
            model.train(training)
    return shares


def _right(
    model: Callable[[Tensor], Tensor], tokens: Tensor, targets: Tensor, n_classes: int, batch: int
) -> Tensor:
    """1.0 for each right answer, (N,)"""
    answers = []
    for part in torch.split(tokens, batch):
        logits, shape = model(part), (len(part), n_classes)
        if not isinstance(logits, Tensor) or logits.shape != shape:
            found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            wrong = f"the model returns {found} for tokens of shape {tuple(part.shape)}"
            raise UserError(f"{wrong}; it should return logits of shape {shape}")
        answers.append(logits.argmax(-1).cpu())
    return (torch.cat(answers) == targets).double()
