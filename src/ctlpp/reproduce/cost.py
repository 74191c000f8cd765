"""What remains to be computed, and how long that takes.

Example:
    >>> from ctlpp.reproduce.plan import plan
    >>> (cell,) = plan("table1", only=["ndr-R-released"])
    >>> round(seconds(cell, len(cell.seeds), "cuda") / 60)  # 25 seeds on an H200
    20
"""

from __future__ import annotations

from ctlpp.reproduce.pieces import Standing
from ctlpp.reproduce.plan import Planned

DEVICES = {"cuda": "one NVIDIA H200", "cpu": "two CPU cores"}  # where this was measured

# Milliseconds: of a step for each seed, and of a step however few seeds it has.
_FULL = {
    "cuda": {"lstm": (0.060, 0.5), "transformer": (0.31, 1.0), "ndr": (0.59, 2.0)},
    "cpu": {"lstm": (80.0, 0.0), "transformer": (400.0, 0.0), "ndr": (700.0, 0.0)},
}
_QUICK = {
    "cuda": {"lstm": (0.01, 0.5), "transformer": (0.02, 1.0), "ndr": (0.02, 2.0)},
    "cpu": {"lstm": (1.0, 4.0), "transformer": (9.0, 18.0), "ndr": (10.0, 18.0)},
}
_BATCH = {("lstm", "S"): 0.25}  # a quarter of the batch, in the preset `released`
_AROUND = {"cuda": 30.0, "cpu": 3.0}  # seconds a piece: beginning, evaluations, analysis


def seconds(cell: Planned, seeds: int, device: str = "cuda", steps: int | None = None) -> float:
    """Training so many seeds of a cell in one piece on a `cuda` or `cpu` device, with all that belongs to it."""
    if not seeds:
        return 0.0
    each, least = (_QUICK if cell.preset == "quick" else _FULL)[device][cell.model]
    if cell.preset == "released":
        each *= _BATCH.get((cell.model, cell.variant), 1.0)
    steps = cell.steps if steps is None else steps
    return steps * max(each * seeds, least) / 1000 + _AROUND[device]


def remaining(standing: Standing, device: str = "cuda") -> float:
    """Seconds for what is to do of a cell."""
    return sum(
        seconds(standing.cell, len(piece.seeds), device, standing.cell.steps - piece.step) for piece in standing.to_do
    )
