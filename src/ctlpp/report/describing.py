"""A run as the page lists it: who it is, how it stands, its accuracies, its settings, its sampling graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ctlpp.runs.folder import RunRecord
from ctlpp.runs.untrusted import as_dict, as_int, as_list, as_str
from ctlpp.statistics.summary import summarise
from ctlpp.words import plural

SECTIONS = {
    "options": "model",
    "recipe": "training",
    "engine": "machine",
    "versions": "versions",
    "continued": "continued",
    "about": "notes",
}
MOST_GROUPS, MOST_EDGES = 40, 400  # that are drawn


def describe(record: RunRecord, graphs: dict[str, str]) -> dict[str, Any]:
    """The entry of one run; a sampling graph that no run before had is added to `graphs`."""
    config = record.config
    diverged = sum(seed.diverged for seed in record.seeds)
    planned = as_int(as_dict(config.get("recipe")).get("steps"))
    return {
        "name": record.name,
        "state": record.state,
        "reason": record.reason,
        "model": as_str(config.get("model")),
        "own": bool(config) and as_str(config.get("model")) not in _zoo(),
        "variant": as_str(config.get("variant")),
        "protocol": as_str(config.get("protocol")),
        "preset": as_str(config.get("preset")),
        "size": _size(record.task),
        "draw": _draw(record.task),
        "parameters": as_int(config.get("parameters")),
        "step": record.step,
        "planned": planned,
        "diverged": diverged,
        "seeds": [_seed(seed) for seed in record.seeds],
        "summary": {
            split: _short(asdict(summarise(record.accuracies(split), diverged, interval=(0, 0))))
            for split in ("iid", "ood")
        },
        "settings": settings_of(record),
        "graph": _graph(record.task, graphs),
    }


def _zoo() -> Sequence[str]:
    from ctlpp.models.zoo import MODELS

    return list(MODELS)


def _seed(seed: Any) -> list[Any]:
    """number, IID, OOD, whether and when it diverged"""
    shares = [None if (s := seed.accuracy.get(split)) is None else round(s, 5) for split in ("iid", "ood")]
    return [seed.number, *shares, seed.diverged, seed.diverged_at]


def _short(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "interval"}


def _size(task: dict[str, Any]) -> str:
    functions, symbols = len(as_dict(task.get("functions"))), len(as_list(task.get("symbols")))
    if not functions:
        return ""
    shared = [as_int(task.get(name)) for name in ("shared_functions", "shared_symbols")]
    staged = f", shares {shared[0]} and {shared[1]}" if None not in shared else ""
    return f"{functions} functions, {symbols} symbols{staged}"


def _draw(task: dict[str, Any]) -> list[str]:
    """What tells data of one variant and size apart: what S shares, a limit on distinct sequences, another table."""
    shared = [(as_int(task.get(f"shared_{noun}s")), noun) for noun in ("function", "symbol")]
    limit, table = as_dict(task.get("recipe")).get("distinct_sequences"), as_int(task.get("seed"))
    sequences = as_str(limit) or str(as_int(limit) or "")
    found = [plural(many, f"shared {noun}") for many, noun in shared if many is not None]
    return (
        found
        + [f"repeated sequences {sequences}"] * bool(sequences)
        + [f"function table {table}"] * bool(table)
    )


def settings_of(record: RunRecord) -> list[list[str]]:
    """Everything that decided the result: section, name, value."""
    config = record.config
    first = ("model", "preset", "variant", "protocol", "parameters", "seeds", "started", "format")
    rows = [["run", name, shown(config[name])] for name in first if name in config]
    if record.seconds is not None:
        rows.append(["run", "seconds", f"{record.seconds:,.0f}"])
    for key, section in SECTIONS.items():
        rows += [[section, as_str(name), shown(value)] for name, value in as_dict(config.get(key)).items()]
    task = record.task
    plain = ("seed", "order", "shared_functions", "shared_symbols")
    rows += [["data", name, shown(task[name])] for name in plain if name in task]
    rows += [["data", as_str(name), shown(value)] for name, value in as_dict(task.get("recipe")).items()]
    rows += [
        ["data", f"sha256 of {as_str(name)}", shown(value)]
        for name, value in as_dict(config.get("data")).items()
    ]
    return rows[:200]


def shown(value: object) -> str:
    """A setting as text."""
    if isinstance(value, str):
        return value[:400]
    if isinstance(value, list) and len(value) > 8 and _consecutive(value):
        return f"{value[0]} … {value[-1]}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:,}" if abs(value) < 2**63 else str(value)[:40]
    return json.dumps(value, ensure_ascii=False, default=str)[:400]


def _consecutive(values: list[Any]) -> bool:
    return all(type(value) is int and value == values[0] + at for at, value in enumerate(values))


def _graph(task: dict[str, Any], graphs: dict[str, str]) -> int | None:
    """The number of the task's drawing in `graphs`, which has drawings by what they show; None without one."""
    from ctlpp.figures.graph import draw_task
    from ctlpp.storage.task_json import from_json

    edges = [as_list(as_dict(task.get(name)).get("edges")) for name in ("train_graph", "ood_graph")]
    if not task or len(as_dict(task.get("groups"))) > MOST_GROUPS or sum(map(len, edges)) > MOST_EDGES:
        return None
    names = ("variant", "groups", "train_graph", "ood_graph", "functions", "symbols")
    key = json.dumps([task.get(name) for name in names], default=str)
    try:
        graphs[key] = graphs.get(key) or draw_task(from_json(json.dumps({**task, "splits": {}}))[0])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # no task of ours
        return None
    return list(dict.fromkeys(graphs.values())).index(graphs[key])
