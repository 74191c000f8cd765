"""What remains to be computed, and how long that takes.

Example:
    >>> from ctlpp.reproduce.plan import plan
    >>> (run,) = plan("table1", only=["ndr-R-released"])
    >>> round(seconds(run, len(run.seeds), "cuda") / 60)  # 25 seeds on an H200
    15
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ctlpp.reproduce.pieces import RunStatus
from ctlpp.reproduce.plan import PlannedRun

DEVICES = {"cuda": "one NVIDIA H200", "cpu": "two CPU cores"}  # where this was measured
START = {"cuda": 50.0, "cpu": 0.0}  # seconds, once: kernels are compiled

# Milliseconds of a step for each seed, by the number of seeds that are trained together.
_FULL: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {
        "lstm": {1: 0.2315, 2: 0.1386, 5: 0.0771, 10: 0.0573, 25: 0.0486, 50: 0.0448, 100: 0.0423},
        "transformer": {1: 1.281, 2: 0.712, 5: 0.366, 10: 0.255, 25: 0.214, 50: 0.199, 100: 0.189},
        "ndr": {1: 1.492, 2: 0.927, 5: 0.590, 10: 0.506, 25: 0.456, 50: 0.447, 100: 0.440},
    },
    "cpu": {"lstm": {1: 80.0}, "transformer": {1: 400.0}, "ndr": {1: 700.0}},
}
_QUICK: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {"lstm": {1: 0.5, 50: 0.01}, "transformer": {1: 1.0, 50: 0.02}, "ndr": {1: 2.0, 100: 0.02}},
    "cpu": {"lstm": {1: 6.0, 4: 1.6}, "transformer": {1: 30.0, 2: 16.0}, "ndr": {1: 30.0, 2: 17.0}},
}
_SMALLER_BATCHES = {("lstm", "S"): 4}  # so many times smaller in the preset `released`; not measured
_AROUND = {"cuda": 10.0, "cpu": 3.0}  # seconds a piece: beginning, evaluations, analysis


def seconds(run: PlannedRun, seeds: int, device: str = "cuda", steps: int | None = None) -> float:
    """For training so many seeds of a planned run in one piece, with all that belongs to it."""
    if not seeds:
        return 0.0
    each = (_QUICK if run.preset == "quick" else _FULL)[device][run.model]
    smaller = _SMALLER_BATCHES.get((run.model, run.variant), 1) if run.preset == "released" else 1
    steps = run.steps if steps is None else steps
    return steps * step_time(each, seeds / smaller) / 1000 + _AROUND[device]


def step_time(each: Mapping[int, float], seeds: float) -> float:
    """Milliseconds of a step, from what was measured: straight lines between crowds, in proportion beyond.

    >>> step_time({1: 2.0, 10: 0.5}, 10), step_time({1: 2.0, 10: 0.5}, 4), step_time({1: 2.0, 10: 0.5}, 20)
    (5.0, 3.0, 10.0)
    """
    most = max(each)
    if seeds > most:
        return each[most] * seeds
    return float(np.interp(seeds, list(each), [crowd * time for crowd, time in each.items()]))


def remaining(status: RunStatus, device: str = "cuda") -> float:
    """Seconds for what is to do of a planned run."""
    run = status.run
    return sum(seconds(run, len(piece.seeds), device, run.steps - piece.step) for piece in status.to_do)
