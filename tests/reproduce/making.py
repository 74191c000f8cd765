"""Runs of the plan at full size, made without training: whatever accuracies a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.report.conftest import edit, make_run, make_task, with_seeds, write_history

from ctlpp.benchmark.variants import Settings
from ctlpp.models.zoo import MODELS
from ctlpp.plans.planned import REPEATS, PlannedRun
from ctlpp.reproduce.plan import plan
from ctlpp.storage.folder import task_to_dict

TASK = ("seed", "shared_functions", "shared_symbols", "symbols", "functions", "max_length")


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
    if isinstance(run, str):
        (run,) = plan("all", only=[run])
    data, seeds = run.options, range(first, first + len(accuracies))
    limit = {name: data.pop(name) for name in (REPEATS,) if name in data}
    sizes = {"symbols": 8, "functions": 32, "max_length": 6} | {k: v for k, v in data.items() if k in TASK}
    task = make_task(run.variant, protocol=run.protocol, **sizes)
    folder = out / "runs" / run.name / f"{seeds[0]}-{seeds[-1]}"
    settings = {
        "model": run.model,
        "preset": run.preset,
        "options": dict(MODELS[run.model].sizes[run.preset]),
        "recipe": asdict(run.recipe),
    }
    make_run(folder, accuracies, task, analysed, first, **settings | other)
    recipe = Settings(variant=run.variant, **data).split_settings() | limit
    edit(folder / "config.json", task=task_to_dict(task, recipe, {}))
    edit(folder / "result.json", steps=run.steps)
    write_history(folder / "metrics.parquet", seeds, (run.steps // 2, run.steps))
    iids = [iid] * len(accuracies) if isinstance(iid, int | float) else iid
    changes = {}
    for at, (inside, outside) in enumerate(zip(iids, accuracies, strict=True)):
        changes[at] = {"accuracy": {"iid": inside, "ood": outside}, "diverged": seeds[at] in diverged}
    return with_seeds(folder, changes)
