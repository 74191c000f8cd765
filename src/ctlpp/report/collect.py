"""What the page says of one run: its state, settings, sampling graph, curves and analysis."""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.analysis.folder import read_analysis
from ctlpp.report.compare import SPLITS
from ctlpp.report.inside import add_inside
from ctlpp.report.packing import Package, quantise
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import TRAINING
from ctlpp.runs.untrusted import DamagedError, as_dict, as_int, as_list, as_str, read_columns
from ctlpp.statistics.summary import summarise
from ctlpp.training.recipe import RECIPES
from ctlpp.words import plural

NOT_ANALYSED = "Not analysed. This command does it; then write the report again:"
NO_CHECKPOINT = "Not analysed, and there is no checkpoint to analyse."
STALE = "This analysis was made at an earlier step than the accuracies beside it."
DRAWN = ("variant", "groups", "train_graph", "ood_graph", "symbols")  # of a task
MOST_SETTINGS, MOST_LETTERS = 200, 400  # of a run, of a setting
MOST_GROUPS, MOST_EDGES = 40, 400  # that are drawn
MOST_POINTS = 100  # of a curve
MOST_SEEDS = 1000


def describe(record: RunRecord, graphs: list[str]) -> dict[str, Any]:
    """The entry of one run; a sampling graph that no run before had is appended to `graphs`."""
    config, task = record.config, record.task
    graph = draw_sampling_graph(json.dumps({name: task.get(name) for name in DRAWN}))
    if graph and graph not in graphs:
        graphs.append(graph)
    found = {name: as_str(config.get(name)) for name in ("model", "variant", "protocol", "preset")}
    summaries = {split: summarise(record.accuracies(split), interval=(0, 0)) for split in SPLITS}
    return found | {
        "name": record.name,
        "state": record.state,
        "reason": record.reason,
        "own": bool(config) and found["model"] not in RECIPES["released"],
        "task": _task_labels(task),
        "parameters": as_int(config.get("parameters")),
        "step": record.step,
        "diverged": sum(seed.diverged for seed in record.seeds),
        "seeds": [[seed.number, *map(seed.accuracy.get, SPLITS), seed.diverged] for seed in record.seeds],
        "summary": {
            split: {"mean": one.mean, "std": one.std, "solved": one.solved}
            for split, one in summaries.items()
        },
        "settings": list_settings(record),
        "graph": graphs.index(graph) if graph else None,
    }


def _task_labels(task: dict[str, Any]) -> list[str]:
    """What tells data apart: sizes, what S shares, a limit on distinct sequences, another function table."""
    counts = {
        "function": len(as_dict(task.get("functions"))) or None,
        "symbol": len(as_list(task.get("symbols"))) or None,
        "shared function": as_int(task.get("shared_functions")),
        "shared symbol": as_int(task.get("shared_symbols")),
    }
    found = [plural(number, noun) for noun, number in counts.items() if number is not None]
    limit = as_dict(task.get("recipe")).get("distinct_sequences")
    if sequences := as_str(limit) or as_int(limit):
        found.append(f"repeated sequences {sequences}")
    if table := as_int(task.get("seed")):
        found.append(f"function table {table}")
    return found


def list_settings(record: RunRecord) -> list[list[str]]:
    """Everything that decided the result: section, name, value."""
    config, task = record.config, record.task
    sections = {"run": {name: value for name, value in config.items() if not isinstance(value, dict)}}
    sections |= {name: value for name, value in config.items() if isinstance(value, dict)}
    plain = {name: value for name, value in task.items() if not isinstance(value, dict | list)}
    sections["task"] = plain | as_dict(task.get("recipe"))
    rows = []
    for section, values in sections.items():
        for name, value in values.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            rows.append([as_str(section), as_str(name), text[:MOST_LETTERS]])
    return rows[:MOST_SETTINGS]


@lru_cache(maxsize=1000)
def draw_sampling_graph(text: str) -> str | None:
    """The SVG of the graphs of a task, which comes as JSON; None for what is no task of ours."""
    from ctlpp.figures.graph import TITLES, draw_graph  # late: it takes a second

    task = json.loads(text)
    groups = {as_str(name): as_list(members) for name, members in as_dict(task["groups"]).items()}
    train, ood = _edges(task["train_graph"]), _edges(task["ood_graph"])
    nodes = {node for edge in train + ood for node in edge}
    few = len(groups) <= MOST_GROUPS and len(train + ood) <= MOST_EDGES
    if not (nodes and nodes <= {"IN", "OUT", *groups} and few):
        return None
    home = {as_str(name): group for group, members in groups.items() for name in members}
    limits = map(as_dict, as_list(as_dict(task["train_graph"]).get("restrictions")))
    restricted = {
        (as_str(limit.get("from")), home.get(as_str(limit.get("function")), ""))
        for limit in limits
        if len(as_list(limit.get("symbols"))) < len(as_list(task["symbols"]))
    }
    title, sizes = as_str(task["variant"]), {group: len(members) for group, members in groups.items()}
    return draw_graph(TITLES.get(title, title), sizes, train=train, ood=ood, restricted=restricted)


def _edges(graph: object) -> list[tuple[str, str]]:
    found = map(as_list, as_list(as_dict(graph).get("edges")))
    return [(as_str(edge[0]), as_str(edge[1])) for edge in found if len(edge) == 2]


def pack(record: RunRecord) -> Package:
    """Curves and analysis of a run; a reason for what is missing."""
    if record.state in ("foreign", "version"):
        return Package({"curves_missing": record.reason, "inside_missing": {"text": record.reason}})
    package = Package()
    try:
        add_curves(package, record)
    except DamagedError as error:
        package.facts["curves_missing"] = str(error)
    try:
        add_analysis(package, record)
    except DamagedError as error:
        package.facts["inside_missing"] = {"text": str(error)}
        package.damage.append(str(error))
    return package


def add_analysis(package: Package, record: RunRecord) -> None:
    """What the analysis says, and whether it is older than the accuracies; or else what would make one."""
    analysis = read_analysis(record.folder)
    if analysis is not None:
        add_inside(package, analysis)
        inside = package.facts["inside"]
        if inside["step"] is not None and record.step is not None and inside["step"] < record.step:
            inside["stale"] = {"text": STALE, "command": analyze_command(record, "--force")}
    elif record.state in ("finished", "unfinished"):
        command = analyze_command(record)
        text = NOT_ANALYSED if command else NO_CHECKPOINT
        package.facts["inside_missing"] = {"text": text, "command": command}
    else:
        package.facts["inside_missing"] = {"text": record.reason}


def analyze_command(record: RunRecord, *options: str) -> str:
    """The command that analyses a run; empty without a checkpoint."""
    if not any((record.folder / "checkpoint").glob("step-*.json")):
        return ""
    unfinished = ["--unfinished"] * (record.state != "finished")
    data = [] if record.task else ["--data", "DIR"]
    return shlex.join(["ctlpp", "analyze", str(record.folder), *unfinished, *data, *options])


def add_curves(package: Package, record: RunRecord) -> None:
    """Accuracy on iid and ood and the training loss (its logarithm), arrays (points, seeds) each.

    The facts get "curves": the steps, the seeds and the range of the loss.
    """
    names = ["step", "seed", "length", "accuracy", "loss", "split"]
    table = read_columns(record.folder / "metrics.parquet", names)
    try:
        step, seed, length, accuracy, loss = (np.asarray(table[name].to_numpy(), float) for name in names[:5])
    except (TypeError, ValueError) as error:
        raise DamagedError("metrics.parquet holds texts where numbers should be") from error
    split = np.array(table["split"].to_pylist(), dtype=object)
    shown = (length == 0) & np.isfinite(step) & np.isfinite(seed) & np.isin(split, [*SPLITS, TRAINING])
    steps, seeds = np.unique(step[shown]), np.unique(seed[shown])
    if not len(steps) or len(seeds) > MOST_SEEDS:
        raise DamagedError("metrics.parquet has no evaluations that can be drawn")
    points = np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).round().astype(int)
    kept = steps[np.unique(points)]
    facts: dict[str, Any] = {"steps": kept.astype(int).tolist(), "seeds": seeds.astype(int).tolist()}

    def fill(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        """(points, seeds), nan where there is nothing."""
        rows = rows & shown & np.isin(step, kept)
        found = np.full((len(kept), len(seeds)), np.nan)
        found[np.searchsorted(kept, step[rows]), np.searchsorted(seeds, seed[rows])] = values[rows]
        return found

    for name in SPLITS:
        if (split[shown] == name).any():
            package.arrays[f"curve_{name}"] = quantise(fill(accuracy, split == name), 0, 1)
    losses = np.log10(fill(loss, (split == TRAINING) & (loss > 0)))
    if len(known := losses[np.isfinite(losses)]):
        facts["loss"] = [round(float(known.min()), 6), round(float(known.max()), 6)]
        package.arrays["curve_loss"] = quantise(losses, known.min(), known.max())
    package.facts["curves"] = facts
