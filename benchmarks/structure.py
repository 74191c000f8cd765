"""Runs that ask how little structure is enough; each piece can be killed, and the same command goes on.

python benchmarks/structure.py bounds ladder --out results/structure  # hours on a CPU
python benchmarks/structure.py zoo swap --out results/structure --device cuda --minutes 20
python benchmarks/structure.py figure --out results/structure  # the ladder's, and its tables in Markdown
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.figure import Figure

from ctlpp.figures.matrices import colour_bar, draw_matrix
from ctlpp.figures.style import DOUBLE, new_figure, save, style
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


DECAY: Changes = (("weight_decay", 0.5), ("curriculum", "short_first"), ("steps", 1500), ("batch", 256))
DECAY_ON_S: Changes = (*DECAY, ("weight_decay", 1.0), ("curriculum", "short_first+shared_first"))
SHORT: Changes = (("steps", 1500), ("batch", 256), ("lr", 3e-3), ("schedule", "cosine"), ("warmup", 50))
SHORT += (("length_mix", "even"), ("curriculum", "short_first"), ("clip", 1.0), ("restarts", 2))

ANY_OF_16: Changes = (("bijective", False), ("codes", 16))


@dataclass(frozen=True)
class Rung:
    """What is left of the full model, in the words of the figure, when an assumption is taken away."""

    about: str
    label: str = ""
    model: str = "permrnn"
    sizes: Changes = ()
    recipe: Changes = ()
    decay: bool = False  # with weight decay, more steps, and short examples first

    @property
    def name(self) -> str:
        return f"{self.model}-{self.label}".removeprefix("permrnn-").rstrip("-") or self.model

    def run(self, task: Task) -> PlannedRun:
        decay = (DECAY_ON_S if task[0] == "S" else DECAY) if self.decay else ()
        recipe = dict((*decay, *self.recipe))  # of a setting that is named twice, the last
        return planned(task, self.model, 10, self.label, self.sizes, tuple(recipe.items()))


RUNGS = [
    Rung("full model: permrnn"),
    Rung("soft codes", "soft", sizes=(("hard", False), ("cooling", 0.0))),  # shares, never one code
    Rung("one code to spare", "spare1", sizes=(("codes", 9),)),
    Rung("eight codes to spare", "spare8", sizes=(("codes", 16),)),
    Rung("any maps, not bijections", "any-map", sizes=(("bijective", False),)),
    Rung("any maps, weight decay", "any-map-decay", sizes=(("bijective", False),), decay=True),
    Rung("… and eight codes to spare", "any-map-decay-spare8", sizes=ANY_OF_16, decay=True),
    Rung("no curriculum (S)", "all-at-once", recipe=(("curriculum", ""),)),
    Rung("read from the left", "from-left", sizes=(("from_end", False),)),
    Rung("a net for maps: symrnn", model="symrnn"),
    Rung("symrnn, one code to spare", "spare1", "symrnn", (("codes", 9),)),
    Rung("order unknown: slots", model="slots"),
    Rung("no codes: lstm_uni", "short", "lstm_uni", (("dropout", 0.0),), SHORT),
]


def ladder() -> list[PlannedRun]:
    """From the most structured model down, one assumption less at a time."""
    return [rung.run(task) for rung in RUNGS for task in tasks(("authors",))]


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


FRESH: list[Task] = [(variant, data | {"seed": 1}) for variant, data in tasks(("authors",))]


def fresh() -> list[PlannedRun]:
    """The two rungs that solve everything, on data and seeds that no recipe was chosen on."""
    rungs = [rung for rung in RUNGS if rung.name in ("permrnn", "any-map-decay")]
    runs = [rung.run(task) for rung in rungs for task in FRESH]
    return [replace(run, seeds=tuple(range(10, 20))) for run in runs]


PLANS = {"bounds": bounds, "ladder": ladder, "fresh": fresh, "zoo": zoo, "swap": swap}


SOLVED = 0.99


def count(out: Path, run: PlannedRun, split: str) -> float:
    """How many of the five seeds chosen by their training loss solve a split; nan if they have not run."""
    files = [*(out / "runs" / run.name).glob("*/result.json")]
    seeds = [seed for file in files for seed in json.loads(file.read_text())["seeds"]]
    chosen = [seed["accuracy"][split] >= SOLVED for seed in seeds if seed.get("chosen", True)]
    return sum(chosen) if chosen else np.nan


def draw_ladder(out: Path) -> Figure:
    """Two matrices of rungs by tasks: seeds that have learned the task, and seeds that compose."""
    columns = tasks(("authors",))
    names = [str(data.get("shared_symbols", variant)) for variant, data in columns]
    figure = new_figure(DOUBLE, 12.5)
    panels = figure.subplots(2, 1, sharex=True)
    titles = {"iid": "Have learned the task (IID)", "ood": "Compose (OOD)"}
    for axes, (split, title) in zip(panels, titles.items(), strict=True):
        counts = np.array([[count(out, rung.run(task), split) for task in columns] for rung in RUNGS])
        texts = [[f"{value:.0f}" for value in row] for row in counts]
        image = draw_matrix(axes, counts / 5, [rung.about for rung in RUNGS], names, texts=texts)
        axes.set_title(title, loc="left", weight="bold")
        for at in (0.5, 1.5, 6.5, 11.5, 16.5):
            axes.axvline(at, color="white", linewidth=3)
    for at, functions in zip((4, 9, 14, 19), (4, 8, 12, 16), strict=True):
        below: Any = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
        axes.annotate(f"S, {functions} functions", (at, 0), (0, -14), ha="center", va="top", **below)
    axes.set_xlabel("\nshared symbols and functions; grey: not run")
    colour_bar(figure, image, panels, "share of the chosen seeds with an accuracy of at least 0.99")
    return figure


def print_tables(out: Path) -> None:
    """For each task and rung the chosen seeds that compose and, in brackets, those that have learned it."""
    for head, every in (("authors", tasks(("authors",))), ("clean", tasks(("clean",))), ("fresh", FRESH)):
        ran = [rung for rung in RUNGS if any(count(out, rung.run(task), "iid") >= 0 for task in every)]
        print(f"\n| {head} | {' | '.join(f'`{rung.name}`' for rung in ran)} |\n|{' --- |' * (len(ran) + 1)}")
        for variant, data in every:
            name = " ".join([variant, *(str(data[key]) for key in CELLS[0] if key in data)])
            runs = [rung.run((variant, data)) for rung in ran]
            cells = [f"{count(out, run, 'ood'):.0f} ({count(out, run, 'iid'):.0f})" for run in runs]
            print(f"| {name} | {' | '.join(cells)} |".replace("nan (nan)", "–"))


def watch(title: str, piece: Piece) -> Notes:
    print(title, flush=True)
    return Notes()


def main(
    what: Annotated[list[str], typer.Argument(help=f"Any of {', '.join(PLANS)}, figure.")],
    out: Annotated[Path, typer.Option()],
    device: str = "auto",
    minutes: float | None = None,
    only: Annotated[str, typer.Option(help="Runs with this in their names.")] = "",
    show: Annotated[bool, typer.Option("--plan", help="Say what is to do, and stop.")] = False,
) -> None:
    """Do whatever is still to do."""
    if unknown := [name for name in what if name not in (*PLANS, "figure")]:
        raise typer.BadParameter(f"{unknown[0]}: choose from {', '.join(PLANS)}, figure")
    if "figure" in what:
        with style():
            save(draw_ladder(out), out / "ladder", ("png", "pdf"))
        print_tables(out)
    plan = [run for name in what if name in PLANS for run in PLANS[name]() if only in run.name]
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
