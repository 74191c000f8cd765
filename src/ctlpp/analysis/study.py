"""The whole analysis of a crowd: one call, all seeds.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> task = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task
    >>> crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, task.n_symbols, seeds=[0, 1])
    >>> found = analyze(crowd, task)
    >>> found.answers.shape, found.similarity.shape, sorted(found.measures)[:3]
    ((2, 8, 8, 4), (2, 4, 8, 8), ['cka', 'clusters', 'codes'])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count as count_up
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ctlpp.analysis.clusters import Clustering
from ctlpp.analysis.codes import codes_per_symbol, extract
from ctlpp.analysis.forward import activations, answers, in_parts
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import Donors, Place, interchange, rounds, thin
from ctlpp.analysis.places import find_places
from ctlpp.analysis.probes import cka, probe
from ctlpp.analysis.rotation import turns
from ctlpp.analysis.similarity import across_and_within, by_value, cluster_all, similarity, symbol_distance
from ctlpp.analysis.states import Layout
from ctlpp.analysis.stitching import stitch
from ctlpp.analysis.subject import Subject
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.training.crowd import Crowd
from ctlpp.words import plural

STAGES = 100  # steps in which the progress of a seed is told
PLACES = 5  # of them: where the value is
SAMPLE = 256  # pairs that stitching tries
TRIED = 8  # inputs at least, of all consumers alike, to see how a model goes on from a state


@dataclass(eq=False)
class Analysis:
    """What was found, seed by seed. S seeds, F functions, n symbols; pairs are (first, second, start symbol)."""

    inputs: Inputs
    seeds: tuple[int, ...]
    answers: Array  # to all pairs, (S, F, F, n)
    singles: Array  # answers to all single applications, (S, F, n)
    codes: Array  # of the state behind each (first, symbol), (S, F, n); -1 where none is needed
    measures: dict[str, Array]  # one number a seed, (S,); nan where it is not defined
    similarity: Array | None = None  # of readouts, (S, values, F, F)
    clusters: list[list[Clustering]] | None = None  # of them, by seed and value
    layout: Layout | None = None  # how the model carries its state
    effect: Array | None = None  # of every place, (S, layers or steps, what is changed there)
    place: Array | None = None  # layer or step, and what is changed there, (S, 2)
    changed: tuple[str, ...] = ()  # the names of what can be changed
    interchange: Array | None = None  # share of bases with a right answer, (S, F, F, n)
    bases: int = 0  # how many those are for every (donor's function, consumer, donor's symbol)
    stitched: dict[str, Array] = field(
        default_factory=dict
    )  # after a map, "orthogonal" or "affine"; nan: not tried
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

    bases: on how many of a consumer's inputs interchange tries each donor's state; None for all of another value.
    advance: called with numbers that add up to `STAGES` times the number of seeds.
    """
    crowd = model if isinstance(model, Crowd) else as_crowd(model)
    inputs = Inputs.of(task)
    bases = count_bases(inputs, bases)

    def ask(part: Crowd, in_vain: Event) -> dict[str, Any]:
        def told(steps: int) -> None:
            if in_vain.is_set():
                raise RuntimeError("nobody waits for this part of the analysis any more")
            advance(steps)

        return _ask(part, inputs, bases, told)

    parts = in_parts(crowd, ask)
    found: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts])
        for name in parts[0]
        if isinstance(parts[0][name], np.ndarray)
    }
    return _conclude(inputs, crowd.seeds, parts[0] | found | {"bases": bases})


def count_bases(inputs: Inputs, bases: int | None) -> int:
    """The number of bases as a number; ValueError if there are not so many."""
    most = turns(inputs)
    if bases is not None and not 1 <= bases <= most:
        raise UserError(
            f"--bases {bases}: every donor and consumer has {most} bases of another value: use 1 to {most}, or all"
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
        found["answers"] = answers(crowd, inputs.pairs()).numpy().reshape(seeds, *inputs.answer.shape)
        advance(STAGES * seeds)
        return found
    tried = inputs.base_tokens()
    subject = Subject.of(crowd, layout, tried[:: max(1, len(tried) // TRIED)])
    places = find_places(subject, inputs)
    found |= {"changed": places.options, "effect": places.effect.numpy()}
    found["place"] = torch.stack([places.level, places.option], dim=1).numpy()
    found["together"] = (places.where.sum(1) > 1).numpy()
    advance(PLACES * seeds)
    for level in sorted(set(places.level.tolist())):
        rows = torch.nonzero(places.level == level).flatten().tolist()
        place = Place(level, places.where[rows].to(crowd.device))
        for name, values in _exchange(subject.of_rows(rows), inputs, place, bases, advance).items():
            found.setdefault(name, np.zeros((seeds, *values.shape[1:]), values.dtype))[rows] = values
    return found


def _exchange(
    subject: Subject, inputs: Inputs, place: Place, bases: int, advance: Callable[[int], None]
) -> dict[str, Array]:
    """Everything about the states at one place, for the seeds that have it."""
    states = subject.states(inputs.donor_tokens(), place.level)
    donors = states * place.where[:, None, :, None]  # (S, F · n, K, W)
    flat = donors.flatten(
        2
    ).cpu()  # for linear algebra in double precision, which is small: the same on every device
    table = flat.view(len(flat), *inputs.value.shape, -1)
    within, across = probe(table, inputs)
    found = {
        "probe_within": within.numpy(),
        "probe_across": across.numpy(),
        "cka": cka(table, inputs).numpy(),
    }
    tried = {"interchange": Donors(donors, np.ones_like(inputs.train), bases)}
    if inputs.partners:
        sample = thin(inputs.ood, SAMPLE)
        tried |= {
            k: Donors(stitch(flat, inputs, k).view_as(donors).to(donors.device), sample)
            for k in ("orthogonal", "affine")
        }
    calls = len(rounds(inputs)) * (1 + bases)
    told = _spread(advance, (STAGES - PLACES) * len(states), calls)
    found["answers"], exchanged = interchange(subject, inputs, place, tried, told)
    return found | exchanged


def _spread(advance: Callable[[int], None], steps: int, calls: int) -> Callable[[], None]:
    """What to call so many times to advance by so many steps in all."""
    numbers = count_up()

    def once() -> None:
        number = next(numbers)
        advance(steps * (number + 1) // calls - steps * number // calls)

    return once


def _conclude(inputs: Inputs, seeds: tuple[int, ...], found: dict[str, Any]) -> Analysis:
    """Clusters, codes and one number a seed and measure."""
    right, layout = found["answers"] == inputs.answer, found["layout"]
    codes = extract(found["answers"], inputs)
    measures = {
        "pairs_train": _share(right, inputs.train),
        "pairs_ood": _share(right, inputs.ood),
        "codes": codes_per_symbol(codes, inputs).mean(axis=1),
    }
    analysis = Analysis(inputs, seeds, found["answers"], found["singles"], codes, measures, layout=layout)
    if "readout" in found:
        vectors = by_value(found["readout"], inputs)
        analysis.similarity = similarity(vectors)
        analysis.clusters = cluster_all(analysis.similarity, symbol_distance(vectors), inputs)
        measures["cosine_across"], measures["cosine_within"] = across_and_within(analysis.similarity, inputs)
        measures["clusters"] = np.array([np.mean([one.count for one in own]) for own in analysis.clusters])
    else:
        analysis.notes.append('the model records no "readout": no similarity of representations')
    if layout is None:
        analysis.notes.append('the model records no "state": no interchange, stitching, probes or CKA')
        return analysis
    analysis.effect, analysis.place, analysis.interchange = (
        found["effect"],
        found["place"],
        found["interchange"],
    )
    analysis.changed, analysis.bases = found["changed"], found["bases"]
    analysis.stitched = {kind: found[kind] for kind in ("orthogonal", "affine") if kind in found}
    measures["interchange_across"] = _share(analysis.interchange, inputs.ood)
    measures["interchange_within"] = _share(analysis.interchange, inputs.train)
    for kind, stitched in analysis.stitched.items():
        measures[f"stitch_{kind}"] = _share(stitched, inputs.ood)
    measures |= {name: found[name] for name in ("probe_within", "probe_across", "cka")}
    if together := int(found["together"].sum()):
        analysis.notes.append(
            f"{together} of {plural(len(seeds))}: no single column carries the value; all columns of the prefix are"
            " exchanged together, which early in the network comes near to exchanging the input itself"
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
