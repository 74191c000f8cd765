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
from itertools import pairwise
from threading import Event
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ctlpp.models.activations import Activations, Edit, editing, recording
from ctlpp.training.crowd import Crowd
from ctlpp.training.streams import Streams

Result = TypeVar("Result")
BATCH = {"cpu": 256, "cuda": 1024}  # examples at a time; a GPU takes all seeds at once
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

    if _goes_together(crowd):
        with editing(edit) if edit else nullcontext():
            return vmap(of_one, randomness="error")(state)
    assert edit is None or len(crowd.seeds) == 1, "what is not vectorised is edited one seed at a time"
    with editing(lambda name, index, value: edit(name, index, value[None])[0]) if edit else nullcontext():
        return torch.stack([of_one({k: t[i] for k, t in state.items()}) for i in range(len(crowd.seeds))])


def _goes_together(crowd: Crowd) -> bool:
    return crowd.vectorised and len(crowd.seeds) > 1


def answers(crowd: Crowd, tokens: Tensor) -> Tensor:
    """The class each seed chooses. (N, T) -> (S, N) int64"""
    parts = [forward(crowd, tokens[rows]).argmax(-1).cpu() for rows in batches(crowd, len(tokens))]
    return torch.cat(parts, dim=1)


def activations(crowd: Crowd, tokens: Tensor) -> tuple[Activations, Tensor]:
    """Everything the module records, by name, (S, B, …) each, and the logits, (S, B, C)."""
    if _goes_together(crowd):
        with recording() as seen:
            return seen, forward(crowd, tokens)
    each: list[Activations] = []
    logits = []
    for i in range(len(crowd.seeds)):
        with recording() as own:
            logits.append(forward(pick(crowd, [i]), tokens))
        each.append(own)
    names = each[0]
    stacked = {n: [torch.stack(same) for same in zip(*(own[n] for own in each), strict=True)] for n in names}
    return stacked, torch.cat(logits)


def batches(crowd: Crowd, count: int) -> list[slice]:
    """So many examples in batches of about one size: small ones cost more per example."""
    number = max(1, round(count / BATCH[crowd.device.type]))
    return [slice(*two) for two in pairwise(count * i // number for i in range(number + 1))]


def pick(crowd: Crowd, rows: Sequence[int]) -> Crowd:
    """Some seeds of a crowd, by their rows, as a crowd."""
    group = list(rows)
    seeds = tuple(crowd.seeds[i] for i in group)
    buffers = {name: buffer[group] for name, buffer in crowd.seed_buffers.items()}
    return replace(crowd, seeds=seeds, weights=crowd.weights[group], seed_buffers=buffers)


def in_parts(crowd: Crowd, work: Callable[[Crowd, Event], Result]) -> list[Result]:
    """`work` done on every part of the crowd; on a CPU, each core takes parts of its own.

    Parts that are left over when there are fewer of them than cores share the cores. After an error or Ctrl-C
    the event that `work` is given is set: it may as well stop.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    on_cpu = crowd.device.type == "cpu"
    workers = max(1, min(cores, torch.get_num_threads(), len(crowd.seeds))) if on_cpu else 1
    parts, stop = _split(crowd, workers), Event()
    left_over = len(parts) % workers
    whole = len(parts) - left_over
    found = _side_by_side(parts[:whole], workers, 1, work, stop)
    if left_over:
        found += _side_by_side(parts[whole:], left_over, workers // left_over, work, stop)
    return found


def _split(crowd: Crowd, workers: int) -> list[Crowd]:
    """The crowd in parts, each with a module of its own."""
    seeds = at_once = len(crowd.seeds)
    if crowd.device.type == "cpu":
        at_once = max(1, min(_CACHE // (4 * max(1, crowd.weights.shape[1])), -(-seeds // workers)))
    at_once = at_once if crowd.vectorised else 1
    parts = [pick(crowd, range(start, min(start + at_once, seeds))) for start in range(0, seeds, at_once)]
    return parts if len(parts) == 1 else [replace(part, module=deepcopy(part.module)) for part in parts]


def _side_by_side(
    parts: list[Crowd], workers: int, cores: int, work: Callable[[Crowd, Event], Result], stop: Event
) -> list[Result]:
    """`work` done by so many workers, each with so many cores."""
    if workers == 1:  # here, with all cores: other threads have to start cores of their own, and are slower
        return [work(part, stop) for part in parts]
    threads = torch.get_num_threads()
    torch.set_num_threads(cores)  # within a part
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(cores,))
    try:
        return list(pool.map(lambda part: work(part, stop), parts))
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # what has not begun does not begin
        torch.set_num_threads(threads)
