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
        """`value` of the model with some parts changed. where: (S, B, K) bool, new: (S, B, W)."""
        new = self._cut(name, new).to(value.dtype)[:, :, None]
        return self._without_parts(torch.where(where[..., None], new, self._with_parts(value)))

    def _cut(self, name: str, state: Tensor) -> Tensor:
        return state.chunk(len(self.names), dim=-1)[self.names.index(name)]

    def _with_parts(self, value: Tensor) -> Tensor:  # -> (S, B, K, w)
        return (
            value[:, :, None] if self.kind == "steps" else value.movedim(1, 2) if self.kind == "directions" else value
        )

    def _without_parts(self, value: Tensor) -> Tensor:
        return value[:, :, 0] if self.kind == "steps" else value.movedim(2, 1) if self.kind == "directions" else value

    def labels(self, parts: int, order: str) -> tuple[str, ...]:
        """What the parts are called when the input is a pair."""
        if self.kind == "directions":
            return ("reading from the left", "reading from the right")
        if self.kind == "steps":
            return ("state",)
        words = ("second", "first", "symbol") if order == "right-to-left" else ("symbol", "first", "second")
        columns = ("start", *words, "end")[-parts:]
        return columns if len(columns) == parts else tuple(f"column {i}" for i in range(parts))


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
    crowd: Crowd, layout: Layout, bases: Bases, base: Tensor, index: Tensor, part: Tensor, new: Tensor
) -> Tensor:
    """The classes that the seeds choose when a part of a base's state is replaced on the way. Returns (S, N).

    base: the base of each run, (N,); index: the layer or step at which a seed's state is changed, (S,);
    part: which part of it, (S, N); new: what it becomes, (S, N, W).
    """
    first = int(index.min()) if bases.resumable else -1
    kinds = torch.arange(bases.states[0].shape[2], device=new.device)  # (K,)

    def choose(rows: slice) -> Tensor:
        def edit(name: str, i: int, value: Tensor) -> Tensor:
            if name not in layout.names or i < first:
                return value
            if i == first:
                value = layout.component(name, bases.states[first][:, base[rows]])
            here = index == i  # (S,)
            if not bool(here.any()):
                return value
            where = here[:, None, None] & (part[:, rows, None] == kinds)
            return layout.change(name, value, where, new[:, rows])

        tokens = bases.tokens[:1] if bases.resumable else bases.tokens[base[rows]]
        return forward(crowd, tokens, edit).argmax(-1).cpu()

    return torch.cat([choose(slice(start, start + BATCH)) for start in range(0, len(base), BATCH)], dim=1)
