"""Checkpoints that survive a kill at any moment.

A checkpoint is two files, `step-N.safetensors` and `step-N.json`. Each is written beside its place, flushed
to the disk and renamed; the JSON file comes last and holds the checksum of the other, so a checkpoint is
whole or not there. The newest two are kept.

Example:
    >>> import tempfile, torch
    >>> folder = Path(tempfile.mkdtemp())
    >>> facts = {"seconds": 1.5, "splits": ["iid"], "loss_count": 0, "stopped": False}
    >>> save(folder, 100, {"weights": torch.ones(2, 3)}, facts)
    >>> tensors, facts, damaged = newest(folder)
    >>> facts["step"], facts["seconds"], damaged
    (100, 1.5, [])
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from ctlpp.files import UserError, make_folder, write_atomically
from ctlpp.runs.folder import FORMAT

_KEPT = 2
_FACTS = {
    "step": int,
    "seconds": float,
    "splits": list,
    "loss_count": int,
    "stopped": bool,
}  # that a run needs


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the checkpoint of a step and remove all but the newest two."""
    data = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    )
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


def newest(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[str]] | None:
    """Tensors and facts of the newest checkpoint that is whole, and a line for each newer one that is not."""
    damaged: list[str] = []
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            return *_read(path), damaged
        except ValueError as error:
            damaged.append(str(error))
    if damaged:
        finished = (folder.parent / "result.json").is_file()
        lost = "the results of the run stay, only what needs its weights is lost: " if finished else ""
        raise UserError(
            f"{damaged[0]}, and no older checkpoint is whole: {lost}train it again in a new folder"
        )
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of the checkpoint with this JSON file; ValueError names the file that is damaged."""
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
