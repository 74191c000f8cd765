"""The state a model carries, in one form for all models.

A state is (S, B, K, W): seeds, examples, K *parts* and their width. For a model with columns the parts are its columns,
after each layer; for a recurrent model there is one part, after each step of reading, and for both directions of a
bi-directional one there are two. An LSTM's state is its hidden and its cell vector side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ctlpp.models.activations import Activations

Kind = Literal["columns", "steps", "directions"]


@dataclass(frozen=True)
class Layout:
    """Which activations make up the state, and in which form the model has them."""

    kind: Kind
    names: tuple[str, ...]

    @staticmethod
    def of(seen: Activations) -> Layout | None:
        """The layout of what a model has recorded; None if it has not recorded its state."""
        names = ("hidden", "cell") if {"hidden", "cell"} <= set(seen) else ("state",)
        ranks = {value.ndim for name in names for value in seen.get(name, [])}
        if ranks == {3}:
            return Layout("steps", names)
        if ranks == {4} and len({value.shape for name in names for value in seen[name]}) == 1:
            return Layout("columns" if names == ("state",) else "directions", names)
        return None

    def read(self, seen: Activations) -> list[Tensor]:
        """The state after every layer or step, (S, B, K, W) each."""
        return [self.read_at(seen, level) for level in range(len(seen[self.names[0]]))]

    def read_at(self, seen: Activations, level: int) -> Tensor:
        """The state after one layer or step, (S, B, K, W)."""
        values = [self._with_parts(seen[name][level]) for name in self.names]
        return values[0] if len(values) == 1 else torch.cat(values, dim=-1)

    def component(self, name: str, state: Tensor) -> Tensor:
        """What the model knows as `name`, out of a state (S, B, K, W)."""
        return self._without_parts(state.chunk(len(self.names), dim=-1)[self.names.index(name)])

    def _with_parts(self, value: Tensor) -> Tensor:  # -> (S, B, K, w)
        return (
            value[:, :, None]
            if self.kind == "steps"
            else value.movedim(1, 2)
            if self.kind == "directions"
            else value
        )

    def _without_parts(self, value: Tensor) -> Tensor:
        return (
            value[:, :, 0]
            if self.kind == "steps"
            else value.movedim(2, 1)
            if self.kind == "directions"
            else value
        )

    def places(self, parts: int, order: str) -> dict[str, list[int]]:
        """What can be changed when the input is a pair: each part, and for columns all that belong to the prefix."""
        if self.kind == "steps":
            return {"state": [0]}
        if self.kind == "directions":
            return {"reading from the left": [0], "reading from the right": [1]}
        reversed_ = order == "right-to-left"
        words = ("second", "first", "symbol") if reversed_ else ("symbol", "first", "second")
        columns = ("start", *words, "end")[-parts:]
        if len(columns) != parts:
            return {f"column {i}": [i] for i in range(parts)}
        prefix = {"first", "symbol", "end"} if reversed_ else {"first", "symbol"}
        single = {name: [i] for i, name in enumerate(columns)}
        return single | {"prefix": [i for i, name in enumerate(columns) if name in prefix]}
