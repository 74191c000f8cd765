"""Runs that ask how little structure is enough; each piece can be killed, and the same command goes on.

python benchmarks/structure.py bounds results/structure              # minutes on a CPU
python benchmarks/structure.py ladder results/structure              # an hour on a CPU
python benchmarks/structure.py zoo swap results/structure --device cuda --minutes 20
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from ctlpp.plans.pieces import Piece
from ctlpp.plans.planned import PlannedRun, name_run
from ctlpp.plans.work import WorkSettings, carry_out
from ctlpp.runs.history import Notes

CELLS = [{"shared_functions": o, "shared_symbols": s} for o, s in product((4, 8, 12, 16), (2, 3, 4, 5, 6))]
CORNERS = [CELLS[i] for i in (0, 4, 15, 19)]
Task = tuple[str, dict[str, Any]]  # variant, options of its data
Changes = tuple[tuple[str, Any], ...]


def planned(
    task: Task, model: str, seeds: int, label: str = "", sizes: Changes = (), recipe: Changes = ()
) -> PlannedRun:
    """A run, named by what is special about it. label: what tells it from the plain run of the model."""
    variant, data = task
    return PlannedRun(
        name=name_run(model, variant, data) + (f"-{label}" if label else ""),
        model=model,
        variant=variant,
        seeds=tuple(range(seeds)),
        data=tuple(data.items()),
        sizes=sizes,
        changes=(*recipe, ("eval_every", 0)),
    )


def tasks(
    protocols: tuple[str, ...] = ("authors", "clean"), cells: Sequence[dict[str, Any]] = CELLS
) -> list[Task]:
    """A, R and cells of S."""
    return [
        (variant, {"protocol": protocol} | cell)
        for protocol in protocols
        for variant in "ARS"
        for cell in (cells if variant == "S" else ({},))
    ]


def bounds() -> list[PlannedRun]:
    """The structured upper bounds: of ten seeds, the better of every two is chosen by its training loss."""
    return [planned(task, model, 10) for model in ("permrnn", "symrnn") for task in tasks()]


PLANS = {"bounds": bounds}


def show(title: str, piece: Piece) -> Notes:
    print(title, flush=True)
    return Notes()


def main(
    what: Annotated[list[str], typer.Argument(help=f"Any of {', '.join(PLANS)}.")],
    out: Path,
    device: str = "auto",
    minutes: float | None = None,
    only: str = "",
) -> None:
    """Do whatever is still to do."""
    plan = [run for name in what for run in PLANS[name]() if only in run.name]
    settings = WorkSettings(
        seeds_a_piece=10,
        device=device,
        minutes=minutes,
        analysis=False,
        retry=True,
        small=True,
        keep_weights=0,
    )
    try:
        carry_out(plan, out, settings, watch=show)
    except KeyboardInterrupt as stop:
        print(f"{stop}: the same command goes on")
        raise SystemExit(124) from stop


if __name__ == "__main__":
    typer.run(main)
