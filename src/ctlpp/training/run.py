"""A trained run: its scores, its seeds as modules, and where it comes from."""

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import ctlpp
from ctlpp.files import UserError, as_frame
from ctlpp.models.zoo import Factory, find_model, name_of, tie
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import check_data_matches_run, read_config
from ctlpp.runs.history import History, Score, to_table
from ctlpp.training.batches import Curriculum, Data, check_tokens, digest, open_data, read_data, read_splits
from ctlpp.training.crowd import Crowd, init_crowd
from ctlpp.training.engine import computing_with
from ctlpp.training.step import Stepper, Tally
from ctlpp.words import name_seeds, plural


@dataclass
class Run:
    """What `train` and `load_run` give back."""

    config: dict[str, Any]  #: as in config.json
    crowd: Crowd  #: `crowd.member(seed)` is an ordinary module
    history: History  #: all evaluations
    folder: Path | None = None
    step: int = 0  #: steps done
    seconds: float = 0.0  #: spent, over all sittings …
    overhead_seconds: float = 0.0  #: … and how many of them on evaluations and checkpoints
    diverged: dict[int, int] = field(default_factory=dict)  #: seed -> the step at which it was frozen
    notes: tuple[str, ...] = ()  #: what was not as usual when it was loaded

    def __repr__(self) -> str:
        about, many = self.config, plural(len(self.crowd.seeds))
        return f"<{about['model']} on {about['variant'] or 'own data'}: {many}, {plural(self.step, 'step')}>"

    @property
    def threads(self) -> int:
        """How many threads compute it on a CPU."""
        return int(self.config["engine"].get("threads") or 1)

    def evaluate(self, data: Any, splits: str | Sequence[str] | None = None) -> list[Score]:
        """Scores of all seeds on other data, as `ctlpp.evaluate` has them."""
        place, data = data if isinstance(data, str | Path) else "the dataset", open_data(data)
        if not isinstance(data, Mapping):
            check_data_matches_run(self.config, data.task, self.folder or "memory", place)
        known = read_splits(data, splits)
        check_tokens(self.config, known)
        tally = Tally.of(self.crowd, self.config["engine"]["seeds_at_a_time"])
        with computing_with(self.threads):
            return tally.evaluate(known, self.step)

    def table(self) -> list[dict[str, Any]]:
        """One row per seed: its number, its last accuracy on every split, the step it diverged at or None.

        With restarts also whether it is chosen.
        """
        return [
            {"seed": one.number, "diverged": one.diverged_at, **self._choice(one.number), **one.accuracy}
            for one in self.history.results(self.diverged)
        ]

    def _choice(self, seed: int) -> dict[str, bool]:
        """Whether a seed is the one of its restarts that fits the training data best; empty without any."""
        restarts = self.config["recipe"]["restarts"]
        return {"chosen": seed in self.history.chosen(restarts)} if restarts > 1 else {}

    def frame(self) -> Any:
        """The whole history as a table: step, seed, split, length (0: all of the split), accuracy, loss.

        Returns:
            A `pandas.DataFrame`, or a `pyarrow.Table` where pandas is not installed.
        """
        return as_frame(to_table(self.history.scores()))

    def result(self) -> dict[str, Any]:
        """As in result.json."""
        about = {key: self.config[key] for key in ("model", "variant", "protocol", "parameters")}
        about |= {"steps": self.step, "seconds": round(self.seconds, 3)}
        about |= {"seconds_aside": round(self.overhead_seconds, 3)}
        about |= {"device": self.config["engine"]["device_name"], "versions": self.config["versions"]}
        if "continued" in self.config:
            about["continued"] = self.config["continued"]
        seeds = [asdict(one) for one in self.history.results(self.diverged)]
        numbered = [{"seed": one.pop("number"), **one} for one in seeds]
        return about | {"seeds": [one | self._choice(one["seed"]) for one in numbered]}

    def set_diverged(self, steps: Tensor) -> None:
        """Take the step at which each seed was frozen, (S,), -1 while it trains."""
        frozen = zip(self.crowd.seeds, steps.tolist(), strict=True)
        self.diverged = {seed: step for seed, step in frozen if step >= 0}

    def to_tensors(self) -> tuple[dict[str, Tensor], list[str]]:
        """Weights and history for a checkpoint, and the names of the splits."""
        rows = self.history.scores()
        splits = list(dict.fromkeys(row.split for row in rows))
        whole = [(row.step, row.seed, splits.index(row.split), row.length) for row in rows]
        real = [(row.accuracy, row.loss) for row in rows]
        history = {
            "metrics.whole": torch.tensor(whole, dtype=torch.int64).view(-1, 4),
            "metrics.real": torch.tensor(real, dtype=torch.float64).view(-1, 2),
        }
        return self.crowd.to_tensors() | history, splits

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Take the state of a checkpoint."""
        self.crowd.restore(tensors)
        self.set_diverged(tensors["diverged"])
        both = zip(tensors["metrics.whole"].tolist(), tensors["metrics.real"].tolist(), strict=True)
        rows = ((step, seed, facts["splits"][n], length, *real) for (step, seed, n, length), real in both)
        self.history = History.of(rows, self.crowd.seeds)
        self.step, self.seconds = facts["step"], facts["seconds"]
        self.overhead_seconds = facts.get("aside", 0.0)


def describe(data: Data, stepper: Stepper, threads: int, curriculum: Curriculum | None) -> dict[str, Any]:
    """What decides the result besides the model, and where it came about; for `config.json`."""
    crowd, recipe = stepper.crowd, dict(vars(stepper.recipe))
    on_gpu = crowd.device.type == "cuda"
    recipe |= {name: name_of(value) for name, value in recipe.items() if callable(value)}
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
    module = model if isinstance(model, nn.Module) else nn.Module()
    training = module.training
    module.eval()
    try:
        for name in known.held_out:
            pairs = {length: pair for length, pair in known.splits[name].items() if len(pair[1])}
            right = {length: _right(model, *pair, known.n_classes, batch) for length, pair in pairs.items()}
            whole = torch.cat(list(right.values()))
            shares[name] = {length: part.mean().item() for length, part in {0: whole, **right}.items()}
    finally:
        module.train(training)
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


def first_states(
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


def find_device(name: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda`, `cuda:1` or `mps` means here; `auto` is never `mps`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "mps" and not torch.backends.mps.is_available():
        raise UserError(f"‹device› {name}: PyTorch finds no Apple GPU on this machine; use cpu")
    if name not in ("cpu", "mps") and not re.fullmatch(r"cuda(:\d{1,4})?", name):
        raise UserError(f"‹device› {name}: choose from auto, cpu, cuda, mps")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"‹device› {name}: PyTorch finds no CUDA GPU on this machine; use cpu")
    number = name.partition(":")[2]
    if number and int(number) >= (count := torch.cuda.device_count()):
        others = f" to cuda:{count - 1}" if count > 1 else ""
        raise UserError(f"‹device› {name}: this machine has cuda:0{others}")
    if number:
        torch.cuda.set_device(int(number))  # graphs and kernels take the current one
    return torch.device(name)
