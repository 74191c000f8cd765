"""Runs of one setting together, compared with the published numbers; and two runs compared with each other.

Example:
    >>> found = contrast([0.9, 0.96, 0.99, 0.97, 0.98], [0.3, 0.5, 0.4, 0.2, 0.6])
    >>> round(found.difference, 2), found.p < 0.05, found.one.solved, found.other.solved
    (0.56, True, 4, 0)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctlpp.benchmark.variants import HABITS
from ctlpp.files import UserError
from ctlpp.runs.folder import RunRecord, find_runs
from ctlpp.runs.history import SeedResult, accuracies
from ctlpp.runs.untrusted import as_dict, as_int, as_list
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Interval, Summary, difference, mean_intervals, permutation_p, summarise
from ctlpp.statistics.verdict import Verdict, judge_splits
from ctlpp.training.recipe import Recipe, recipe_for, watching

if TYPE_CHECKING:
    from ctlpp.training.run import Run

SPLITS = ("iid", "ood")
DATA = {  # what pages call the examples, the nearest to the published ones first
    "authors": "authors’ generator",
    "repeats": "authors’ rules, repeats",
    "clean": "authors’ rules, no repeats",
    "text": "paper’s text",
}
ALL = "all seeds"  # two ways to count: every seed, and the paper's rule
RULE = f"the first {paper.SEEDS} seeds with a final IID accuracy above {paper.CONVERGED}"
SETTLING = ("early_stop", "settled_accuracy", "settled_change")  # benchmarks/settled.py: no verdict changes


@dataclass(frozen=True)
class Counted:
    """The seeds that count, their statistics, and verdicts on the published numbers."""

    seeds: tuple[SeedResult, ...]
    summaries: dict[tuple[str, int], Summary]  # by split and length; 0 is all lengths together
    verdicts: dict[str, Verdict]  # by split; none where no published number applies

    def by_length(self, split: str) -> dict[int, Summary]:
        """The statistics of one split, by length."""
        return {length: one for (name, length), one in self.summaries.items() if name == split and length}


@dataclass(frozen=True, eq=False)
class Setting:
    """Finished runs that differ in nothing but their seeds."""

    runs: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        """A run, for all that the runs have in common."""
        return self.runs[0]

    @property
    def table(self) -> int:
        """The number of its function table."""
        return as_int(self.first.task.get("seed")) or 0

    @cached_property
    def seeds(self) -> tuple[SeedResult, ...]:
        """The seeds of all runs, in order, each once: as the first run has it."""
        seeds = {seed.number: seed for run in reversed(self.runs) for seed in run.seeds}
        return tuple(seeds[number] for number in sorted(seeds))

    @cached_property
    def mismatches(self) -> list[str]:
        """Why no published number applies; empty if one does."""
        return mismatches(self.first)

    @property
    def published(self) -> paper.Published | None:
        """The published numbers, if they are of this setting."""
        return None if self.mismatches else paper.PUBLISHED[self.first.model, self.first.variant]

    @cached_property
    def every(self) -> Counted:
        """All seeds."""
        return count_seeds(self.seeds, self.published)

    @cached_property
    def by_rule(self) -> Counted:
        """The seeds that the paper's rule keeps."""
        kept = tuple(seed for seed in self.seeds if seed.converged)[: paper.SEEDS]
        return self.every if kept == self.seeds else count_seeds(kept, self.published)

    @property
    def needs_rule(self) -> bool:
        """Whether the paper counted by its rule: it did so with Transformers; of others it ran 25 seeds."""
        return self.first.model == "transformer" and self.published is not None

    @property
    def as_published(self) -> Counted:
        """The seeds, counted as the paper did."""
        return self.by_rule if self.needs_rule else self.every


def count_seeds(seeds: Sequence[SeedResult], published: paper.Published | None = None) -> Counted:
    """Statistics of both splits, of all examples and by length."""
    keys = {(split, 0) for split in SPLITS}
    for seed in seeds:
        keys |= {(split, length) for split in SPLITS for length in seed.by_length.get(split, ())}
    columns = {key: accuracies(seeds, *key) for key in sorted(keys)}
    diverged = sum(seed.diverged for seed in seeds)
    every = zip(columns.items(), mean_intervals(list(columns.values())), strict=True)
    found = {key: summarise(values, diverged, interval) for (key, values), interval in every}
    verdicts = judge_splits(found["iid", 0], found["ood", 0], published) if published else {}
    return Counted(tuple(seeds), found, verdicts)


def group_by_setting(records: Sequence[RunRecord]) -> list[Setting]:
    """The settings of all finished runs.

    Those with published numbers come first, then by variant, model (in the paper's order) and cell.
    """
    by_key: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.state == "finished":
            by_key.setdefault(setting_key(record), []).append(record)

    def order(setting: Setting) -> tuple[Any, ...]:
        first = setting.first
        place = [*paper.TITLES, first.model].index(first.model)
        return bool(setting.mismatches), first.variant, place, first.model, first.cell or (0, 0), first.name

    return sorted((Setting(tuple(same)) for same in by_key.values()), key=order)


def kind_of_data(record: RunRecord) -> str:
    """The kind of data, one of DATA; or the protocol in its own words, where a habit is switched off."""
    recipe = as_dict(record.task.get("recipe"))
    off = [habit for habit in HABITS if recipe.get(habit) is False]
    if record.protocol == "authors" and off:
        return f"authors, without {', '.join(off)}"
    return "repeats" if record.protocol == "clean" and recipe.get("distinct_sequences") else record.protocol


def setting_key(record: RunRecord) -> str:
    """Everything that decides a result, except the seeds."""
    names = ("model", "preset", "options", "variant", "protocol", "vocab_size", "n_classes", "data", "task")
    recipe = as_dict(record.config.get("recipe"))
    decides = {name: value for name, value in recipe.items() if name not in watching(recipe)}
    return json.dumps([decides, *map(record.config.get, names)], sort_keys=True)


def mismatches(record: RunRecord) -> list[str]:
    """Why a run cannot be compared with a published number, as labels; empty if it can."""
    if (record.model, record.variant) not in paper.PUBLISHED:
        return ["no numbers are published for this model and variant"]
    task = record.task
    if not task:
        return ["the run does not say which task it was trained on"]
    lengths = [as_int(n) or 0 for n in as_list(as_dict(task.get("train_graph")).get("lengths"))]
    sizes = (
        (len(as_dict(task.get("functions"))), paper.FUNCTIONS, "functions"),
        (len(as_list(task.get("symbols"))), paper.SYMBOLS, "symbols"),
        (max(lengths, default=0), paper.MAX_LENGTH, "functions an example at most"),
        (as_int(as_dict(task.get("recipe")).get("train")), paper.TRAIN, "training examples"),
    )
    found = [f"{own:,} {noun}" for own, theirs, noun in sizes if own is not None and own != theirs]
    if record.preset not in ("authors", "text"):
        return [*found, f"preset {record.preset or 'unknown'}"]
    changed = _changed(record)
    return [*found, f"changed: {', '.join(changed)}"] if changed else found


def _changed(record: RunRecord) -> list[str]:
    """Hyper-parameters that are not those of the preset."""
    from ctlpp.models.zoo import MODELS  # late: it takes PyTorch

    theirs = asdict(recipe_for(record.model, record.preset, record.variant))
    theirs |= MODELS[record.model].sizes[record.preset]
    own = as_dict(record.config.get("recipe")) | as_dict(record.config.get("options"))
    own = asdict(Recipe()) | own  # older runs do not name later settings
    free = (*watching(own), "preset", "precision", "batch_seed", *SETTLING)
    plain = json.loads(json.dumps(theirs))  # tuples become lists
    return [name for name, value in plain.items() if name not in free and own.get(name) != value]


@dataclass(frozen=True)
class Contrast:
    """One run less another; what needs more seeds is None. Diverged seeds are in the success rates only."""

    one: Summary
    other: Summary
    difference: float | None  # of the means
    interval: Interval | None  # of the difference: Welch's, 95 %
    p: float | None  # how often the means are as far apart if the seeds change places at random
    p_solved: float | None  # Fisher's exact test of the success rates


def compare(one: Run | Path | str, other: Run | Path | str) -> dict[tuple[str, int], Contrast]:
    """Contrast two runs on every split and length that both have: (split, length) -> contrast; length 0: all.

    Args:
        one: A run, or its folder. A folder with several runs will do if they differ in their seeds only.
        other: The run that is subtracted.

    Returns:
        For each split and length a `Contrast`, with statistics of both runs' seeds and how they differ.
    """
    ours, theirs = seeds_of(one), seeds_of(other)
    keys = [key for key in _keys(ours) if key in _keys(theirs)]
    if not keys:
        raise UserError(f"{one} and {other} have no split in common: evaluate both on the same splits")
    return {
        key: contrast(
            accuracies(ours, *key),
            accuracies(theirs, *key),
            sum(seed.diverged for seed in ours),
            sum(seed.diverged for seed in theirs),
        )
        for key in keys
    }


def seeds_of(run: Run | Path | str) -> Sequence[SeedResult]:
    """The results of a run, or of the runs of one setting in a folder."""
    if not isinstance(run, Path | str):
        if not hasattr(run, "history"):
            raise UserError(f"run of type {type(run).__name__}: give a run, or its folder")
        return run.history.results(run.diverged)
    found = find_runs([Path(run)])
    same = group_by_setting(found)
    if not same:
        reason = found[0].reason or "nothing in it is finished"
        raise UserError(f"{run} has no finished run ({found[0].state}: {reason}): name one that is finished")
    if len(same) > 1:
        raise UserError(
            f"{run} has runs of {len(same)} settings: name one of them, such as {same[0].first.folder}"
        )
    return same[0].seeds


def _keys(seeds: Sequence[SeedResult]) -> list[tuple[str, int]]:
    """Splits and lengths, in order of appearance."""
    splits = ((split, seed.by_length.get(split, ())) for seed in seeds for split in seed.accuracy)
    return list(dict.fromkeys((split, length) for split, own in splits for length in (0, *sorted(own))))


def contrast(
    one: Sequence[float], other: Sequence[float], diverged: int = 0, other_diverged: int = 0
) -> Contrast:
    """Set accuracies of two sets of seeds against each other."""
    from scipy.stats import fisher_exact  # late: it takes a second to import

    ours, theirs = summarise(one, diverged), summarise(other, other_diverged)
    apart = difference((ours.mean, ours.std, ours.seeds), (theirs.mean, theirs.std, theirs.seeds))
    tried = [[side.solved, side.seeds + side.diverged - side.solved] for side in (ours, theirs)]
    return Contrast(
        ours,
        theirs,
        None if ours.mean is None or theirs.mean is None else ours.mean - theirs.mean,
        apart[1] if apart else None,
        permutation_p([one, other]) if one and other and len(one) + len(other) > 2 else None,
        float(fisher_exact(tried).pvalue) if all(map(sum, tried)) else None,
    )
