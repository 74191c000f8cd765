"""Speed of whole training steps on a GPU, over crowds of several sizes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from rich.table import Table
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ctlpp.bench.reference import reference
from ctlpp.bench.traffic import bytes_moved, memory_rate
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.cli.output import make_table, progress
from ctlpp.files import UserError
from ctlpp.kernels.fast import without_workspace
from ctlpp.models.zoo import MODELS, build
from ctlpp.training.batches import Batches
from ctlpp.training.crowd import init_crowd
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.step import Optimizer, Stepper

RELEASED_CODE = {
    "lstm": 6.0,
    "transformer": 35.6,
    "ndr": 46.9,
}  # ms a step of the authors' code, one seed, one H200
CROWDS = (1, 2, 5, 10, 25, 50, 100)
STEPS = 120  # in a measurement


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One measurement."""

    model: str
    seeds: int
    ms: float  # a seed-step
    start: float  # seconds until every length had run and was captured
    gib: float  # peak memory
    teraflops: float  # of the matrix products
    terabytes: float  # that the kernels' operands make, a second


def crowd_sizes(text: str) -> list[int]:
    """`1,25,50` as numbers."""
    sizes = [int(part) if part.strip().isdigit() else 0 for part in text.split(",")]
    if min(sizes) < 1:
        raise UserError(f"--seeds {text}: give numbers of seeds from 1, separated by commas")
    return sizes


def compare(
    models: Sequence[str] = tuple(RELEASED_CODE), crowds: Sequence[int] = CROWDS
) -> tuple[Table | str, ...]:
    """The table of all models and crowd sizes."""
    data = generate("R", protocol="released")
    without_workspace()  # as in training; in time, as nothing has used cuBLAS yet
    peak, bandwidth = matrix_rate(), memory_rate()
    columns = (
        "seeds",
        "ms a seed-step",
        "seed-steps/s",
        "× authors' code",
        "TFLOP/s",
        "of the card",
        "TB/s",
        "of the card",
        "start s",
        "GiB",
    )
    rows = make_table(
        f"Whole training steps on {torch.cuda.get_device_name()}, released preset", "model", *columns
    )
    with progress("measuring", len(models) * len(crowds)) as advance:
        for model in models:
            for seeds in crowds:
                s = measure(model, seeds, data)
                times = RELEASED_CODE[model] / s.ms if model in RELEASED_CODE else 0.0
                rows.add_row(
                    model,
                    str(seeds),
                    f"{s.ms:.4f}",
                    f"{1e3 / s.ms:,.0f}",
                    f"{times:.0f}",
                    f"{s.teraflops:.0f}",
                    f"{s.teraflops / peak:.0%}",
                    f"{s.terabytes:.1f}",
                    f"{s.terabytes / bandwidth:.0%}",
                    f"{s.start:.0f}",
                    f"{s.gib:.1f}",
                )
                advance()
    return (
        rows,
        f"Measured on this card: {peak:.0f} TFLOP/s (a large bf16 product), {bandwidth:.1f} TB/s (a copy).",
        "TB/s: the operands of all kernels of a step, each counted once (caches can make it exceed the memory's rate).",
    )


def measure(model: str, seeds: int, data: Dataset, steps: int = STEPS) -> Speed:
    """Train a crowd of fresh seeds for some steps."""
    spec, recipe = MODELS[model], recipe_for(model)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    stepper = make_stepper(lambda v, c: spec.factory(v, c, **spec.sizes["released"]), seeds, data, recipe)
    batches = Batches(data.tensors("train"), recipe, list(range(seeds)), "cuda")
    warm_up(stepper, batches, data)
    start = time.perf_counter() - begin
    run_steps(stepper, batches, steps)  # a card that has waited for the compiler is slow at first
    spent = seconds(lambda: run_steps(stepper, batches, steps))
    ms = 1e3 * spent / steps / seeds
    gib = torch.cuda.max_memory_allocated() / 2**30
    columns = Counter(batches.at(n)[0].shape[-1] for n in range(steps))
    flops = sum(times * flops_of(model, data, T) for T, times in columns.items()) / steps * recipe.batch
    moved = bytes_a_step(stepper, data, batches, steps) / seeds
    rates = {"teraflops": flops / ms / 1e9, "terabytes": moved / ms / 1e9}
    return Speed(model=model, seeds=seeds, ms=ms, start=start, gib=gib, **rates)


def make_stepper(
    factory: Callable[[int, int], nn.Module], seeds: int, data: Dataset, recipe: Recipe
) -> Stepper:
    """A fresh crowd on the GPU, ready to train in bf16."""
    crowd = init_crowd(factory, data.task.vocabulary.size, data.task.n_symbols, list(range(seeds)), "cuda")
    return Stepper(crowd, recipe, Optimizer.of(crowd), seeds, True)


def warm_up(stepper: Stepper, batches: Batches, data: Dataset) -> None:
    """Let every length run as often as it takes to be compiled and captured, the longest first."""
    for tokens, targets in reversed(data.tensors("train").values()):
        batch = tokens[: batches.recipe.batch].cuda(), targets[: batches.recipe.batch].cuda()
        for _ in range(4):
            stepper.step(0, *batch)
    torch.cuda.synchronize()


def bytes_a_step(stepper: Stepper, data: Dataset, batches: Batches, steps: int) -> float:
    """What the kernels of the first steps move on average, counted once for each length without graphs."""
    quiet = replace(stepper)
    quiet._replays = None
    moved = {}
    for tokens, targets in data.tensors("train").values():
        batch = tokens[: batches.recipe.batch].cuda(), targets[: batches.recipe.batch].cuda()
        moved[tokens.shape[-1]] = bytes_moved(lambda batch=batch: quiet.step(0, *batch))  # type: ignore[misc]
    return sum(moved[batches.at(n)[0].shape[-1]] for n in range(steps)) / steps


def run_steps(stepper: Stepper, batches: Batches, steps: int) -> None:
    """The first steps of a training run."""
    for n in range(steps):
        stepper.step(n, *batches.at(n))


def flops_of(model: str, data: Dataset, columns: int) -> float:
    """Floating-point operations of the matrix products of one example: forward, and twice that backward."""
    module = build(model, data.task.vocabulary.size, data.task.n_symbols).train()
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(1, columns, dtype=torch.int64))
    return 3.0 * float(counter.get_total_flops())


def matrix_rate(n: int = 8192) -> float:
    """Measured TFLOP/s of a large bf16 product on random numbers."""
    a = torch.randn(n, n, device="cuda").bfloat16()
    for _ in range(3):
        a @ a
    spent = seconds(lambda: [a @ a for _ in range(10)])
    return 10 * 2.0 * n**3 / spent / 1e12


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes, its kernels included."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compare_own(seeds: int = 25) -> Table:
    """A module of one's own: seeds together against a plain loop of single seeds."""
    data, recipe = generate("R", protocol="released"), recipe_for("gru")
    plain_training = reference("plain_training")
    plain = plain_training.PlainTraining(
        "gru", 41, 8, range(seeds), recipe, MODELS["gru"].sizes["released"], "cuda"
    )
    spec = MODELS["gru"]
    stepper = make_stepper(lambda v, c: spec.factory(v, c, **spec.sizes["released"]), seeds, data, recipe)
    batches = Batches(data.tensors("train"), recipe, list(range(seeds)), "cuda")
    warm_up(stepper, batches, data)
    plain.step(*batches.at(0))
    together = seconds(lambda: run_steps(stepper, batches, STEPS)) / STEPS
    alone = seconds(lambda: [plain.step(*batches.at(n)) for n in range(3)]) / 3
    rows = make_table(
        "A module without a fast path (gru)", "seeds", "one by one ms", "together ms", "times", left=0
    )
    rows.add_row(str(seeds), f"{1e3 * alone:.1f}", f"{1e3 * together:.2f}", f"{alone / together:.1f} ×")
    return rows
