"""The state a model carries, in one form for all models, and a forward that goes on from a changed one.

A state is (S, B, K, W): seeds, examples, K *parts* and their width. For a model with columns the parts are its columns,
after each layer; for a recurrent model there is one part, after each step of reading, and for both directions of a
bi-directional one there are two. An LSTM's state is its hidden and its cell vector side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ctlpp.analysis.forward import BATCH, forward
from ctlpp.models.activations import Activations
from ctlpp.training.crowd import Crowd

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
        together = zip(*(seen[name] for name in self.names), strict=True)
        return [torch.cat([self._with_parts(value) for value in values], dim=-1) for values in together]

    def component(self, name: str, state: Tensor) -> Tensor:
        """What the model knows as `name`, out of a state (S, B, K, W)."""
        return self._without_parts(self._cut(name, state))

    def change(self, name: str, value: Tensor, where: Tensor, new: Tensor) -> Tensor:
        """`value` of the model with some parts changed. where: (S, B, K) bool, new: (S, B, K, W)."""
        new = self._cut(name, new).to(value.dtype)
        return self._without_parts(torch.where(where[..., None], new, self._with_parts(value)))

    def _cut(self, name: str, state: Tensor) -> Tensor:
        return state.chunk(len(self.names), dim=-1)[self.names.index(name)]

    def _with_parts(self, value: Tensor) -> Tensor:  # -> (S, B, K, w)
        return (
            value[:, :, None] if self.kind == "steps" else value.movedim(1, 2) if self.kind == "directions" else value
        )

    def _without_parts(self, value: Tensor) -> Tensor:
        return value[:, :, 0] if self.kind == "steps" else value.movedim(2, 1) if self.kind == "directions" else value

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


@dataclass(frozen=True)
class Bases:
    """The inputs whose states are changed, and their states after every layer or step."""

    tokens: Tensor  # (B, T)
    states: list[Tensor]  # (S, B, K, W) each
    resumable: bool  # the state is all that the rest of the model needs


def can_resume(crowd: Crowd, layout: Layout, tokens: Tensor, states: Sequence[Tensor], logits: Tensor) -> bool:
    """Whether the model gives the same logits when it goes on from recorded states with other tokens as input."""
    if layout.kind != "columns":
        return False
    few = slice(1, 9)
    try:
        again = forward(crowd, tokens[:1], lambda name, i, value: states[0][:, few] if _at(name, i, 0) else value)
    except RuntimeError:
        return False
    close = again.shape == logits[:, few].shape and torch.allclose(again, logits[:, few], 1e-3, 1e-3, equal_nan=True)
    return bool(close)


def _at(name: str, index: int, wanted: int) -> bool:
    return name == "state" and index == wanted


def answers_with(
    crowd: Crowd,
    layout: Layout,
    bases: Bases,
    base: Tensor,
    index: Tensor,
    where: Tensor,
    donors: Tensor,
    donor: Tensor,
) -> Tensor:
    """The classes that the seeds choose when parts of a base's state become a donor's on the way. Returns (S, N).

    base, donor: the base and the donor of each run, (N,); index: the layer or step at which a seed's state is changed,
    (S,); where: the parts that change, (S, N, K) bool; donors: their states, (S, M, K, W).
    """
    first = int(index.min()) if bases.resumable else -1

    def choose(rows: slice) -> Tensor:
        def edit(name: str, i: int, value: Tensor) -> Tensor:
            if name not in layout.names or i < first:
                return value
            if i == first:
                value = layout.component(name, bases.states[first][:, base[rows]])
            here = index == i  # (S,)
            if not bool(here.any()):
                return value
            return layout.change(name, value, here[:, None, None] & where[:, rows], donors[:, donor[rows]])

        tokens = bases.tokens[:1] if bases.resumable else bases.tokens[base[rows]]
        return forward(crowd, tokens, edit).argmax(-1).cpu()

    return torch.cat([choose(slice(start, start + BATCH)) for start in range(0, len(base), BATCH)], dim=1)
