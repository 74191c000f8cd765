"""Speed and memory of training: seeds together against a plain loop over single seeds."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from rich.table import Table

from ctlpp.bench.reference import reference
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.cli.output import make_table, progress
from ctlpp.models.zoo import MODELS
from ctlpp.reproduce.plan import DEMO_DATA, DEMO_SEEDS
from ctlpp.training.batches import Batches
from ctlpp.training.crowd import init_crowd
from ctlpp.training.engine import memory_budget, seeds_at_a_time
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.step import Optimizer, Stepper

THREE = ("lstm", "transformer", "ndr")
MEMORY_SEEDS = 25


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is measured."""

    name: str
    preset: str
    data: dict[str, Any]
    seeds: int
    steps: int  # in a block
    blocks: int  # of each side, taking turns


DEMO = Size(name="the demo's size", preset="quick", data=DEMO_DATA, seeds=DEMO_SEEDS, steps=20, blocks=5)
FULL = Size(name="full size", preset="released", data={}, seeds=3, steps=1, blocks=5)


def compare(sizes: tuple[Size, ...] = (DEMO, FULL)) -> tuple[Table | str, ...]:
    """All measurements, as tables."""
    results: list[Table | str] = [
        f"{torch.get_num_threads()} threads; seed-steps a second; `times` is the median over blocks in turn"
    ]
    with progress("measuring", len(THREE) * sum(size.blocks for size in sizes) + 1) as advance:
        for size in sizes:
            rows = make_table(size.name, "model", "seeds", "batch", "one by one", "together", "times")
            data = generate("R", **size.data)
            for model in THREE:
                recipe = recipe_for(model, size.preset)
                alone, together, times = measure(model, size, data, recipe, advance)
                figures = [f"{alone:,.1f}", f"{together:,.1f}", f"{times:.2f} ×"]
                rows.add_row(model, str(size.seeds), str(recipe.batch), *figures)
            results.append(rows)
        results.append(measure_memory())
        advance()
    return tuple(results)


def measure(
    model: str, size: Size, data: Dataset, recipe: Recipe, advance: Callable[[], None]
) -> tuple[float, float, float]:
    """Seed-steps a second of the plain loop and of the crowd on the same batches, in turn, and the median ratio."""
    plain_training = reference("plain_training")
    seeds = list(range(size.seeds))
    batches = Batches(data.tensors("train"), recipe, seeds)
    sizes, n_tokens, n_classes = (
        MODELS[model].sizes[size.preset],
        data.task.vocabulary.size,
        data.task.n_symbols,
    )
    plain = plain_training.PlainTraining(model, n_tokens, n_classes, seeds, recipe, sizes)
    stepper = make_stepper(model, size.preset, data, recipe, seeds)
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
        advance()
    done = size.seeds * size.steps * size.blocks
    times = median(slow / fast for slow, fast in zip(alone, together, strict=True))
    return done / sum(alone), done / sum(together), times


def make_stepper(model: str, preset: str, data: Dataset, recipe: Recipe, seeds: list[int]) -> Stepper:
    """A crowd ready to train, with as many seeds at a time as `train` would take."""
    spec = MODELS[model]
    crowd = init_crowd(
        lambda vocab_size, n_classes: spec.factory(vocab_size, n_classes, **spec.sizes[preset]),
        data.task.vocabulary.size,
        data.task.n_symbols,
        seeds,
    )
    stepper = Stepper(crowd, recipe, Optimizer.of(crowd), len(seeds), False)
    longest = Batches(data.tensors("train"), recipe, seeds).shapes()[-1]
    stepper.regroup(seeds_at_a_time(stepper, longest, memory_budget(crowd.device))[0])
    return stepper


def measure_memory(seeds: int = MEMORY_SEEDS) -> Table:
    """Peak memory of a process that trains full-size NDR seeds for a step."""
    rows = make_table("Memory of a training process on the CPU", "what", "seconds a step", "peak GiB")
    code = f"from ctlpp.bench.train import peak; peak({seeds})"
    spent, gib = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    rows.add_row(f"ndr, full size, {seeds} seeds", f"{float(spent):.1f}", f"{float(gib):.2f}")
    return rows


def peak(seeds: int) -> None:
    """Train full-size NDR seeds for a step on the longest examples; print its seconds and the peak memory in GiB."""
    data, recipe = generate("R", max_length=6), recipe_for("ndr")
    stepper = make_stepper("ndr", "released", data, recipe, list(range(seeds)))
    longest = Batches(data.tensors("train"), recipe, [0]).shapes()[-1]
    start = time.perf_counter()
    stepper.step(0, *longest)
    print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
