"""A results folder against the plan: what has run, how the runs compare, and what predicts failure.

OUT/runs/NAME/PIECE/      run folders: some seeds of the planned run NAME
OUT/results.parquet       statistics of every run
OUT/predictors.parquet    correlation of each measure with OOD accuracy
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.plans.pieces import first_mismatch
from ctlpp.plans.planned import REPEATS, PlannedRun, current_name
from ctlpp.report.compare import KEPT, SPLITS, key_of
from ctlpp.reproduce.plan import SCALES, plan
from ctlpp.reproduce.run_result import ALL, COLUMNS, RULE, Row, RunResult, make_rows, rounded, with_ends
from ctlpp.runs.folder import RunRecord, read_run, run_folders
from ctlpp.runs.history import accuracies
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import difference, spread_of_tables

RUNS = "runs"  # the folder of a results folder that holds the runs
# Data on which the published numbers are asked for, by options of the data.
CONDITIONS: dict[str, dict[str, Any]] = {
    "authors": {"protocol": "authors"},
    "repeats": {"protocol": "clean", REPEATS: "n/7"},
    "clean": {"protocol": "clean"},
    "text": {"protocol": "text"},
}


@dataclass(frozen=True)
class Results:
    """The runs of a plan, and their rows."""

    folder: Path
    runs: dict[str, RunResult]  # planned ones in the order of the plan, begun or not, then the others
    rows: dict[tuple[str, str, str], Row]  # by run, selection, split

    @property
    def plan(self) -> dict[str, PlannedRun]:
        """What is planned, by name."""
        return {name: run.planned for name, run in self.runs.items() if run.planned}

    @property
    def finished(self) -> list[RunResult]:
        """Runs with at least one finished seed."""
        return [run for run in self.runs.values() if run.seeds]

    @property
    def is_miniature(self) -> bool:
        """Whether the plan is the small one, which says nothing about published numbers."""
        return all(planned.preset == "quick" for planned in self.plan.values())

    def row(self, run: RunResult, split: str = "ood", selection: str | None = None) -> Row:
        """Its statistics; counted as the paper did, unless another way is named."""
        return self.rows[run.name, selection or run.selection, split]

    def asked(self, experiment: str) -> list[RunResult]:
        """The runs that an experiment needs and that have finished seeds."""
        return [run for run in self.finished if run.planned and experiment in run.planned.experiments]

    def on(self, condition: str) -> dict[tuple[str, str], RunResult]:
        """Finished runs on one kind of data, by model and variant in the order of the published table."""
        found = {
            (run.planned.model, run.planned.variant): run
            for run in reversed(self.finished)  # of several, the first of the plan
            if run.planned and dict(run.planned.data) == CONDITIONS[condition]
        }
        return {place: found[place] for place in paper.PUBLISHED if place in found}

    def main_runs(self) -> list[RunResult]:
        """All runs on A and R; those that are compared with the same published number stand together."""
        by_condition = [self.on(condition) for condition in CONDITIONS]
        return [runs[place] for place in paper.PUBLISHED for runs in by_condition if place in runs]

    def baseline(self, run: RunResult) -> RunResult | None:
        """The run on `clean` data with distinct sequences, if there is one that else is the same."""
        if run.planned is None:
            return None
        wanted = run.planned.setting(protocol="clean", **{REPEATS: None})
        same = (one for one in self.finished if one.planned and one.planned.setting() == wanted)
        return next((one for one in same if one is not run), None)

    def repeats(self) -> list[tuple[RunResult, RunResult]]:
        """Runs with distinct and with repeated sequences, where both have finished seeds."""
        pairs = [(self.baseline(run), run) for run in self.on("repeats").values()]
        return [(plain, repeated) for plain, repeated in pairs if plain]

    def function_tables(self) -> list[list[RunResult]]:
        """Runs that differ in nothing but the function table, where there are several."""
        groups: dict[object, list[RunResult]] = {}
        for run in self.asked("tables"):
            if run.planned:
                groups.setdefault(run.planned.setting(seed=None, table=None), []).append(run)
        return [runs for runs in groups.values() if len(runs) > 1]


def load_results(folder: Path) -> Results:
    """Read a results folder, and compare it with the plan that fits best."""
    pieces: dict[str, list[RunRecord]] = {}
    for place in run_folders(folder / RUNS):
        inner = place.relative_to(folder / RUNS)
        if inner.parts:
            pieces.setdefault(current_name(inner.parts[0]), []).append(
                read_run(place, inner.as_posix(), with_history=True)
            )
    planned = {one.name: one for one in _find_plan(pieces.keys()) if one.name in pieces or not one.ended}
    names = [*planned, *sorted(pieces.keys() - planned.keys())]
    runs = {name: _merge_pieces(name, pieces.get(name, []), planned.get(name)) for name in names}
    results = Results(folder, runs, {})
    for run in results.finished:
        every = make_rows(run, run.seeds)
        kept = every if run.select(RULE) == run.seeds else make_rows(run, run.select(RULE))
        for selection, words, rows in ((ALL, "all seeds", every), (RULE, KEPT, kept)):
            for split, row in rows.items():
                results.rows[run.name, selection, split] = row | {"selection": words}
    _compare_with_baselines(results)
    _compare_function_tables(results)
    return results


def _find_plan(names: Set[str]) -> list[PlannedRun]:
    """The whole plan of the scale to which most runs belong, and what is there of other protocols."""
    plans = []
    for scale in SCALES:
        whole = {one.name: one for one in plan("all", scale)}
        others = [one for protocol in PROTOCOLS for one in plan("all", scale, protocol=protocol)]
        others += plan("all", scale, until="settled")
        plans.append(whole | {one.name: one for one in others if one.name in names - whole.keys()})
    return list(max(plans, key=lambda one: len(one.keys() & names)).values())


def _merge_pieces(name: str, records: Sequence[RunRecord], planned: PlannedRun | None) -> RunResult:
    """Finished pieces together; one that differs from the plan or from the first is unusable."""
    pieces: list[RunRecord] = []
    unusable: list[RunRecord] = []
    for record in sorted(records, key=lambda one: (min((s.number for s in one.seeds), default=0), one.name)):
        reason = first_mismatch(record.config, planned) if planned and record.state == "finished" else ""
        if not reason and pieces and key_of(record) != key_of(pieces[0]):
            reason = f"its settings are not those of {pieces[0].name}"
        if record.state != "finished":
            unusable.append(record)
        elif reason:
            unusable.append(replace(record, state="different", reason=reason))
        else:
            pieces.append(record)
    return RunResult(name, planned, tuple(pieces), tuple(unusable))


def _compare_with_baselines(results: Results) -> None:
    """Fill in how far means are from those on `clean` data with distinct sequences."""
    for run in results.finished:
        if base := results.baseline(run):
            for selection, split in product((ALL, RULE), SPLITS):
                row, other = (results.row(one, split, selection) for one in (run, base))
                ours, theirs = ((one["mean"], one["std"], one["seeds"]) for one in (row, other))
                change = difference(ours, theirs) or (None, None)
                row |= {"baseline": base.name, **with_ends("change", *change)}


def _compare_function_tables(results: Results) -> None:
    """Fill in how much the function table matters."""
    for runs in results.function_tables():
        if spread := spread_of_tables([accuracies(run.seeds, "ood") for run in runs]):
            names = ("std_between_tables", "std_within_tables", "tables_p")
            row = results.row(runs[0], "ood", ALL)
            row |= {"function_tables": len(runs), **dict(zip(names, map(rounded, spread), strict=True))}


def results_table(results: Results) -> pa.Table:
    """The content of `results.parquet`."""
    return pa.Table.from_pylist(list(results.rows.values()), pa.schema(list(COLUMNS.items())))


def correlations_table(results: Results) -> pa.Table:
    """The content of `predictors.parquet`."""
    numbers = ("pearson", "low", "high", "spearman", "spearman_low", "spearman_high")
    kinds = {"cell": pa.string(), "measure": pa.string(), "seeds": pa.int64()}
    kinds |= dict.fromkeys(numbers, pa.float64())
    rows = [
        {"cell": run.name, "measure": name, **asdict(one)}
        for run in results.main_runs()
        for name, one in run.correlations.items()
    ]
    rows = [row | {name: rounded(row[name]) for name in numbers} for row in rows]
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
