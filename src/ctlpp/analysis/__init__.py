"""Looking inside: what the seeds of a crowd represent, and which measure explains their failures.

Names are imported when they are used: reading an analysis needs no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctlpp.analysis.forward import activations
    from ctlpp.analysis.study import Analysis, analyze

_HOMES = {"Analysis": "study", "activations": "forward", "analyze": "study"}

__all__ = ["Analysis", "activations", "analyze"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ctlpp.analysis' has no attribute {name!r}")
    return getattr(import_module(f"ctlpp.analysis.{_HOMES[name]}"), name)
