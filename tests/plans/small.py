"""Planned runs that train in a second."""

from __future__ import annotations

from typing import Any

from ctlpp.plans.planned import PlannedRun

DATA = (("symbols", 4), ("functions", 8), ("max_length", 3), ("train", 200), ("iid", 20), ("ood", 30))


def small_run(*seeds: int, variant: str = "R", steps: int = 4, **data: Any) -> PlannedRun:
    return PlannedRun(
        name=f"lstm-{variant}-clean-quick",
        model="lstm",
        variant=variant,
        seeds=seeds,
        data=(("protocol", "clean"), *DATA, *data.items()),
        preset="quick",
        changes=(("steps", steps),),
    )
