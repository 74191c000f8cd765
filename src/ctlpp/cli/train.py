"""`ctlpp train`: train a crowd of seeds and evaluate it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ctlpp.cli import options as o
from ctlpp.files import UserError

DATA = (
    "symbols",
    "functions",
    "max_length",
    "train",
    "iid",
    "ood",
    "seed",
    "protocol",
    "order",
    "shared_functions",
    "shared_symbols",
    "ood_max_length",
    "fill",
    "weighting",
    "distinct_sequences",
)
RECIPE = ("steps", "batch", "lr", "precision", "eval_every")


def train(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="See `ctlpp models`; or package.module:factory.")
    ],
    variant: Annotated[
        str,
        typer.Argument(
            metavar="VARIANT", help="CTL, A, R, S, a TOML file with a graph, or a dataset folder."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to write.", metavar="RUN")],
    seeds: Annotated[str, typer.Option(help="25 (that is 0 … 24), 3,7,9 or 25-49; 7-7 is just one.")] = "5",
    preset: Annotated[str, typer.Option(help="Hyper-parameters: released, paper or quick.")] = "released",
    steps: Annotated[int | None, typer.Option(help="Updates of every seed. [default: the preset's]")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Examples per seed per step. [default: the preset's]")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate. [default: the preset's]")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        str | None, typer.Option(help="auto (bf16 on CUDA, else float32), float32 or bf16. [default: auto]")
    ] = None,
    eval_every: Annotated[
        int | None,
        typer.Option(help="Steps between evaluations; 0: at the end only. [default: the preset's]"),
    ] = None,
    splits: Annotated[str | None, typer.Option(help="Splits to evaluate. [default: iid,ood]")] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="Another size for the model, like width=64; repeat it for more.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any other setting of the recipe, like schedule=cosine; repeat it for more."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Also write curves for tensorboard or wandb (offline); repeat it for both."),
    ] = None,
    symbols: o.Symbols = 8,
    functions: o.Functions = None,
    max_length: o.MaxLength = 6,
    train: o.Train = 300_000,
    iid: o.Iid = 1_000,
    ood: o.Ood = 1_000,
    seed: o.Seed = 0,
    protocol: o.Protocol = "paper",
    order: o.Order = "right-to-left",
    shared_functions: o.SharedFunctions = None,
    shared_symbols: o.SharedSymbols = None,
    ood_max_length: o.OodMaxLength = None,
    fill: o.Fill = 0.5,
    weighting: o.Weighting = None,
    distinct_sequences: o.DistinctSequences = None,
) -> None:
    """Train seeds of MODEL together on VARIANT and evaluate them.

    `ctlpp train lstm R --seeds 25 --out runs/lstm-R`

    `ctlpp train ndr data/A --seeds 3,7,9 --preset paper --device cuda --out runs/ndr-A`

    `ctlpp train my.models:tiny A --preset quick --steps 500 --size width=64 --out runs/tiny`
    """
    given = dict(locals())
    from ctlpp.cli.given import find_data, parse_pairs
    from ctlpp.cli.seeds import name_seeds, parse_seeds

    numbers = parse_seeds(seeds)
    sizes, settings = parse_pairs("--size", size or ()), parse_pairs("--set", set_ or ())
    by_option = {name: given[name] for name in RECIPE if given[name] is not None}
    check_once("--size", size or (), {})
    check_once("--set", set_ or (), by_option)
    settings |= by_option

    from ctlpp.cli.tracking import trackers
    from ctlpp.cli.watching import Watch
    from ctlpp.training.inputs import find_device, find_model
    from ctlpp.training.loop import Interrupted
    from ctlpp.training.recipe import recipe_for
    from ctlpp.training.run import train as fit

    observers: list[object] = list(trackers(track or (), out))
    with o.naming(*DATA, *RECIPE, "preset", "device", "size"):
        find_model(model, preset, sizes)
        find_device(device)
        data = find_data(variant, {name: given[name] for name in DATA}, o.chosen(context, DATA))
        recipe = recipe_for(model, preset, data.task.variant, **settings)
        try:
            with Watch(f"{model} on {data.task.variant}, seeds {name_seeds(numbers)}") as watch:
                run = fit(
                    model,
                    data,
                    seeds=numbers,
                    recipe=recipe,
                    preset=preset,
                    options=sizes,
                    device=device,
                    out=out,
                    resume=resume,
                    splits=None if splits is None else splits.split(","),
                    observers=[watch, *observers],
                    about={"data": variant},
                )
        except Interrupted as stop:
            raise KeyboardInterrupt(how_to_resume(stop)) from stop
    print_run(run, out)


def check_once(option: str, pairs: Iterable[str], by_option: Mapping[str, Any]) -> None:
    """Refuse a name that is given twice, also by an option of its own: one of its values would be lost."""
    given = {name: f"--{name.replace('_', '-')} {value}" for name, value in by_option.items()}
    for pair in pairs:
        name = pair.partition("=")[0]
        if name in given:
            raise UserError(f"{option} {pair}: {given[name]} is given too; leave one of them out")
        given[name] = f"{option} {pair}"


def how_to_resume(stop: BaseException) -> str:
    """The line that an interrupted run ends with."""
    again = [argument for argument in sys.argv[1:] if argument != "--resume"]
    return f"{str(stop).partition(';')[0]}; go on with: {shlex.join(['ctlpp', *again, '--resume'])}"


def print_run(run: Any, out: Path) -> None:
    """The results, by split and length."""
    from ctlpp.cli.scores import by_length
    from ctlpp.cli.tables import print_table
    from ctlpp.cli.watching import clock
    from ctlpp.words import plural

    title = f"{run.config['model']} on {run.config['variant']}: {plural(len(run.crowd.seeds))}, {plural(run.step, 'step')}"
    notes = [f"Seed {seed} diverged at step {step:,} and was frozen." for seed, step in run.diverged.items()]
    notes.append(f"{clock(run.seconds)} of training. Written to {out}")
    print_table(title, by_length(run.metrics.at_end()), *notes)
