"""What the page says of one run: its state, settings, sampling graph, curves and analysis."""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from typing import Any

import numpy as np

from ctlpp.analysis.folder import read_analysis
from ctlpp.files import UserError
from ctlpp.report.compare import SPLITS, data_of
from ctlpp.report.inside import Package, add_inside, quantise
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import TRAINING, accuracies, read_history
from ctlpp.runs.untrusted import DamagedError, as_dict, as_int, as_list, as_str
from ctlpp.statistics.summary import summarise
from ctlpp.storage.folder import task_from_dict
from ctlpp.training.recipe import RECIPES
from ctlpp.words import plural

NOT_ANALYSED = "Not analysed. This command does it; then write the report again:"
NO_CHECKPOINT = "Not analysed, and there is no checkpoint to analyse."
STALE = "This analysis was made at an earlier step than the accuracies beside it."
PRESETS = {"authors": "authors’ code", "text": "paper’s text"}  # what pages call hyper-parameters
MOST_SETTINGS, MOST_LETTERS = 200, 400  # of a run, of a setting
MOST_GROUPS, MOST_EDGES = 40, 400  # that are drawn
MOST_POINTS = 100  # of a curve
MOST_SEEDS = 1000


def describe(record: RunRecord, graphs: list[str]) -> dict[str, Any]:
    """The entry of one run; a sampling graph that no run before had is appended to `graphs`."""
    graph = draw_sampling_graph(json.dumps(record.task))
    if graph and graph not in graphs:
        graphs.append(graph)
    summaries = {split: summarise(accuracies(record.seeds, split), interval=(0, 0)) for split in SPLITS}
    return {
        **{name: getattr(record, name) for name in ("model", "variant", "name")},
        "data": data_of(record),
        "hyper": PRESETS.get(record.preset, record.preset),
        "state": record.state,
        "reason": record.reason,
        "own": bool(record.config) and record.model not in RECIPES["authors"],
        "task": _task_labels(record.task),
        "symbols": len(as_list(record.task.get("symbols"))) or as_int(record.config.get("n_classes")),
        "parameters": as_int(record.config.get("parameters")),
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
    """What tells data apart: sizes, what S shares, another function table."""
    counts = {
        "function": len(as_dict(task.get("functions"))) or None,
        "symbol": len(as_list(task.get("symbols"))) or None,
        "shared function": as_int(task.get("shared_functions")),
        "shared symbol": as_int(task.get("shared_symbols")),
    }
    found = [plural(number, noun) for noun, number in counts.items() if number is not None]
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
    """The SVG of the graphs of a task, given as JSON; None for what is no task or too large to draw."""
    from ctlpp.figures.graph import draw_task  # late: it takes a second

    try:
        task = task_from_dict(json.loads(text))
    except UserError:
        return None
    few = len(task.groups) <= MOST_GROUPS and len(task.train_graph.edges + task.ood_graph.edges) <= MOST_EDGES
    return draw_task(task) if few else None


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
    history = read_history(record.folder / "metrics.parquet")
    if not len(history.steps) or len(history.seeds) > MOST_SEEDS:
        raise DamagedError("metrics.parquet has no evaluations that can be drawn")
    evenly = np.linspace(0, len(history.steps) - 1, min(len(history.steps), MOST_POINTS))
    points = np.unique(evenly.round().astype(int))
    facts: dict[str, Any] = {"steps": history.steps[points].tolist(), "seeds": history.seeds.tolist()}
    for split in SPLITS:
        if (split, 0) in history.accuracy:
            package.arrays[f"curve_{split}"] = quantise(history.accuracy[split, 0][points], 0, 1)
    losses = history.loss.get((TRAINING, 0), np.full((len(history.steps), 1), np.nan))[points]
    losses = np.log10(np.where(losses > 0, losses, np.nan))
    if len(known := losses[np.isfinite(losses)]):
        facts["loss"] = [round(float(known.min()), 6), round(float(known.max()), 6)]
        package.arrays["curve_loss"] = quantise(losses, known.min(), known.max())
    package.facts["curves"] = facts
