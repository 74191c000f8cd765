"""Runs of the plan at full size, made without training: whatever accuracies a test wants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.report.conftest import config_of, make_task, write_analysis

from ctlpp.benchmark.task import Task
from ctlpp.benchmark.variants import Settings
from ctlpp.models.zoo import MODELS
from ctlpp.reproduce.plan import REPEATS, PlannedRun, plan

LENGTHS = range(2, 7)
ENGINE = {
    "device": "cuda",
    "device_name": "NVIDIA H200",
    "precision": "bf16",
    "vectorised": True,
    "seeds_at_a_time": 25,
}
DATA = ("seed", "shared_functions", "shared_symbols")


def planned(name: str) -> PlannedRun:
    """A run of the full plan by its name."""
    return next(run for run in plan("all", "full") if run.name == name)


def make_piece(
    out: Path,
    run: PlannedRun | str,
    accuracies: Sequence[float],
    *,
    first: int = 0,
    iid: float | Sequence[float] = 1.0,
    diverged: Sequence[int] = (),
    analysed: bool = False,
    **other: Any,
) -> Path:
    """A finished piece of a run; seed `first + i` has the i-th accuracy on ood."""
    run = planned(run) if isinstance(run, str) else run
    seeds = range(first, first + len(accuracies))
    iids = [iid] * len(accuracies) if isinstance(iid, int | float) else list(iid)
    folder = out / "runs" / run.name / f"{seeds[0]}-{seeds[-1]}"
    folder.mkdir(parents=True)
    task = task_of(run)
    (folder / "config.json").write_text(json.dumps(config(run, task, seeds) | other))
    result = {
        "steps": run.steps,
        "seconds": 4321.0,
        "seeds": [
            result_of(seed, inside, outside, seed in diverged)
            for seed, inside, outside in zip(seeds, iids, accuracies, strict=True)
        ],
    }
    (folder / "result.json").write_text(json.dumps(result))
    write_curves(folder / "metrics.parquet", seeds, iids, accuracies, run.steps)
    if analysed:
        write_analysis(folder / "analysis", task, seeds)
    return folder


def task_of(run: PlannedRun) -> Task:
    """The task of a run."""
    sizes = {"symbols": 8, "functions": 32, "max_length": 6}
    options = {key: value for key, value in run.options.items() if key in (*DATA, *sizes)}
    return make_task(run.variant, protocol=run.protocol, **sizes | options)


def config(run: PlannedRun, task: Task, seeds: Sequence[int]) -> dict[str, Any]:
    """The `config.json` of a piece."""
    made = config_of(
        task,
        seeds,
        model=run.model,
        preset=run.preset,
        options=dict(MODELS[run.model].sizes[run.preset]),
        recipe=json.loads(json.dumps(asdict(run.recipe))),
        parameters={"lstm": 407_816, "transformer": 155_018, "ndr": 673_299}[run.model],
        engine=ENGINE,
    )
    settings = Settings(variant=run.variant, **run.without(REPEATS).options)
    limit = {REPEATS: run.options[REPEATS]} if run.repeated else {}
    made["task"]["recipe"] = json.loads(json.dumps(settings.of_splits() | limit))
    return made


def result_of(seed: int, iid: float, ood: float, diverged: bool) -> dict[str, Any]:
    """A seed in `result.json`: longer examples are harder by 0.02 a function, as far as accuracies allow."""
    return {
        "seed": seed,
        "accuracy": {"iid": iid, "ood": ood},
        "by_length": {
            split: {str(n): min(1.0, max(0.0, value + 0.02 * (4 - n))) for n in LENGTHS}
            for split, value in (("iid", iid), ("ood", ood))
        },
        "diverged": diverged,
        "diverged_at": 7 if diverged else None,
    }


def write_curves(
    path: Path, seeds: Sequence[int], iid: Sequence[float], ood: Sequence[float], steps: int, points: int = 40
) -> None:
    """Seeds that take off one after the other."""
    rows = []
    for step in np.linspace(steps / points, steps, points).astype(int).tolist():
        for at, seed in enumerate(seeds):
            risen = 1 / (1 + np.exp(-(step / steps - 0.2 - 0.01 * ((7 * seed) % 20)) * 40))
            for split, end in (("iid", iid[at]), ("ood", ood[at])):
                value = end if step == steps else 0.125 + (end - 0.125) * risen
                rows += [(step, seed, split, length, value, 1.0) for length in (0, *LENGTHS)]
            rows.append((step, seed, "training", 0, None, 1.0 / step))
    names = ("step", "seed", "split", "length", "accuracy", "loss")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    pq.write_table(pa.table(columns), path)


def scatter(mean: float, std: float, count: int, seed: int = 0) -> list[float]:
    """Accuracies with about this mean and spread, in thousandths as on 1,000 examples."""
    draw = np.random.Generator(np.random.PCG64(seed))
    values = draw.beta(*_shape(mean, std), size=count) if std else np.full(count, mean)
    return [round(float(value), 3) for value in values]


def _shape(mean: float, std: float) -> tuple[float, float]:
    total = mean * (1 - mean) / std**2 - 1
    return mean * total, (1 - mean) * total
