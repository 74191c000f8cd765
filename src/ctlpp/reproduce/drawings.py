"""The figures of a results folder, each drawn only if something of it has run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ctlpp.analysis.folder import AnalysisRecord, read_analysis
from ctlpp.analysis.geometry import Clustering
from ctlpp.analysis.inputs import Inputs
from ctlpp.figures.pairs import Answers, Matrices, draw_accuracy, draw_side_by_side, draw_symbols
from ctlpp.figures.results import (
    Cell,
    Dots,
    Entry,
    Line,
    draw_by_length,
    draw_data,
    draw_learning,
    draw_repeats,
    draw_staged,
    draw_table1,
    draw_tables,
)
from ctlpp.figures.run import draw_rankings
from ctlpp.figures.style import DATA_NAMES, render, style
from ctlpp.report.compare import SPLITS
from ctlpp.reproduce.plan import CONDITIONS
from ctlpp.reproduce.results import Results, RunResult
from ctlpp.runs.folder import RunRecord, read_run, run_folders
from ctlpp.runs.history import History, SeedResult, read_history
from ctlpp.runs.untrusted import DamagedError, as_dict, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import ENOUGH_SEEDS
from ctlpp.storage.folder import task_from_dict

FORMATS = ("png", "pdf")  # for the page, and for print
DOTS = 200  # an inch, of a PNG
WRITTEN = {  # data of runs in OUT/authors-data: of the authors' generator, or changed from such
    "A": "generator's files",
    "A-fresh-streams": "generator's, no nesting or twins",
    "A-single-pairs": "generator's, each pair once",
    "A-other-table": "generator's, our table 0",
    "A-n7-doubled": "clean, repeats, pairs twice",
    "A-clean-doubled": "clean, pairs twice",
}
SIMILARITY = ["seed", "value", "clusters", "order", "cosines", "silhouette"]
ACCURACY = ["seed", "value", "by", "first", "second", "accuracy"]
EXAMPLES = ("success-R", "failure-R", "failure-A")  # seeds whose similarity matrices are drawn
NAMES = (
    "table1",
    *(f"{what}-{condition}" for what in ("curves", "lengths") for condition in CONDITIONS),
    *("repeats-A", "repeats-R", "data", "staged", "tables", "predictors", "similarity", "accuracy"),
    *(f"similarity-{name}" for name in EXAMPLES),
)  # all that may be drawn
Drawings = Iterator[tuple[str, Figure]]  # name and figure


def draw_all(results: Results, formats: Sequence[str] = FORMATS) -> Iterator[tuple[str, bytes]]:
    """Every figure in every format: file name and content."""
    draw_each = (_table1, _curves, _data, _repeats, _staged, _function_tables, _predictors, _similarity)
    with style():
        for draw in draw_each:
            for name, figure in draw(results):
                for kind in formats:
                    yield f"{name}.{kind}", render(figure, kind, DOTS)


def _dots(run: RunResult, split: str = "ood") -> Dots:
    """The seeds of a run, counted as the paper did."""
    row, kept = run.row(split), run.select(run.selection)
    interval = None if row["interval_low"] is None else (row["interval_low"], row["interval_high"])
    counted, left_out = (
        tuple(seed.accuracy[split] for seed in run.seeds if (seed in kept) == own and split in seed.accuracy)
        for own in (True, False)
    )
    return Dots(counted, row["mean"], interval, left_out)


def _chance(results: Results) -> float:
    """The accuracy of guessing."""
    return 1 / len(task_from_dict(results.finished[0].first.task).symbols)


def _title(run: RunRecord) -> str:
    return f"{paper.TITLES.get(run.model, run.model)} on {run.variant}"


def _table1(results: Results) -> Drawings:
    entries = []
    for condition in CONDITIONS:
        for place, run in results.runs_on(condition).items():
            known = {split: getattr(run.published, split) for split in SPLITS} if run.published else None
            dots = {split: _dots(run, split) for split in SPLITS}
            entries.append(Entry(*place, condition, dots, known))
    if any(entry.published for entry in entries):  # published numbers of what has not run are shown as well
        have, nothing = {(one.model, one.variant) for one in entries}, dict.fromkeys(SPLITS, Dots((), None))
        for place, row in paper.PUBLISHED.items():
            if place not in have:
                both = {split: getattr(row, split) for split in SPLITS}
                entries.append(Entry(*place, entries[0].kind, nothing, both))
    if entries:
        yield "table1", draw_table1(entries, _chance(results))


def _curves(results: Results) -> Drawings:
    for condition in CONDITIONS:
        if curves := {place: run.history for place, run in results.runs_on(condition).items() if run.history}:
            yield f"curves-{condition}", draw_learning(curves, _chance(results))
            yield f"lengths-{condition}", draw_by_length(curves, _chance(results))


def _data(results: Results) -> Drawings:
    """On A, what is learned from each kind of data: from the authors' down to the paper's text."""
    lines: dict[str, list[Line]] = {name: [] for name in (*CONDITIONS, *WRITTEN.values())}
    for condition in CONDITIONS:
        for (model, variant), run in results.runs_on(condition).items():
            if variant == "A" and run.history:
                lines[condition].append(Line(model, DATA_NAMES[condition], run.history))
    for run in results.runs_of("data"):
        if run.planned and run.history and run.planned.special:
            words = ", ".join([run.first.protocol, *run.planned.special])
            lines[run.first.protocol].append(Line(run.first.model, words, run.history))
    for folder in run_folders(results.folder / "authors-data"):
        record = read_run(folder, with_history=True)
        words = WRITTEN.get(as_str(as_dict(record.config.get("about")).get("data")), "")
        if words and record.variant == "A" and record.state == "finished":
            lines[words].append(Line(record.model, words, read_history(folder / "metrics.parquet")))
    first, *others = CONDITIONS
    ordered = [line for name in (first, *WRITTEN.values(), *others) for line in lines[name]]
    ordered = [line for line in ordered if len(line.history.seeds) >= ENOUGH_SEEDS]
    known = {model: row.ood for (model, variant), row in paper.PUBLISHED.items() if variant == "A"}
    if ordered and not results.is_miniature:
        yield "data", draw_data(ordered, known)


def _repeats(results: Results) -> Drawings:
    """On each variant, the runs with distinct and with repeated sequences."""
    panels: dict[str, dict[str, dict[str, History]]] = {}
    for (_, variant), run in results.runs_on("repeats").items():
        plain = results.find_baseline(run)
        if plain and plain.history and run.history:
            both = {"clean": plain.history, "repeats": run.history}
            panels.setdefault(variant, {})[_title(run.first)] = both
    for variant, pairs in panels.items():
        yield f"repeats-{variant}", draw_repeats(pairs, _chance(results))


def _staged(results: Results) -> Drawings:
    runs = results.runs_of("staged")
    runs = [run for run in runs if run.first.protocol == "authors"] or runs  # that of the published numbers
    cells = []
    for run in runs:
        trained = {seed.number: seed.accuracy["ood"] for seed in run.seeds if not seed.diverged}
        if run.first.cell and trained:
            cells.append(Cell(run.first.model, *run.first.cell, trained, len(run.seeds) - len(trained)))
    if cells:
        yield "staged", draw_staged(cells)


def _function_tables(results: Results) -> Drawings:
    panels = {}
    for runs in results.function_tables():
        first = runs[0].first
        name = _title(first) + ("" if first.protocol == "authors" else f", {first.protocol}")
        panels[name] = [(run.row()["table"], _dots(run)) for run in runs]
    if panels:
        yield "tables", draw_tables(panels, _chance(results))


def _predictors(results: Results) -> Drawings:
    panels = {}
    conditions = {run.name: name for name in CONDITIONS for run in results.runs_on(name).values()}
    for run in results.main_runs():
        if found := run.correlations:
            seeds = max(one.seeds for one in found.values())
            data = DATA_NAMES[conditions[run.name]].removeprefix("clean with ")
            panels[f"{paper.TITLES[run.first.model]}\n{run.first.variant}, {data}\n{seeds} seeds"] = found
    if panels:
        yield "predictors", draw_rankings(panels)


def _similarity(results: Results) -> Drawings:
    examples = find_examples(results)
    if examples:
        failed = next((one for one in examples if one.name.startswith("failure")), examples[0])
        matrices, value = [one.matrices for one in examples], failed.value  # the same symbol of all seeds
        yield "similarity", draw_side_by_side(matrices, value)
        if answers := [found for one in examples[:2] if (found := one.answers(value))]:
            yield "accuracy", draw_accuracy(answers)
    for one in examples:
        yield f"similarity-{one.name}", draw_symbols(one.matrices)


@dataclass(frozen=True, eq=False)
class Example:
    """A seed whose similarity matrices are worth a figure."""

    name: str  # of its figure, one of EXAMPLES
    run: RunResult
    seed: SeedResult
    analysis: AnalysisRecord
    matrices: Matrices

    @property
    def value(self) -> int:
        """The symbol for which the groups' readouts are least alike."""
        group = self.matrices.inputs.group_of
        return int(np.argmin([cosines[group[:, None] != group].mean() for cosines in self.matrices.cosines]))

    def answers(self, value: int) -> Answers | None:
        """How often the seed is right with a symbol in between; None if its analysis does not say."""
        inputs, clustering = self.matrices.inputs, self.matrices.clusters[value]
        firsts = {"group": inputs.groups, "cluster": [str(number) for number in range(clustering.count)]}
        try:
            shares = {
                (row["by"], row["first"], row["second"]): row["accuracy"]
                for row in self.analysis.table("accuracy", ACCURACY).to_pylist()
                if (row["seed"], row["value"]) == (self.seed.number, inputs.task.symbols[value])
            }
            groups, clusters = (
                np.array([[shares[by, first, second] for second in inputs.groups] for first in names], float)
                for by, names in firsts.items()
            )
        except (DamagedError, KeyError, TypeError, ValueError):
            return None
        sizes = tuple(np.bincount(clustering.labels).tolist())
        return Answers(inputs, self.matrices.title, value, groups, clusters, sizes)


def find_examples(results: Results) -> list[Example]:
    """The NDRs with most and least OOD accuracy on R, and with least on A, that learned their data."""
    runs = {run.first.variant: run for run in reversed(results.runs_of("similarity"))}  # the first of each
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
    seeds = [(piece, seed) for piece in run.pieces for seed in piece.seeds if "ood" in seed.accuracy]
    kept = [(piece, seed) for piece, seed in seeds if seed.converged] or seeds
    sign = -1 if best else 1
    return sorted(kept, key=lambda pair: (sign * pair[1].accuracy["ood"], pair[1].number))


def read_example(name: str, run: RunResult, piece: RunRecord, seed: SeedResult) -> Example | None:
    """A seed with its similarity matrices; None if it is not analysed, or the analysis is damaged."""
    try:
        if not (analysis := read_analysis(piece.folder)):
            return None
        inputs = Inputs(task_from_dict(piece.task))
        n = inputs.n_functions
        every = analysis.table("similarity", SIMILARITY).to_pylist()
        rows = {row["value"]: row for row in every if row["seed"] == seed.number}
        own = [rows[symbol] for symbol in inputs.task.symbols]
        cosines = np.array([row["cosines"] for row in own], dtype=np.float32).reshape(-1, n, n)
        clusters = [
            Clustering(np.array(row["clusters"]), np.array(row["order"]), float(row["silhouette"] or np.nan))
            for row in own
        ]
    except (DamagedError, ValueError, KeyError, TypeError):
        return None
    if any(sorted(one.order.tolist()) != [*range(n)] or one.labels.shape != (n,) for one in clusters):
        return None
    title = f"{_title(piece)}, seed {seed.number}, OOD {seed.accuracy['ood']:.2f}"
    return Example(name, run, seed, analysis, Matrices(inputs, cosines, clusters, title))
