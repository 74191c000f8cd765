"""All seeds of a crowd on the same inputs, the state they carry, and how they go on from a changed one.

A state is (S, B, K, W): seeds, examples, K *parts* and their width. For a model with columns the parts are
its columns, after each layer; for a recurrent model there is one part, after each step of reading, and for
both directions of a bi-directional one there are two. An LSTM's state is its hidden and its cell vector side
by side.

Example:
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), 7, 3, seeds=[0, 1])
    >>> seen, logits = activations(crowd, torch.tensor([[0, 2, 4, 6]]))
    >>> logits.shape, seen["readout"][0].shape, len(seen["state"])
    (torch.Size([2, 1, 3]), torch.Size([2, 1, 32]), 4)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Event
from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, vmap

from ctlpp.models.activations import Activations, Edit, editing, recording
from ctlpp.models.ndr import NDR, View, look
from ctlpp.training.crowd import Crowd
from ctlpp.training.streams import Streams

Kind = Literal["columns", "steps", "directions"]
Advance = Callable[[float], None]  # called with the number of seeds that are done, in fractions
Result = TypeVar("Result")
BATCH = {"cpu": 512, "cuda": 1024}  # examples at a time; a GPU takes all seeds at once
_CACHE = 4 << 20  # bytes of weights that go through a CPU together: more only leave its caches


@torch.no_grad()
def forward(crowd: Crowd, tokens: Tensor, edit: Edit | None = None) -> Tensor:
    """Logits of every seed. (B, T) -> (S, B, C)"""
    crowd.module.eval()
    tokens, state = tokens.to(crowd.device), crowd.state()
    no_key = torch.zeros((), dtype=torch.int64, device=crowd.device)  # nothing is drawn in evaluation mode

    def of_one(own: dict[str, Tensor]) -> Tensor:
        with Streams(no_key):
            logits: Tensor = functional_call(crowd.module, own, (tokens,))
        return logits

    if len(crowd.seeds) > 1:
        assert crowd.vectorised, "what is not vectorised goes one seed at a time"
        with editing(edit) if edit else nullcontext():
            return vmap(of_one, randomness="error")(state)
    with editing(lambda name, index, value: edit(name, index, value[None])[0]) if edit else nullcontext():
        return of_one({name: value[0] for name, value in state.items()})[None]


def answers(crowd: Crowd, tokens: Tensor) -> Tensor:
    """The class each seed chooses. (N, T) -> (S, N) int64"""
    parts = [forward(crowd, tokens[rows]).argmax(-1).cpu() for rows in batches(crowd, len(tokens))]
    return torch.cat(parts, dim=1)


def activations(crowd: Crowd, tokens: Tensor) -> tuple[Activations, Tensor]:
    """Everything the module records, by name, (S, B, …) each, and the logits, (S, B, C)."""
    if len(crowd.seeds) > 1 and not crowd.vectorised:
        each = [activations(pick(crowd, [i]), tokens) for i in range(len(crowd.seeds))]
        together = {
            name: [torch.cat(same) for same in zip(*(own[name] for own, _ in each), strict=True)]
            for name in each[0][0]
        }
        return together, torch.cat([logits for _, logits in each])
    with recording() as seen:
        logits = forward(crowd, tokens)
    if len(crowd.seeds) == 1:
        seen = {name: [value[None] for value in values] for name, values in seen.items()}
    return seen, logits


def batches(crowd: Crowd, count: int) -> list[slice]:
    """`count` examples in batches of about one size: small ones cost more per example."""
    number = max(1, round(count / BATCH[crowd.device.type]))
    return [slice(count * i // number, count * (i + 1) // number) for i in range(number)]


def pick(crowd: Crowd, rows: Sequence[int]) -> Crowd:
    """Some seeds of a crowd, by their rows, as a crowd."""
    rows = list(rows)
    seeds = tuple(crowd.seeds[row] for row in rows)
    buffers = {name: buffer[rows] for name, buffer in crowd.seed_buffers.items()}
    return replace(crowd, seeds=seeds, weights=crowd.weights[rows], seed_buffers=buffers)


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


@lru_cache(maxsize=8)
def _view(length: int, columns: int) -> View:
    """What the first columns see; `near` as one matrix for all of them. (R · T, R · T), (R, T), (R, T)"""
    near, right, itself = (part[:columns] for part in look(length))
    return View(torch.block_diag(*near.mT), right, itself)  # type: ignore[no-untyped-call]


class LeanNDR:
    """One seed of the NDR in float32 on a CPU: the same results as the module's, with less arithmetic.

    This is where the analysis of a full-size NDR spends its time. What the first layer reads from its input
    is looked up by token; of the last layer only the column under the classifier is computed; scales are
    multiplied into the weights beforehand, and products of the same columns are one. The equations are those
    of `ctlpp.models.ndr`. T columns, R of which are updated, D width, H heads, K = D / H, C classes.
    """

    @staticmethod
    def of(crowd: Crowd) -> LeanNDR | None:
        """The lean form of a crowd that is one seed of the NDR in float32 on a CPU, else None."""
        plain = crowd.weights.dtype == torch.float32 and crowd.device.type == "cpu"
        untied = "classify.weight" in crowd.slices
        if type(crowd.module) is not NDR or len(crowd.seeds) > 1 or not (plain and untied):
            return None
        weights = {name.removeprefix("layer."): value[0] for name, value in crowd.state().items()}
        return LeanNDR(weights, crowd.module.layer.attend.heads, crowd.module.test_depth)

    def __init__(self, own: dict[str, Tensor], heads: int, depth: int) -> None:
        self.embed, self.heads, self.depth = own["embed.weight"], heads, depth
        self.width = self.embed.shape[1]
        q, k, v = own["attend.qkv.weight"].chunk(3)
        q_bias, k_bias, v_bias = own["attend.qkv.bias"].chunk(3)
        scale, turn = own["attend.scale"], own["attend.direction_scale"]
        direction, offset = own["attend.direction.weight"] * turn, own["attend.direction.bias"] * turn
        own["read.weight"] = torch.cat([q * scale, k, v, direction])  # (3D + 2H, D)
        own["read.bias"] = torch.cat([q_bias * scale, k_bias, v_bias, offset + own["attend.bias"]])
        self.own = {name: value.T.contiguous() if value.ndim == 2 else value for name, value in own.items()}
        self.by_token = self.linear("read", self.embed)  # (tokens, 3D + 2H)

    @torch.inference_mode()
    def state(self, tokens: Tensor, level: int) -> Tensor:
        """The state after a layer. (B, T - 1) -> (B, T, D)"""
        tokens = F.pad(tokens, (1, 0), value=len(self.embed) - 1)
        h = self.update(F.embedding(tokens, self.embed), F.embedding(tokens, self.by_token))
        for _ in range(level):
            h = self.layer(h, h.shape[1])
        return h

    @torch.inference_mode()
    def logits_from(self, h: Tensor, level: int) -> Tensor:
        """Logits from the state after a layer. (B, T, D) -> (B, C)"""
        for n in range(level + 1, self.depth):
            h = self.layer(h, h.shape[1] if n < self.depth - 1 else 1)
        return self.linear("classify", h[:, 0])

    def layer(self, h: Tensor, columns: int) -> Tensor:
        """One layer, of the first columns. (B, T, D) -> (B, R, D)"""
        seen = self.linear("read", h.flatten(0, 1)).view(*h.shape[:2], -1)
        return self.update(h[:, :columns], seen)

    def update(self, h: Tensor, seen: Tensor) -> Tensor:
        """The first columns updated, given what is read of all. (B, R, D), (B, T, 3D + 2H) -> (B, R, D)"""
        old = h.flatten(0, 1)  # (B · R, D)
        read = self.attend(seen, h.shape[1]).flatten(0, 1)
        a = self.norm("norm_a", torch.addmm(old, read, self.own["attend.out.weight"]))
        hidden = F.gelu(self.linear("ffn_data.up", a))
        proposed = torch.addmm(a, hidden, self.own["ffn_data.down.weight"])
        proposed += self.own["ffn_data.down.bias"]
        gate = self.linear("ffn_gate.down", F.gelu(self.linear("ffn_gate.up", a))).sigmoid_()
        return torch.lerp(old, self.norm("norm_u", proposed), gate).view(h.shape)

    def attend(self, seen: Tensor, columns: int) -> Tensor:
        """What the first columns read by geometric attention. (B, T, 3D + 2H) -> (B, R, D)"""
        (B, T), R, view = seen.shape[:2], columns, _view(seen.shape[1], columns)
        qkv, prefer = torch.split(seen, [3 * self.width, 2 * self.heads], dim=-1)
        q, k, v = torch.unflatten(qkv, -1, (3, self.heads, -1)).permute(2, 3, 0, 1, 4)  # (H, B, T, K) each
        prefer = torch.unflatten(prefer[:, :R], -1, (2, self.heads, 1)).permute(2, 3, 0, 1, 4)
        match = torch.where(view.right, *prefer, out=seen.new_empty(self.heads, B, R, T))
        for head in range(self.heads):  # all at once would copy the queries and keys
            match[head].baddbmm_(q[head, :, :R], k[head].mT)
        flat = match.masked_fill_(view.itself, -torch.inf).view(-1, R * T)
        A = torch.addmm(flat, F.logsigmoid(-flat), view.near).exp_().view(match.shape)
        return torch.cat([A[head] @ v[head] for head in range(self.heads)], dim=-1)

    def linear(self, name: str, rows: Tensor) -> Tensor:
        """A linear map of rows. (N, I) -> (N, O)"""
        return torch.addmm(self.own[f"{name}.bias"], rows, self.own[f"{name}.weight"])

    def norm(self, name: str, rows: Tensor) -> Tensor:
        """Layer norm of rows."""
        return F.layer_norm(rows, rows.shape[1:], self.own[f"{name}.weight"], self.own[f"{name}.bias"])


@dataclass(frozen=True)
class PatchableModel:
    """Some seeds whose state can be changed after a layer or step, the *level*.

    Columns may hold everything that the rest of the model needs: then inputs enter it at the layer of the
    exchange. Whether they do is found by trying. Other models read the whole input again.
    """

    crowd: Crowd
    layout: Layout
    reads_again: bool = True
    lean: LeanNDR | None = None
    level: int = 0

    @staticmethod
    def of(crowd: Crowd, layout: Layout, tokens: Tensor) -> PatchableModel:
        """Seeds that go on from a state in the cheapest way they can; tokens: inputs to try it on, (B, T)."""
        model = PatchableModel(crowd, layout, False, LeanNDR.of(crowd))
        if model.lean is not None or (layout.kind == "columns" and model._needs_only_state(tokens)):
            return model
        return PatchableModel(crowd, layout)

    def _needs_only_state(self, tokens: Tensor) -> bool:
        """Whether the logits are the same when the states of these inputs take over at each of the levels."""
        seen, logits = activations(self.crowd, tokens)
        for level, state in enumerate(self.layout.read(seen)):
            try:
                again = replace(self, level=level).logits_from_state(tokens, state)
            except RuntimeError:  # it needs the number of examples that it has read
                return False
            if again.shape != logits.shape or not torch.allclose(again, logits, 1e-3, 1e-3, equal_nan=True):
                return False
        return True

    def of_rows(self, rows: list[int], level: int) -> PatchableModel:
        """Only some of the seeds, at a level."""
        part = pick(self.crowd, rows)
        return replace(self, crowd=part, lean=LeanNDR.of(part), level=level)

    @torch.no_grad()
    def answers_and_states(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Answers, and the state at the level. (N, T) -> (S, N), (S, N, K, W)"""
        answers, states = [], []
        for rows in batches(self.crowd, len(tokens)):
            if self.lean is not None:
                state = self.lean.state(tokens[rows], self.level)[None]
                logits = self.logits_from_state(tokens[rows], state)
            else:
                seen, logits = activations(self.crowd, tokens[rows])
                state = self.layout.read_at(seen, self.level)
            answers.append(logits.argmax(-1).cpu())
            states.append(state)
        return torch.cat(answers, dim=1), torch.cat(states, dim=1)

    @torch.no_grad()
    def answers_from_state(self, tokens: Tensor, state: Tensor) -> Tensor:
        """Answers when the state at the level is this one. (N, T), (S, N, K, W) -> (S, N)"""
        parts = [
            self.logits_from_state(tokens[rows], state[:, rows]).argmax(-1)
            for rows in batches(self.crowd, len(tokens))
        ]
        return torch.cat(parts, dim=1).cpu()

    def logits_from_state(self, tokens: Tensor, state: Tensor) -> Tensor:
        """Logits when the state at the level is this one. (B, T), (S, B, K, W) -> (S, B, C)"""
        if self.lean is not None:
            return self.lean.logits_from(state[0], self.level)[None]
        if not self.reads_again:
            tokens = tokens[:1]  # read up to the level, where the given states take over

        def edit(name: str, index: int, value: Tensor) -> Tensor:
            here = name in self.layout.names and index == self.level
            return self.layout.component(name, state).to(value.dtype) if here else value

        return forward(self.crowd, tokens, edit)


def in_parts(crowd: Crowd, work: Callable[[Crowd, Advance], Result], advance: Advance) -> list[Result]:
    """`work(part, advance)` for every part of a crowd; on a CPU every core works on parts of its own.

    Parts that are left over when there are fewer of them than cores share the cores.
    """
    workers = min(torch.get_num_threads(), len(crowd.seeds)) if crowd.device.type == "cpu" else 1
    parts = _split(crowd, workers)
    whole_rounds = len(parts) // workers * workers
    results = _work_side_by_side(parts[:whole_rounds], workers, work, advance)
    return results + _work_side_by_side(parts[whole_rounds:], workers, work, advance)


def _split(crowd: Crowd, workers: int) -> list[Crowd]:
    """The crowd in parts, each with a module of its own."""
    at_once = len(crowd.seeds)
    if crowd.device.type == "cpu":
        at_once = max(1, min(_CACHE // (4 * max(1, crowd.weights.shape[1])), -(-at_once // workers)))
    rows = torch.split(torch.arange(len(crowd.seeds)), at_once if crowd.vectorised else 1)
    parts = [pick(crowd, part.tolist()) for part in rows]
    return parts if len(parts) == 1 else [replace(part, module=deepcopy(part.module)) for part in parts]


def _work_side_by_side(
    parts: list[Crowd], workers: int, work: Callable[[Crowd, Advance], Result], advance: Advance
) -> list[Result]:
    """`work` on some parts at the same time; if one fails, or at Ctrl-C, `advance` raises in the others."""
    at_once = min(workers, len(parts))
    if at_once < 2:  # here, with all cores: another thread would have to start cores of its own
        return [work(part, advance) for part in parts]
    threads, cores, stop = torch.get_num_threads(), workers // at_once, Event()

    def advance_unless_stopped(seeds: float) -> None:
        if stop.is_set():
            raise RuntimeError("another part of the analysis has failed")
        advance(seeds)

    torch.set_num_threads(cores)  # within a part
    pool = ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(cores,))
    try:
        return list(pool.map(lambda part: work(part, advance_unless_stopped), parts))
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # what has not begun does not begin
        torch.set_num_threads(threads)
