"""`task.json`: the task, written so that anyone can check the data from it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ctlpp.benchmark.graph import Graph, Restriction
from ctlpp.benchmark.sampling import parse_limit
from ctlpp.benchmark.task import Task, check_task
from ctlpp.benchmark.variants import ORDERS, PROTOCOLS
from ctlpp.files import UserError

FORMAT = 1
ENDINGS = {"parquet": ".parquet", "jsonl": ".jsonl", "text": ".txt"}  # format -> of the files's names


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


def from_json(text: str) -> tuple[Task, dict[str, Any], dict[str, Any]]:
    """The task, the recipe and the splits' entries. Raises UserError if the file does not define a task."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not valid JSON: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if type(found) is not int or found != FORMAT:
        raise UserError(f"format {_shown(found)} is not known; this version reads format {FORMAT}")
    task = Task(
        variant=_get(content, "variant", str),
        protocol=_one_of(_get(content, "protocol", str), PROTOCOLS),
        seed=_get(content, "seed", int),
        order=_one_of(_get(content, "order", str), ORDERS),
        symbols=_listed(content, "symbols", str),
        functions={
            name: _listed(content["functions"], name, int) for name in _get(content, "functions", dict)
        },
        groups={group: _listed(content["groups"], group, str) for group in _get(content, "groups", dict)},
        train_graph=_graph_from_json(_get(content, "train_graph", dict)),
        ood_graph=_graph_from_json(_get(content, "ood_graph", dict)),
        shared_functions=_get(content, "shared_functions", int, missing=None),
        shared_symbols=_get(content, "shared_symbols", int, missing=None),
    )
    check_task(task)
    splits = {name: _split_from_json(content["splits"], name) for name in _get(content, "splits", dict)}
    return task, _recipe_from_json(_get(content, "recipe", dict, missing={})), splits


def _graph_to_json(graph: Graph) -> dict[str, Any]:
    restrictions = [
        {"from": r.source, "function": r.function, "symbols": list(r.symbols)} for r in graph.restrictions
    ]
    entry: dict[str, Any] = {"lengths": list(graph.lengths), "edges": [list(edge) for edge in graph.edges]}
    return entry | ({"restrictions": restrictions} if restrictions else {})


def _graph_from_json(entry: dict[str, Any]) -> Graph:
    edges = [_items(edge, "edges", str) for edge in _listed(entry, "edges", list)]
    if wrong := [edge for edge in edges if len(edge) != 2]:
        raise UserError(f"an edge has two ends, not {len(wrong[0])}")
    restrictions = [
        Restriction(
            source=_get(rule, "from", str),
            function=_get(rule, "function", str),
            symbols=_listed(rule, "symbols", int),
        )
        for rule in _items(entry.get("restrictions", []), "restrictions", dict)
    ]
    return Graph(
        edges=tuple((source, target) for source, target in edges),
        lengths=_listed(entry, "lengths", int),
        restrictions=tuple(restrictions),
    )


def _split_from_json(splits: dict[str, Any], name: str) -> dict[str, Any]:
    entry = _get(splits, name, dict)
    for key, kind in (("file", str), ("examples", int), ("by_length", dict), ("sha256", str)):
        _get(entry, key, kind)
    _items(list(entry["by_length"].values()), "by_length", int)
    _get(entry, "in_train", int, missing=0)
    if (file := PurePath(entry["file"])).name != entry["file"] or file.suffix not in ENDINGS.values():
        raise UserError(f"split {name!r} needs the name of a file in the folder, not {entry['file']!r}")
    return dict(entry)


def _recipe_from_json(recipe: dict[str, Any]) -> dict[str, Any]:
    for name in ("train", "iid", "ood"):
        _get(recipe, name, int, missing=0)
    if not 0 < _get(recipe, "fill", float, missing=1.0) <= 1:
        raise UserError(f"fill {recipe['fill']} must be a share above 0 and up to 1")
    limit = (
        {"distinct_sequences": parse_limit(recipe["distinct_sequences"])}
        if "distinct_sequences" in recipe
        else {}
    )
    return recipe | limit


REQUIRED = object()
KINDS = {str: "a printable text", int: "a whole number", float: "a number", list: "a list", dict: "an object"}


def _get(entries: dict[str, Any], key: str, kind: type, missing: Any = REQUIRED) -> Any:
    """The entry under a key, if it is of this kind."""
    if key not in entries and missing is REQUIRED:
        raise UserError(f"the entry {key!r} is missing")
    return _items([entries[key]], key, kind)[0] if key in entries else missing


def _listed(entries: dict[str, Any], key: str, kind: type) -> tuple[Any, ...]:
    """The list under a key, if all it holds is of this kind."""
    return _items(_get(entries, key, list), key, kind)


def _items(values: Any, key: str, kind: type) -> tuple[Any, ...]:
    """The values as they are, if they are a list of things of this kind."""
    if type(values) is not list:
        raise UserError(f"the entry {key!r} must be a list, not {_shown(values)}")
    for value in values:
        fits = type(value) in (int, float) if kind is float else type(value) is kind
        if not fits or (kind is str and not value.isprintable()):
            raise UserError(f"the entry {key!r} must have {KINDS[kind]}, not {_shown(value)}")
    return tuple(values)


def _shown(value: Any) -> str:
    """A value in few words."""
    return KINDS[type(value)] if isinstance(value, list | dict) else f"{value!r:.60}"


def _one_of(value: str, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise UserError(f"{value!r} is not one of {', '.join(choices)}")
    return value


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
