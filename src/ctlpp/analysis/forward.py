"""Run all seeds of a crowd on the same inputs, look at their activations, and change them on the way.

Example:
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), 7, 3, seeds=[0, 1])
    >>> seen, logits = activations(crowd, torch.tensor([[0, 2, 4, 6]]))
    >>> logits.shape, seen["readout"][0].shape, len(seen["state"])
    (torch.Size([2, 1, 3]), torch.Size([2, 1, 32]), 4)
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from threading import Event
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ctlpp.analysis.memory import keep_freed_memory
from ctlpp.models.activations import Activations, Edit, editing, recording
from ctlpp.training.crowd import Crowd
from ctlpp.training.streams import Streams

Result = TypeVar("Result")
BATCH = 256  # examples at a time
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

    if crowd.vectorised and len(crowd.seeds) > 1:
        with nullcontext() if edit is None else editing(edit):
            return vmap(of_one, randomness="error")(state)
    assert edit is None or len(crowd.seeds) == 1, (
        "a module that cannot be vectorised is edited one seed at a time"
    )
    with (
        nullcontext()
        if edit is None
        else editing(lambda name, index, value: edit(name, index, value[None])[0])
    ):
        return torch.stack([of_one({k: t[i] for k, t in state.items()}) for i in range(len(crowd.seeds))])


def answers(crowd: Crowd, tokens: Tensor) -> Tensor:
    """The class each seed chooses. (N, T) -> (S, N) int64"""
    return torch.cat([forward(crowd, part).argmax(-1).cpu() for part in torch.split(tokens, BATCH)], dim=1)


def activations(crowd: Crowd, tokens: Tensor) -> tuple[Activations, Tensor]:
    """Everything the module records, by name, (S, B, …) each, and the logits, (S, B, C)."""
    if crowd.vectorised and len(crowd.seeds) > 1:
        with recording() as seen:
            logits = forward(crowd, tokens)
        return seen, logits
    each: list[Activations] = []
    logits_of_each = []
    for i in range(len(crowd.seeds)):
        with recording() as own:
            logits_of_each.append(forward(pick(crowd, [i]), tokens))
        each.append(own)
    stacked = {
        name: [_stack(same) for same in zip(*(own[name] for own in each), strict=True)] for name in each[0]
    }
    return stacked, torch.cat(logits_of_each)


def _stack(values: Sequence[Tensor]) -> Tensor:
    return values[0][None] if len(values) == 1 else torch.stack(list(values))


def pick(crowd: Crowd, rows: Sequence[int]) -> Crowd:
    """Some seeds of a crowd, by their rows, as a crowd."""
    group = list(rows)
    seed_buffers = {name: buffer[group] for name, buffer in crowd.seed_buffers.items()}
    return replace(
        crowd,
        seeds=tuple(crowd.seeds[i] for i in group),
        weights=crowd.weights[group],
        seed_buffers=seed_buffers,
    )


def split(crowd: Crowd, workers: int) -> list[Crowd]:
    """The crowd in parts that are worked on at the same time, each with a module of its own."""
    seeds = len(crowd.seeds)
    at_once = seeds if crowd.device.type != "cpu" else max(1, _CACHE // (4 * max(1, crowd.weights.shape[1])))
    at_once = 1 if not crowd.vectorised else min(at_once, -(-seeds // workers))
    parts = [pick(crowd, range(start, min(start + at_once, seeds))) for start in range(0, seeds, at_once)]
    return parts if len(parts) == 1 else [replace(part, module=deepcopy(part.module)) for part in parts]


def in_parts(crowd: Crowd, work: Callable[[Crowd, Event], Result]) -> list[Result]:
    """`work` done on every part of the crowd; on a CPU, each core takes parts of its own.

    Parts that are left over when there are fewer of them than cores share the cores. After an error or Ctrl-C the
    event that `work` is given is set: it may as well stop.
    """
    in_vain = Event()
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = (
        1 if crowd.device.type != "cpu" else max(1, min(workers, torch.get_num_threads(), len(crowd.seeds)))
    )
    parts = split(crowd, workers)
    if workers > 1:
        keep_freed_memory()
    left_over = len(parts) % workers
    whole = len(parts) - left_over
    found = _at_once(parts[:whole], workers, 1, work, in_vain)
    return found + (
        _at_once(parts[whole:], left_over, workers // left_over, work, in_vain) if left_over else []
    )


def _at_once(
    parts: list[Crowd], workers: int, cores: int, work: Callable[[Crowd, Event], Result], in_vain: Event
) -> list[Result]:
    """`work` done by so many workers, each with so many cores."""
    if workers == 1:  # here, with all cores: other threads have to start cores of their own, and are slower
        return [work(part, in_vain) for part in parts]
    threads = torch.get_num_threads()
    torch.set_num_threads(cores)  # within a part
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(cores,))
    try:
        return list(pool.map(lambda part: work(part, in_vain), parts))
    except BaseException:
        in_vain.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # what has not begun does not begin
        torch.set_num_threads(threads)
