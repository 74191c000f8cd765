"""Runs of one setting together, beside the published numbers where they apply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ctlpp.runs.folder import RunRecord, SeedResult
from ctlpp.runs.untrusted import as_dict, as_int, as_list, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Summary, cautious, difference, mean_intervals, spread_interval, summarise
from ctlpp.training.recipe import recipe_for, watching

SPLITS = ("iid", "ood")
KEPT = f"the first {paper.SEEDS} seeds with a final IID accuracy above {paper.CONVERGED}"  # the paper's rule


def group_by_setting(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Finished runs; those that differ in nothing but their seeds together."""
    by_key: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.state == "finished":
            by_key.setdefault(key_of(record), []).append(record)
    return sorted(by_key.values(), key=lambda same: _order(same[0]))


def merge(records: Sequence[RunRecord]) -> tuple[SeedResult, ...]:
    """The seeds of runs of one setting, in order; one that several runs have is that of the first."""
    seeds = {seed.number: seed for record in reversed(records) for seed in record.seeds}
    return tuple(seeds[number] for number in sorted(seeds))


def converged(seed: SeedResult) -> bool:
    """Whether the paper's rule keeps a seed."""
    return not seed.diverged and seed.accuracy.get("iid", 0) > paper.CONVERGED


def by_rule(seeds: Sequence[SeedResult]) -> tuple[SeedResult, ...]:
    """The seeds that the paper's rule keeps."""
    return tuple(filter(converged, seeds))[: paper.SEEDS]


def key_of(record: RunRecord) -> str:
    """Everything that decides a result, except the seeds."""
    names = ("model", "preset", "options", "variant", "protocol", "vocab_size", "n_classes", "data", "task")
    decides = [_recipe(record.config), *(record.config.get(name) for name in names)]
    return json.dumps(decides, sort_keys=True)


def _recipe(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of training that decide a result."""
    recipe = as_dict(config.get("recipe"))
    return {name: value for name, value in recipe.items() if name not in watching(recipe)}


def _order(record: RunRecord) -> tuple[Any, ...]:
    """What has published numbers first, then by variant, model (in the paper's order) and cell."""
    model, variant = _names(record.config)
    unpublished, place = bool(mismatches(record.config)), [*paper.TITLES, model].index(model)
    return unpublished, variant, place, model, _cell(record) or (0, 0), record.name


def _names(config: dict[str, Any]) -> tuple[str, str]:
    """Model and variant."""
    return as_str(config.get("model")), as_str(config.get("variant"))


def _cell(record: RunRecord) -> tuple[int, int] | None:
    """Shared functions and shared symbols, on S."""
    functions, symbols = (as_int(record.task.get(f"shared_{noun}")) for noun in ("functions", "symbols"))
    return None if functions is None or symbols is None else (functions, symbols)


def mismatches(config: dict[str, Any]) -> list[str]:
    """What keeps a run from being set against a published number, as labels; empty if nothing does."""
    model, variant = _names(config)
    if (model, variant) not in paper.PUBLISHED:
        return ["no numbers are published for this model and variant"]
    task = as_dict(config.get("task"))
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
    preset = as_str(config.get("preset"))
    if preset not in ("released", "paper"):
        return [*found, f"preset {preset or 'unknown'}"]
    changed = _changed(config, model, preset, variant)
    return [*found, f"changed: {', '.join(changed)}"] if changed else found


def _changed(config: dict[str, Any], model: str, preset: str, variant: str) -> list[str]:
    """Hyper-parameters that are not those of the preset."""
    from ctlpp.models.zoo import MODELS  # late: it takes PyTorch

    theirs = asdict(recipe_for(model, preset, variant)) | MODELS[model].sizes[preset]
    own = as_dict(config.get("recipe")) | as_dict(config.get("options"))
    free = (*watching(own), "precision", "batch_seed")
    plain = json.loads(json.dumps(theirs))  # tuples become lists
    return [name for name, value in plain.items() if name not in free and own.get(name) != value]


def results(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Per setting: statistics of both splits and of every length, and the published numbers if they apply.

    Of Transformers at the paper's setting there is a second entry for the seeds that the paper's rule keeps.
    """
    entries = []
    for same in group_by_setting(records):
        reasons, names = mismatches(same[0].config), _names(same[0].config)
        selections = {"": merge(same)}
        if not reasons and names[0] == "transformer":
            selections[f"as published: {KEPT}"] = by_rule(merge(same))
        for note, seeds in selections.items():
            trained = [seed for seed in seeds if not seed.diverged]
            found = {split: _summarise(trained, split, len(seeds) - len(trained)) for split in SPLITS}
            entry: dict[str, Any] = {
                "runs": [records.index(record) for record in same],
                "note": note,
                "reasons": reasons,
                "cell": _cell(same[0]) if names[1] == "S" else None,
                "values": [seed.accuracy["ood"] for seed in trained if "ood" in seed.accuracy],
                "summary": {split: asdict(own[0]) for split, own in found.items()},
                "lengths": {split: _lengths(own) for split, own in found.items()},
            }
            if not reasons:
                entry["published"] = _published(found, paper.PUBLISHED[names])
            entries.append(entry)
    return entries


def _summarise(trained: Sequence[SeedResult], split: str, diverged: int) -> dict[int, Summary]:
    """By length; 0 is all lengths together."""
    columns = {0: [seed.accuracy[split] for seed in trained if split in seed.accuracy]}
    by_length = [seed.by_length.get(split, {}) for seed in trained]
    for length in sorted({length for own in by_length for length in own}):
        columns[length] = [own[length] for own in by_length if length in own]
    every = zip(columns.items(), mean_intervals(list(columns.values())), strict=True)
    return {length: summarise(values, diverged, interval) for (length, values), interval in every}


def _lengths(found: dict[int, Summary]) -> dict[int, list[float | None]]:
    """Mean, deviation and interval by length."""
    return {n: [one.mean, one.std, *(one.interval or ())] for n, one in found.items() if n}


def _published(ours: dict[str, dict[int, Summary]], row: paper.Published) -> dict[str, Any]:
    """A row of the published table, and our difference from it."""
    gaps = {}
    for split, theirs in (("iid", row.iid), ("ood", row.ood)):
        gaps[split] = difference(cautious(ours[split][0], theirs[1]), theirs, paper.SEEDS)
    interval = spread_interval(row.ood, paper.SEEDS)
    return {**asdict(row), "interval": interval, "seeds": paper.SEEDS, "difference": gaps}
