"""What a model carries from layer to layer or step to step, and how it goes on from a changed state.

A state is (B, K, W): examples, K *parts* and their width. For a model with columns the parts are its
columns, after each layer; for a recurrent model there is one part, after each step of reading, and for both
directions of a bi-directional one there are two. An LSTM's state is its hidden and its cell vector side by
side.

Example:
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), 7, 3, seeds=[0, 1])
    >>> seen, logits = activations(crowd, torch.tensor([[0, 2, 4, 6]]))
    >>> logits.shape, seen["readout"][0].shape, len(seen["state"])
    (torch.Size([2, 1, 3]), torch.Size([2, 1, 32]), 4)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.activations import Activations, Edit, editing, recording
from ctlpp.models.ndr import NDR, View, look
from ctlpp.training.crowd import Crowd, Streams

Model = Callable[[Tensor], Tensor]  # logits of tokens, (B, T) -> (B, C), in evaluation mode
Kind = Literal["columns", "steps", "directions"]
AT_A_TIME = {"cpu": 256, "cuda": 1024}  # examples


def device_of(model: Model) -> torch.device:
    """Where a model's parameters are."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return next((own.device for own in parameters), torch.device("cpu"))


@torch.no_grad()
def forward(model: Model, tokens: Tensor, edit: Edit | None = None) -> Tensor:
    """Logits; whatever the model draws in evaluation mode is the same every time. (B, T) -> (B, C)"""
    tokens = tokens.to(device_of(model))
    with Streams(torch.zeros_like(tokens[0, 0])), editing(edit) if edit else nullcontext():
        return model(tokens)


def look_into(model: Model, tokens: Tensor) -> tuple[Activations, Tensor]:
    """Everything that a model records, by name, and its logits."""
    with recording() as seen:
        logits = forward(model, tokens)
    return seen, logits


def activations(crowd: Crowd, tokens: Tensor) -> tuple[Activations, Tensor]:
    """Everything that the seeds record, by name, (S, B, …) each, and their logits, (S, B, C)."""
    every = [look_into(crowd.member(seed), tokens) for seed in crowd.seeds]
    seen = {
        name: [torch.stack(same) for same in zip(*(own[name] for own, _ in every), strict=True)]
        for name in every[0][0]
    }
    return seen, torch.stack([logits for _, logits in every])


def answers(model: Model, tokens: Tensor) -> Tensor:
    """The class that a model chooses. (N, T) -> (N,) int64"""
    return torch.cat([forward(model, tokens[rows]).argmax(-1).cpu() for rows in batches(model, len(tokens))])


def batches(model: Model, count: int) -> list[slice]:
    """`count` examples in batches of about one size: small ones cost more per example."""
    number = max(1, round(count / AT_A_TIME.get(device_of(model).type, 256)))
    return [slice(count * i // number, count * (i + 1) // number) for i in range(number)]


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
        if ranks == {2}:
            return Layout("steps", names)
        if ranks == {3} and len(shapes) == 1:
            return Layout("columns" if names == ("state",) else "directions", names)
        return None

    def read(self, seen: Activations) -> list[Tensor]:
        """The state after every layer or step, (B, K, W) each."""
        return [self.read_at(seen, level) for level in range(len(seen[self.names[0]]))]

    def read_at(self, seen: Activations, level: int) -> Tensor:
        """The state after one layer or step, (B, K, W)."""
        state = torch.cat([seen[name][level] for name in self.names], dim=-1)
        if self.kind == "steps":
            return state[:, None]
        return state.movedim(0, 1) if self.kind == "directions" else state

    def component(self, name: str, state: Tensor) -> Tensor:
        """What the model knows as `name`, out of a state (B, K, W)."""
        own = state.chunk(len(self.names), dim=-1)[self.names.index(name)]
        if self.kind == "steps":
            return own[:, 0]
        return own.movedim(1, 0) if self.kind == "directions" else own

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
    """A model whose state can be changed after a layer or step, the *level*.

    Columns may hold everything that the rest of the model needs: then inputs enter it at the layer of the
    exchange. Whether they do is found by trying. Other models read the whole input again.

    The full-size NDR is what an analysis waits for, so the last layer of one computes only the column that
    the class is read from.
    """

    model: Model
    layout: Layout
    reads_again: bool = True
    level: int = 0

    @staticmethod
    def of(model: Model, layout: Layout, tokens: Tensor) -> PatchableModel:
        """A model that goes on from a state in the cheapest way it can; tokens: to try it on, (B, T)."""
        patchable = PatchableModel(model, layout, reads_again=False)
        enough = layout.kind == "columns" and patchable._needs_only_state(tokens)
        return replace(patchable, reads_again=not enough)

    def _needs_only_state(self, tokens: Tensor) -> bool:
        """Whether the logits are the same when the states of these inputs take over at each of the levels."""
        seen, logits = look_into(self.model, tokens)
        for level, state in enumerate(self.layout.read(seen)):
            try:
                again = replace(self, level=level).logits_from_state(tokens, state)
            except RuntimeError:  # it needs the number of examples that it has read
                return False
            if again.shape != logits.shape or not torch.allclose(again, logits, 1e-3, 1e-3, equal_nan=True):
                return False
        return True

    def answers_and_states(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Answers, and the state at the level. (N, T) -> (N,), (N, K, W)"""
        answers, states = [], []
        for rows in batches(self.model, len(tokens)):
            if type(self.model) is NDR:
                state = ndr_state(self.model, tokens[rows], self.level)
                logits = ndr_logits(self.model, state, self.level)
            else:
                seen, logits = look_into(self.model, tokens[rows])
                state = self.layout.read_at(seen, self.level)
            answers.append(logits.argmax(-1).cpu())
            states.append(state)
        return torch.cat(answers), torch.cat(states)

    def answers_from_state(self, tokens: Tensor, state: Tensor) -> Tensor:
        """Answers when the state at the level is this one. (N, T), (N, K, W) -> (N,)"""
        every = batches(self.model, len(tokens))
        parts = [self.logits_from_state(tokens[rows], state[rows]).argmax(-1) for rows in every]
        return torch.cat(parts).cpu()

    def logits_from_state(self, tokens: Tensor, state: Tensor) -> Tensor:
        """Logits when the state at the level is this one. (B, T), (B, K, W) -> (B, C)"""
        if type(self.model) is NDR:
            return ndr_logits(self.model, state, self.level)
        if not self.reads_again:
            tokens = tokens[:1]  # read up to the level, where the given states take over

        def edit(name: str, index: int, value: Tensor) -> Tensor:
            here = name in self.layout.names and index == self.level
            return self.layout.component(name, state).to(value.dtype) if here else value

        return forward(self.model, tokens, edit)


@torch.no_grad()
def ndr_state(ndr: NDR, tokens: Tensor, level: int) -> Tensor:
    """The state of an NDR after a layer. (B, T - 1) -> (B, T, D)"""
    h: Tensor = ndr.embed(F.pad(tokens.to(device_of(ndr)), (1, 0), value=ndr.start))
    view = look(h.shape[1], h.device, h.dtype)
    for _ in range(level + 1):
        h = ndr.layer(h, view)
    return h


@torch.no_grad()
def ndr_logits(ndr: NDR, h: Tensor, level: int) -> Tensor:
    """Logits of an NDR from its state after a layer. (B, T, D) -> (B, C)"""
    view = look(h.shape[1], h.device, h.dtype)
    for n in range(level + 1, ndr.test_depth):
        h = ndr.layer(h, view if n < ndr.test_depth - 1 else View(*(part[:1] for part in view)))
    logits: Tensor = ndr.classify(h[:, 0])
    return logits
