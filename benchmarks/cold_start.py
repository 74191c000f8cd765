"""How long does training wait for its kernels, the first time on a machine? Needs a CUDA card.

    python benchmarks/cold_start.py              # kernels compiled at the same time
    python benchmarks/cold_start.py --serial     # one after the other, as each is needed first

Triton's cache is a new folder, so nothing is known from before. Both print the same weights.
"""

import argparse
import os
import tempfile
import time
from unittest.mock import patch

SEEDS, STEPS = 12, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--serial", action="store_true", help="compile kernels one by one")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache  # before Triton is imported
        import torch

        from ctlpp import generate, recipe_for, train
        from ctlpp.training import engine

        if not torch.cuda.is_available():
            raise SystemExit("no CUDA card here: kernels are compiled for one")
        data = generate("A", protocol="text")
        recipe = recipe_for("ndr", steps=STEPS, eval_every=0)
        precompile = (lambda *_: None) if told.serial else engine.precompile_steps
        begin = time.perf_counter()
        with patch.object(engine, "precompile_steps", precompile):
            done = train("ndr", data, seeds=range(SEEDS), recipe=recipe, device="cuda")
        weights = done.crowd.weights.double().abs().sum().item()
        print(
            f"{SEEDS} NDRs, {STEPS} steps: {time.perf_counter() - begin:.1f} s; sum of weights {weights:.6f}"
        )


if __name__ == "__main__":
    main()
