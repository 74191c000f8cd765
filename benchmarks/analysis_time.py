"""How long does `ctlpp analyze` take for 25 full-size seeds?

    python benchmarks/analysis_time.py lstm transformer ndr     # some minutes on two cores
    python benchmarks/analysis_time.py ndr --trained            # with the weights of trained seeds that results/ keeps
    python benchmarks/analysis_time.py ndr --trained --exact    # and all answers computed in float32

The seeds are trained for one step, so their value is found nowhere, and states are exchanged at the last layer or step.
Trained NDRs carry it after the first layer, which costs most: nearly every layer is computed a second time.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle
from pathlib import Path
from unittest.mock import patch

import safetensors.torch
import torch
from ctlpp.analysis.quick_ndr import QuickNDR
from torch import Tensor

from ctlpp import generate, recipe_for, train
from ctlpp.analysis import quick_ndr
from ctlpp.figures.run import analyze_run
from ctlpp.runs import checkpoint
from ctlpp.training.train import load_run

SEEDS = 25
KEPT = Path(__file__).parent.parent / "results" / "runs" / "ndr-R-released-repeats" / "12-24" / "weights"


def give_weights(run: Path) -> None:
    """Put the weights of trained seeds, in turns, into the place of a run's own."""
    found = checkpoint.newest(run / "checkpoint")
    assert found is not None
    tensors, facts, _ = found
    crowd = load_run(run).crowd
    files = sorted(KEPT.glob("*.safetensors"))
    if not files:
        raise SystemExit(f"no weights in {KEPT}")
    for row, file in zip(range(SEEDS), cycle(files), strict=False):
        for name, value in safetensors.torch.load_file(file).items():
            crowd.parameters()[name][row] = value
    about = {name: fact for name, fact in facts.items() if name not in ("format", "step", "sha256")}
    checkpoint.save(run / "checkpoint", facts["step"], {**tensors, "weights": crowd.weights}, about)


@contextmanager
def exactly() -> Iterator[None]:
    """All answers of the NDR computed in full."""

    def answers(quick: QuickNDR, h: Tensor, level: int, full_state: object = None) -> Tensor:
        return quick.logits_from(h, level).argmax(-1)

    with (
        patch.object(quick_ndr, "multiplies_bfloat16", lambda: False),
        patch.object(QuickNDR, "answers_from", answers),
    ):
        yield


def rate(kind: torch.dtype) -> float:
    """Operations a second, in 10⁹, of a large matrix product on one core: how fast the machine is just now."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x, w, times = torch.ones(1280, 256, dtype=kind), torch.ones(256, 768, dtype=kind), 100
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
    parser.add_argument("--exact", action="store_true", help="without sketches and drafts")
    told = parser.parse_args()
    if (told.trained or told.exact) and told.models != ["ndr"]:
        parser.error("--trained and --exact are for ndr alone")
    data, cores = generate("R", protocol="released", train=20_000), len(os.sched_getaffinity(0))
    for model in told.models:
        with tempfile.TemporaryDirectory() as folder, exactly() if told.exact else nullcontext():
            run, recipe = Path(folder) / "run", recipe_for(model, steps=1, batch=8, eval_every=0)
            train(model, data, seeds=range(SEEDS), recipe=recipe, splits=["iid"], device="cpu", out=run)
            if told.trained:
                give_weights(run)
            begin = time.perf_counter()
            analyze_run(run, device="cpu", workers=cores)
            taken = time.perf_counter() - begin
            print(
                f"{model}: {SEEDS} seeds in {taken:.0f} s on {cores} cores; products on one of them:"
                f" {rate(torch.float32):.0f} · 10⁹ a second in float32, {rate(torch.bfloat16):.0f} in bfloat16",
                flush=True,
            )


if __name__ == "__main__":
    main()
