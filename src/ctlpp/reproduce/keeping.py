"""Small files only: once a piece is finished, its checkpoint gives way to the weights of a few seeds.

`weights/seed-<n>.safetensors` is the state of an ordinary module of the zoo:

    model = build(config["model"], config["vocab_size"], config["n_classes"], config["preset"])
    model.load_state_dict(safetensors.torch.load_file("weights/seed-7.safetensors"))
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ctlpp.runs.folder import SeedResult, read_run

MOST_BYTES = 16_000_000  # of a file of weights that is kept


def shrink(folder: Path, keep: int) -> None:
    """Drop the checkpoint of a finished piece after taking the weights of `keep` seeds out of it."""
    checkpoint, weights = folder / "checkpoint", folder / "weights"
    if not checkpoint.is_dir():
        return
    if keep and not weights.is_dir():
        _keep_weights(folder, weights, keep)
    shutil.rmtree(checkpoint)


def _keep_weights(folder: Path, weights: Path, keep: int) -> None:
    import safetensors.torch

    from ctlpp.training.train import load_run

    run = load_run(folder)
    part = weights.with_name(f".weights.{os.getpid()}.part")
    part.mkdir()
    try:
        for seed in extremes(read_run(folder, folder.name).seeds, keep):
            state = {name: value.contiguous() for name, value in run.crowd.member(seed).state_dict().items()}
            data = safetensors.torch.save(state)
            if len(data) <= MOST_BYTES:
                (part / f"seed-{seed}.safetensors").write_bytes(data)
        part.rename(weights)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def extremes(seeds: tuple[SeedResult, ...], n: int) -> list[int]:
    """So many seeds by OOD accuracy: the best, the worst, the second best, …

    >>> extremes(tuple(SeedResult(number, {"ood": ood}, {}) for number, ood in enumerate((0.5, 0.9, 0.1))), 2)
    [1, 2]
    """
    left = [seed.number for seed in sorted(seeds, key=lambda seed: -seed.accuracy.get("ood", 0.0))]
    taken: list[int] = []
    while left and len(taken) < n:
        taken.append(left.pop(0 if len(taken) % 2 == 0 else -1))
    return taken
