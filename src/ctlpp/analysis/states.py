"""The state a model carries, in one form for all models, and its answers when it goes on from a changed one.

A state is (S, B, K, W): seeds, examples, K *parts* and their width. For a model with columns the parts are
its columns, after each layer; for a recurrent model there is one part, after each step of reading, and for
both directions of a bi-directional one there are two. An LSTM's state is its hidden and its cell vector side
by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ctlpp.analysis.forward import activations, batches, forward, pick
from ctlpp.analysis.ndr import LeanNDR
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
        shapes = {value.shape for name in names for value in seen.get(name, [])}
        ranks = {len(shape) for shape in shapes}
        if ranks == {3}:
            return Layout("steps", names)
        if ranks == {4} and len(shapes) == 1:
            return Layout("columns" if names == ("state",) else "directions", names)
        return None

    def read(self, seen: Activations) -> list[Tensor]:
        """The state after every layer or step, (S, B, K, W) each."""
        return [self.read_at(seen, level) for level in range(len(seen[self.names[0]]))]

    def read_at(self, seen: Activations, level: int) -> Tensor:
        """The state after one layer or step, (S, B, K, W)."""
        state = torch.cat([seen[name][level] for name in self.names], dim=-1)
        if self.kind == "steps":
            return state[:, :, None]
        return state.movedim(1, 2) if self.kind == "directions" else state

    def component(self, name: str, state: Tensor) -> Tensor:
        """What the model knows as `name`, out of a state (S, B, K, W)."""
        own = state.chunk(len(self.names), dim=-1)[self.names.index(name)]
        if self.kind == "steps":
            return own[:, :, 0]
        return own.movedim(2, 1) if self.kind == "directions" else own

    def positions(self, parts: int, order: str) -> dict[str, list[int]]:
        """What can be changed when the input is a pair: each part, and for columns all of the prefix."""
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
class PatchableModel:
    """Some seeds, the form of their state, and what they must read again of an input to go on from a state.

    Columns may hold everything that the rest of the model needs: then inputs enter it at the layer of the
    exchange. Whether they do is found by trying. Other models read the whole input again.
    """

    crowd: Crowd
    layout: Layout
    needed_input: Literal["nothing", "everything"] = "everything"
    lean: LeanNDR | None = None

    @staticmethod
    def of(crowd: Crowd, layout: Layout, tokens: Tensor) -> PatchableModel:
        """Seeds that go on from their states as cheaply as they can; tokens: inputs to try it on, (B, T)."""
        model = PatchableModel(crowd, layout, "nothing", LeanNDR.of(crowd))
        if model.lean is not None or (layout.kind == "columns" and model._goes_on(tokens)):
            return model
        return PatchableModel(crowd, layout)

    def _goes_on(self, tokens: Tensor) -> bool:
        """Whether the logits are the same when the states of these inputs take over at each of the levels."""
        seen, logits = activations(self.crowd, tokens)
        try:
            again = [self.logits_from_state(tokens, i, s) for i, s in enumerate(self.layout.read(seen))]
        except RuntimeError:
            return False  # it keeps the number of examples
        return all(
            each.shape == logits.shape and torch.allclose(each, logits, rtol=1e-3, atol=1e-3, equal_nan=True)
            for each in again
        )

    def of_rows(self, rows: list[int]) -> PatchableModel:
        """Only some of the seeds."""
        part = pick(self.crowd, rows)
        return PatchableModel(part, self.layout, self.needed_input, LeanNDR.of(part))

    @torch.no_grad()
    def states(self, tokens: Tensor, level: int) -> Tensor:
        """The state after a layer or step. (N, T) -> (S, N, K, W)"""
        return self.answers_and_states(tokens, level)[1]

    @torch.no_grad()
    def answers_and_states(self, tokens: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """Answers, and the state after a layer or step. (N, T) -> (S, N), (S, N, K, W)"""
        answers, states = [], []
        for rows in batches(self.crowd, len(tokens)):
            if self.lean is not None:
                state = self.lean.state(tokens[rows], level)[None]
                logits = self.logits_from_state(tokens[rows], level, state)
            else:
                seen, logits = activations(self.crowd, tokens[rows])
                state = self.layout.read_at(seen, level)
            answers.append(logits.argmax(-1).cpu())
            states.append(state)
        return torch.cat(answers, dim=1), torch.cat(states, dim=1)

    @torch.no_grad()
    def answers_from_state(self, tokens: Tensor, level: int, state: Tensor) -> Tensor:
        """Answers when the state after a layer or step is this one. (N, T), (S, N, K, W) -> (S, N)"""
        parts = [
            self.logits_from_state(tokens[rows], level, state[:, rows]).argmax(-1)
            for rows in batches(self.crowd, len(tokens))
        ]
        return torch.cat(parts, dim=1).cpu()

    def logits_from_state(self, tokens: Tensor, level: int, state: Tensor) -> Tensor:
        """Logits when the state after a layer or step is this one. (B, T), (S, B, K, W) -> (S, B, C)"""
        if self.lean is not None:
            return self.lean.logits_from(state[0], level)[None]
        if self.needed_input == "nothing":
            tokens = tokens[:1]  # read up to the level, where the given states take over

        def edit(name: str, index: int, value: Tensor) -> Tensor:
            here = name in self.layout.names and index == level
            return self.layout.component(name, state).to(value.dtype) if here else value

        return forward(self.crowd, tokens, edit)
