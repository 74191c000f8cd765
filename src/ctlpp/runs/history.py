"""The history of a run, `metrics.parquet`, and the observers that watch it grow.

An observer is any object with some of these methods; those it lacks are not called:

    on_start(config: dict, step: int)         before the first step; `step` is above 0 after a resume
    on_note(line: str)                        one line that the user should see
    on_step(stats: StepStats)                 about twice a second
    on_evaluate(step: int, scores: [Score])   after every evaluation
    on_checkpoint(step: int)                  after every saved checkpoint
    on_end(run: Run)                          when training is over
    on_close()                                at last, however training ends

One that answers True in `on_step` or `on_evaluate` stops the training: the run ends as one that is over.

Example:
    >>> history = History.empty([0, 1])
    >>> history.add([Score(10, 0, "ood", 0, 0.1, 1.5), Score(10, 1, "ood", 0, 0.5, 1.2)])
    >>> history.add([Score(20, 0, "ood", 0, 0.96, 0.2), Score(20, 1, "ood", 0, 0.99, 0.1)])
    >>> history.success("ood").tolist()
    [0.0, 1.0]
    >>> History.of(history.scores(), [1]).accuracy["ood", 0].tolist()
    [[0.5], [0.99]]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from math import inf, isfinite, isnan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctlpp.files import UserError, write_atomically
from ctlpp.runs.untrusted import MOST_ROWS, DamagedError, read_columns
from ctlpp.statistics.published import CONVERGED, SOLVED

TRAINING = "training"  # as a split: the mean loss on the batches since the last evaluation; no accuracy
EVENTS = ("on_start", "on_note", "on_step", "on_evaluate", "on_checkpoint", "on_end", "on_close")
TRACKERS = ("tensorboard", "wandb")
Array = NDArray[Any]
Curves = dict[tuple[str, int], Array]  # (split, length) -> (E, S); length 0 is all together


class Score(NamedTuple):
    """What one seed reaches on the examples of one length; a row of `metrics.parquet`."""

    step: int
    seed: int
    split: str
    length: int  # 0: all of the split
    accuracy: float
    loss: float


COLUMNS = list(Score._fields)


@dataclass(frozen=True)
class SeedResult:
    """One seed's accuracies: of the end, or of the last evaluation so far."""

    number: int
    accuracy: dict[str, float]  # by split
    by_length: dict[str, dict[int, float]]  # by split and number of functions
    diverged: bool = False
    diverged_at: int | None = None
    loss: dict[str, float] = field(default_factory=dict)  # by split

    @property
    def converged(self) -> bool:
        """By the paper's rule."""
        return not self.diverged and self.accuracy.get("iid", 0) > CONVERGED


def accuracies(seeds: Iterable[SeedResult], split: str, length: int = 0) -> list[float]:
    """The accuracies on a split of the seeds that did not diverge. length 0: all lengths together."""
    trained = (seed for seed in seeds if not seed.diverged)
    found = [
        seed.by_length.get(split, {}).get(length) if length else seed.accuracy.get(split) for seed in trained
    ]
    return [one for one in found if one is not None]


@dataclass(eq=False)
class History:
    """Accuracy and loss at every evaluation. E evaluations, S seeds."""

    steps: Array  # (E,)
    seeds: Array  # (S,)
    accuracy: Curves  # nan where there is none
    loss: Curves = field(default_factory=dict)

    @staticmethod
    def empty(seeds: Sequence[int]) -> History:
        """Before the first evaluation."""
        return History(np.zeros(0, dtype=np.int64), np.array(seeds), {})

    @staticmethod
    def of(rows: Iterable[Sequence[Any]], seeds: Sequence[int] | None = None) -> History:
        """From rows like those of `metrics.parquet`; of some seeds only, if given."""
        rows = list(rows)
        steps, known = (np.unique(np.array([row[i] for row in rows], dtype=np.int64)) for i in (0, 1))
        if len(steps) * len(known) * len({(row[2], row[3]) for row in rows}) > MOST_ROWS:
            raise ValueError("too many steps, seeds, splits or lengths")
        history = History(steps, known if seeds is None else np.array(seeds), {})
        at = {step: i for i, step in enumerate(steps.tolist())}
        column = {seed: i for i, seed in enumerate(history.seeds.tolist())}
        for step, seed, split, length, *values in rows:
            key = split, int(length)
            for curves, value in zip((history.accuracy, history.loss), values, strict=True):
                if key not in curves:
                    curves[key] = np.full((len(at), len(column)), np.nan)
                if value is not None and seed in column:
                    curves[key][at[step], column[seed]] = value
        return history

    def add(self, scores: Sequence[Score]) -> None:
        """Append an evaluation: the same splits and lengths every time."""
        new = History.of(scores, self.seeds.tolist())
        self.steps = np.append(self.steps, new.steps)
        for curves, row in ((self.accuracy, new.accuracy), (self.loss, new.loss)):
            for key in row:
                curves[key] = np.vstack([curves[key], row[key]]) if key in curves else row[key]

    @property
    def splits(self) -> list[str]:
        """The splits with accuracies, in order of appearance."""
        return list(dict.fromkeys(split for split, _ in self.accuracy if split != TRAINING))

    def lengths(self, split: str) -> list[int]:
        """The lengths that a split has."""
        return sorted(length for name, length in self.accuracy if name == split and length)

    def success(self, split: str = "ood") -> Array:
        """The share of seeds above 95 % over time, (E,)"""
        curve = self.accuracy[split, 0]
        known = np.isfinite(curve).sum(axis=1)
        return np.asarray((np.nan_to_num(curve) > SOLVED).sum(axis=1) / np.maximum(known, 1))

    def final(self, split: str, length: int = 0) -> Array:
        """The last accuracy of every seed, (S,); nan where there is none."""
        curve = self.accuracy.get((split, length))
        return np.full(len(self.seeds), np.nan) if curve is None or not len(curve) else np.asarray(curve[-1])

    def learned_at(self, level: float, split: str = "iid") -> Array:
        """The step from which on each seed's accuracy stays above a level, (S,); nan where it does not."""
        above = np.nan_to_num(self.accuracy[split, 0]) > level  # (E, S)
        lasting = np.logical_and.accumulate(above[::-1])[::-1]
        return np.where(lasting.any(axis=0), self.steps[lasting.argmax(axis=0)], np.nan)

    def scores(self) -> list[Score]:
        """The rows of `metrics.parquet`, in the order they came."""
        return [
            Score(step, seed, *key, self.accuracy[key][e, s].item(), self.loss[key][e, s].item())
            for e, step in enumerate(self.steps.tolist())
            for key in self.accuracy
            for s, seed in enumerate(self.seeds.tolist())
        ]

    def at_end(self) -> list[Score]:
        """The scores of the last evaluation."""
        return [score for score in self.scores() if score.step == self.steps[-1]]

    def results(self, diverged: dict[int, int]) -> list[SeedResult]:
        """The last accuracies and losses by seed. diverged: the step at which a seed was frozen."""
        results = {
            seed: SeedResult(seed, {}, {}, seed in diverged, diverged.get(seed))
            for seed in self.seeds.tolist()
        }
        for score in self.at_end():
            result = results[score.seed]
            if not 0 <= score.accuracy <= 1:  # nan, or a damaged file
                continue
            if score.length:
                result.by_length.setdefault(score.split, {})[score.length] = score.accuracy
            else:
                result.accuracy[score.split], result.loss[score.split] = score.accuracy, score.loss
        return list(results.values())

    def chosen(self, restarts: int) -> list[int]:
        """Of the seeds 0 … r − 1, of the next r, and so on, the one whose training loss ended lowest."""
        losses = self.loss.get((TRAINING, 0), np.full((1, len(self.seeds)), np.nan))[-1]
        tries: dict[int, list[tuple[float, int]]] = {}
        for seed, loss in zip(self.seeds.tolist(), losses.tolist(), strict=True):
            tries.setdefault(seed // restarts, []).append((loss if isfinite(loss) else inf, seed))
        return [min(group)[1] for group in tries.values()]

    def write(self, path: Path) -> None:
        """Write `metrics.parquet`."""
        import pyarrow.parquet as pq

        file = BytesIO()
        pq.write_table(to_table(self.scores()), file)
        write_atomically(path, file.getvalue())

    def settled(self, times: int, accuracy: float, change: float, diverged: Sequence[int]) -> bool:
        """Whether every seed that trains kept still over the last `times` evaluations.

        accuracy: what each needs on iid (or else the first split); change: how far apart any split's may be.
        """
        if not times or len(self.steps) <= times:
            return False
        trains = ~np.isin(self.seeds, diverged)
        last = {split: self.accuracy[split, 0][-times - 1 :, trains] for split in self.splits}
        judge = last.get("iid", last[self.splits[0]])
        still = all((np.ptp(curve, axis=0) <= change).all() for curve in last.values())
        return still and bool((judge[1:] >= accuracy).all())


def to_table(scores: Iterable[Score]) -> Any:
    """Scores as a `pyarrow.Table`, like `metrics.parquet`; no accuracy is null."""
    import pyarrow as pa

    kinds = (pa.int64(), pa.int64(), pa.string(), pa.int32(), pa.float64(), pa.float64())
    rows = [score._asdict() for score in scores]
    for row in rows:
        row["accuracy"] = None if isnan(row["accuracy"]) else row["accuracy"]
    return pa.Table.from_pylist(rows, pa.schema(list(zip(COLUMNS, kinds, strict=True))))


def read_history(*paths: Path) -> History:
    """The history in Parquet files, each with seeds of its own; DamagedError says why there is none."""
    tables = [read_columns(path, COLUMNS) for path in paths]
    try:
        columns = ([table[name].to_pylist() for name in COLUMNS] for table in tables)
        return History.of(row for table in columns for row in zip(*table, strict=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise DamagedError(f"{paths[0].name} holds values of the wrong kind") from error


@dataclass(frozen=True, kw_only=True)
class StepStats:
    """Where a run stands."""

    step: int  # steps done
    steps: int  # steps in all
    rate: float  # learning rate
    steps_per_second: float  # since the run (or its resumption) began
    losses: tuple[float, ...]  # of the last batch, by seed
    norms: tuple[float, ...]  # of the gradients before clipping, by seed
    diverged: tuple[int, ...]  # seeds that are frozen

    @property
    def seconds_left(self) -> float:
        """At the present speed."""
        return (self.steps - self.step) / max(self.steps_per_second, 1e-9)


def read_observers(given: Any) -> tuple[object, ...]:
    """Several observers, one, or none. Refuses one with a method that nothing calls, or without any."""
    observers = tuple(given or ()) if isinstance(given, Iterable | None) else (given,)
    for observer in observers:
        if isinstance(observer, type):
            raise UserError(f"observer {observer.__name__} is a class: give {observer.__name__}()")
        methods = [name for name in dir(observer) if name.startswith("on_")]
        unknown = [name for name in methods if name not in EVENTS]
        if unknown or not methods:
            what = f"has {unknown[0]}, which is never called" if unknown else "has no method that is called"
            raise UserError(f"observer {type(observer).__name__} {what}: choose from {', '.join(EVENTS)}")
    return observers


def tell(observers: Sequence[object], event: str, *facts: object) -> bool:
    """Call a method of every observer that has it. True if one of them answers True: training is to stop."""
    methods = [getattr(observer, event, None) for observer in observers]
    answers = [method(*facts) for method in methods if method is not None]
    return any(answer is True for answer in answers)


class Notes:
    """The default observer of a run: prints notes on stderr and nothing else."""

    def on_note(self, line: str) -> None:
        """Print it."""
        print(line, file=sys.stderr, flush=True)


class Tracker:
    """Writes curves for TensorBoard, or for Weights & Biases (offline), into a folder within the run's."""

    def __init__(self, tool: str, run: Path) -> None:
        if tool not in TRACKERS:
            raise UserError(f"‹track› {tool}: choose from {', '.join(TRACKERS)}")
        if find_spec(tool) is None:
            raise UserError(f"‹track› {tool}: {tool} is not installed; pip install 'ctlpp[track]'")
        self.tool, self.folder = tool, run / tool
        self.writer: Any = None

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Open the files: now the run folder is known to be ours."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.tool == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.folder))
        else:
            import wandb

            self.writer = wandb.init(project="ctlpp", dir=str(self.folder), mode="offline", config=config)

    def on_step(self, stats: StepStats) -> None:
        """The training loss and the learning rate."""
        self._log(stats.step, {"train/loss/mean": fmean(stats.losses), "train/rate": stats.rate})

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """Each seed's accuracy, and the mean accuracy and loss, on every split."""
        whole = [score for score in scores if score.length == 0 and score.split != TRAINING]
        values = {f"{score.split}/accuracy/seed {score.seed}": score.accuracy for score in whole}
        for split in dict.fromkeys(score.split for score in whole):
            of_split = [score for score in whole if score.split == split]
            values[f"{split}/accuracy/mean"] = fmean(score.accuracy for score in of_split)
            values[f"{split}/loss/mean"] = fmean(score.loss for score in of_split)
        self._log(step, values)

    def on_close(self) -> None:
        """Close the files."""
        self.writer.close() if self.tool == "tensorboard" else self.writer.finish()

    def _log(self, step: int, values: dict[str, float]) -> None:
        if self.tool == "wandb":
            self.writer.log(values, step=step)
            return
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
