"""Writing run folders: who may train in one, checkpoints that survive a kill at any moment, and merging.

A checkpoint is two files, `step-N.safetensors` and `step-N.json`. Each is written beside its place, flushed
to the disk and renamed; the JSON file comes last and holds the checksum of the other, so a checkpoint is
whole or not there. The newest two are kept.

Example:
    >>> import tempfile, torch
    >>> run = Path(tempfile.mkdtemp())
    >>> facts = {"seconds": 1.5, "splits": ["iid"], "loss_count": 0, "stopped": False}
    >>> save(run, 100, {"weights": torch.ones(2, 3)}, facts)
    >>> tensors, facts, damaged = newest(run)
    >>> facts["step"], facts["seconds"], damaged
    (100, 1.5, [])
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from ctlpp.files import (
    BusyError,
    FolderKind,
    UserError,
    lock,
    make_folder,
    write_atomically,
    write_folder,
    write_json,
)
from ctlpp.runs.folder import FORMAT, MARKS, SAVING, read_config, read_run, shorten
from ctlpp.runs.history import read_history
from ctlpp.runs.untrusted import as_list, read_json

RUN = FolderKind("a run", "config.json")
_KEPT = 2
_FACTS = {"step": int, "seconds": float, "splits": list, "loss_count": int, "stopped": bool}  # of a run
_OURS = {*MARKS, "checkpoint", ".lock"}
_DECIDES = ("model", "options", "variant", "protocol", "vocab_size", "n_classes", "seeds", "parameters")

Checkpoint = tuple[dict[str, Tensor], dict[str, Any], list[str]]


def save(run: Path, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the checkpoint of a step and remove all but the newest two."""
    data = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    )
    folder = run / "checkpoint"
    stem = folder / f"step-{step:09d}"
    about = {"format": FORMAT, "step": step, "sha256": sha256(data).hexdigest(), **facts}
    make_folder(folder)
    write_atomically(stem.with_suffix(".safetensors"), data)
    write_atomically(stem.with_suffix(".json"), json.dumps(about, indent=1).encode())
    for old in sorted(folder.glob("step-*.json"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    kept = {path.stem for path in folder.glob("step-*.json")}
    for path in folder.iterdir():
        if path.suffix == ".part" or (path.suffix == ".safetensors" and path.stem not in kept):
            path.unlink(missing_ok=True)


def newest(run: Path) -> Checkpoint | None:
    """Tensors and facts of the newest undamaged checkpoint, and a line for each newer one that is damaged."""
    check_kept(run)
    damaged: list[str] = []
    for path in sorted((run / "checkpoint").glob("step-*.json"), reverse=True):
        try:
            return *_read(path), damaged
        except UserError as error:
            damaged.append(str(error))
    if damaged:
        raise UserError(f"{damaged[0]}, and no older checkpoint is whole: train it again in a new folder")
    return None


def last(run: Path) -> Checkpoint:
    """The newest checkpoint, which of a finished run must be that of its end."""
    found = newest(run)
    if found is None:
        try:
            with lock(run / ".lock"):
                raise UserError(f"the run in {run} has no checkpoint yet: resume it first")
        except BusyError as error:
            raise UserError(f"the run in {run} is training: wait for its first checkpoint") from error
    _, facts, damaged = found
    if (run / "result.json").is_file():
        end = read_run(run).step
        if end is not None and end != facts["step"]:
            damaged.append(f"{run / 'checkpoint' / f'step-{end:09d}.json'} is missing")
        if damaged:
            raise UserError(
                f"{damaged[0]}: the finished run in {run} keeps its results, but its weights are lost;"
                f" training it as before with ‹resume=True› makes them anew from step {facts['step']}"
            )
    return found


def check_kept(run: Path, remedy: str = "train it again in a new folder") -> None:
    """Raise UserError if a run is finished and its checkpoint was not kept."""
    if (run / "result.json").is_file() and not any((run / "checkpoint").glob("step-*.json")):
        if (run / "answers.parquet").is_file():
            raise UserError(f"{run} has scored answers and no model: name a run that was trained")
        lost = f"the run in {run} is finished, and only its small files were kept, not its checkpoint"
        raise UserError(f"{lost}: {remedy}")


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of the checkpoint with this JSON file; UserError names the file that is damaged."""
    file = path
    try:
        facts = json.loads(path.read_text())
        checksum = facts["sha256"]
        for name, kind in _FACTS.items():
            if not isinstance(facts.get(name), kind):
                raise UserError(f"{name} is {facts.get(name)}")
        file = path.with_suffix(".safetensors")
        data = file.read_bytes()
        if sha256(data).hexdigest() != checksum:
            raise UserError("its checksum is wrong")
        return safetensors.torch.load(data), facts
    except FileNotFoundError as error:
        raise UserError(f"{file} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        why = "not JSON" if isinstance(error, json.JSONDecodeError) else str(error).partition("\n")[0]
        raise UserError(f"{file} is damaged ({why})") from error


@contextmanager
def claimed(run: Path, config: dict[str, Any], resume: bool) -> Iterator[dict[str, Any]]:
    """Lock a run folder against other processes; yields the config in it, or writes this one.

    Refuses a folder with other things in it, one with a run if it is not to be resumed, and one with a run
    of other settings, except that it may get more steps than it had.
    """
    if run.is_dir() and not (run / "config.json").exists():
        strange = sorted(p.name for p in run.iterdir() if p.name not in _OURS and p.suffix != ".part")
        if strange:
            raise UserError(f"{run} holds other files ({strange[0]}, …): choose an empty or a new folder")
    with lock(run / ".lock"):
        for left in run.glob(".*.part"):  # by a process that was killed; a folder may be somebody's at work
            if left.is_file():
                left.unlink()
        if not (run / "config.json").exists():
            write_json(run / "config.json", config)
        elif not resume:
            raise UserError(
                f"{run} already holds a run: continue it with ‹resume=True›, or choose another folder"
            )
        else:
            wanted, config = config, read_config(run)
            _check_same(run, config, wanted)
            if wanted["recipe"]["steps"] > config["recipe"]["steps"]:
                config["recipe"]["steps"] = wanted["recipe"]["steps"]
                (run / "result.json").unlink(missing_ok=True)  # what it says is not the end any more
                write_json(run / "config.json", config)
        yield config


def _check_same(run: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to continue a run with other settings than it began with."""
    recipe = [name for name in wanted["recipe"] if name not in SAVING]
    settings = [(name, found.get(name, ""), wanted.get(name, "")) for name in (*_DECIDES, "start")]
    settings += [(name, found["recipe"].get(name), wanted["recipe"][name]) for name in recipe]
    settings += [("splits", sorted(found["data"]), sorted(wanted["data"]))]
    for name, old, new in settings:
        if old != new and not (name == "steps" and new > old):  # a run can be made longer
            raise UserError(
                f"the run in {run} has {name} {shorten(old)}, not {shorten(new)}:"
                " resume with the same settings, or choose another folder"
            )
    for split, digest in wanted["data"].items():
        if found["data"][split] != digest:
            raise UserError(
                f"the data has changed since the run in {run} began (split {split}):"
                " resume with the data it began with, or choose another folder"
            )


def note_move(run: Path, config: dict[str, Any], here: Mapping[str, Any], step: int) -> str:
    """Write into a run's config that it goes on elsewhere from a step, if so; returns a line that says it.

    here: the config that it would have if it began here. `continued` has the step, and where from there on.
    """
    moves = config.get("continued", {})
    before, now = [_where(config), *moves.values()][-1], _where(here)
    if now == before:
        return ""
    config["continued"] = moves | {f"step {step}": now}
    write_json(run / "config.json", config)
    return f"the run was on {before}; from step {step} on it is on {now}, so it may not continue exactly"


def _where(config: Mapping[str, Any]) -> str:
    """The machine, precision and versions that a config names, in one line."""
    engine = [str(config["engine"].get(key)) for key in ("device_name", "precision")]
    return ", ".join([*engine, *(f"{name} {version}" for name, version in config["versions"].items())])


def merge_runs(target: Path, runs: Sequence[Path]) -> None:
    """Write the run folder of all seeds of these finished runs, one of which may be the target itself.

    The runs differ in their seeds alone. The new one has a checkpoint if all of them have one, and its config
    says under `about` where each part was trained.
    """
    configs = {run: read_config(run) for run in runs}
    runs = sorted(runs, key=lambda run: configs[run]["seeds"][0])
    results = [read_json(run / "result.json") for run in runs]
    first = configs[runs[0]]
    about = first["about"] | {"parts": [part for run in runs for part in _parts(configs[run])]}
    seeds = [seed for run in runs for seed in configs[run]["seeds"]]
    time = {
        name: round(sum(one.get(name, 0.0) for one in results), 3) for name in ("seconds", "seconds_aside")
    }
    with write_folder(RUN, target, force=True) as folder:
        write_json(folder / "config.json", first | {"seeds": seeds, "about": about})
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
    found = [last(run) for run in runs]
    tensors = {name: torch.cat([own[name] for own, _, _ in found]) for name in found[0][0]}
    facts = found[0][1] | {"seconds": time["seconds"], "aside": time["seconds_aside"]}
    assert all(other["splits"] == facts["splits"] for _, other, _ in found)
    written = {name: value for name, value in facts.items() if name not in ("format", "step", "sha256")}
    save(folder, facts["step"], tensors, written)
