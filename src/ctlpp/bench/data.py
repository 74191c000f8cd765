"""Speed and memory of data generation."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from rich.table import Table

from ctlpp.bench.reference import reference
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.cli.output import make_table, progress

REPEATS = 5

LARGE = """
import resource, sys, time
import ctlpp
from ctlpp.benchmark.dataset import generate
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
dataset = generate("A", functions=64, max_length=10, train=10_000_000)
made = time.perf_counter() - start
if len(sys.argv) > 1:
    dataset.save(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(dataset.size("train"), made, time.perf_counter() - start, (after - before) / 1024)
"""


def compare() -> tuple[Table | str, ...]:
    """All measurements, as tables."""
    sampler = reference("rejection_sampler")
    speed = make_table(
        "Data in memory, default size (median)", "variant", "sampler s", "ctlpp s", "times", "examples/s"
    )
    whole = make_table("The whole command, files included", "what", "sampler s", "ctlpp s", "times")
    with progress("measuring", 7) as advance:
        for variant in ("A", "R"):
            slow = timed(lambda v=variant: sampler.generate(v), 2)  # type: ignore[misc]
            advance()
            fast, dataset = timed_dataset(variant)
            speed.add_row(
                variant, f"{slow:.2f}", f"{fast:.3f}", f"{slow / fast:.1f} ×", f"{total(dataset) / fast:,.0f}"
            )
            command = timed(lambda v=variant: run_command(v), 3)  # type: ignore[misc]
            whole.add_row(
                f"ctlpp generate {variant}", f"{slow:.2f}", f"{command:.2f}", f"{slow / command:.1f} ×"
            )
            advance()
        for variant in ("S", "CTL"):
            fast, dataset = timed_dataset(variant)
            speed.add_row(variant, "", f"{fast:.3f}", "", f"{total(dataset) / fast:,.0f}")
        helped = timed(lambda: run("-m", "ctlpp", "--help"), 5)
        whole.add_row("ctlpp --help", "", f"{helped:.2f}", "")
        advance()
        large = measure_large()
        advance(2)
    return speed, whole, large


def measure_large() -> Table:
    """Ten million examples in a process of their own."""
    rows = make_table(
        "10 million training examples: A, 64 functions, up to 10 long", "what", "s", "MiB above the import"
    )
    _, made, _, memory = run("-c", LARGE).split()
    rows.add_row("in memory", f"{float(made):.1f}", f"{float(memory):.0f}")
    with tempfile.TemporaryDirectory() as folder:
        _, _, written, memory = run("-c", LARGE, str(Path(folder) / "large")).split()
    rows.add_row("and written as Parquet", f"{float(written):.1f}", f"{float(memory):.0f}")
    return rows


def timed_dataset(variant: str) -> tuple[float, Dataset]:
    """Seconds to draw a dataset with all its results."""

    def draw() -> Dataset:
        dataset = generate(variant)
        for split in dataset.splits.values():
            for examples in split.values():
                dataset.targets(examples)
        return dataset

    return timed(draw, REPEATS), draw()


def total(dataset: Dataset) -> int:
    """Examples in all splits together."""
    return sum(dataset.size(name) for name in dataset.splits)


def timed(work: Callable[[], object], repeats: int) -> float:
    """Median seconds of a piece of work."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def run_command(variant: str) -> None:
    """`ctlpp generate` into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        run("-m", "ctlpp", "generate", variant, "--out", str(Path(folder) / "data"))


def run(*arguments: str) -> str:
    """The output of a Python process."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout
