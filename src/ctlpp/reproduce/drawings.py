"""The figures of a results folder, each drawn only if something of it has run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from ctlpp.analysis.folder import read_analysis
from ctlpp.analysis.geometry import Clustering
from ctlpp.analysis.inputs import Inputs
from ctlpp.figures.learning import Pair, draw_by_length, draw_learning, draw_repeats
from ctlpp.figures.pairs import Matrices, draw_side_by_side, draw_symbols
from ctlpp.figures.seeds import Cell, Dots, Entry, draw_rankings, draw_staged, draw_table1, draw_tables
from ctlpp.figures.style import render, style
from ctlpp.report.compare import SPLITS, converged
from ctlpp.reproduce.results import CONDITIONS, Results, correlations
from ctlpp.reproduce.run_result import RunResult
from ctlpp.reproduce.tables import name_of, number, title
from ctlpp.runs.folder import RunRecord, SeedResult
from ctlpp.runs.untrusted import DamagedError
from ctlpp.statistics import published as paper
from ctlpp.storage.task_json import from_json

FORMATS = ("png", "pdf")  # for the page, and for print
DOTS = 200  # an inch, of a PNG
VARIANTS = ("A", "R")
EXAMPLES = ("success-R", "failure-R", "failure-A")  # seeds whose similarity matrices are drawn
NAMES = (
    "table1",
    *(f"{what}-{condition}" for what in ("curves", "lengths") for condition in CONDITIONS),
    *(f"repeats-{variant}" for variant in VARIANTS),
    *("staged", "tables", "predictors", "similarity"),
    *(f"similarity-{name}" for name in EXAMPLES),
)  # all that may be drawn
Drawings = Iterator[tuple[str, Callable[[], Figure]]]


def draw_all(results: Results) -> Iterator[tuple[str, bytes]]:
    """Every figure in every format: file name and content."""
    makers = (_table1, _curves, _repeats, _staged, _function_tables, _predictors, _similarity)
    for name, draw in (drawing for make in makers for drawing in make(results)):
        with style():
            figure = draw()
            for kind in FORMATS:
                yield f"{name}.{kind}", render(figure, kind, DOTS)


def _dots(results: Results, run: RunResult, split: str = "ood") -> Dots:
    """The seeds of a run, counted as the paper did."""
    row, kept = results.row(run, split), run.select(run.selection)
    left_out = [seed.accuracy[split] for seed in run.seeds if seed not in kept and split in seed.accuracy]
    interval = None if row["interval_low"] is None else (row["interval_low"], row["interval_high"])
    return Dots(tuple(run.values(split, run.selection)), row["mean"], interval, tuple(left_out))


def _one_protocol(runs: Sequence[RunResult]) -> list[RunResult]:
    """Those of the protocol of the published numbers; if there are none, those of the other."""
    return [run for run in runs if run.protocol == "released"] or list(runs)


def _table1(results: Results) -> Drawings:
    entries = []
    for condition in CONDITIONS:
        for (model, variant), run in results.finished_runs(condition).items():
            known = {split: getattr(run.published, split) for split in SPLITS} if run.published else None
            dots = {split: _dots(results, run, split) for split in SPLITS}
            entries.append(Entry(model, variant, condition, dots, known))
    if any(entry.published for entry in entries):  # published numbers of what has not run are shown as well
        have, nothing = {(one.model, one.variant) for one in entries}, dict.fromkeys(SPLITS, Dots((), None))
        for place, row in paper.PUBLISHED.items():
            if place not in have:
                both = {split: getattr(row, split) for split in SPLITS}
                entries.append(Entry(*place, entries[0].kind, nothing, both))
    if entries:
        yield "table1", partial(draw_table1, entries)


def _curves(results: Results) -> Drawings:
    for condition in CONDITIONS:
        runs = results.finished_runs(condition)
        if curves := {place: run.history for place, run in runs.items() if run.history}:
            yield f"curves-{condition}", partial(draw_learning, curves)
            yield f"lengths-{condition}", partial(draw_by_length, curves)


def _repeats(results: Results) -> Drawings:
    repeated = {plain.name: other for plain, other in results.repeats()}
    for variant in VARIANTS:
        plain = [run for run, _ in results.repeats() if run.variant == variant]
        pairs = []
        for run in _one_protocol(plain):
            both = {"distinct": run, "repeated": repeated[run.name]}
            dots = {kind: _dots(results, one) for kind, one in both.items()}
            curves = {kind: one.history for kind, one in both.items() if one.history}
            pairs.append(Pair(run.model, variant, dots, curves, run.published.ood if run.published else None))
        if pairs:
            yield f"repeats-{variant}", partial(draw_repeats, pairs)


def _staged(results: Results) -> Drawings:
    runs = [run for planned in results.asked("staged") if (run := results.finished(planned)) and run.cell]
    cells = []
    for run in _one_protocol(runs):
        assert run.cell is not None
        accuracies = {seed.number: seed.accuracy["ood"] for seed in run.seeds if "ood" in seed.accuracy}
        diverged = frozenset(seed.number for seed in run.seeds if seed.diverged and seed.number in accuracies)
        cells.append(Cell(run.model, *run.cell, accuracies, diverged))
    if cells:
        yield "staged", partial(draw_staged, cells)


def _function_tables(results: Results) -> Drawings:
    panels = {}
    for runs in results.function_tables():
        protocol = "" if runs[0].protocol == "released" else f", {runs[0].protocol}"
        name = f"{title(runs[0].model)} on {runs[0].variant}{protocol}"
        panels[name] = [(run.table, _dots(results, run)) for run in runs]
    if panels:
        yield "tables", partial(draw_tables, panels)


def _predictors(results: Results) -> Drawings:
    panels = {}
    for run in results.main_runs():
        if found := correlations(run):
            name, *rest = name_of(results.row(run)).split(", ")
            data = " ".join(rest).replace("repeated sequences", "with repeats")
            panels[f"{name}\n{data}\n{max(one.seeds for one in found.values())} seeds"] = found
    if panels:
        yield "predictors", partial(draw_rankings, panels)


def _similarity(results: Results) -> Drawings:
    examples = find_examples(results)
    if examples:
        matrices, values = [one.matrices for one in examples], [one.value for one in examples]
        yield "similarity", partial(draw_side_by_side, matrices, values)
    for one in examples:
        yield f"similarity-{one.name}", partial(draw_symbols, one.matrices)


@dataclass(frozen=True, eq=False)
class Example:
    """A seed whose similarity matrices are worth a figure."""

    name: str  # of its figure, one of EXAMPLES
    run: RunResult
    seed: SeedResult
    matrices: Matrices

    @property
    def value(self) -> int:
        """The symbol for which the groups' readouts are least alike."""
        group = self.matrices.inputs.group_of
        return int(np.argmin([cosines[group[:, None] != group].mean() for cosines in self.matrices.cosines]))


def find_examples(results: Results) -> list[Example]:
    """The NDRs with most and least OOD accuracy on R, and with least on A, that learned their data."""
    runs = {one.variant: results.finished(one) for one in results.asked("similarity") if one.model == "ndr"}
    examples: list[Example] = []
    for name in EXAMPLES:
        outcome, variant = name.split("-")
        run, shown = runs.get(variant), [(one.run, one.seed) for one in examples]
        for piece, seed in _ranked(run, best=outcome == "success") if run else ():
            if run and (run, seed) not in shown and (matrices := _read_matrices(run, piece, seed)):
                examples.append(Example(name, run, seed, matrices))
                break
    return examples


def _ranked(run: RunResult, best: bool) -> list[tuple[RunRecord, SeedResult]]:
    """Seeds by OOD accuracy; those that did not converge only if there are no others."""
    seeds = [(piece, seed) for piece in run.pieces for seed in piece.seeds if "ood" in seed.accuracy]
    kept = [(piece, seed) for piece, seed in seeds if converged(seed)] or seeds
    sign = -1 if best else 1
    return sorted(kept, key=lambda pair: (sign * pair[1].accuracy["ood"], pair[1].number))


def _read_matrices(run: RunResult, piece: RunRecord, seed: SeedResult) -> Matrices | None:
    """The similarity matrices of a seed; None if its run is not analysed, or the analysis is damaged."""
    try:
        task = from_json(json.dumps({"splits": {}, **piece.task}))[0]
        inputs, analysis = Inputs.of(task), read_analysis(piece.folder)
        every = analysis.table("similarity").to_pylist() if analysis else []
        rows = {row["value"]: row for row in every if row["seed"] == seed.number}
        own, n = [rows[symbol] for symbol in task.symbols], inputs.n_functions
        cosines = np.array([row["cosines"] for row in own], dtype=np.float32).reshape(-1, n, n)
        clusters = [Clustering(np.array(row["clusters"]), np.array(row["order"]), np.nan) for row in own]
    except (DamagedError, ValueError, KeyError, TypeError):
        return None
    if any(sorted(one.order.tolist()) != [*range(n)] or one.labels.shape != (n,) for one in clusters):
        return None
    words = f"{title(run.model)} on {run.variant}, seed {seed.number}, OOD {number(seed.accuracy['ood'])}"
    return Matrices(inputs, cosines, clusters, words)
