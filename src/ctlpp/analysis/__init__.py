"""Looking inside: what the seeds of a crowd represent, and which measure explains their failures."""

from ctlpp.analysis.forward import activations
from ctlpp.analysis.study import Analysis, analyze

__all__ = ["Analysis", "activations", "analyze"]
