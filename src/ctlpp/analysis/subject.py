"""Seeds under study: their states on the way, and their answers when they go on from states of our own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from ctlpp.analysis.forward import BATCH, activations, forward, pick
from ctlpp.analysis.quick_ndr import QuickNDR, quick_ndr
from ctlpp.analysis.states import Kind, Layout
from ctlpp.training.crowd import Crowd

Rest = Literal[
    "nothing", "tail", "head", "everything"
]  # of its input that a model must read to go on from a state
_QUICK = 512  # examples at a time of the quick way: with fewer, cores wait for Python
_CANDIDATES: dict[Kind, tuple[Rest, ...]] = {
    "columns": ("nothing",),
    "steps": ("tail", "head"),
    "directions": (),
}


@dataclass(frozen=True)
class Subject:
    """Some seeds, the form of their state, and how they go on from one.

    With columns a state may hold everything that the rest of the model needs. A recurrent model needs the tokens that
    it has not read yet and, as it always takes a first step, the one before: the tail of its input or, if it reads
    from the end, the head. What is enough is found by trying.
    """

    crowd: Crowd
    layout: Layout
    rest: Rest = "everything"
    quick: QuickNDR | None = None

    @staticmethod
    def of(crowd: Crowd, layout: Layout, tokens: Tensor) -> Subject:
        """Seeds that go on from their states as cheaply as they can; tokens: inputs to try it on, (B, T)."""
        quick = quick_ndr(crowd)
        if quick is not None:
            return Subject(crowd, layout, "nothing", quick)
        seen, logits = activations(crowd, tokens)
        for rest in _CANDIDATES[layout.kind]:
            subject = Subject(crowd, layout, rest)
            try:
                again = [subject.logits_from(tokens, i, state) for i, state in enumerate(layout.read(seen))]
            except RuntimeError:
                continue  # it keeps the number of examples, or of tokens
            if all(_close(each, logits) for each in again):
                return subject
        return Subject(crowd, layout)

    def of_rows(self, rows: list[int]) -> Subject:
        """Only some of the seeds."""
        if len(rows) == len(self.crowd.seeds):
            return self
        part = pick(self.crowd, rows)
        return Subject(part, self.layout, self.rest, quick_ndr(part))

    @torch.no_grad()
    def states(self, tokens: Tensor, level: int) -> Tensor:
        """The state after a layer or step. (N, T) -> (S, N, K, W)"""
        if self.quick is None:
            return self.run(tokens, level)[1]
        return torch.cat([self.quick.state(part, level) for part in torch.split(tokens, _QUICK)])[None]

    @torch.no_grad()
    def run(self, tokens: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """Answers, and the state after a layer or step, to be changed. (N, T) -> (S, N), (S, N, K, W)

        The states may be drafts, good for `exchange` alone.
        """
        if self.quick is not None:
            model = self.quick.draft or self.quick
            state = torch.cat([model.state(part, level) for part in torch.split(tokens, _QUICK)])[None]
            nothing = torch.zeros(1, state.shape[2], dtype=torch.bool)
            return self.exchange(tokens, level, state, state, nothing), state
        answers, states = [], []
        for part in torch.split(tokens, BATCH):
            seen, logits = activations(self.crowd, part)
            answers.append(logits.argmax(-1).cpu())
            states.append(self.layout.read_at(seen, level))
        return torch.cat(answers, dim=1), torch.cat(states, dim=1)

    @torch.no_grad()
    def go_on(self, tokens: Tensor, level: int, state: Tensor) -> Tensor:
        """Answers when the state after a layer or step is this one. (N, T), (S, N, K, W) -> (S, N)"""
        if self.quick is not None:
            quick = self.quick
            parts = _batches(len(tokens), _QUICK)
            return torch.cat([quick.answers_from(state[0, rows], level) for rows in parts])[None]
        parts = _batches(len(tokens), BATCH)
        answers = [self.logits_from(tokens[rows], level, state[:, rows]).argmax(-1) for rows in parts]
        return torch.cat(answers, dim=1).cpu()

    @torch.no_grad()
    def exchange(self, tokens: Tensor, level: int, own: Tensor, new: Tensor, where: Tensor) -> Tensor:
        """Answers when some parts of the inputs' own states, as `run` gives them, are replaced by new ones.

        (N, T), (S, N, K, W) twice, (S, K) bool -> (S, N)
        """
        parts = where[:, None, :, None]
        state = torch.where(parts, new, own)
        if self.quick is None or self.quick.draft is None:
            return self.go_on(tokens, level, state)
        quick = self.quick

        def full_state(batch: slice, rows: Tensor) -> Tensor:
            return torch.where(parts[0], new[0, batch][rows], quick.state(tokens[batch][rows], level))

        batches = _batches(len(tokens), _QUICK)
        return torch.cat([quick.answers_from(state[0, b], level, partial(full_state, b)) for b in batches])[
            None
        ]

    def logits_from(self, tokens: Tensor, level: int, state: Tensor) -> Tensor:
        """Logits when the state after a layer or step is this one. (B, T), (S, B, K, W) -> (S, B, C)"""
        if self.rest == "nothing":
            tokens = tokens[:1]  # read up to the level, where the given states take over
        elif self.rest == "tail":
            tokens, level = tokens[:, level:], 0
        elif self.rest == "head":
            tokens, level = tokens[:, : tokens.shape[1] - level], 0

        def edit(name: str, index: int, value: Tensor) -> Tensor:
            here = name in self.layout.names and index == level
            return self.layout.component(name, state).to(value.dtype) if here else value

        return forward(self.crowd, tokens, edit)


def _batches(count: int, size: int) -> list[slice]:
    """So many examples in equal batches of about a size: small ones cost more an example."""
    batches = max(1, round(count / size))
    return [slice(*two) for two in pairwise(count * i // batches for i in range(batches + 1))]


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)
