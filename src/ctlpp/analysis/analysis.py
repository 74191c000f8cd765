"""The whole analysis of a crowd: one call, all seeds.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> task = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task
    >>> crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, 4, seeds=[0, 1])
    >>> found = analyze(crowd, task)
    >>> found.answers.shape, found.similarity.shape, sorted(found.measures)[:3]
    ((2, 8, 8, 4), (2, 4, 8, 8), ['cka', 'clusters', 'codes'])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ctlpp.analysis import geometry
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import (
    Donors,
    Position,
    count_turns,
    find_positions,
    interchange,
    rounds,
    stitch,
    subsample,
)
from ctlpp.analysis.states import Layout, PatchableModel, activations, answers, in_parts
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.training.crowd import Crowd
from ctlpp.words import plural

STAGES = 100  # steps in which the progress of a seed is told
POSITIONS = 5  # of them: where the value is
SAMPLE = 256  # pairs that stitching tries
TRIED = 8  # inputs at least, of all consumers alike, to see how a model goes on from a state


@dataclass(eq=False)
class Analysis:
    """What was found. S seeds, F functions, n symbols; pairs are (first, second, start symbol)."""

    inputs: Inputs
    seeds: tuple[int, ...]
    answers: Array  # to all pairs, (S, F, F, n)
    singles: Array  # answers to all single applications, (S, F, n)
    codes: Array  # of the state behind each (first, symbol), (S, F, n); -1 where none is needed
    measures: dict[str, Array]  # one number per seed, (S,); nan where it is not defined
    similarity: Array | None = None  # of readouts, (S, values, F, F)
    clusters: list[list[geometry.Clustering]] | None = None  # of them, by seed and value
    layout: Layout | None = None  # how the model carries its state
    effect: Array | None = None  # of every position, (S, layers or steps, what is changed there)
    position: Array | None = None  # layer or step, and what is changed there, (S, 2)
    changed: tuple[str, ...] = ()  # the names of what can be changed
    interchange: Array | None = None  # share of bases with a right answer, (S, F, F, n)
    bases: int = 0  # how many those are for every (donor's function, consumer, donor's symbol)
    stitched: dict[str, Array] = field(default_factory=dict)  # "orthogonal", "affine"; nan: not tried
    notes: list[str] = field(default_factory=list)  # what could not be done, or says less than usual, and why

    @property
    def right(self) -> Array:
        """Which pairs are answered right, (S, F, F, n) bool."""
        return np.asarray(self.answers == self.inputs.answer)


def analyze(
    model: Crowd | nn.Module | Callable[[Tensor], Tensor],
    task: Task,
    *,
    bases: int | None = 1,
    advance: Callable[[int], None] = lambda steps: None,
) -> Analysis:
    """Analyse all seeds of a crowd, or one model: a module, or any callable that makes logits of tokens.

    bases: on how many of a consumer's inputs interchange tries each donor's state; None for all of another
    value. advance: called with numbers that add up to `STAGES` times the number of seeds.
    """
    crowd = model if isinstance(model, Crowd) else as_crowd(model)
    inputs = Inputs.of(task)
    bases = count_bases(inputs, bases)

    def ask(part: Crowd, stop: Event) -> dict[str, Any]:
        def told(steps: int) -> None:
            if stop.is_set():
                raise RuntimeError("nobody waits for this part of the analysis any more")
            advance(steps)

        return _ask(part, inputs, bases, told)

    parts = in_parts(crowd, ask)
    found = parts[0] | {"bases": bases}
    for name, value in parts[0].items():
        if isinstance(value, np.ndarray):
            found[name] = np.concatenate([part[name] for part in parts])
    return _conclude(inputs, crowd.seeds, found)


def count_bases(inputs: Inputs, bases: int | None) -> int:
    """The number of bases as a number; UserError if there are not so many."""
    most = count_turns(inputs)
    if bases is not None and not 1 <= bases <= most:
        raise UserError(
            f"‹bases› {bases}: every donor and consumer has {most} bases of another value:"
            f" use 1 to {most}, or all"
        )
    return most if bases is None else bases


def as_crowd(model: nn.Module | Callable[[Tensor], Tensor]) -> Crowd:
    """One model as a crowd of one seed, number 0, that keeps its own weights."""
    module = model if isinstance(model, nn.Module) else _Called(model)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    return Crowd(module, (0,), {}, torch.zeros(1, 0, device=device), {}, vectorised=False)


class _Called(nn.Module):
    def __init__(self, model: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens)


def _ask(crowd: Crowd, inputs: Inputs, bases: int, advance: Callable[[int], None]) -> dict[str, Any]:
    """Everything that needs the model, for some seeds."""
    seeds, shape = len(crowd.seeds), inputs.value.shape
    seen, logits = activations(crowd, inputs.singles())
    found: dict[str, Any] = {"singles": logits.argmax(-1).cpu().numpy().reshape(seeds, *shape)}
    if [value.ndim for value in seen.get("readout", [])] == [3]:
        found["readout"] = seen["readout"][0].float().cpu().numpy().reshape(seeds, *shape, -1)
    found["layout"] = layout = Layout.of(seen)
    if layout is None:
        by_second = answers(crowd, inputs.pairs_with(np.arange(inputs.n_functions))).numpy()
        found["answers"] = by_second.reshape(seeds, *inputs.answer.shape).swapaxes(1, 2)
        advance(STAGES * seeds)
        return found
    tried = inputs.base_tokens()
    patchable = PatchableModel.of(crowd, layout, tried[:: max(1, len(tried) // TRIED)])
    positions = find_positions(patchable, inputs)
    found |= {"changed": positions.options, "effect": positions.effect.numpy()}
    found["position"] = torch.stack([positions.level, positions.option], dim=1).numpy()
    found["together"] = (positions.where.sum(1) > 1).numpy()
    advance(POSITIONS * seeds)
    for level in sorted(set(positions.level.tolist())):
        rows = torch.nonzero(positions.level == level).flatten().tolist()
        position = Position(level, positions.where[rows].to(crowd.device))
        for name, values in _exchange(patchable.of_rows(rows), inputs, position, bases, advance).items():
            found.setdefault(name, np.zeros((seeds, *values.shape[1:]), values.dtype))[rows] = values
    return found


def _exchange(
    model: PatchableModel, inputs: Inputs, position: Position, bases: int, advance: Callable[[int], None]
) -> dict[str, Array]:
    """Everything about the states at one position, for the seeds that have it."""
    states = model.states(inputs.donor_tokens(), position.level)
    donors = states * position.where[:, None, :, None]  # (S, F · n, K, W)
    shape = len(states), *inputs.value.shape, -1
    table = np.nan_to_num(donors.double().cpu().numpy().reshape(shape))  # linear algebra needs the digits
    within, across = geometry.probe(table, inputs)
    found = {"probe_within": within, "probe_across": across, "cka": geometry.cka(table, inputs)}
    tried = {"interchange": Donors(donors, np.ones_like(inputs.train), bases)}
    if inputs.partners:
        sample = subsample(inputs.ood, SAMPLE)
        for kind in ("orthogonal", "affine"):
            mapped = torch.from_numpy(stitch(table, inputs, kind)).to(donors)
            tried[kind] = Donors(mapped.view_as(donors), sample)
    told = _spread(advance, (STAGES - POSITIONS) * len(states), len(rounds(inputs)) * (1 + bases))
    found["answers"], exchanged = interchange(model, inputs, position, tried, told)
    return found | exchanged


def _spread(advance: Callable[[int], None], steps: int, calls: int) -> Callable[[], None]:
    """What to call so many times to advance by so many steps in all."""
    numbers = count()

    def once() -> None:
        number = next(numbers)
        advance(steps * (number + 1) // calls - steps * number // calls)

    return once


def _conclude(inputs: Inputs, seeds: tuple[int, ...], found: dict[str, Any]) -> Analysis:
    """Clusters, codes and one number per seed and measure."""
    right, layout = found["answers"] == inputs.answer, found["layout"]
    codes = geometry.extract_codes(found["answers"], inputs)
    measures = {
        "pairs_train": _share(right, inputs.train),
        "pairs_ood": _share(right, inputs.ood),
        "codes": geometry.codes_per_symbol(codes, inputs).mean(axis=1),
    }
    analysis = Analysis(inputs, seeds, found["answers"], found["singles"], codes, measures, layout=layout)
    if "readout" in found:
        vectors = geometry.by_value(found["readout"], inputs)
        analysis.similarity = geometry.similarity(vectors)
        analysis.clusters = geometry.cluster_all(vectors, analysis.similarity, inputs.group_of)
        measures["cosine_across"], measures["cosine_within"] = geometry.across_and_within(
            analysis.similarity, inputs
        )
        measures["clusters"] = np.array([np.mean([one.count for one in own]) for own in analysis.clusters])
    else:
        analysis.notes.append('the model records no "readout": no similarity of representations')
    if layout is None:
        analysis.notes.append('the model records no "state": no interchange, stitching, probes or CKA')
        return analysis
    analysis.changed, analysis.effect, analysis.position = (
        found[k] for k in ("changed", "effect", "position")
    )
    analysis.interchange, analysis.bases = found["interchange"], found["bases"]
    analysis.stitched = {kind: found[kind] for kind in ("orthogonal", "affine") if kind in found}
    measures["interchange_across"] = _share(analysis.interchange, inputs.ood)
    measures["interchange_within"] = _share(analysis.interchange, inputs.train)
    for kind, stitched in analysis.stitched.items():
        measures[f"stitch_{kind}"] = _share(stitched, inputs.ood)
    measures |= {name: found[name] for name in ("probe_within", "probe_across", "cka")}
    if together := int(found["together"].sum()):
        analysis.notes.append(
            f"{together} of {plural(len(seeds))}: no single column carries the value; all columns of the"
            " prefix are exchanged together, which early in the network comes near to exchanging the input"
        )
    if not inputs.partners:
        analysis.notes.append(
            "no group meets new consumers in the test: measures across groups are not defined"
        )
    return analysis


def _share(right: Array, pairs: Array) -> Array:
    """The share of right answers among some pairs, of those that were tried. (S, F, F, n) -> (S,)"""
    chosen = right[:, pairs].astype(float)
    tried = np.isfinite(chosen)
    total = tried.sum(axis=1)
    return np.where(total > 0, np.where(tried, chosen, 0).sum(axis=1) / np.maximum(total, 1), np.nan)
