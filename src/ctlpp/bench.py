"""The measurements of `ctlpp bench`: speed and memory on this machine, beside slow references."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import mean, median
from types import ModuleType
from typing import Any

import torch
from rich.table import Table

import ctlpp
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.cli.output import make_table, progress
from ctlpp.files import UserError
from ctlpp.kernels.fast import without_workspace
from ctlpp.models.zoo import MODELS, build
from ctlpp.reproduce.plan import DEMO_DATA, DEMO_SEEDS
from ctlpp.training.batches import Batches
from ctlpp.training.crowd import init_crowd
from ctlpp.training.engine import computing_with, memory_budget, seeds_at_a_time, threads_for
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.step import Stepper

THREE = ("lstm", "transformer", "ndr")
PLAIN = tuple(name for name in MODELS if name not in (*THREE, "lstm_uni", "rnn"))
AUTHORS_MS = {"lstm": 6.0, "transformer": 35.6, "ndr": 46.9}  # per step of their code, one seed, one H200
CROWDS = (1, 2, 5, 10, 25, 50, 100)
STEPS = 120  # in a measurement on a GPU
OWN_SEEDS = 25
BLOCKS = 5  # of steps of each side, taking turns
SIZES: list[tuple[str, str, dict[str, Any], int, int]] = [
    ("the demo's size", "quick", DEMO_DATA, DEMO_SEEDS, 20),  # name, preset, data, seeds, steps in a block
    ("full size", "authors", {}, 3, 1),
]
COLUMNS = "model", "seeds", "batch", "one by one", "together", "times"


def reference(name: str) -> ModuleType:
    """The module `benchmarks/<name>.py`, from the source tree or installed with the package."""
    package = Path(ctlpp.__file__).parent
    for file in (package / "_benchmarks" / f"{name}.py", package.parents[1] / "benchmarks" / f"{name}.py"):
        spec = importlib.util.spec_from_file_location(f"ctlpp_reference_{name}", file)
        if spec and spec.loader and file.is_file():
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise UserError(f"benchmarks/{name}.py, the reference to compare with, is not installed; use a checkout")


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


def time_steps(stepper: Stepper, batches: Batches, steps: range, *, threads: int = 0) -> float:
    """Seconds of some training steps, with so many threads; 0 for as many as there are."""

    def train() -> None:
        for n in steps:
            stepper.step(n, *batches.at(n))

    with computing_with(threads or torch.get_num_threads()):
        return timed(train, 1)


def run(*arguments: str) -> str:
    """The output of a Python process."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def compare_data() -> tuple[Table, ...]:
    """Generation against a rejection sampler, and the whole command."""
    sampler = reference("rejection_sampler")
    columns = "variant", "sampler s", "ctlpp s", "times", "examples/s"
    speed = make_table("Data in memory, default size (median)", *columns)
    whole = make_table("The whole command, files included", "what", "sampler s", "ctlpp s", "times")
    with progress("measuring", 5) as advance:
        for variant in ("A", "R", "S", "CTL"):
            fast, examples = timed(partial(draw, variant), 5), draw(variant)
            row, rate = ["", f"{fast:.3f}", ""], f"{examples / fast:,.0f}"
            if variant in ("A", "R"):  # the sampler knows no others
                slow = timed(partial(sampler.generate, variant), 2)
                with tempfile.TemporaryDirectory() as folder:
                    into = "--out", f"{folder}/data", "--force"
                    command = timed(partial(run, "-m", "ctlpp", "generate", variant, *into), 3)
                row = [f"{slow:.2f}", f"{fast:.3f}", f"{slow / fast:.1f} ×"]
                times = f"{slow / command:.1f} ×"
                whole.add_row(f"ctlpp generate {variant}", f"{slow:.2f}", f"{command:.2f}", times)
            speed.add_row(variant, *row, rate)
            advance()
        whole.add_row("ctlpp --help", "", f"{timed(lambda: run('-m', 'ctlpp', '--help'), 5):.2f}", "")
        advance()
    return speed, whole


def draw(variant: str) -> int:
    """Draw a dataset with all its results; the number of its examples."""
    dataset = generate(variant, protocol="text")
    for split in dataset.splits.values():
        for examples in split.values():
            dataset.targets(examples)
    return sum(dataset.size(name) for name in dataset.splits)


@dataclass(frozen=True)
class Seeds:
    """Seeds of a model that are trained to be measured."""

    model: str
    preset: str
    data: Dataset
    count: int
    device: str = "cpu"

    @property
    def recipe(self) -> Recipe:
        return recipe_for(self.model, self.preset)

    @cached_property
    def batches(self) -> Batches:
        return Batches(self.data.tensors("train"), self.recipe, list(range(self.count)), self.device)

    def plain(self) -> Any:
        """A plain loop over single seeds."""
        sizes = self.data.task.vocabulary.size, self.data.task.n_symbols
        every = range(self.count), self.recipe, MODELS[self.model].sizes[self.preset], self.device
        return reference("plain_training").PlainTraining(self.model, *sizes, *every)

    def stepper(self) -> Stepper:
        """A fresh crowd: on a GPU all seeds at a time in bf16, on a CPU as `train` would take them."""
        factory = partial(MODELS[self.model].factory, **MODELS[self.model].sizes[self.preset])
        sizes = self.data.task.vocabulary.size, self.data.task.n_symbols
        crowd = init_crowd(factory, *sizes, list(range(self.count)), self.device)
        stepper = Stepper(crowd, self.recipe, self.count, self.device == "cuda")
        if self.device == "cpu":
            longest = self.batches.shapes()[-1]
            stepper.regroup(seeds_at_a_time(stepper, longest, memory_budget(crowd.device))[0])
        return stepper


def compare_training() -> tuple[Table | str, ...]:
    """Seeds trained together on the CPU against a plain loop over them."""
    note = "threads; seed-steps a second; `times` is the median over blocks in turn"
    tables: list[Table] = []
    with progress("measuring", len(THREE) * len(SIZES) + 1) as advance:
        for name, preset, settings, count, steps in SIZES:
            tables.append(make_table(name, *COLUMNS))
            data = generate("R", **{"protocol": "text"} | settings)
            for model in THREE:
                add_turns(tables[-1], Seeds(model, preset, data, count), steps)
                advance()
        tables.append(compare_threads())
        advance()
    return f"{torch.get_num_threads()} {note}", *tables


def compare_threads() -> Table:
    """Small models with all threads, and with as many as `train` takes."""
    name, preset, settings, count, steps = SIZES[0]
    rows = make_table(f"Threads, {name}", "model", "seeds", "all", "as trained", "all", "as trained", "times")
    data = generate("R", **{"protocol": "text"} | settings)
    for model in THREE:
        seeds = Seeds(model, preset, data, count)
        stepper, batches = seeds.stepper(), seeds.batches
        threads = torch.get_num_threads(), threads_for(stepper, batches.shapes()[-1])
        sides = [partial(time_steps, stepper, batches, threads=number) for number in threads]
        rows.add_row(model, str(count), *map(str, threads), *take_turns(sides, steps, count))
    return rows


def add_turns(rows: Table, seeds: Seeds, steps: int) -> None:
    """Add a row that compares a plain loop over the seeds with the crowd."""
    plain, stepper, batches = seeds.plain(), seeds.stepper(), seeds.batches
    plain.step(*batches.at(0))
    if seeds.device == "cuda":
        warm_up(stepper, batches)
    else:
        stepper.step(0, *batches.at(0))

    def time_plain(steps: range) -> float:
        return timed(lambda: [plain.step(*batches.at(n)) for n in steps], 1)

    numbers = take_turns([time_plain, partial(time_steps, stepper, batches)], steps, seeds.count)
    rows.add_row(seeds.model, str(seeds.count), str(seeds.recipe.batch), *numbers)


def take_turns(sides: Sequence[Callable[[range], float]], steps: int, count: int) -> list[str]:
    """Seed-steps a second of two sides that take turns, and the median ratio of a block's times.

    sides: Give the seconds of some steps.
    """
    blocks = [range(first, first + steps) for first in range(0, BLOCKS * steps, steps)]
    spans = [[side(block) for side in sides] for block in blocks]
    speeds = [f"{count * steps * BLOCKS / sum(spent):,.1f}" for spent in zip(*spans, strict=True)]
    return [*speeds, f"{median(slow / fast for slow, fast in spans):.2f} ×"]


def crowd_sizes(text: str) -> list[int]:
    """`1,25,50` as numbers."""
    sizes = [int(part) if part.strip().isdigit() else 0 for part in text.split(",")]
    if min(sizes) < 1:
        raise UserError(f"‹seeds› {text}: give numbers of seeds from 1, separated by commas")
    return sizes


def compare_cuda(crowds: Sequence[int] = CROWDS) -> tuple[Table | str, ...]:
    """Whole training steps on a GPU, of all models and crowd sizes, and of a module without a fast path."""
    data, use = generate("R", protocol="clean"), reference("card_use")
    without_workspace()  # as in training; in time, as nothing has used cuBLAS yet
    flops, moved = use.measure_card()
    columns = ["seeds", "ms a seed-step", "seed-steps/s", "× authors' code", "TFLOP/s", "of the card"]
    columns += ["TB/s", "of the card", "start s", "GiB"]
    title = f"Whole training steps on {torch.cuda.get_device_name()}, preset authors"
    rows, own = make_table(title, "model", *columns), make_table("Modules without a fast path", *COLUMNS)
    with progress("measuring", len(THREE) * len(crowds)) as advance:
        for model in THREE:
            for count in crowds:
                seeds = Seeds(model, "authors", data, count, "cuda")
                ms, teraflops, terabytes, start, gib = measure_crowd(seeds, use)
                numbers = [f"{ms:.4f}", f"{1e3 / ms:,.0f}", f"{AUTHORS_MS[model] / ms:.0f}"]
                numbers += [f"{teraflops:.0f}", f"{teraflops / flops:.0%}"]
                numbers += [f"{terabytes:.1f}", f"{terabytes / moved:.0%}", f"{start:.0f}", f"{gib:.1f}"]
                rows.add_row(model, str(count), *numbers)
                advance()
    for model in PLAIN:
        add_turns(own, Seeds(model, "authors", data, OWN_SEEDS, "cuda"), 3)
    card = f"Measured on this card: {flops:.0f} TFLOP/s (a large bf16 product), {moved:.1f} TB/s (a copy)."
    note = "TB/s: the operands of all kernels of a step, counted once; caches can make it more than a copy's."
    return rows, card, note, own


def measure_crowd(seeds: Seeds, use: ModuleType, steps: int = STEPS) -> list[float]:
    """Train a fresh crowd: ms a seed-step, TFLOP/s, TB/s, seconds of the start, peak GiB.

    The start is the time until every length has run and was captured. use: `benchmarks/card_use.py`.
    """
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    stepper, batches, size = seeds.stepper(), seeds.batches, seeds.recipe.batch
    warm_up(stepper, batches)
    start = time.perf_counter() - begin
    for _ in range(2):  # a card that has waited for the compiler is slow at first
        spent = time_steps(stepper, batches, range(steps))
    ms = 1e3 * spent / steps / seeds.count
    gib = torch.cuda.max_memory_allocated() / 2**30
    moved = {batch[0].shape[-1]: use.bytes_of_step(stepper, batch) for batch in batches.shapes()}
    columns = [batches.at(n)[0].shape[-1] for n in range(steps)]
    module = build(seeds.model, seeds.data.task.vocabulary.size, seeds.data.task.n_symbols)
    flops = mean(use.flops_of(module, T) for T in columns) * size
    return [ms, flops / ms / 1e9, mean(moved[T] for T in columns) / seeds.count / ms / 1e9, start, gib]


def warm_up(stepper: Stepper, batches: Batches) -> None:
    """Let every length run as often as it takes to be compiled and captured, the longest first."""
    for batch in reversed(batches.shapes()):
        for _ in range(4):
            stepper.step(0, *batch)
    torch.cuda.synchronize()
