"""How long does `ctlpp analyze` take for 25 full-size seeds?

    python benchmarks/analysis_time.py lstm transformer ndr           # some minutes on two cores
    python benchmarks/analysis_time.py ndr --trained                  # weights of seeds that results/ keeps
    python benchmarks/analysis_time.py ndr --trained --device cuda    # on a GPU

The seeds are trained for one step, so their value is found nowhere, and states are exchanged at the end.
Trained NDRs carry it after the first layer, which costs most: nearly every layer is computed twice.
"""

import argparse
import os
import tempfile
import time
from itertools import cycle
from pathlib import Path

import safetensors.torch
import torch

from ctlpp import generate, recipe_for, train
from ctlpp.figures.run import analyze_run
from ctlpp.runs import checkpoint
from ctlpp.training.run import load_run

KEPT = Path(__file__).parent.parent / "results" / "runs" / "ndr-R-clean-repeats" / "12-24" / "weights"


def give_weights(run: Path) -> None:
    """Put the weights of trained seeds, in turns, into the place of a run's own."""
    found = checkpoint.newest(run)
    assert found is not None
    tensors, facts, _ = found
    crowd = load_run(run).crowd
    for row, file in zip(range(len(crowd.seeds)), cycle(sorted(KEPT.glob("*.safetensors"))), strict=False):
        for name, value in safetensors.torch.load_file(file).items():
            crowd.parameters()[name][row] = value
    about = {name: fact for name, fact in facts.items() if name not in ("format", "step", "sha256")}
    checkpoint.save(run, facts["step"], {**tensors, "weights": crowd.weights}, about)


def rate() -> float:
    """How fast the machine is just now: 10⁹ operations per second of a float32 product on one core."""
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
    parser.add_argument("--trained", action="store_true", help="NDRs with the weights of trained seeds")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--device", default="cpu")
    told = parser.parse_args()
    if told.trained and told.models != ["ndr"]:
        parser.error("--trained is for ndr alone")
    data, cores = generate("R", protocol="clean", train=20_000), len(os.sched_getaffinity(0))
    for model in told.models:
        with tempfile.TemporaryDirectory() as folder:
            run, recipe = Path(folder) / "run", recipe_for(model, steps=1, batch=8, eval_every=0)
            train(model, data, seeds=range(told.seeds), recipe=recipe, splits=["iid"], device="cpu", out=run)
            if told.trained:
                give_weights(run)
            begin = time.perf_counter()
            analyze_run(run, device=told.device, workers=min(cores, 4))
            taken = time.perf_counter() - begin
            print(
                f"{model}: {told.seeds} seeds on {told.device}, numbers and figures in {taken:.1f} s;"
                f" {cores} cores, one multiplies {rate():.0f} · 10⁹ a second",
                flush=True,
            )


if __name__ == "__main__":
    main()
