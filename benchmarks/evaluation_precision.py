"""What does evaluation in float32 change, and what does it cost?

    python benchmarks/evaluation_precision.py RUN --protocol authors --device cuda

The finished seeds of RUN answer all held-out splits in float32 and in bf16, as CUDA trains, in turns.
"""

import argparse
import time
from pathlib import Path

import torch

from ctlpp import generate
from ctlpp.runs.history import Score
from ctlpp.training.run import load_run


def main() -> None:
    """Print accuracies and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--protocol", default="authors")
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    run = load_run(chosen.run, device=chosen.device)
    data = generate(run.config["variant"], protocol=chosen.protocol)
    splits = {name: data.tensors(name) for name in data.splits if name != "train"}

    def evaluate(bf16: bool) -> tuple[list[Score], float]:
        start = time.perf_counter()
        with torch.autocast(chosen.device, torch.bfloat16, enabled=bf16):
            scores = run.evaluate(splits)
        return [score for score in scores if not score.length], time.perf_counter() - start

    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(4):  # the first of each captures graphs
        for bf16 in times:
            scores, seconds = evaluate(bf16)
            times[bf16].append(seconds)
            if bf16:
                half = scores
            else:
                full = scores
    for name in splits:
        gaps = [a.accuracy - b.accuracy for a, b in zip(full, half, strict=True) if a.split == name]
        mean = sum(s.accuracy for s in full if s.split == name) / len(gaps)
        print(f"{name}: float32 {mean:.4f}; bf16 lower by {sum(gaps) / len(gaps):+.5f} on average,")
        print(f"    {min(gaps):+.4f} to {max(gaps):+.4f} over {len(gaps)} seeds")
    print(f"seconds: float32 {min(times[False]):.2f}, bf16 {min(times[True]):.2f}")


if __name__ == "__main__":
    main()
