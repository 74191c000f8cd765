"""Which settings of the kernels make NDR's training step fastest on this card?

    python benchmarks/tune_kernels.py --seconds 85      # needs a CUDA card; also: --seeds, --lengths

Whole steps (loss, gradient, clipping, Adam) of a crowd of NDRs of released size are captured as CUDA graphs:
one for each length with the settings as they are, one with a candidate's. Both are replayed in turns, so
that the clock of the card does not matter. Each candidate changes one part of the step; in the end the best
of every part are taken together. A candidate whose gradient is not the present one is told and never wins.
Kernels are compiled beforehand by several processes; what does not fit into the time is skipped, the least
promising first.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import torch

from ctlpp.kernels.launch import Block, Tile
from ctlpp.models.zoo import MODELS
from ctlpp.training.crowd import init_crowd
from ctlpp.training.recipe import recipe_for
from ctlpp.training.step import Stepper

Settings = dict[str, Any]  # "module.NAME" in `ctlpp.kernels` -> value
VOCABULARY, CLASSES, BATCH = 41, 8, 512
PAIRS = 8  # replays of both graphs in a measurement
APART = 2e-2  # a gradient may differ from the present one by so much of its norm, a parameter
WORTH = 10.0  # µs a step that a winner gains at least
RESERVE = 6.0  # seconds kept for the winners together


def hidden(
    way: str,
    rows: int,
    columns: int,
    *,
    step: int = 64,
    warps: int = 4,
    stages: int = 2,
    registers: int | None = None,
) -> Settings:
    return {f"ffn.{way}": Tile(rows, columns, step, warps, stages, registers)}


def together(*tile: int) -> Settings:
    return {"ndr_weights.TILE": Tile(*tile)}


CANDIDATES: list[
    tuple[str, str, Settings]
] = [  # part of the step, what is tried, settings; most promising first
    ("reads, backward", "96 registers", {"pairs.READ_BACK_REGISTERS": 96}),
    ("scores, backward", "4 tiles", {"pairs.SCORE_BACK": 4}),
    ("scores, backward", "168 registers", {"pairs.SCORE_BACK_REGISTERS": 168}),
    ("scores, backward", "128 registers", {"pairs.SCORE_BACK_REGISTERS": 128}),
    ("units, backward", "128 registers", hidden("BACKWARD", 128, 64, registers=128)),
    ("gate, backward", "4 rows × 2", {"norm.UPDATE_BACK": Block(4, 2)}),
    ("gate, forward", "8 rows", {"norm.UPDATE_ROWS": 8}),
    ("norm, backward", "2 rows × 8", {"norm.BACK": Block(2, 8)}),
    ("geometric, backward", "64 rows, 2 warps", {"geometric.BACK_WARPS": 2}),
    ("weights", "128 × 256, 2 stages", together(128, 256, 64, 8, 2)),
    ("units, forward", "64 × 128", hidden("FORWARD", 64, 128)),
]


def set_to(settings: Settings) -> ExitStack:
    """Constants of the kernels as told until the stack is closed."""
    stack = ExitStack()
    for name, value in settings.items():
        stack.enter_context(patch(f"ctlpp.kernels.{name}", value))
    return stack


class Steps:
    """A crowd of NDRs and a batch of each length."""

    def __init__(self, seeds: int, lengths: list[int]) -> None:
        self.lengths, self.all = lengths, slice(0, seeds)
        ndr = partial(MODELS["ndr"].factory, **MODELS["ndr"].sizes["authors"])
        self.crowd = init_crowd(ndr, VOCABULARY, CLASSES, range(seeds), "cuda")
        self.crowd.module.train()
        self.start, recipe = self.crowd.weights.clone(), recipe_for("ndr")
        self.stepper = Stepper(self.crowd, recipe, seeds, True)
        self.stepper.scalars.set(recipe, 0)
        draw = torch.Generator().manual_seed(0)
        shapes = {L: ((VOCABULARY, (BATCH, L + 2)), (CLASSES, (BATCH,))) for L in lengths}
        self.batches = {
            L: [torch.randint(*of, generator=draw).cuda() for of in shape] for L, shape in shapes.items()
        }
        self.pool: Any = None
        self.kept: dict[
            int, tuple[torch.Tensor, torch.cuda.CUDAGraph]
        ]  # gradient and graph of the present settings

    def run(self, L: int) -> torch.Tensor:
        """A step on the batch of a length; its gradient."""
        losses, gradient = self.stepper.gradient(self.all, *self.batches[L])
        self.stepper.update(self.all, losses, gradient)
        return gradient

    def captured(self, L: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.run(L)
        self.pool = graph.pool()
        return graph

    def gradient(self, L: int) -> torch.Tensor:
        """That of the weights at the start."""
        self.crowd.weights.copy_(self.start)
        return self.run(L).clone()

    def apart(self, L: int) -> float:
        """How far the gradient is from that of the present settings, of the worst parameter."""
        found, kept = self.crowd.views(self.gradient(L)), self.crowd.views(self.kept[L][0])
        errors = torch.stack([(found[name] - kept[name]).norm() / kept[name].norm() for name in kept])
        return float(errors.nan_to_num(torch.inf).max())

    def gain(self, L: int) -> tuple[float, float]:
        """µs a step of the present settings, and what the settings of the moment save of them."""
        both = self.kept[L][1], self.captured(L)
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * PAIRS + 3)]  # type: ignore[no-untyped-call]
        for n, mark in enumerate(marks):
            mark.record()
            both[n % 2].replay()
        torch.cuda.synchronize()
        spans = [1e3 * a.elapsed_time(b) for a, b in pairwise(marks)][2:]  # the first two warm up
        return median(spans[::2]), median(a - b for a, b in zip(spans[::2], spans[1::2], strict=True))


def compile_for(settings: Settings, lengths: list[int]) -> None:
    """In a process of its own: a step of each length, so that its kernels lie in Triton's cache."""
    steps = Steps(2, lengths)
    with set_to({"ndr_weights.FILLED": 0.0} | settings):  # as if there were many seeds
        for L in lengths:
            steps.run(L)
    torch.cuda.synchronize()


def compile_all(lengths: list[int], until: float) -> list[Future[None]]:
    """First what all candidates have in common, then theirs; until done or time is up."""
    pool = ProcessPoolExecutor(workers := max(len(lengths), (os.cpu_count() or 2) - 1), get_context("spawn"))
    common = [[L] for L in lengths] + [list[int]()] * (workers - len(lengths))
    wait([pool.submit(compile_for, {}, some) for some in common], until - time.monotonic())
    made = [pool.submit(compile_for, settings, lengths) for _, _, settings in CANDIDATES]
    wait(made, max(0.0, until - time.monotonic()))
    pool.shutdown(cancel_futures=True)
    return made


def measured(steps: Steps, settings: Settings) -> tuple[str, list[float]]:
    """What is wrong with the settings, if anything, and their gain in µs at each length."""
    try:
        with set_to(settings):
            apart = max(steps.apart(L) for L in steps.lengths)
            right = apart < APART
            return "" if right else f"wrong by {apart:.0e}", [
                steps.gain(L)[1] for L in steps.lengths if right
            ]
    except Exception as error:  # settings that the card refuses are a result
        return f"{type(error).__name__}: {str(error).strip()[-80:]}", []


def tune(steps: Steps, made: list[Future[None]], until: float) -> dict[str, tuple[float, Settings]]:
    """Measure all candidates and print the table; the gain and the settings of the best of each part."""
    print(
        f"{'part':24}{'tried':30}{'mean':>6}", *(f"{f'L={L}':>6}" for L in steps.lengths), " µs a step gained"
    )
    best: dict[str, tuple[float, Settings]] = {}
    for (part, tried, settings), future in zip(CANDIDATES, made, strict=True):
        note, gains = "skipped", list[float]()
        if not future.cancelled() and time.monotonic() < until:
            note, gains = (
                measured(steps, settings) if not future.exception() else (repr(future.exception())[:80], [])
            )
        shown = [f"{gain:6.0f}" for gain in [mean(gains), *gains]] if gains else [note]
        print(f"{part:24}{tried:30}{' '.join(shown)}", flush=True)
        if gains and mean(gains) > max(WORTH, best.get(part, (0.0, {}))[0]):
            best[part] = mean(gains), settings
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=85.0, help="time limit, compiling included")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--lengths", type=int, nargs="+", default=[6, 5, 4])
    told, begin = parser.parse_args(), time.monotonic()
    made = compile_all(told.lengths, begin + 0.5 * told.seconds)
    print(f"compiled after {time.monotonic() - begin:.0f} s", flush=True)
    steps = Steps(told.seeds, told.lengths)
    steps.kept = {L: (steps.gradient(L), steps.captured(L)) for L in told.lengths}
    best = tune(steps, made, begin + told.seconds - RESERVE)
    together: Settings = {name: value for _, settings in best.values() for name, value in settings.items()}
    note, gains = measured(steps, together)
    for L, gain in zip(told.lengths, gains or [0.0] * len(told.lengths), strict=True):
        ms = [span / 1e3 / told.seeds for span in (steps.gain(L)[0], gain)]
        print(f"L={L}: {ms[0]:.4f} ms a seed-step; all winners save {ms[1]:.4f} {note}")
    print(
        *(f"{name} = {value}" for name, value in together.items()),
        f"{time.monotonic() - begin:.0f} s",
        sep="\n",
    )


if __name__ == "__main__":
    main()
