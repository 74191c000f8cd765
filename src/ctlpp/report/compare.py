"""Runs of one setting together, beside the published numbers where they apply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import SeedResult, accuracies
from ctlpp.runs.untrusted import as_dict, as_int, as_list
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Summary, mean_intervals, spread_interval, summarise
from ctlpp.statistics.verdict import judge_splits
from ctlpp.training.recipe import recipe_for, watching

SPLITS = ("iid", "ood")
KEPT = f"the first {paper.SEEDS} seeds with a final IID accuracy above {paper.CONVERGED}"  # the paper's rule
Summaries = dict[tuple[str, int], Summary]  # by split and length; 0 is all lengths together


def group_by_setting(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Finished runs; those that differ in nothing but their seeds together.

    What has published numbers comes first, then by variant, model (in the paper's order) and cell.
    """
    by_key: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.state == "finished":
            by_key.setdefault(key_of(record), []).append(record)

    def order(same: list[RunRecord]) -> tuple[Any, ...]:
        first = same[0]
        place = [*paper.TITLES, first.model].index(first.model)
        unpublished = bool(mismatches(first))
        return unpublished, first.variant, place, first.model, first.cell or (0, 0), first.name

    return sorted(by_key.values(), key=order)


def key_of(record: RunRecord) -> str:
    """Everything that decides a result, except the seeds."""
    names = ("model", "preset", "options", "variant", "protocol", "vocab_size", "n_classes", "data", "task")
    recipe = as_dict(record.config.get("recipe"))
    decides = {name: value for name, value in recipe.items() if name not in watching(recipe)}
    return json.dumps([decides, *map(record.config.get, names)], sort_keys=True)


def merge(records: Sequence[RunRecord]) -> tuple[SeedResult, ...]:
    """The seeds of runs of one setting, in order; one that several runs have is that of the first."""
    seeds = {seed.number: seed for record in reversed(records) for seed in record.seeds}
    return tuple(seeds[number] for number in sorted(seeds))


def by_rule(seeds: Sequence[SeedResult]) -> tuple[SeedResult, ...]:
    """The seeds that the paper's rule keeps."""
    return tuple(seed for seed in seeds if seed.converged)[: paper.SEEDS]


def mismatches(record: RunRecord) -> list[str]:
    """What keeps a run from being set against a published number, as labels; empty if nothing does."""
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
    settled = (
        "early_stop",
        "settled_accuracy",
        "settled_change",
    )  # benchmarks/settled.py: no verdict changes
    free = (*watching(own), "preset", "precision", "batch_seed", *settled)
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


def results(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Per setting: statistics of both splits and of every length, and the published numbers if they apply.

    Of Transformers at the paper's setting there is a second entry for the seeds that the paper's rule keeps.
    """
    entries = []
    for same in group_by_setting(records):
        first, reasons = same[0], mismatches(same[0])
        selections = {"": merge(same)}
        if not reasons and first.model == "transformer":
            selections[f"as published: {KEPT}"] = by_rule(merge(same))
        for note, seeds in selections.items():
            found = summarise_seeds(seeds)
            entry: dict[str, Any] = {
                "runs": [records.index(record) for record in same],
                "note": note,
                "reasons": reasons,
                "cell": first.cell if first.variant == "S" else None,
                "values": accuracies(seeds, "ood"),
                "summary": {split: asdict(found[split, 0]) for split in SPLITS},
                "lengths": {split: _lengths(found, split) for split in SPLITS},
            }
            if not reasons:
                entry["published"] = _published(found, paper.PUBLISHED[first.model, first.variant])
            entries.append(entry)
    return entries


def _lengths(found: Summaries, split: str) -> dict[int, list[float | None]]:
    """Mean, deviation and interval by length."""
    own = {length: one for (name, length), one in found.items() if name == split and length}
    return {length: [one.mean, one.std, *(one.interval or ())] for length, one in own.items()}


def _published(ours: Summaries, row: paper.Published) -> dict[str, Any]:
    """A row of the published table, our verdicts on it, and our difference from it."""
    found = judge_splits(ours["iid", 0], ours["ood", 0], row)
    interval = spread_interval(row.ood, paper.SEEDS)
    return {
        **asdict(row),
        "interval": interval,
        "seeds": paper.SEEDS,
        "difference": {
            split: one.interval and (one.difference, one.interval) for split, one in found.items()
        },
        "verdict": {split: one.word for split, one in found.items()},
    }
