"""The measurements of `ctlpp bench`: speed and memory on this machine, beside slow references."""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from types import ModuleType
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

import ctlpp
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.cli.output import make_table, progress
from ctlpp.files import UserError
from ctlpp.kernels.fast import without_workspace
from ctlpp.models.zoo import MODELS, build
from ctlpp.reproduce.plan import DEMO_DATA, DEMO_SEEDS
from ctlpp.training.batches import Batches
from ctlpp.training.crowd import init_crowd
from ctlpp.training.engine import memory_budget, seeds_at_a_time
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.step import Optimizer, Stepper

THREE = ("lstm", "transformer", "ndr")
AUTHORS = {"lstm": 6.0, "transformer": 35.6, "ndr": 46.9}  # ms a step of their code, one seed, one H200
CROWDS = (1, 2, 5, 10, 25, 50, 100)
STEPS = 120  # in a measurement on a GPU
OWN_SEEDS, MEMORY_SEEDS = 25, 25

LARGE = """
import resource, sys, time
from ctlpp.benchmark.dataset import generate
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
dataset = generate("A", functions=64, max_length=10, train=10_000_000)
if len(sys.argv) > 1:
    dataset.save(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(time.perf_counter() - start, (after - before) / 1024)
"""


def reference(name: str) -> ModuleType:
    """The module `benchmarks/<name>.py`, from the source tree or installed with the package."""
    package = Path(ctlpp.__file__).parent
    for file in (package / "_benchmarks" / f"{name}.py", package.parents[1] / "benchmarks" / f"{name}.py"):
        spec = importlib.util.spec_from_file_location(f"ctlpp_reference_{name}", file)
        if spec and spec.loader and file.is_file():
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    missing = f"benchmarks/{name}.py, the reference to compare with, is not installed"
    raise UserError(f"{missing}; run this in a checkout")


def timed(work: Callable[[], object], repeats: int) -> float:
    """Median seconds of a piece of work, its kernels on a GPU included."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - start)
    return median(spent)


def run(*arguments: str) -> str:
    """The output of a Python process."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def compare_data() -> tuple[Table, ...]:
    """Generation against a rejection sampler; the whole command; memory of ten million examples."""
    sampler = reference("rejection_sampler")
    columns = "variant", "sampler s", "ctlpp s", "times", "examples/s"
    speed = make_table("Data in memory, default size (median)", *columns)
    whole = make_table("The whole command, files included", "what", "sampler s", "ctlpp s", "times")
    with progress("measuring", 6) as advance:
        for variant in ("A", "R", "S", "CTL"):
            fast, examples = timed(partial(draw, variant), 5), draw(variant)
            row, rate = ["", f"{fast:.3f}", ""], f"{examples / fast:,.0f}"
            if variant in ("A", "R"):  # the sampler knows no others
                slow, command = (
                    timed(partial(sampler.generate, variant), 2),
                    timed(partial(run_command, variant), 3),
                )
                row = [f"{slow:.2f}", f"{fast:.3f}", f"{slow / fast:.1f} ×"]
                times = f"{slow / command:.1f} ×"
                whole.add_row(f"ctlpp generate {variant}", f"{slow:.2f}", f"{command:.2f}", times)
            speed.add_row(variant, *row, rate)
            advance()
        whole.add_row("ctlpp --help", "", f"{timed(lambda: run('-m', 'ctlpp', '--help'), 5):.2f}", "")
        advance()
        large = measure_large()
        advance()
    return speed, whole, large


def draw(variant: str) -> int:
    """Draw a dataset with all its results; the number of its examples."""
    dataset = generate(variant)
    for split in dataset.splits.values():
        for examples in split.values():
            dataset.targets(examples)
    return sum(dataset.size(name) for name in dataset.splits)


def run_command(variant: str) -> None:
    """`ctlpp generate` into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        run("-m", "ctlpp", "generate", variant, "--out", str(Path(folder) / "data"))


def measure_large() -> Table:
    """Ten million examples in a process of their own."""
    title = "10 million training examples: A, 64 functions, up to 10 long"
    rows = make_table(title, "what", "s", "MiB above the import")
    with tempfile.TemporaryDirectory() as folder:
        where = {"in memory": [], "and written as Parquet": [str(Path(folder) / "large")]}
        for what, out in where.items():
            spent, memory = run("-c", LARGE, *out).split()
            rows.add_row(what, f"{float(spent):.1f}", f"{float(memory):.0f}")
    return rows


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is measured on a CPU."""

    name: str
    preset: str
    data: dict[str, Any]
    seeds: int
    steps: int  # in a block
    blocks: int  # of each side, taking turns


DEMO = Size(name="the demo's size", preset="quick", data=DEMO_DATA, seeds=DEMO_SEEDS, steps=20, blocks=5)
FULL = Size(name="full size", preset="released", data={}, seeds=3, steps=1, blocks=5)


def compare_training(sizes: tuple[Size, ...] = (DEMO, FULL)) -> tuple[Table | str, ...]:
    """Seeds trained together on the CPU against a plain loop over them, and the memory of a process."""
    note = "threads; seed-steps a second; `times` is the median over blocks in turn"
    results: list[Table | str] = [f"{torch.get_num_threads()} {note}"]
    with progress("measuring", len(THREE) * len(sizes) + 1) as advance:
        for size in sizes:
            rows = make_table(size.name, "model", "seeds", "batch", "one by one", "together", "times")
            data = generate("R", **size.data)
            for model in THREE:
                recipe = recipe_for(model, size.preset)
                alone, together, times = measure_turns(model, size, data, recipe)
                numbers = f"{alone:,.1f}", f"{together:,.1f}", f"{times:.2f} ×"
                rows.add_row(model, str(size.seeds), str(recipe.batch), *numbers)
                advance()
            results.append(rows)
        results.append(measure_memory())
        advance()
    return tuple(results)


def measure_turns(model: str, size: Size, data: Dataset, recipe: Recipe) -> tuple[float, float, float]:
    """Seed-steps a second of the plain loop and of the crowd, in turn, and the median ratio."""
    plain = make_plain(model, size.preset, data, recipe, size.seeds)
    stepper = make_stepper(model, size.preset, data, recipe, size.seeds)
    batches = Batches(data.tensors("train"), recipe, stepper.crowd.seeds)
    plain.step(*batches.at(0))  # warm up
    stepper.step(0, *batches.at(0))
    alone, together = [], []
    for block in range(size.blocks):
        work = [(n, batches.at(n)) for n in range(block * size.steps, (block + 1) * size.steps)]
        start = time.perf_counter()
        for _, batch in work:
            plain.step(*batch)
        middle = time.perf_counter()
        for n, batch in work:
            stepper.step(n, *batch)
        alone.append(middle - start)
        together.append(time.perf_counter() - middle)
    done = size.seeds * size.steps * size.blocks
    times = median(slow / fast for slow, fast in zip(alone, together, strict=True))
    return done / sum(alone), done / sum(together), times


def make_plain(
    model: str, preset: str, data: Dataset, recipe: Recipe, seeds: int, device: str = "cpu"
) -> Any:
    """A plain loop over single seeds."""
    sizes = data.task.vocabulary.size, data.task.n_symbols
    plain = reference("plain_training").PlainTraining
    return plain(model, *sizes, range(seeds), recipe, MODELS[model].sizes[preset], device)


def make_stepper(
    model: str, preset: str, data: Dataset, recipe: Recipe, seeds: int, device: str = "cpu"
) -> Stepper:
    """A fresh crowd: on a GPU all seeds at a time in bf16, on a CPU as `train` would take them."""
    factory = partial(MODELS[model].factory, **MODELS[model].sizes[preset])
    crowd = init_crowd(factory, data.task.vocabulary.size, data.task.n_symbols, list(range(seeds)), device)
    stepper = Stepper(crowd, recipe, Optimizer.of(crowd), seeds, device == "cuda")
    if device == "cpu":
        longest = Batches(data.tensors("train"), recipe, crowd.seeds).shapes()[-1]
        stepper.regroup(seeds_at_a_time(stepper, longest, memory_budget(crowd.device))[0])
    return stepper


def measure_memory(seeds: int = MEMORY_SEEDS) -> Table:
    """Peak memory of a process that trains full-size NDR seeds for a step."""
    rows = make_table("Memory of a training process on the CPU", "what", "seconds a step", "peak GiB")
    spent, gib = run("-c", f"from ctlpp.bench import print_peak; print_peak({seeds})").split()
    rows.add_row(f"ndr, full size, {seeds} seeds", f"{float(spent):.1f}", f"{float(gib):.2f}")
    return rows


def print_peak(seeds: int) -> None:
    """Train full-size NDR seeds for a step; print its seconds and the peak memory in GiB."""
    data, recipe = generate("R", max_length=6), recipe_for("ndr")
    stepper = make_stepper("ndr", "released", data, recipe, seeds)
    longest = Batches(data.tensors("train"), recipe, [0]).shapes()[-1]
    stepper.regroup(seeds_at_a_time(stepper, longest, memory_budget(stepper.crowd.device))[0])
    print(
        timed(lambda: stepper.step(0, *longest), 1),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )


def crowd_sizes(text: str) -> list[int]:
    """`1,25,50` as numbers."""
    sizes = [int(part) if part.strip().isdigit() else 0 for part in text.split(",")]
    if min(sizes) < 1:
        raise UserError(f"‹seeds› {text}: give numbers of seeds from 1, separated by commas")
    return sizes


def compare_cuda(crowds: Sequence[int] = CROWDS) -> tuple[Table | str, ...]:
    """Whole training steps on a GPU, of all models and crowd sizes, and of a module without a fast path."""
    data, use = generate("R", protocol="released"), reference("card_use")
    without_workspace()  # as in training; in time, as nothing has used cuBLAS yet
    flops, moved = use.measure_card()
    columns = ["seeds", "ms a seed-step", "seed-steps/s", "× authors' code", "TFLOP/s", "of the card"]
    columns += ["TB/s", "of the card", "start s", "GiB"]
    title = f"Whole training steps on {torch.cuda.get_device_name()}, released preset"
    rows = make_table(title, "model", *columns)
    with progress("measuring", len(THREE) * len(crowds)) as advance:
        for model in THREE:
            for seeds in crowds:
                ms, teraflops, terabytes, start, gib = measure_crowd(model, seeds, data, use)
                numbers = [f"{ms:.4f}", f"{1e3 / ms:,.0f}", f"{AUTHORS[model] / ms:.0f}"]
                numbers += [f"{teraflops:.0f}", f"{teraflops / flops:.0%}"]
                numbers += [f"{terabytes:.1f}", f"{terabytes / moved:.0%}", f"{start:.0f}", f"{gib:.1f}"]
                rows.add_row(model, str(seeds), *numbers)
                advance()
    card = f"Measured on this card: {flops:.0f} TFLOP/s (a large bf16 product), {moved:.1f} TB/s (a copy)."
    note = "TB/s: the operands of all kernels of a step, counted once; caches can make it more than a copy's."
    return rows, card, note, compare_own(data)


def measure_crowd(model: str, seeds: int, data: Dataset, use: ModuleType, steps: int = STEPS) -> list[float]:
    """Train a fresh crowd: ms a seed-step, TFLOP/s, TB/s, seconds of the start, peak GiB.

    The start is the time until every length has run and was captured. use: `benchmarks/card_use.py`.
    """
    recipe = recipe_for(model)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    stepper = make_stepper(model, "released", data, recipe, seeds, "cuda")
    batches = Batches(data.tensors("train"), recipe, list(range(seeds)), "cuda")
    warm_up(stepper, data)
    start = time.perf_counter() - begin
    run_steps(stepper, batches, steps)  # a card that has waited for the compiler is slow at first
    torch.cuda.synchronize()
    ms = 1e3 * timed(lambda: run_steps(stepper, batches, steps), 1) / steps / seeds
    gib = torch.cuda.max_memory_allocated() / 2**30
    moved = {
        batch[0].shape[-1]: use.bytes_of_step(stepper, batch)
        for batch in batches_by_length(data, recipe.batch)
    }
    columns = [batches.at(n)[0].shape[-1] for n in range(steps)]
    module = build(model, data.task.vocabulary.size, data.task.n_symbols)
    flops = mean(use.flops_of(module, T) for T in columns) * recipe.batch
    return [ms, flops / ms / 1e9, mean(moved[T] for T in columns) / seeds / ms / 1e9, start, gib]


def batches_by_length(data: Dataset, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A batch of every length on the GPU, the longest first."""
    for tokens, targets in reversed(data.tensors("train").values()):
        yield tokens[:size].cuda(), targets[:size].cuda()


def warm_up(stepper: Stepper, data: Dataset) -> None:
    """Let every length run as often as it takes to be compiled and captured."""
    for batch in batches_by_length(data, stepper.recipe.batch):
        for _ in range(4):
            stepper.step(0, *batch)
    torch.cuda.synchronize()


def run_steps(stepper: Stepper, batches: Batches, steps: int) -> None:
    """The first steps of a training run."""
    for n in range(steps):
        stepper.step(n, *batches.at(n))


def compare_own(data: Dataset, seeds: int = OWN_SEEDS) -> Table:
    """A module without a fast path: seeds together against a plain loop of single seeds."""
    recipe = recipe_for("gru")
    plain = make_plain("gru", "released", data, recipe, seeds, "cuda")
    stepper = make_stepper("gru", "released", data, recipe, seeds, "cuda")
    batches = Batches(data.tensors("train"), recipe, list(range(seeds)), "cuda")
    warm_up(stepper, data)
    plain.step(*batches.at(0))
    torch.cuda.synchronize()
    together = timed(lambda: run_steps(stepper, batches, STEPS), 1) / STEPS
    alone = timed(lambda: [plain.step(*batches.at(n)) for n in range(3)], 1) / 3
    columns = "seeds", "one by one ms", "together ms", "times"
    rows = make_table("A module without a fast path (gru)", *columns, left=0)
    rows.add_row(str(seeds), f"{1e3 * alone:.1f}", f"{1e3 * together:.2f}", f"{alone / together:.1f} ×")
    return rows
