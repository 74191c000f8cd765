"""Runs of one setting together, compared with the published numbers where they apply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ctlpp.benchmark.variants import HABITS
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import SeedResult, accuracies
from ctlpp.runs.untrusted import as_dict, as_int, as_list
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Summary, mean_intervals, spread_interval, summarise
from ctlpp.statistics.verdict import HIGHER, LOWER, REPRODUCED, UNDECIDED, judge_splits
from ctlpp.training.recipe import Recipe, recipe_for, watching

SPLITS = ("iid", "ood")
DATA = {  # what pages call the examples, the nearest to the published ones first
    "authors": "authors’ generator",
    "repeats": "authors’ rules, repeats",
    "clean": "authors’ rules, no repeats",
    "text": "paper’s text",
}
KEPT = f"the first {paper.SEEDS} seeds with a final IID accuracy above {paper.CONVERGED}"  # the paper's rule
NOT_RUN = "not run"
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


def data_of(record: RunRecord) -> str:
    """The kind of data, one of DATA; or the protocol in its own words, where a habit is switched off."""
    recipe = as_dict(record.task.get("recipe"))
    off = [habit for habit in HABITS if recipe.get(habit) is False]
    if record.protocol == "authors" and off:
        return f"authors, without {', '.join(off)}"
    return "repeats" if record.protocol == "clean" and recipe.get("distinct_sequences") else record.protocol


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
    own = asdict(Recipe()) | own  # older runs do not name later settings
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
        home = {seed.number: records.index(record) for record in reversed(same) for seed in record.seeds}
        selections = {"": merge(same)}
        if not reasons and first.model == "transformer":
            selections[f"as published: {KEPT}"] = by_rule(merge(same))
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
        "gap": {split: one.difference for split, one in found.items()},
        "verdict": {split: one.word for split, one in found.items()},
    }


def count_verdicts(records: Sequence[RunRecord], entries: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """The verdicts on published accuracies, each on the data nearest to the authors': by word, of what."""
    found: dict[str, list[str]] = {word: [] for word in (REPRODUCED, HIGHER, LOWER, UNDECIDED, NOT_RUN)}
    for model, variant in paper.PUBLISHED:
        said = {}
        for entry in entries:  # of Transformers the one by the paper's rule comes last, and counts
            first = records[entry["runs"][0]]
            if (
                "published" in entry
                and not entry["table"]
                and (first.model, first.variant) == (model, variant)
            ):
                said[data_of(first)] = entry["published"]["verdict"]["ood"]
        word = next((said[data] for data in DATA if data in said), NOT_RUN)
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
    return (
        f"{solved:,} of {seeds:,} seeds solved: OOD accuracy above {paper.SOLVED}"
        if own
        else "No finished run yet"
    )
