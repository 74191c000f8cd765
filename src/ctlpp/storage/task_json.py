"""`task.json`: the task, written so that anyone can check the data from it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ctlpp.benchmark.entries import check_items, choose, get, get_list, shown
from ctlpp.benchmark.graph import Graph, read_graph
from ctlpp.benchmark.task import Task, check_task
from ctlpp.benchmark.variants import ORDERS, PROTOCOLS
from ctlpp.files import UserError

FORMAT = 1
ENDINGS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}  # of the files in each format


def to_json(task: Task, settings: Mapping[str, Any], splits: Mapping[str, Any]) -> str:
    """The whole file: one entry a line, nested ones below each other."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "variant": task.variant,
        "protocol": task.protocol,
        "seed": task.seed,
        "order": task.order,
        "symbols": task.symbols,
        "functions": dict(task.functions),
        "groups": dict(task.groups),
        "train_graph": _graph_to_json(task.train_graph),
        "ood_graph": _graph_to_json(task.ood_graph),
    }
    if task.shared_functions is not None:
        content |= {"shared_functions": task.shared_functions, "shared_symbols": task.shared_symbols}
    content |= {"recipe": dict(settings), "splits": dict(splits)}
    return _pretty(content, 0) + "\n"


def from_json(text: str) -> tuple[Task, dict[str, Any], dict[str, dict[str, Any]]]:
    """The task, the settings and an entry for each split. Raises UserError if it does not define a task."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not valid JSON: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if type(found) is not int or found != FORMAT:
        raise UserError(f"format {shown(found)} is not known; this version reads format {FORMAT}")
    functions, groups, splits = (get(content, key, dict) for key in ("functions", "groups", "splits"))
    task = Task(
        variant=get(content, "variant", str),
        protocol=choose(content, "protocol", PROTOCOLS),
        seed=get(content, "seed", int),
        order=choose(content, "order", ORDERS),
        symbols=get_list(content, "symbols", str),
        functions={name: get_list(functions, name, int) for name in functions},
        groups={name: get_list(groups, name, str) for name in groups},
        train_graph=read_graph(get(content, "train_graph", dict)),
        ood_graph=read_graph(get(content, "ood_graph", dict)),
        shared_functions=get(content, "shared_functions", int, missing=None),
        shared_symbols=get(content, "shared_symbols", int, missing=None),
    )
    check_task(task)
    settings = _read_settings(get(content, "recipe", dict, missing={}))
    return task, settings, {name: _read_split(name, get(splits, name, dict)) for name in splits}


def _graph_to_json(graph: Graph) -> dict[str, Any]:
    restrictions = [
        {"from": r.source, "function": r.function, "symbols": list(r.symbols)} for r in graph.restrictions
    ]
    entry: dict[str, Any] = {"lengths": list(graph.lengths), "edges": [list(edge) for edge in graph.edges]}
    return entry | ({"restrictions": restrictions} if restrictions else {})


def _read_split(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    for key, kind in (("file", str), ("examples", int), ("by_length", dict), ("sha256", str)):
        get(entry, key, kind)
    check_items([*entry["by_length"].values()], "by_length", int)
    get(entry, "in_train", int, missing=0)
    if (file := PurePath(entry["file"])).name != entry["file"] or file.suffix not in ENDINGS.values():
        raise UserError(f"split {name!r} needs the name of a file in the folder, not {entry['file']!r}")
    return entry


def _read_settings(settings: dict[str, Any]) -> dict[str, Any]:
    for name in ("train", "iid", "ood"):
        get(settings, name, int, missing=0)
    if not 0 < get(settings, "fill", float, missing=1.0) <= 1:
        raise UserError(f"fill {settings['fill']} must be a share above 0 and up to 1")
    return settings


def _pretty(value: Any, depth: int) -> str:
    """JSON with short things on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= 110 or not isinstance(value, (dict, list, tuple)):
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        inner = [
            f"{json.dumps(key, ensure_ascii=False)}: {_pretty(item, depth + 1)}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(pad + line for line in inner) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + _pretty(item, depth + 1) for item in value) + "\n" + " " * depth + "]"
