"""Looking inside: what the seeds of a crowd represent, and which measure explains their failures.

Names are imported when they are used: reading an analysis needs no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctlpp.analysis.analysis import Analysis, analyze
    from ctlpp.analysis.forward import activations

_HOMES = {"Analysis": "analysis", "activations": "forward", "analyze": "analysis"}

__all__ = ["Analysis", "activations", "analyze"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ctlpp.analysis' has no attribute {name!r}")
    return getattr(import_module(f"ctlpp.analysis.{_HOMES[name]}"), name)
