"""The demonstration behind `make demo`: the paper's phenomenon in a few minutes on two cores.

A and R at a small size, three models, eight seeds each; docs/training.md tells how the size was chosen. A run that is
finished is not trained again, and an interrupted one goes on where it stopped.

    python -m ctlpp.demo --out demo
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ctlpp.statistics.published import PUBLISHED, SOLVED
from ctlpp.words import plural

DATA: dict[str, Any] = {
    "symbols": 4,
    "functions": 8,
    "max_length": 4,
    "train": 2_200,
    "iid": 200,
    "ood": 400,
    "fill": 0.9,  # of all examples: few exist at this size
}
VARIANTS = ("A", "R")
THREE = ("ndr", "transformer", "lstm")  # the longest first
SEEDS = 8
_queue: Any = None  # in a worker: where it reports to


@dataclass
class Standing:
    """Where one of the runs stands."""

    model: str
    variant: str
    step: int = 0
    steps: int = 0
    accuracy: dict[str, list[float]] = field(default_factory=dict)  # split -> by seed

    @property
    def name(self) -> str:
        return f"{self.model}-{self.variant}"


class Reporter:
    """An observer that sends home what it sees."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_step(self, stats: Any) -> None:
        """The step."""
        _queue.put((self.name, "step", (stats.step, stats.steps)))

    def on_evaluate(self, step: int, scores: Sequence[Any]) -> None:
        """The accuracies on whole splits."""
        found: dict[str, list[float]] = {}
        for score in scores:
            if score.length == 0 and score.split in ("iid", "ood"):
                found.setdefault(score.split, []).append(score.accuracy)
        _queue.put((self.name, "accuracy", found))


def prepare(queue: Any) -> None:
    """Start a worker: one thread each, since there are as many workers as cores."""
    global _queue
    _queue = queue
    import torch

    torch.set_num_threads(1)


def work(model: str, variant: str, out: Path, seeds: int, steps: int | None) -> dict[str, list[float]]:
    """Train the seeds of one model on one variant, or go on with it; gives the final accuracies."""
    from ctlpp.storage.folder import load
    from ctlpp.training.recipe import recipe_for
    from ctlpp.training.train import train

    changes: dict[str, Any] = {} if steps is None else {"steps": steps, "eval_every": steps}
    run = train(
        model,
        load(out / "data" / variant),
        seeds=range(seeds),
        preset="quick",
        recipe=recipe_for(model, "quick", **changes),
        device="cpu",
        out=out / "runs" / f"{model}-{variant}",
        resume=True,
        observers=[Reporter(f"{model}-{variant}")],
    )
    look_inside(out / "runs" / f"{model}-{variant}")
    return {split: [row[split] for row in run.table()] for split in ("iid", "ood")}


def look_inside(run: Path) -> None:
    """Analyse a run, unless that is done."""
    from ctlpp.figures.run import analyze_run

    if not (run / "analysis" / "analysis.json").is_file():
        analyze_run(run, device="cpu", formats=["png"], force=True)


def make_data(out: Path, console: Console) -> None:
    """Generate and prove the datasets that are not there yet."""
    from ctlpp.benchmark.dataset import generate
    from ctlpp.storage.proof import check

    for variant in VARIANTS:
        folder = out / "data" / variant
        if not folder.exists():
            generate(variant, **DATA).save(folder)
        proof = check(folder)
        sizes = ", ".join(f"{proof.examples[split]:,} {split}" for split in ("train", "iid", "ood"))
        console.print(
            f"{folder}: {sizes}; every answer, every split and every checksum proved",
            highlight=False,
            soft_wrap=True,
        )


def train_all(out: Path, console: Console, seeds: int, steps: int | None) -> list[Standing]:
    """All runs, as many at a time as there are cores, with a live table; after Ctrl-C no other begins."""
    runs = [Standing(model, variant) for model in THREE for variant in VARIANTS]
    by_name = {run.name: run for run in runs}
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = min(len(runs), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=prepare, initargs=(queue,)) as pool:
        waiting, left = dict[Future[Any], Standing](), runs[:]
        live = Live(
            get_renderable=lambda: picture(runs), console=console, transient=True, refresh_per_second=4
        )
        with live:
            while waiting or left:
                while left and len(waiting) < workers:
                    run = left.pop(0)
                    waiting[pool.submit(work, run.model, run.variant, out, seeds, steps)] = run
                done, _ = wait(waiting, timeout=0.2)
                for name, what, value in received(queue):
                    if what == "step":
                        by_name[name].step, by_name[name].steps = value
                    else:
                        by_name[name].accuracy = value
                for future in done:
                    run = waiting.pop(future)
                    run.accuracy, run.step = future.result(), run.steps
                    if not console.is_terminal:
                        console.print(f"{run.model} on {run.variant} is done", highlight=False)
    return runs


def received(queue: Any) -> Iterator[tuple[str, str, Any]]:
    """What the workers have sent since the last look."""
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


def picture(runs: Sequence[Standing]) -> Group:
    """The live table."""
    rows = Table.grid(padding=(0, 2))
    for run in sorted(runs, key=lambda run: (run.variant, THREE.index(run.model))):
        bar = ProgressBar(run.steps or 1, run.step, width=24)
        rows.add_row(
            run.model, run.variant, bar, f"{run.step:,}", *(cell(run, split) for split in ("iid", "ood"))
        )
    return Group(Text("training (steps, IID and OOD accuracy over seeds)"), rows)


def cell(run: Standing, split: str) -> str:
    """Mean and spread of an accuracy."""
    from ctlpp.cli.output import spread

    return spread(run.accuracy[split]) if split in run.accuracy else "…"


def summary(runs: Sequence[Standing]) -> Table:
    """The final table, with the published full-size numbers beside ours."""
    from ctlpp.cli.output import make_table, solved, spread

    columns = ("IID", "OOD", f"seeds above {SOLVED} OOD", "paper, full size: IID", "OOD")
    rows = make_table("Accuracy, mean ± standard deviation over seeds", "variant", "model", *columns, left=2)
    for run in sorted(runs, key=lambda run: (run.variant, THREE.index(run.model)), reverse=True):
        iid, ood = (run.accuracy[split] for split in ("iid", "ood"))
        published = PUBLISHED[run.model, run.variant]
        means = [f"{mean:.2f}" for mean, _ in (published.iid, published.ood)]
        rows.add_row(run.variant, run.model, spread(iid), spread(ood), solved(ood), *means)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Data, training, analysis, table, page."""
    parser = argparse.ArgumentParser(
        prog="python -m ctlpp.demo", description="The paper's phenomenon in a few minutes."
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), help="the folder to write (default: demo)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each model (default: {SEEDS})")
    parser.add_argument("--steps", type=int, help="training steps (default: those of the quick preset)")
    parser.add_argument("--fresh", action="store_true", help="forget what is there and start anew")
    given = parser.parse_args(arguments)
    console, start = Console(), monotonic()
    if given.fresh:
        for part in ("data", "runs"):
            shutil.rmtree(given.out / part, ignore_errors=True)
    try:
        make_data(given.out, console)
        runs = train_all(given.out, console, given.seeds, given.steps)
    except ValueError as error:
        print(f"ctlpp demo: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
    from ctlpp.cli.output import print_table

    print_table(
        summary(runs),
        f"{plural(given.seeds)} each; runs in {given.out / 'runs'}; {monotonic() - start:.0f} s",
    )
    write_page(given.out, console)


def write_page(out: Path, console: Console) -> None:
    """One page about all runs."""
    from ctlpp.report.page import write_report

    page = (out / "report.html").resolve()
    write_report([out / "runs"], page, force=True)
    console.print(
        f"Look inside every seed, beside one that succeeds: open {page} in a browser",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
