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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctlpp.benchmark.variants import HABITS
from ctlpp.files import UserError
from ctlpp.runs.folder import RunRecord, find_runs
from ctlpp.runs.history import SeedResult, accuracies
from ctlpp.runs.untrusted import as_dict, as_int, as_list
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Interval, Summary, difference, mean_intervals, permutation_p, summarise
from ctlpp.statistics.verdict import HIGHER, LOWER, REPRODUCED, UNDECIDED, judge_splits
from ctlpp.training.recipe import Recipe, recipe_for, watching

if TYPE_CHECKING:
    from ctlpp.training.loop import Run

SPLITS = ("iid", "ood")
DATA = {  # what pages call the examples, the nearest to the published ones first
    "authors": "authors’ generator",
    "repeats": "authors’ rules, repeats",
    "clean": "authors’ rules, no repeats",
    "text": "paper’s text",
}
PAPER_RULE = f"the first {paper.SEEDS} seeds with a final IID accuracy above {paper.CONVERGED}"
SETTLING = ("early_stop", "settled_accuracy", "settled_change")  # benchmarks/settled.py: no verdict changes
NOT_RUN = "not run"
Summaries = dict[tuple[str, int], Summary]  # by split and length; 0 is all lengths together


def group_by_setting(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Finished runs in groups that differ in nothing but their seeds.

    Those with published numbers come first, then by variant, model (in the paper's order) and cell.
    """
    by_key: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.state == "finished":
            by_key.setdefault(setting_key(record), []).append(record)

    def order(same: list[RunRecord]) -> tuple[Any, ...]:
        first = same[0]
        place = [*paper.TITLES, first.model].index(first.model)
        unpublished = bool(mismatches(first))
        return unpublished, first.variant, place, first.model, first.cell or (0, 0), first.name

    return sorted(by_key.values(), key=order)


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


def merge_seeds(records: Sequence[RunRecord]) -> tuple[SeedResult, ...]:
    """The seeds of runs of one setting, in order, each once: as the first run has it."""
    seeds = {seed.number: seed for record in reversed(records) for seed in record.seeds}
    return tuple(seeds[number] for number in sorted(seeds))


def select_by_rule(seeds: Sequence[SeedResult]) -> tuple[SeedResult, ...]:
    """The seeds that the paper's rule keeps."""
    return tuple(seed for seed in seeds if seed.converged)[: paper.SEEDS]


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


def summarise_seeds(seeds: Sequence[SeedResult]) -> Summaries:
    """Statistics of both splits, of all examples and by length."""
    keys = {(split, 0) for split in SPLITS}
    for seed in seeds:
        keys |= {(split, length) for split in SPLITS for length in seed.by_length.get(split, ())}
    columns = {key: accuracies(seeds, *key) for key in sorted(keys)}
    diverged = sum(seed.diverged for seed in seeds)
    every = zip(columns.items(), mean_intervals(list(columns.values())), strict=True)
    return {key: summarise(values, diverged, interval) for (key, values), interval in every}


def summarise_settings(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Per setting: statistics of both splits and of every length, and the published numbers if they apply.

    Of Transformers at the paper's setting there is a second entry for the seeds that the paper's rule keeps.
    """
    entries = []
    for same in group_by_setting(records):
        first, reasons = same[0], mismatches(same[0])
        home = {seed.number: records.index(record) for record in reversed(same) for seed in record.seeds}
        selections = {"": merge_seeds(same)}
        if not reasons and first.model == "transformer":
            selections[f"as published: {PAPER_RULE}"] = select_by_rule(merge_seeds(same))
        for note, seeds in selections.items():
            found = summarise_seeds(seeds)
            entry: dict[str, Any] = {
                "runs": sorted({records.index(record) for record in same}),
                "note": note,
                "reasons": reasons,
                "cell": first.cell if first.variant == "S" else None,
                "table": as_int(first.task.get("seed")) or 0,
                "seeds": [[home[seed.number], seed.number] for seed in seeds],
                "summary": {split: asdict(found[split, 0]) for split in SPLITS},
                "lengths": {
                    split: {n: one.mean for (name, n), one in found.items() if name == split and n}
                    for split in SPLITS
                },
            }
            if not reasons:
                entry["published"] = _published(found, paper.PUBLISHED[first.model, first.variant])
            entries.append(entry)
    return entries


def _published(ours: Summaries, row: paper.Published) -> dict[str, Any]:
    """A row of the published table, our verdicts on it, and our difference from it with its interval."""
    found = judge_splits(ours["iid", 0], ours["ood", 0], row)
    return {
        **asdict(row),
        "seeds": paper.SEEDS,
        "difference": {split: one.difference for split, one in found.items()},
        "interval": {split: one.interval for split, one in found.items()},
        "verdict": {split: one.word for split, one in found.items()},
    }


def count_verdicts(records: Sequence[RunRecord], entries: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """For each verdict the published accuracies that have it, on the data nearest to the authors'."""
    found: dict[str, list[str]] = {word: [] for word in (REPRODUCED, HIGHER, LOWER, UNDECIDED, NOT_RUN)}
    for model, variant in paper.PUBLISHED:
        verdicts = {}  # by kind of data
        for entry in entries:  # of Transformers the one by the paper's rule comes last, and counts
            first = records[entry["runs"][0]]
            asked = (first.model, first.variant) == (model, variant) and not entry["table"]
            if asked and "published" in entry:
                verdicts[kind_of_data(first)] = entry["published"]["verdict"]["ood"]
        word = next((verdicts[data] for data in DATA if data in verdicts), NOT_RUN)
        found[word].append(f"{paper.TITLES[model]} on {variant}")
    return {word: places for word, places in found.items() if places or word == REPRODUCED}


def headline(verdicts: dict[str, list[str]], entries: Sequence[dict[str, Any]]) -> str:
    """What the page says first: verdicts, or without any the share of solved seeds."""
    if len(verdicts.get(NOT_RUN, ())) < len(paper.PUBLISHED):
        (_, reproduced), *rest = verdicts.items()
        others = "".join(f", {len(places)} {word}" for word, places in rest)
        return f"{len(reproduced)} of {len(paper.PUBLISHED)} published accuracies reproduced{others}"
    own = [entry["summary"]["ood"] for entry in entries if not entry["note"]]
    solved, seeds = sum(one["solved"] for one in own), sum(one["seeds"] + one["diverged"] for one in own)
    share = f"{solved:,} of {seeds:,} seeds solved: OOD accuracy above {paper.SOLVED}"
    return share if own else "No finished run yet"


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
            f"{run} has runs of {len(same)} settings: name one of them, such as {same[0][0].folder}"
        )
    return merge_seeds(same[0])


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
