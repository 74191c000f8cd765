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

from ctlpp.plans.pieces import Piece, run_status
from ctlpp.plans.planned import PlannedRun, name_run
from ctlpp.plans.work import WorkSettings, carry_out
from ctlpp.runs.history import Notes

CELLS = [{"shared_functions": o, "shared_symbols": s} for o, s in product((4, 8, 12, 16), (2, 3, 4, 5, 6))]
CORNERS = [CELLS[i] for i in (0, 4, 15, 19)]
SEEDS = 25  # in a piece, at most
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


RUNGS: dict[str, tuple[str, Changes, Changes]] = {  # model, its sizes, its recipe; one assumption taken away
    "soft": ("permrnn", (("hard", False), ("cooling", 0.0)), ()),  # shares, never one code
    "spare1": ("permrnn", (("codes", 9),), ()),
    "spare8": ("permrnn", (("codes", 16),), ()),
    "any-map": ("permrnn", (("bijective", False),), ()),
    "all-at-once": ("permrnn", (), (("curriculum", ""),)),
    "from-left": ("permrnn", (("from_end", False),), ()),
    "any-map-net": ("symrnn", (), ()),
    "spare1-net": ("symrnn", (("codes", 9),), ()),
    "order": ("slots", (), ()),
    "plain": ("lstm_uni", (), ()),
}


def ladder() -> list[PlannedRun]:
    """From the most structured model, which `bounds` has, one assumption less at a time."""
    return [
        planned(task, model, 10, label, sizes, recipe)
        for task in tasks(("authors",))
        for label, (model, sizes, recipe) in RUNGS.items()
    ]


def zoo() -> list[PlannedRun]:
    """Models that are given less, on A and R and the corners of S."""
    models = (
        "slots",
        "deltanet",
        "ssm",
        "transformer_looped",
        "transformer_untied",
        "lstm_uni",
        "gru",
        "rnn",
    )
    fewer: Changes = (("steps", 80_000),)  # where the recipe has 300,000
    return [
        planned(task, model, 10, recipe=fewer if "transformer" in model else ())
        for model in models
        for task in tasks(cells=CORNERS)
    ]


def swap() -> list[PlannedRun]:
    """The NDR with and without exchanged states, for as long as it takes to settle."""
    settled: Changes = (("steps", 30_000),)
    swapped: Changes = (*settled, ("swap", 0.5))
    kinds = {"30k": (25, settled), "30k-swap": (5, swapped), "30k-swap-tied": (5, (*swapped, ("tied", True)))}
    return [
        planned(task, "ndr", seeds, label, recipe=recipe)
        for task in tasks(cells=())
        for label, (seeds, recipe) in kinds.items()
    ]


PLANS = {"bounds": bounds, "ladder": ladder, "zoo": zoo, "swap": swap}


def watch(title: str, piece: Piece) -> Notes:
    print(title, flush=True)
    return Notes()


def main(
    what: Annotated[list[str], typer.Argument(help=f"Any of {', '.join(PLANS)}.")],
    out: Annotated[Path, typer.Option()],
    device: str = "auto",
    minutes: float | None = None,
    only: Annotated[str, typer.Option(help="Runs with this in their names.")] = "",
    show: Annotated[bool, typer.Option("--plan", help="Say what is to do, and stop.")] = False,
) -> None:
    """Do whatever is still to do."""
    if unknown := [name for name in what if name not in PLANS]:
        raise typer.BadParameter(f"{unknown[0]}: choose from {', '.join(PLANS)}")
    plan = [run for name in what for run in PLANS[name]() if only in run.name]
    if show:
        for run in plan:
            left = sum(len(piece.seeds) for piece in run_status(out, run, lambda run: SEEDS).to_do)
            print(f"{run.name}: {left} of {len(run.seeds)} seeds to do, {run.steps:,} steps")
        return
    settings = WorkSettings(
        seeds_a_piece=SEEDS,
        device=device,
        minutes=minutes,
        analysis=False,
        retry=True,
        small=True,
        keep_weights=0,
    )
    try:
        carry_out(plan, out, settings, watch=watch)
    except KeyboardInterrupt as stop:
        print(f"{stop}: the same command goes on")
        raise SystemExit(124) from stop


if __name__ == "__main__":
    typer.run(main)
