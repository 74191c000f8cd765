"""The grid of S: OOD accuracy by the numbers of shared functions and of shared symbols."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from ctlpp.report.compare import Setting, recipe_of, settings
from ctlpp.report.describing import shown
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.untrusted import as_dict, as_float, as_int, as_list, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import summarise
from ctlpp.words import plural as plural

Cells = dict[tuple[int, int], Setting]  # by shared functions and shared symbols


def grids(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """One grid for all settings that differ in nothing but the shared functions and symbols; one setting a cell."""
    found: dict[tuple[str, int], Cells] = {}
    for setting in settings(records):
        task = setting.records[0].task
        functions, symbols = as_int(task.get("shared_functions")), as_int(task.get("shared_symbols"))
        if setting.config.get("variant") != "S" or functions is None or symbols is None:
            continue
        place, key = (functions, symbols), json.dumps(_rest(setting), sort_keys=True, default=str)
        turn = next(n for n in count() if place not in found.get((key, n), {}))  # a second one has other data
        found.setdefault((key, turn), {})[place] = setting
    return [_grid(cells, turn, list(found.values())) for (_, turn), cells in found.items()]


def _rest(setting: Setting) -> dict[str, Any]:
    """What decides a result besides the place in the grid, by name; under "" what every grid says of itself."""
    config, task = setting.config, setting.records[0].task
    names = {
        "order": task.get("order"),
        "function table": task.get("seed"),
        "options": as_dict(config.get("options")),
    }
    said = [as_str(config.get("model")), _about(setting)]
    return {**recipe_of(config), **as_dict(task.get("recipe")), **names, "": said}


def _about(setting: Setting) -> str:
    config, task = setting.config, setting.records[0].task
    protocol, preset = (as_str(config.get(name)) or "unknown" for name in ("protocol", "preset"))
    sizes = f"{len(as_dict(task.get('functions')))} functions, {len(as_list(task.get('symbols')))} symbols"
    return f"protocol {protocol}, preset {preset}, {sizes}"


def _grid(cells: Cells, turn: int, every: Sequence[Cells]) -> dict[str, Any]:
    """As the page has it; every: all grids, from which its title must tell it apart."""
    first = next(iter(cells.values()))
    own = _rest(first)
    others = [other for one in every if (other := _rest(next(iter(one.values()))))[""] == own[""]]
    telling = [name for name in own if any(other.get(name) != own[name] for other in others)]
    words = [_about(first), *(f"{name} {shown(own[name])}" for name in telling), *["other data"] * bool(turn)]
    diverged = sum(seed.diverged for setting in cells.values() for seed in setting.seeds)
    words += [f"without {plural(diverged, 'seed')} that diverged"] if diverged else []
    model, rows, columns = (
        own[""][0],
        sorted({row for row, _ in cells}),
        sorted({column for _, column in cells}),
    )
    return {
        "model": model,
        "about": ", ".join(words),
        "claim": paper.STAGED.get(model, ""),
        "functions": rows,
        "symbols": columns,
        "cells": [[_cell(cells.get((row, column))) for column in columns] for row in rows],
    }


def _cell(setting: Setting | None) -> list[float | int | None] | None:
    """Mean, deviation and number of the seeds that have not diverged."""
    seeds = setting.seeds if setting else ()
    values = [seed.accuracy["ood"] for seed in seeds if not seed.diverged and "ood" in seed.accuracy]
    if not values:
        return None
    whole_cell = summarise(values, interval=(0, 0))
    return [whole_cell.mean, as_float(whole_cell.std), whole_cell.seeds]
