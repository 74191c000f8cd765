"""Writers of curves for other tools, opened when the run folder is known to be ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ctlpp.files import UserError
from ctlpp.runs.observers import OfflineWandb, TensorBoard, tell

_WRITERS: dict[str, Callable[[Path], object]] = {"tensorboard": TensorBoard, "wandb": OfflineWandb}
_EVENTS = ("on_step", "on_evaluate", "on_checkpoint", "on_end")


class Tracker:
    """Makes its writer when training starts and passes everything on to it."""

    def __init__(self, tool: str, folder: Path) -> None:
        if tool not in _WRITERS:
            raise UserError(f"--track {tool}: choose from {', '.join(_WRITERS)}")
        if find_spec(tool) is None:
            raise UserError(f"--track {tool}: {tool} is not installed; pip install 'ctlpp[track]'")
        self.tool, self.folder = tool, folder / tool

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Open the writer."""
        self.folder.mkdir(exist_ok=True)
        writer = _WRITERS[self.tool](self.folder)
        for event in _EVENTS:
            if hasattr(writer, event):
                setattr(self, event, getattr(writer, event))
        tell([writer], "on_start", config, step)


def trackers(tools: Sequence[str], folder: Path) -> list[Tracker]:
    """One observer a tool."""
    return [Tracker(tool, folder) for tool in dict.fromkeys(tools)]
