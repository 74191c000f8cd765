"""Runs of one setting together, beside the published numbers where the setting is that of the paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ctlpp.runs.folder import RunRecord, SeedResult
from ctlpp.runs.untrusted import as_dict, as_int, as_list, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import (
    Interval,
    Summary,
    cautious,
    difference,
    mean_intervals,
    spread_interval,
    summarise,
    wilson,
)
from ctlpp.training.recipe import watching

SPLITS = ("iid", "ood")
KEPT = (
    f"the first {paper.SEEDS} seeds with a final IID accuracy above {paper.CONVERGED}"  # by the paper's rule
)


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seeds only, and those seeds."""

    records: tuple[RunRecord, ...]
    seeds: tuple[SeedResult, ...]

    @property
    def config(self) -> dict[str, Any]:
        """Of the first run: the others say the same."""
        return self.records[0].config


def settings(records: Sequence[RunRecord]) -> list[Setting]:
    """Finished runs by setting. A seed that two runs of one setting both have is counted once."""
    by_key: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.state == "finished":
            by_key.setdefault(key_of(record), []).append(record)
    return sorted((Setting(tuple(same), merge(same)) for same in by_key.values()), key=_order)


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
    return json.dumps(
        [recipe_of(record.config), *(record.config.get(name) for name in names)], sort_keys=True, default=str
    )


def recipe_of(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of training that decide a result."""
    recipe = as_dict(config.get("recipe"))
    free = watching(recipe)
    return {name: value for name, value in recipe.items() if name not in free}


def _order(setting: Setting) -> tuple[Any, ...]:
    """The paper's models and variants first, as in its table."""
    model, variant = as_str(setting.config.get("model")), as_str(setting.config.get("variant"))
    models, variants = list(paper.TITLES), ["A", "R", "S", "CTL"]
    grid = [as_int(setting.records[0].task.get(name)) or 0 for name in ("shared_functions", "shared_symbols")]
    return (
        bool(mismatches(setting.config)),
        variants.index(variant) if variant in variants else len(variants),
        models.index(model) if model in models else len(models),
        (model, variant),
        grid,
        as_str(setting.config.get("protocol")),
        as_str(setting.config.get("preset")),
        setting.records[0].name,
    )


def mismatches(config: dict[str, Any]) -> list[str]:
    """Why a run cannot be set against a published number; empty if it can."""
    model, variant = as_str(config.get("model")), as_str(config.get("variant"))
    if (model, variant) not in paper.PUBLISHED:
        return ["no numbers are published for this model and variant"]
    task = as_dict(config.get("task"))
    if not task:
        return ["the run does not say which task it was trained on"]
    recipe = as_dict(task.get("recipe"))
    lengths = [
        n for n in map(as_int, as_list(as_dict(task.get("train_graph")).get("lengths"))) if n is not None
    ]
    sizes = (
        (len(as_dict(task.get("functions"))), paper.FUNCTIONS, "functions"),
        (len(as_list(task.get("symbols"))), paper.SYMBOLS, "symbols"),
        (max(lengths, default=0), paper.MAX_LENGTH, "functions an example at most"),
        (as_int(recipe.get("train")), paper.TRAIN, "training examples"),
    )
    found = [f"{own:,} {what}" for own, theirs, what in sizes if own is not None and own != theirs]
    return found + _other_settings(config, model, variant)


def _other_settings(config: dict[str, Any], model: str, variant: str) -> list[str]:
    """Hyper-parameters that are not those of the preset `released` or `paper`."""
    from ctlpp.models.zoo import MODELS
    from ctlpp.training.recipe import recipe_for

    preset = as_str(config.get("preset"))
    if preset not in ("released", "paper"):
        return [f"preset {preset or 'unknown'}"]
    theirs = asdict(recipe_for(model, preset, variant))
    own = as_dict(config.get("recipe"))
    free = (*watching(own), "precision", "batch_seed")
    changed = [
        name for name, value in theirs.items() if name not in free and _plain(own.get(name)) != _plain(value)
    ]
    changed += [
        name
        for name, value in MODELS[model].sizes[preset].items()
        if as_dict(config.get("options")).get(name) != value
    ]
    return [f"changed: {', '.join(changed)}"] if changed else []


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def results(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """One entry a setting: statistics of both splits and of every length, and the published numbers if they apply."""
    found = []
    number = {id(record): at for at, record in enumerate(records)}
    for setting in settings(records):
        reasons = mismatches(setting.config)
        model, variant = as_str(setting.config.get("model")), as_str(setting.config.get("variant"))
        selections = [("", setting.seeds)]
        if not reasons and model == "transformer":
            selections.append((f"as published: {KEPT}", by_rule(setting.seeds)))
        for note, seeds in selections:
            entry: dict[str, Any] = {
                "runs": [number[id(record)] for record in setting.records],
                "note": note,
                "reasons": reasons,
                **_statistics(seeds),
            }
            if not reasons:
                entry["published"] = _beside(entry["summary"], paper.PUBLISHED[model, variant])
            entry["summary"] = {split: asdict(summary) for split, summary in entry["summary"].items()}
            found.append(entry)
    return found


def _statistics(seeds: Sequence[SeedResult]) -> dict[str, Any]:
    """Of each split: values, summary, and mean, spread and interval for every length; seeds that diverged left out."""
    trained = [seed for seed in seeds if not seed.diverged]
    rows: dict[tuple[str, int], list[float]] = {}
    for split in SPLITS:
        rows[split, 0] = [seed.accuracy[split] for seed in trained if split in seed.accuracy]
        for length in sorted({length for seed in trained for length in seed.by_length.get(split, {})}):
            own = [seed.by_length.get(split, {}) for seed in trained]
            rows[split, length] = [values[length] for values in own if length in values]
    intervals = dict(zip(rows, mean_intervals(list(rows.values())), strict=True))
    made = {key: summarise(values, len(seeds) - len(trained), intervals[key]) for key, values in rows.items()}
    return {
        "values": {split: [round(value, 5) for value in rows[split, 0]] for split in SPLITS},
        "summary": {split: made[split, 0] for split in SPLITS},
        "lengths": {
            split: {
                length: [s.mean, s.std, *(s.interval or ())]
                for (name, length), s in made.items()
                if name == split and length
            }
            for split in SPLITS
        },
    }


def _beside(summary: dict[str, Summary], row: paper.Published) -> dict[str, Any]:
    share = None if row.solved is None else wilson(row.solved, paper.SEEDS)
    return {
        "iid": row.iid,
        "ood": row.ood,
        "solved": row.solved,
        "interval": spread_interval(row.ood, paper.SEEDS),
        "seeds": paper.SEEDS,
        "solved_share": share,
        "difference": {split: _difference(summary[split], getattr(row, split)) for split in SPLITS},
    }


def _difference(ours: Summary, published: tuple[float, float]) -> tuple[float, Interval] | None:
    return difference(cautious(ours, published[1]), published, paper.SEEDS)
