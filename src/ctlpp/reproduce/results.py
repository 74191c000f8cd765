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

import numpy as np
import pyarrow as pa

from ctlpp.analysis.folder import PREDICTORS
from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.report.compare import SPLITS, key_of, merge, mismatches
from ctlpp.reproduce.judge import spread_of_tables
from ctlpp.reproduce.pieces import first_mismatch
from ctlpp.reproduce.plan import REPEATS, PlannedRun, Scale, plan
from ctlpp.reproduce.run_result import ALL, COLUMNS, RULE, Row, RunResult, make_rows, rounded, with_ends
from ctlpp.runs.folder import RunRecord, read_run, run_folders
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Correlation, Interval, Summary, correlate, difference

RUNS = "runs"  # the folder of a results folder that holds the runs
ENOUGH = 8  # analysed seeds that have learned their data; fewer predict little
APART = (
    0.1  # of OOD accuracy between the second worst and the second best seed: less leaves nothing to predict
)


# Data on which the published numbers are asked for: protocol, and whether function sequences repeat.
CONDITIONS = {"repeats": ("released", True), "released": ("released", False), "paper": ("paper", False)}


@dataclass(frozen=True)
class Results:
    """The plan, the runs that are there, and their rows."""

    folder: Path
    plan: tuple[PlannedRun, ...]
    runs: dict[str, RunResult]  # planned ones in the order of the plan, then the others
    rows: dict[tuple[str, str, str], Row]  # by run, selection, split

    @property
    def is_miniature(self) -> bool:
        """Whether the plan is the small one, which says nothing about published numbers."""
        return all(planned.preset == "quick" for planned in self.plan)

    @property
    def unplanned_runs(self) -> list[RunResult]:
        """Those that the plan does not have."""
        names = {planned.name for planned in self.plan}
        return [run for run in self.runs.values() if run.name not in names]

    def asked(self, *experiments: str) -> list[PlannedRun]:
        """The runs that experiments need."""
        return [planned for planned in self.plan if {*experiments} & {*planned.experiments}]

    def finished(self, planned: PlannedRun) -> RunResult | None:
        """A run of which at least one seed is finished."""
        run = self.runs.get(planned.name)
        return run if run is not None and run.seeds else None

    def missing(self, planned: PlannedRun) -> list[int]:
        """The seeds of a run that are still to be trained."""
        trained = self.trained(planned)
        return [] if planned.ended else [seed for seed in planned.seeds if seed not in trained]

    def trained(self, planned: PlannedRun) -> list[int]:
        """The seeds of a run that are finished."""
        run = self.runs.get(planned.name)
        return [seed.number for seed in run.seeds if seed.number in planned.seeds] if run else []

    def row(self, run: RunResult, split: str = "ood", selection: str | None = None) -> Row:
        """Its statistics; counted as the paper did, unless another way is named."""
        return self.rows[run.name, selection or run.selection, split]

    def finished_runs(self, condition: str) -> dict[tuple[str, str], RunResult]:
        """Runs on A and R with finished seeds, by model and variant in the order of the published table."""
        found = {
            (planned.model, planned.variant): run
            for planned in self.asked("table1", "repeats")
            if (planned.protocol, planned.repeated) == CONDITIONS[condition]
            and (run := self.finished(planned))
        }
        return {place: found[place] for place in paper.PUBLISHED if place in found}

    def main_runs(self) -> list[RunResult]:
        """All runs on A and R; those that are compared with the same published number stand together."""
        by_condition = [self.finished_runs(condition) for condition in CONDITIONS]
        return [runs[place] for place in paper.PUBLISHED for runs in by_condition if place in runs]

    def baseline(self, planned: PlannedRun) -> RunResult | None:
        """The run that differs in one thing: its sequences are distinct, or it is of `released`."""
        if planned.repeated:
            return self.finished(planned.without(REPEATS))
        released = self.finished_runs("released") if planned.protocol != "released" else {}
        return released.get((planned.model, planned.variant))

    def repeats(self) -> list[tuple[RunResult, RunResult]]:
        """Runs with distinct and with repeated sequences, where both have finished seeds."""
        planned = [one for one in self.asked("repeats") if one.repeated]
        pairs = [(self.baseline(one), self.finished(one)) for one in planned]
        return [(plain, repeated) for plain, repeated in pairs if plain and repeated]

    def function_tables(self) -> list[list[RunResult]]:
        """Runs that differ in nothing but the function table, where there are several."""
        groups: dict[str, dict[int, RunResult]] = {}
        for planned in self.asked("tables"):
            first = planned.without("seed")
            for run in filter(None, (self.finished(first), self.finished(planned))):
                groups.setdefault(first.name, {})[run.table] = run
        return [[own[table] for table in sorted(own)] for own in groups.values() if len(own) > 1]


def load_results(folder: Path, planned: Sequence[PlannedRun] | None = None) -> Results:
    """Read a results folder. planned: the plan to compare it with; by default the one that fits best."""
    pieces: dict[str, list[RunRecord]] = {}
    for place in run_folders(folder / RUNS):
        inner = place.relative_to(folder / RUNS)
        if inner.parts:
            pieces.setdefault(inner.parts[0], []).append(read_run(place, inner.as_posix(), with_history=True))
    whole = _find_plan(pieces.keys()) if planned is None else planned
    by_name = {one.name: one for one in whole if one.name in pieces or not one.ended}
    names = [name for name in by_name if name in pieces] + sorted(pieces.keys() - by_name.keys())
    runs = {name: _merge_pieces(name, pieces[name], by_name.get(name)) for name in names}
    rows = {
        (run.name, selection, split): row | _planned_columns(by_name.get(run.name))
        for run in runs.values()
        if run.seeds
        for selection in (ALL, RULE)
        for split, row in make_rows(run, selection).items()
    }
    results = Results(folder, tuple(by_name.values()), runs, rows)
    _compare_with_baselines(results)
    _compare_function_tables(results)
    return results


def _find_plan(names: Set[str]) -> list[PlannedRun]:
    """The whole plan of the scale to which most runs belong, and what is there of other protocols."""
    scales: tuple[Scale, ...] = ("full", "quick")
    plans = []
    for scale in scales:
        whole = {one.name: one for one in plan("all", scale)}
        others = [one for protocol in PROTOCOLS for one in plan("all", scale, protocol=protocol)]
        plans.append(whole | {one.name: one for one in others if one.name in names - whole.keys()})
    return list(max(plans, key=lambda one: len(one.keys() & names)).values())


def _planned_columns(planned: PlannedRun | None) -> Row:
    if planned is None:
        return {"experiments": []}
    return {"experiments": list(planned.experiments), "planned": len(planned.seeds)}


def _merge_pieces(name: str, records: Sequence[RunRecord], planned: PlannedRun | None) -> RunResult:
    """Finished pieces together; one that differs from the plan or from the first is unusable."""
    pieces: list[RunRecord] = []
    unusable: list[RunRecord] = []
    for record in sorted(records, key=_first_seed):
        if record.state != "finished":
            unusable.append(record)
        elif reason := _difference_in_settings(record, planned, pieces):
            unusable.append(replace(record, state="different", reason=reason))
        else:
            pieces.append(record)
    reasons = mismatches(pieces[0].config) if pieces else ()
    return RunResult(name, tuple(pieces), tuple(unusable), merge(pieces), tuple(reasons))


def _first_seed(record: RunRecord) -> tuple[int, str]:
    return min((seed.number for seed in record.seeds), default=0), record.name


def _difference_in_settings(
    record: RunRecord, planned: PlannedRun | None, pieces: Sequence[RunRecord]
) -> str:
    """Why a piece is not what its folder says; empty if it is."""
    if planned and (reason := first_mismatch(record.config, planned)):
        return reason
    if pieces and key_of(record) != key_of(pieces[0]):
        return f"its settings are not those of {pieces[0].name}"
    return ""


def _compare_with_baselines(results: Results) -> None:
    """Fill in how far means are from those on `released` data with distinct sequences."""
    for planned in results.asked("table1", "repeats"):
        run, base = results.finished(planned), results.baseline(planned)
        if run and base:
            for selection, split in product((ALL, RULE), SPLITS):
                row, other = (results.rows[one.name, selection, split] for one in (run, base))
                row |= {"baseline": base.name, **with_ends("change", *_change(row, other))}


def _change(row: Row, other: Row) -> tuple[float | None, Interval | None]:
    """The difference of two of our means, with Welch's interval."""
    numbers = (row["seeds"], 0, row["mean"], row["std"], None, None, 0, None)
    if other["std"] is None:
        return None, None
    return difference(Summary(*numbers), (other["mean"], other["std"]), other["seeds"], 0.0) or (None, None)


def _compare_function_tables(results: Results) -> None:
    """Fill in how much the function table matters."""
    for runs in results.function_tables():
        if spread := spread_of_tables([run.values("ood") for run in runs]):
            results.rows[runs[0].name, ALL, "ood"] |= {
                "function_tables": len(runs),
                "std_between_tables": rounded(spread.between),
                "std_within_tables": rounded(spread.within),
                "tables_p": rounded(spread.p),
            }


def correlations(run: RunResult) -> dict[str, Correlation]:
    """Of measures with OOD accuracy, over analysed seeds that learned their data; empty if there are few."""
    ood = {
        seed.number: seed.accuracy["ood"]
        for seed in run.seeds
        if not seed.diverged and seed.accuracy.get("iid", 0) > paper.LEARNED and "ood" in seed.accuracy
    }
    numbers = [number for number in run.measures if number in ood]
    accuracies = np.array([ood[number] for number in numbers])
    if len(numbers) < ENOUGH or np.ptp(np.sort(accuracies)[1:-1]) < APART:
        return {}
    found = {}
    for name in PREDICTORS:
        values = np.array([run.measures[number].get(name, np.nan) for number in numbers])
        found[name] = correlate(values, accuracies)
    return {name: one for name, one in found.items() if np.isfinite(one.pearson)}


def results_table(results: Results) -> pa.Table:
    """The content of `results.parquet`."""
    rows = list(results.rows.values())
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()})


def correlations_table(results: Results) -> pa.Table:
    """The content of `predictors.parquet`."""
    numbers = ("pearson", "low", "high", "spearman", "spearman_low", "spearman_high")
    kinds = {"cell": pa.string(), "measure": pa.string(), "seeds": pa.int64()}
    kinds |= dict.fromkeys(numbers, pa.float64())
    rows = [
        {"cell": run.name, "measure": name, **asdict(one)}
        for run in results.main_runs()
        for name, one in correlations(run).items()
    ]
    rows = [row | {name: rounded(row[name]) for name in numbers} for row in rows]
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
