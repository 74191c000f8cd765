"""Runs that differ in their seeds alone, as one run folder: a seed is the same alone and among others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctlpp.files import FolderKind, write_folder, write_json
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import read_config
from ctlpp.runs.history import read_history
from ctlpp.runs.untrusted import as_list, read_json

RUN = FolderKind("a run", "config.json")


def merge(target: Path, runs: Sequence[Path]) -> None:
    """Write the run folder of all seeds of these finished runs, one of which may be the target itself.

    It has a checkpoint if all of them have one. Its config says under `about` where each part was trained.
    """
    configs = {run: read_config(run) for run in runs}
    runs = sorted(runs, key=lambda run: configs[run]["seeds"][0])
    results = [read_json(run / "result.json") for run in runs]
    first = configs[runs[0]]
    parts = [part for run in runs for part in _parts(configs[run])]
    seeds = [seed for run in runs for seed in configs[run]["seeds"]]
    time = {
        name: round(sum(one.get(name, 0.0) for one in results), 3) for name in ("seconds", "seconds_aside")
    }
    with write_folder(RUN, target, force=True) as folder:
        write_json(
            folder / "config.json", first | {"seeds": seeds, "about": first["about"] | {"parts": parts}}
        )
        read_history(*(run / "metrics.parquet" for run in runs)).write(folder / "metrics.parquet")
        if all((run / "checkpoint").is_dir() for run in runs):
            _merge_checkpoints(folder, runs, time)
        every = [seed for one in results for seed in as_list(one.get("seeds"))]
        write_json(folder / "result.json", results[0] | time | {"seeds": every})


def _parts(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the seeds of a run were trained; those of a merged run have been written down."""
    facts = {name: config.get(name) for name in ("seeds", "engine", "versions", "started", "continued")}
    return as_list(config["about"].get("parts")) or [facts]


def _merge_checkpoints(folder: Path, runs: Sequence[Path], time: dict[str, float]) -> None:
    """Every tensor has the seeds along its first axis, or rows of the history."""
    import torch

    found = [checkpoint.last(run) for run in runs]
    tensors = {name: torch.cat([own[name] for own, _, _ in found]) for name in found[0][0]}
    facts = found[0][1] | {"seconds": time["seconds"], "aside": time["seconds_aside"]}
    assert all(other["splits"] == facts["splits"] for _, other, _ in found)
    written = {name: value for name, value in facts.items() if name not in ("format", "step", "sha256")}
    checkpoint.save(folder, facts["step"], tensors, written)
