"""Why a run has no analysis, and what would give it one."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from ctlpp.report.collecting import Record
from ctlpp.report.strangers import DamagedError, read_object


def advice(record: Record) -> str:
    """A line for a run without an analysis; it names `ctlpp analyze` only where that would work."""
    checkpoints = sorted((record.folder / "checkpoint").glob("step-*.json"), reverse=True)
    if record.state == "damaged":
        return f"not analysed: the run is damaged ({record.reason})"
    if not checkpoints and record.state == "finished":
        return "not analysed, and its checkpoint was not kept: train it again in a new folder to analyse it"
    if not checkpoints:
        return "not analysed: the run is unfinished and has no checkpoint yet"
    if not any(map(is_whole, checkpoints)):
        return "not analysed: its checkpoint is damaged; train it again in a new folder to analyse it"
    wanted = {"--unfinished": record.state != "finished", "--data DIR": not record.task}
    command = " ".join(["ctlpp analyze", *(option for option, needed in wanted.items() if needed)])
    return f"not analysed: `{command}` on this folder, then the report again"


def is_whole(path: Path) -> bool:
    """Whether a checkpoint, named by its JSON file, is all there; its checksum would take long over many runs."""
    try:
        read_object(path)
        with safe_open(path.with_suffix(".safetensors"), framework="np"):
            return True
    except (DamagedError, OSError, SafetensorError):
        return False
