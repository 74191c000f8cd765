"""Whole steps as CUDA graphs: one for each shape of batch, replayed without launching its kernels one by one.

A step is run as usual the first times it meets a shape, so that kernels are compiled and memory is known to suffice;
then it is captured. A module that cannot be captured (because it waits for the device, say) goes on as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

TRIALS = 2  # steps of a shape before it is captured

Work = Callable[[Tensor, Tensor], None]
Shape = tuple[torch.Size, torch.Size]


@dataclass
class Replays:
    """Graphs of one piece of work by the shape of its inputs."""

    graphs: dict[Shape, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = field(default_factory=dict)
    tries: dict[Shape, int] = field(default_factory=dict)
    possible: bool = True
    pool: Any = None  # of memory that all graphs share

    def run(self, work: Work, tokens: Tensor, targets: Tensor) -> bool:
        """Replay the work on these inputs; False, and nothing done, if there is no graph of it yet."""
        shape = tokens.shape, targets.shape
        if shape not in self.graphs:
            self.tries[shape] = self.tries.get(shape, 0) + 1
            if not self.possible or self.tries[shape] <= TRIALS:
                return False
            if not self._capture(shape, work, tokens, targets):
                return False
        graph, static_tokens, static_targets = self.graphs[shape]
        static_tokens.copy_(tokens)
        static_targets.copy_(targets)
        graph.replay()
        return True

    def forget(self) -> None:
        """Drop all graphs, as when the work changes."""
        self.graphs.clear()
        self.tries.clear()
        self.pool = None

    def _capture(self, shape: Shape, work: Work, tokens: Tensor, targets: Tensor) -> bool:
        static = tokens.clone(), targets.clone()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                work(*static)
        except (RuntimeError, ValueError):
            self.possible = False
            self.forget()
            torch.cuda.synchronize()
            return False
        self.pool = graph.pool()
        self.graphs[shape] = graph, *static
        return True
