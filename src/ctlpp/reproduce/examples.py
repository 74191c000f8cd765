"""Seeds whose inside is worth a figure: their similarity matrices, and how often they are right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctlpp.analysis.folder import read_analysis
from ctlpp.analysis.geometry import Clustering
from ctlpp.analysis.inputs import Inputs
from ctlpp.figures.matrices import Inside
from ctlpp.files import UserError
from ctlpp.report.package import read_pairs, read_similarity
from ctlpp.reproduce.results import Results, RunResult
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import SeedResult
from ctlpp.runs.untrusted import DamagedError
from ctlpp.storage.folder import task_from_dict

EXAMPLES = ("success-R", "failure-R", "failure-A")


class Example(NamedTuple):
    """A seed, and what its analysis found."""

    name: str  # of its figure, one of EXAMPLES
    run: RunResult
    seed: SeedResult
    inside: Inside


def find_examples(results: Results) -> list[Example]:
    """The NDRs with most and least OOD accuracy on R, and with least on A, that learned their data."""
    every = reversed(results.runs_of("similarity"))
    runs = {run.setting.first.variant: run for run in every}  # of several, the first of the plan
    examples: dict[tuple[str, int], Example] = {}  # by variant and seed
    for name in EXAMPLES:
        outcome, variant = name.split("-")
        for piece, seed in _rank(runs[variant], outcome == "success") if variant in runs else ():
            place = variant, seed.number
            if place not in examples and (one := read_example(name, runs[variant], piece, seed)):
                examples[place] = one
                break
    return list(examples.values())


def _rank(run: RunResult, best: bool) -> list[tuple[RunRecord, SeedResult]]:
    """Seeds by OOD accuracy, best or worst first; those that did not converge only if there are no others."""
    seeds = [(piece, seed) for piece in run.setting.runs for seed in piece.seeds if "ood" in seed.accuracy]
    kept = [(piece, seed) for piece, seed in seeds if seed.converged] or seeds
    sign = -1 if best else 1
    return sorted(kept, key=lambda pair: (sign * pair[1].accuracy["ood"], pair[1].number))


def read_example(name: str, run: RunResult, piece: RunRecord, seed: SeedResult) -> Example | None:
    """A seed with what its analysis found; None if it is not analysed, or the analysis is damaged."""
    try:
        analysis, inputs = read_analysis(piece.folder), Inputs(task_from_dict(piece.task))
        if analysis is None or seed.number not in analysis.seeds:
            return None
        found, (right, _), at = (
            read_similarity(analysis),
            read_pairs(analysis),
            analysis.seeds.index(seed.number),
        )
    except (DamagedError, UserError):
        return None
    task, every = inputs.task, np.arange(inputs.n_functions)
    alike = (analysis.functions, analysis.symbols) == (tuple(task.functions), tuple(task.symbols))
    if not alike or (np.sort(found.order[at]) != every).any():
        return None
    each = zip(
        found.clusters[at].astype(int), found.order[at].astype(int), found.silhouettes[at], strict=True
    )
    clusters = [Clustering(labels, order, float(silhouette)) for labels, order, silhouette in each]
    title = f"{run.title}, seed {seed.number}, OOD {seed.accuracy['ood']:.2f}"
    first, second, _ = np.ogrid[tuple(map(slice, inputs.answer.shape))]
    by_start = right[at, inputs.value[:, None], first, second]  # (F, F, symbols)
    return Example(name, run, seed, Inside(inputs, title, by_start, found.cosines[at], clusters))
