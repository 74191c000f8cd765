"""`task.json`: the task, written so that anyone can check the data from it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ctlpp.benchmark.graph import Graph, Restriction
from ctlpp.benchmark.task import ORDERS, PROTOCOLS, Task, check_task

FORMAT = 1


def to_json(task: Task, recipe: Mapping[str, Any], splits: Mapping[str, Any]) -> str:
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
    content |= {"recipe": dict(recipe), "splits": dict(splits)}
    return _pretty(content, 0) + "\n"


def from_json(text: str) -> tuple[Task, dict[str, Any], dict[str, Any]]:
    """The task, the recipe and the splits' entries. Raises ValueError if the file does not define a task."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ValueError(f"format {found!r} is not known; this version reads format {FORMAT}")
    try:
        task = Task(
            variant=str(content["variant"]),
            protocol=_one_of(content["protocol"], PROTOCOLS),
            seed=int(content["seed"]),
            order=_one_of(content["order"], ORDERS),
            symbols=tuple(map(str, content["symbols"])),
            functions={str(name): tuple(map(int, table)) for name, table in content["functions"].items()},
            groups={str(group): tuple(map(str, names)) for group, names in content["groups"].items()},
            train_graph=_graph_from_json(content["train_graph"]),
            ood_graph=_graph_from_json(content["ood_graph"]),
            shared_functions=content.get("shared_functions"),
            shared_symbols=content.get("shared_symbols"),
        )
        splits = {str(name): dict(entry) for name, entry in content["splits"].items()}
    except KeyError as error:
        raise ValueError(f"the entry {error} is missing") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"an entry has the wrong form: {error}") from error
    check_task(task)
    return task, dict(content.get("recipe", {})), splits


def _graph_to_json(graph: Graph) -> dict[str, Any]:
    restrictions = [{"from": r.source, "function": r.function, "symbols": list(r.symbols)} for r in graph.restrictions]
    entry: dict[str, Any] = {"lengths": list(graph.lengths), "edges": [list(edge) for edge in graph.edges]}
    return entry | ({"restrictions": restrictions} if restrictions else {})


def _graph_from_json(entry: Mapping[str, Any]) -> Graph:
    restrictions = [
        Restriction(source=str(r["from"]), function=str(r["function"]), symbols=tuple(map(int, r["symbols"])))
        for r in entry.get("restrictions", [])
    ]
    return Graph(
        edges=tuple((str(source), str(target)) for source, target in entry["edges"]),
        lengths=tuple(map(int, entry["lengths"])),
        restrictions=tuple(restrictions),
    )


def _one_of(value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
    return value


def _pretty(value: Any, depth: int) -> str:
    """JSON with short things on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= 110 or not isinstance(value, (dict, list, tuple)):
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        inner = [f"{json.dumps(key, ensure_ascii=False)}: {_pretty(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pad + line for line in inner) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + _pretty(item, depth + 1) for item in value) + "\n" + " " * depth + "]"
