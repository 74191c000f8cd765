"""`ctlpp train`, `evaluate` and `models`: crowds of seeds."""

from __future__ import annotations

import ast
import shlex
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ctlpp.cli.data import COMMON, Data, Variant, check_unused, data_options
from ctlpp.cli.options import Device, RunFolder
from ctlpp.cli.output import (
    TrainingDisplay,
    clock,
    make_table,
    print_next,
    print_note,
    print_table,
    table_by_length,
)
from ctlpp.files import UserError, with_resume_command
from ctlpp.models import DEFAULT_PRESET, PRESETS
from ctlpp.words import name_seeds, parse_seeds, plural

Preset = Annotated[str, Option(help=f"Sizes and recipe: {'; '.join(map(': '.join, PRESETS.items()))}.")]


@data_options(shown=COMMON)
def train(
    model: Annotated[str, Argument(metavar="MODEL", help="See `ctlpp models`; or package.module:factory.")],
    variant: Variant,
    out: Annotated[Path, Option(help="The run folder to write.", metavar="RUN")],
    data: Data,
    seeds: Annotated[str, Option(help="25 (that is 0 … 24), 3,7,9 or 25-49; 7-7 is just one.")] = "5",
    preset: Preset = DEFAULT_PRESET,
    steps: Annotated[int | None, Option(help="Updates of every seed. [default: the preset's]")] = None,
    batch: Annotated[int | None, Option(help="Examples per seed per step. [default: the preset's]")] = None,
    lr: Annotated[float | None, Option(help="Learning rate. [default: the preset's]")] = None,
    device: Device = "auto",
    precision: Annotated[
        str | None, Option(help="auto (bf16 on CUDA, else float32), float32 or bf16. [default: auto]")
    ] = None,
    eval_every: Annotated[
        int | None, Option(help="Steps between evaluations; 0: at the end only. [default: the preset's]")
    ] = None,
    splits: Annotated[str | None, Option(help="Splits to evaluate. [default: iid,ood]")] = None,
    size: Annotated[
        list[str] | None, Option(help="Another size for the model, like width=64; repeat it for more.")
    ] = None,
    set: Annotated[
        list[str] | None,
        Option(help="Any other setting of the recipe, like schedule=cosine; repeat it for more."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in the folder.")] = False,
    track: Annotated[
        list[str] | None,
        Option(help="Also write curves for tensorboard or wandb (offline); repeat it for both."),
    ] = None,
) -> None:
    """Train seeds of MODEL together on VARIANT and evaluate them.

    `ctlpp train lstm R --seeds 25 --out runs/lstm-R`

    `ctlpp train ndr data/A --seeds 3,7,9 --preset text --device cuda --out runs/ndr-A`

    `ctlpp train my.models:tiny A --preset quick --steps 500 --size width=64 --out runs/tiny`

    Every option of `ctlpp generate --help` that is about the data works here, too.
    """
    numbers, sizes = parse_seeds(seeds), parse_pairs("size", size or ())
    named = {"steps": steps, "batch": batch, "lr": lr, "precision": precision, "eval_every": eval_every}
    changes = {name: value for name, value in named.items() if value is not None}
    changes |= parse_pairs("set", set or (), taken={*changes, "preset"})

    from ctlpp.benchmark.dataset import generate
    from ctlpp.models.zoo import find_model
    from ctlpp.runs.history import Tracker
    from ctlpp.storage.folder import load
    from ctlpp.training.recipe import recipe_for
    from ctlpp.training.run import find_device
    from ctlpp.training.train import Interrupted
    from ctlpp.training.train import train as fit

    observers = [Tracker(tool, out) for tool in dict.fromkeys(track or ())]
    find_model(model, preset, sizes)
    find_device(device)
    if Path(variant).is_dir():
        check_unused(data, variant)
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
        raise with_resume_command(stop, shlex.join(["ctlpp", *again, "--resume"])) from stop
    print_run(run, out)


def print_run(run: Any, out: Path) -> None:
    """The results, by split and length."""
    about = f"{run.config['model']} on {run.config['variant']}"
    title = f"{about}: {plural(len(run.crowd.seeds))}, {plural(run.step, 'step')}"
    notes = [f"Seed {seed} diverged at step {step:,} and was frozen." for seed, step in run.diverged.items()]
    notes.append(f"{clock(run.seconds)} of training. Written to {out}.")
    scores, restarts = run.history.at_end(), run.config["recipe"].get("restarts", 1)
    if restarts > 1:
        chosen = run.history.chosen(restarts)
        scores = [score for score in scores if score.seed in chosen]
        notes.insert(0, f"Of every {restarts} seeds the one of lowest training loss: {name_seeds(chosen)}.")
    print_table(title, table_by_length(scores), *notes)
    print_next("analyze", out)


def evaluate(
    run: RunFolder,
    data: Annotated[
        Path, Option(metavar="DIR", help="A dataset folder with the same functions and symbols.")
    ],
    splits: Annotated[
        str | None, Option(help="Splits to evaluate, like iid,ood,pairs. [default: all]")
    ] = None,
    device: Device = "auto",
) -> None:
    """Evaluate every seed of a run on a dataset folder; of an unfinished run, its newest checkpoint.

    `ctlpp evaluate runs/lstm-R --data data/R`

    `ctlpp evaluate runs/lstm-R --data data/R --splits pairs,any`
    """
    from ctlpp.training.run import load_run

    trained = load_run(run, device=device)
    scores = trained.evaluate(data, None if splits is None else splits.split(","))
    for note in trained.notes:
        print_note(note)
    if not (run / "result.json").is_file():
        steps = trained.config["recipe"]["steps"]
        print_note(f"the run in {run} is unfinished (step {trained.step:,} of {steps:,})")
    seeds = plural(len(trained.crowd.seeds))
    title = f"{trained.config['model']}, {seeds} after {trained.step:,} steps, on {data}"
    print_table(title, table_by_length(scores))
    print_next("analyze", run)


def models(
    preset: Preset = DEFAULT_PRESET,
    functions: Annotated[int, Option(help="Number of functions.")] = 32,
    symbols: Annotated[int, Option(help="Number of symbols.")] = 8,
) -> None:
    """The models by name, with their trainable parameters.

    `ctlpp models`

    `ctlpp models --preset quick`
    """
    from ctlpp.benchmark.variants import Settings
    from ctlpp.models.zoo import MODELS, build, parameters

    Settings(variant="CTL", functions=functions, symbols=symbols)  # refuses what no dataset can have
    rows = make_table("", "model", "parameters", "what it is", wrap=("what it is",))
    for spec in MODELS.values():
        model = build(spec.name, vocab_size=functions + symbols + 1, n_classes=symbols, preset=preset)
        rows.add_row(spec.name, f"{parameters(model):,}", spec.about)
    title = f"Preset {preset}, {functions} functions, {symbols} symbols"
    print_table(title, rows, "Your own model: package.module:factory, see docs/concepts/crowds-of-seeds.md")
    print_next("train", "lstm", "R", "--preset", "quick", "--out", "runs/lstm-R")


def parse_pairs(option: str, pairs: Iterable[str], taken: Collection[str] = ()) -> dict[str, Any]:
    """`["width=64", "shared=False"]` as keyword arguments; `taken`: names that other options have set."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"‹{option}› {pair}: write it as NAME=VALUE")
        if name in found or name in taken:
            raise UserError(f"‹{option}› {pair}: {name} is given twice; leave one of them out")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found
