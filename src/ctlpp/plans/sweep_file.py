"""Sweep files, and their plans: models × variants × settings, and single runs.

    [sweep]
    models = ["lstm", "mymodels:tiny"]
    variants = ["R", {variant = "S", shared_functions = [4, 8], shared_symbols = [2, 3]}]
    seeds = 25
    preset = "quick"
    [sweep.data]                    # options of `ctlpp generate`, for all
    symbols = 4
    [sweep.grid]                    # settings of the recipe, and sizes
    lr = [1e-3, 3e-3]
    size.width = [32, 64]
    [[run]]                         # besides the grid
    name = "long"
    model = "ndr"
    variant = "R"
    steps = 4000

A Python file has a list RUNS of such runs. Everything is checked before anything runs.

Example:
    >>> rows = [{"model": "lstm", "variant": "R", "preset": "quick", "lr": lr} for lr in (1e-3, 3e-3)]
    >>> [run.name for run in plan_sweep(rows)]
    ['lstm-R-lr0.001', 'lstm-R-lr0.003']
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from ctlpp.benchmark.variants import VARIANTS, Settings
from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET
from ctlpp.models.zoo import error_line, find_model
from ctlpp.plans.planned import PlannedRun, current_name, describe_task, name_run
from ctlpp.runs.untrusted import as_dict
from ctlpp.training.recipe import recipe_for
from ctlpp.words import parse_seeds

Row = Mapping[str, Any]
ROW_KEYS = ("name", "model", "variant", "seeds", "preset", "data", "size")  # others are of the recipe
SWEEP_KEYS = ("models", "variants", "seeds", "preset", "data", "grid")
DATA = [one.name for one in fields(Settings)[1:]]


def read_sweep(path: Path) -> list[PlannedRun]:
    """The plan in a TOML or Python file."""
    if not path.is_file():
        raise UserError(f"{path} is no file: name a sweep file, TOML or Python with a list RUNS")
    try:
        if path.suffix == ".py":
            rows = runpy.run_path(str(path)).get("RUNS")
            if not isinstance(rows, list):
                raise UserError("it has no list RUNS")
        else:
            rows = _expand(tomllib.loads(path.read_text(encoding="utf-8")))
        return plan_sweep(rows, path.absolute().parent)
    except UserError as error:
        raise UserError(f"{path}: {error.args[0]}") from error
    except Exception as error:
        raise UserError(f"{path} cannot be read: {error_line(error)}") from error


def plan_sweep(rows: Sequence[Row], folder: Path | None = None) -> list[PlannedRun]:
    """The plan of some runs, all checked. folder: where their files are, by default the current folder."""
    runs: dict[str, PlannedRun] = {}
    for row in rows:
        run = _plan_run(row, folder or Path.cwd())
        if run.name in runs:
            raise UserError(f"two runs are called {run.name}: give each another name")
        runs[run.name] = run
    if not runs:
        raise UserError("there are no runs: give models and variants, or [[run]]")
    return list(runs.values())


def _expand(content: dict[str, Any]) -> list[Row]:
    """The runs of a TOML file: the grid, then single runs, which take what they lack from [sweep]."""
    sweep, own = content.pop("sweep", {}), content.pop("run", [])
    _check_keys(content, ("sweep", "[run]"), "section")
    _check_keys(sweep, SWEEP_KEYS, "key of [sweep]")
    common = {name: sweep[name] for name in ("seeds", "preset", "data") if name in sweep}
    rows: list[Row] = []
    for model, variant in product(sweep.get("models", ()), sweep.get("variants", ())):
        given = dict(variant) if isinstance(variant, dict) else {"variant": variant}
        for data in _combinations(given):
            for settings in _combinations(_flatten(sweep.get("grid", {}))):
                one = {"model": model, "variant": data["variant"], **common, **settings}
                special = {name: value for name, value in data.items() if name != "variant"}
                rows.append(one | {"data": common.get("data", {}) | special, "special": special})
    return rows + [common | row | {"data": common.get("data", {}) | row.get("data", {})} for row in own]


def _flatten(settings: Row) -> dict[str, Any]:
    """With sizes as `size.width`, however they were written."""
    sizes = {f"size.{name}": value for name, value in as_dict(settings.get("size")).items()}
    return {name: value for name, value in settings.items() if name != "size"} | sizes


def _combinations(settings: Row) -> Iterator[dict[str, Any]]:
    """Every combination of values that are lists."""
    lists = [value if isinstance(value, list) else [value] for value in settings.values()]
    for name, values in zip(settings, lists, strict=True):
        if not values:
            raise UserError(f"{name} has no values: give at least one")
    for combination in product(*lists):
        yield dict(zip(settings, combination, strict=True))


def _check_keys(found: Row, known: Sequence[str], what: str) -> None:
    for name in found:
        if name not in known:
            raise UserError(f"unknown {what} {name!r}: choose from {', '.join(known)}")


def _plan_run(row: Row, folder: Path) -> PlannedRun:
    """A run, checked as far as can be without training."""
    for needed in ("model", "variant"):
        if not isinstance(row.get(needed), str):
            raise UserError(f"a run has no {needed}: give it one, as text")
    model, preset = row["model"], row.get("preset", DEFAULT_PRESET)
    data, settings = dict(row.get("data", {})), _flatten(row)
    _check_keys(data, DATA, "option of the data")
    sizes = {name[5:]: value for name, value in settings.items() if name.startswith("size.")}
    known = (*ROW_KEYS, "special", *(f"size.{name}" for name in sizes))
    recipe = {name: value for name, value in settings.items() if name not in known}
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in recipe.items()}
    variant = row["variant"]
    if variant not in VARIANTS and (folder / variant).exists():
        variant = str((folder / variant).absolute())
    if Path(variant).is_dir() and data:
        raise UserError(
            f"{row['variant']} is a dataset folder that has its {next(iter(data))} already; leave it out"
        )
    own = [name for name in (model, *changes.values()) if isinstance(name, str) and ":" in name]
    code = _find_code([name.partition(":")[0] for name in own], folder)
    if code and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    find_model(model, preset, sizes)  # refuses what cannot be, as do the recipe and the task below
    recipe_for(model, preset, variant, **changes)
    run = PlannedRun(
        name=_name(row, model, variant, recipe, sizes),
        model=model,
        variant=variant,
        seeds=tuple(_seeds(row.get("seeds", 5))),
        data=tuple(data.items()),
        preset=preset,
        sizes=tuple(sizes.items()),
        changes=tuple(changes.items()),
        code=tuple((str(path), sha256(path.read_bytes()).hexdigest()) for path in code),
    )
    describe_task(run)
    return run


def _seeds(given: object) -> list[int]:
    """The seeds of a row: a list, or as `--seeds` has them."""
    listed = ",".join(f"{seed}-{seed}" for seed in given) if isinstance(given, list) else str(given)
    return parse_seeds(listed)


def _name(row: Row, model: str, variant: str, recipe: Row, sizes: Row) -> str:
    """The name that is given; else one made of everything in which runs of a sweep differ."""
    if "name" in row:
        name = row["name"]
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(f"the name {name!r}: use letters, digits and . _ -")
        return current_name(name)
    words = [
        f"{key}{value:g}" if isinstance(value, float) else f"{key}{value}"
        for key, value in {**recipe, **sizes}.items()
    ]
    whole = name_run(model, Path(variant).stem, row.get("special", row.get("data", {})))
    plain = dict.fromkeys(map(ord, "(),[]'\"/ "), "") | {ord(":"): "."}
    return current_name("-".join([whole, *words]).translate(plain))


def _find_code(names: list[str], folder: Path) -> list[Path]:
    """The files of modules beside the sweep file, after those beside it that they import."""
    found: list[Path] = []
    while names:
        path = folder / f"{names.pop()}.py"
        if path in found or not path.is_file():
            continue
        found.append(path)
        with suppress(SyntaxError):  # to import it says what is wrong
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    names += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names.append(node.module or "")
    return found[::-1]
