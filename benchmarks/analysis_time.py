"""How long does `ctlpp analyze` take for 25 full-size seeds?

    python benchmarks/analysis_time.py lstm transformer ndr     # some minutes on two cores
    python benchmarks/analysis_time.py ndr --first              # as if the value were found after the first layer

The seeds are trained for one step, so their value is found nowhere, and states are exchanged at the last layer or step.
Trained NDRs carry it after the first layer, which costs most: nearly every layer is computed a second time.
"""

import argparse
import os
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from ctlpp import generate, recipe_for, train
from ctlpp.analysis import places
from ctlpp.figures.whole_run import analyze_run

SEEDS = 25


def at_first(effect: Tensor, several: Tensor) -> tuple[Tensor, Tensor]:
    """In the place of `places.choose`: the first layer, and the part with the greatest effect there."""
    return torch.zeros(len(effect), dtype=torch.int64), effect[:, 0].masked_fill(several, -1).argmax(-1)


def rate() -> float:
    """Operations a second, in 10⁹, of a large matrix product on one core: how fast the machine is just now."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x, w, times = torch.ones(1280, 256), torch.ones(256, 768), 100
    torch.mm(x, w)
    begin = time.perf_counter()
    for _ in range(times):
        torch.mm(x, w)
    seconds = time.perf_counter() - begin
    torch.set_num_threads(threads)
    return 2e-9 * x.numel() * w.shape[1] * times / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", choices=("lstm", "transformer", "ndr"))
    parser.add_argument("--first", action="store_true", help="exchange states after the first layer or step")
    told = parser.parse_args()
    data, cores = generate("R", train=20_000), len(os.sched_getaffinity(0))
    for model in told.models:
        chosen = patch.object(places, "choose", at_first) if told.first else nullcontext()
        with tempfile.TemporaryDirectory() as folder, chosen:
            run, recipe = Path(folder) / "run", recipe_for(model, steps=1, batch=8, eval_every=0)
            train(model, data, seeds=range(SEEDS), recipe=recipe, splits=["iid"], device="cpu", out=run)
            begin = time.perf_counter()
            analyze_run(run, device="cpu", workers=cores)
            taken = time.perf_counter() - begin
            print(
                f"{model}: {SEEDS} seeds in {taken:.0f} s on {cores} cores, {rate():.0f} · 10⁹ a second each",
                flush=True,
            )


if __name__ == "__main__":
    main()
