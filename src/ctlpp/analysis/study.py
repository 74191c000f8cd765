"""The whole analysis of a crowd: one call, all seeds.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import gather
    >>> task = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task
    >>> crowd = gather(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, task.n_symbols, seeds=[0, 1])
    >>> found = analyze(crowd, task)
    >>> found.answers.shape, found.similarity.shape, sorted(found.measures)[:3]
    ((2, 8, 8, 4), (2, 4, 8, 8), ['cka', 'clusters', 'codes'])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ctlpp.analysis.clusters import Clustering
from ctlpp.analysis.codes import codes_per_symbol, extract
from ctlpp.analysis.forward import activations, answers, in_parts
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import interchange, thin
from ctlpp.analysis.places import find_places
from ctlpp.analysis.probes import cka, probe
from ctlpp.analysis.similarity import across_and_within, by_value, cluster_all, similarity, symbol_distance
from ctlpp.analysis.states import Bases, Layout, can_resume
from ctlpp.analysis.stitching import stitch
from ctlpp.benchmark.task import Task
from ctlpp.training.crowd import Crowd

STAGES = 3  # after each of which the progress of a seed is told
SAMPLE = 512  # pairs that stitching tries, and interchange as a control


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
    interchange: Array | None = None  # right or not, (S, F, F, n); nan where not tried
    stitched: dict[str, Array] = field(default_factory=dict)  # the same after a map: "orthogonal", "affine"
    notes: list[str] = field(default_factory=list)  # what could not be done, and why

    @property
    def right(self) -> Array:
        """Which pairs are answered right, (S, F, F, n) bool."""
        return np.asarray(self.answers == self.inputs.answer)


def analyze(
    model: Crowd | nn.Module | Callable[[Tensor], Tensor],
    task: Task,
    *,
    control: int = SAMPLE,
    advance: Callable[[int], None] = lambda seeds: None,
) -> Analysis:
    """Analyse all seeds of a crowd, or one model: a module, or any callable that makes logits of tokens.

    control: interchange tries all pairs that only the test has, and about so many each of the known and the other ones.
    advance: called with numbers that add up to `STAGES` times the number of seeds.
    """
    crowd = model if isinstance(model, Crowd) else as_crowd(model)
    inputs = Inputs.of(task)
    parts = in_parts(crowd, lambda part: _ask(part, inputs, control, advance))
    found: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts])
        for name in parts[0]
        if isinstance(parts[0][name], np.ndarray)
    }
    return _conclude(inputs, crowd.seeds, parts[0] | found)


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


def _ask(crowd: Crowd, inputs: Inputs, control: int, advance: Callable[[int], None]) -> dict[str, Any]:
    """Everything that needs the model, for some seeds."""
    seeds, shape = len(crowd.seeds), inputs.value.shape
    found: dict[str, Any] = {"answers": answers(crowd, inputs.pairs()).numpy().reshape(seeds, *inputs.answer.shape)}
    advance(seeds)
    seen, logits = activations(crowd, inputs.singles())
    found["singles"] = logits.argmax(-1).cpu().numpy().reshape(seeds, *shape)
    if [value.ndim for value in seen.get("readout", [])] == [3]:
        found["readout"] = seen["readout"][0].float().cpu().numpy().reshape(seeds, *shape, -1)
    found["layout"] = layout = Layout.of(seen)
    if layout is not None:
        found |= _exchange(crowd, layout, inputs, control, advance)
    else:
        advance((STAGES - 1) * seeds)
    return found


def _exchange(
    crowd: Crowd, layout: Layout, inputs: Inputs, control: int, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Find the places and exchange states there."""
    tokens = inputs.base_tokens()
    seen, logits = activations(crowd, tokens)
    states = layout.read(seen)
    bases = Bases(tokens, states, can_resume(crowd, layout, tokens, states, logits))
    donor_states = layout.read(activations(crowd, inputs.donor_tokens())[0])
    places = find_places(crowd, layout, inputs, bases, donor_states)
    donors = places.read(donor_states)  # (S, F · n, K, W)
    advance(len(crowd.seeds))
    neither = ~(inputs.ood | inputs.train)
    tried = inputs.ood | thin(inputs.train, control) | thin(neither, control)
    found: dict[str, Any] = {
        "changed": tuple(layout.places(donors.shape[2], inputs.task.order)),
        "effect": places.effect.numpy(),
        "place": torch.stack([places.index, places.option], dim=1).cpu().numpy(),
        "interchange": interchange(crowd, layout, inputs, bases, places, donors, tried),
    }
    flat = donors.flatten(2)  # (S, F · n, K · W)
    table = flat.view(len(flat), *inputs.value.shape, -1)
    found["probe_within"], found["probe_across"] = (accuracy.numpy() for accuracy in probe(table, inputs))
    found["cka"] = cka(table, inputs).numpy()
    if inputs.partners:
        sample = thin(inputs.ood, SAMPLE)
        for kind in ("orthogonal", "affine"):
            mapped = stitch(flat, inputs, kind).view_as(donors)
            found[kind] = interchange(crowd, layout, inputs, bases, places, mapped, sample)
    advance(len(crowd.seeds))
    return found


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
    analysis.effect, analysis.place, analysis.interchange = found["effect"], found["place"], found["interchange"]
    analysis.changed = found["changed"]
    analysis.stitched = {kind: found[kind] for kind in ("orthogonal", "affine") if kind in found}
    measures["interchange_across"] = _share(analysis.interchange, inputs.ood)
    measures["interchange_within"] = _share(analysis.interchange, inputs.train)
    for kind, stitched in analysis.stitched.items():
        measures[f"stitch_{kind}"] = _share(stitched, inputs.ood)
    measures |= {name: found[name] for name in ("probe_within", "probe_across", "cka")}
    if not inputs.partners:
        analysis.notes.append("no group meets new consumers in the test: measures across groups are not defined")
    return analysis


def _share(right: Array, pairs: Array) -> Array:
    """The share of right answers among some pairs, of those that were tried. (S, F, F, n) -> (S,)"""
    chosen = right[:, pairs].astype(float)
    tried = np.isfinite(chosen)
    total = tried.sum(axis=1)
    return np.where(total > 0, np.where(tried, chosen, 0).sum(axis=1) / np.maximum(total, 1), np.nan)
