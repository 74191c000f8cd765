"""`ctlpp train`, `evaluate` and `models`: crowds of seeds."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ctlpp.cli.options import DATA, data_options, name_seeds, parse_pairs, parse_seeds
from ctlpp.words import plural

Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@data_options(*DATA)
def train(
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
    data: Any,
    seeds: Annotated[str, typer.Option(help="25 (that is 0 … 24), 3,7,9 or 25-49; 7-7 is just one.")] = "5",
    preset: Annotated[str, typer.Option(help="Hyper-parameters: released, paper or quick.")] = "released",
    steps: Annotated[int | None, typer.Option(help="Updates of every seed. [default: the preset's]")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Examples per seed per step. [default: the preset's]")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate. [default: the preset's]")] = None,
    device: Device = "auto",
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
    set: Annotated[
        list[str] | None,
        typer.Option(help="Any other setting of the recipe, like schedule=cosine; repeat it for more."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Also write curves for tensorboard or wandb (offline); repeat it for both."),
    ] = None,
) -> None:
    """Train seeds of MODEL together on VARIANT and evaluate them.

    `ctlpp train lstm R --seeds 25 --out runs/lstm-R`

    `ctlpp train ndr data/A --seeds 3,7,9 --preset paper --device cuda --out runs/ndr-A`

    `ctlpp train my.models:tiny A --preset quick --steps 500 --size width=64 --out runs/tiny`
    """
    numbers, sizes = parse_seeds(seeds), parse_pairs("size", size or ())
    named = {"steps": steps, "batch": batch, "lr": lr, "precision": precision, "eval_every": eval_every}
    changes = {name: value for name, value in named.items() if value is not None}
    changes |= parse_pairs("set", set or (), taken=changes)

    from ctlpp.benchmark.dataset import generate
    from ctlpp.cli.output import TrainingDisplay
    from ctlpp.cli.tracking import trackers
    from ctlpp.models.zoo import find_model
    from ctlpp.storage.folder import load
    from ctlpp.training.engine import find_device
    from ctlpp.training.loop import Interrupted
    from ctlpp.training.recipe import recipe_for
    from ctlpp.training.train import train as fit

    observers = trackers(track or (), out)
    find_model(model, preset, sizes)
    find_device(device)
    if Path(variant).is_dir():
        data.check_unused(variant)
        dataset = load(variant)
    else:
        dataset = generate(variant, **data)
    recipe = recipe_for(model, preset, dataset.task.variant, **changes)
    title = f"{model} on {dataset.task.variant}, seeds {name_seeds(numbers)}"
    try:
        with TrainingDisplay(title) as display:
            run = fit(
                model,
                dataset,
                seeds=numbers,
                recipe=recipe,
                preset=preset,
                sizes=sizes,
                device=device,
                out=out,
                resume=resume,
                splits=None if splits is None else splits.split(","),
                observers=[display, *observers],
                about={"data": variant},
            )
    except Interrupted as stop:
        again = [argument for argument in sys.argv[1:] if argument != "--resume"]
        command = shlex.join(["ctlpp", *again, "--resume"])
        raise KeyboardInterrupt(f"{str(stop).partition(';')[0]}; go on with: {command}") from stop
    print_run(run, out)


def print_run(run: Any, out: Path) -> None:
    """The results, by split and length."""
    from ctlpp.cli.output import clock, print_table, table_by_length

    about = f"{run.config['model']} on {run.config['variant']}"
    title = f"{about}: {plural(len(run.crowd.seeds))}, {plural(run.step, 'step')}"
    notes = [f"Seed {seed} diverged at step {step:,} and was frozen." for seed, step in run.diverged.items()]
    notes.append(f"{clock(run.seconds)} of training. Written to {out}. Look inside: ctlpp analyze {out}")
    print_table(title, table_by_length(run.metrics.at_end()), *notes)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="A dataset folder with the same functions and symbols.")
    ],
    splits: Annotated[
        str | None, typer.Option(help="Splits to evaluate, like iid,ood,pairs. [default: all]")
    ] = None,
    device: Device = "auto",
) -> None:
    """Evaluate every seed of a run on a dataset folder; of an unfinished run, its newest checkpoint.

    `ctlpp evaluate runs/lstm-R --data data/R`

    `ctlpp evaluate runs/lstm-R --data data/R --splits pairs,any`
    """
    from ctlpp.cli.output import print_table, table_by_length
    from ctlpp.storage.folder import load
    from ctlpp.training.train import check_data_matches_run, load_run

    trained, dataset = load_run(run, device=device), load(data)
    check_data_matches_run(trained.config, dataset.task, run, data)
    names = [name for name in dataset.splits if name != "train"] if splits is None else splits.split(",")
    scores = trained.evaluate({name: dataset.tensors(name) for name in names})
    for note in trained.notes:
        typer.echo(f"Note: {note}.", err=True)
    if not (run / "result.json").is_file():
        steps = trained.config["recipe"]["steps"]
        typer.echo(f"Note: the run in {run} is unfinished (step {trained.step:,} of {steps:,}).", err=True)
    seeds = plural(len(trained.crowd.seeds))
    title = f"{trained.config['model']}, {seeds} after {trained.step:,} steps, on {data}"
    print_table(title, table_by_length(scores))


def models(
    preset: Annotated[
        str, typer.Option(help="Count parameters with these sizes: released, paper or quick.")
    ] = "released",
    functions: Annotated[int, typer.Option(help="Number of functions.")] = 32,
    symbols: Annotated[int, typer.Option(help="Number of symbols.")] = 8,
) -> None:
    """The models by name, with their trainable parameters.

    `ctlpp models`

    `ctlpp models --preset quick`
    """
    from ctlpp.benchmark.variants import Settings
    from ctlpp.cli.output import make_table, print_table
    from ctlpp.models.zoo import MODELS, build, parameters

    Settings(variant="CTL", functions=functions, symbols=symbols)  # refuses what no dataset can have
    rows = make_table("", "model", "parameters", "what it is")
    rows.columns[-1].justify = "left"
    for spec in MODELS.values():
        model = build(spec.name, vocab_size=functions + symbols + 1, n_classes=symbols, preset=preset)
        rows.add_row(spec.name, f"{parameters(model):,}", spec.about)
    title = f"Preset {preset}, {functions} functions, {symbols} symbols"
    print_table(title, rows, "Your own model: package.module:factory, see docs/training.md")
