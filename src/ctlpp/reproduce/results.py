"""A results folder against the plan: what has run, its statistics, and what predicts failure.

The run folders `OUT/runs/NAME/PIECE` hold the seeds of the planned run NAME. Its statistics are rows of
`results.parquet`: for each way to count its seeds there is one for each split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from ctlpp.analysis.folder import PREDICTORS, read_analysis
from ctlpp.plans.pieces import first_mismatch
from ctlpp.plans.planned import REPEATS, PlannedRun, current_name
from ctlpp.report.compare import ALL, RULE, SPLITS, Counted, Setting, setting_key
from ctlpp.reproduce.plan import CONDITIONS, find_plan
from ctlpp.runs.folder import RunRecord, read_run, run_folders
from ctlpp.runs.history import History, SeedResult, accuracies, read_history
from ctlpp.runs.untrusted import DamagedError, as_dict, as_int, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import (
    ENOUGH_SEEDS,
    Correlation,
    Interval,
    Summary,
    correlate,
    difference,
    mean_intervals,
    spread_of_tables,
    summarise,
)
from ctlpp.statistics.verdict import is_inside

RUNS = "runs"  # the folder in a results folder
APART = 0.1  # of OOD accuracy, the second worst and the second best seed: less leaves nothing to predict
LATE = 0.9  # of the steps: what comes after is the last tenth

Row = dict[str, Any]  # a line of results.parquet, and what is `special` about its data, in words

_TEXT, _COUNT, _REAL = pa.string(), pa.int64(), pa.float64()
_MEAN = dict.fromkeys(("mean", "std", "interval_low", "interval_high"), _REAL)
COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("cell", "model", "variant", "protocol", "preset", "repeated_sequences"), _TEXT),
    **dict.fromkeys(("table", "shared_functions", "shared_symbols", "planned"), _COUNT),
    "experiments": pa.list_(_TEXT),
    **dict.fromkeys(("selection", "split"), _TEXT),
    **dict.fromkeys(("seeds", "diverged", "not_converged", "above_95"), _COUNT),
    **dict.fromkeys((*_MEAN, "median", "above_95_share_low", "above_95_share_high"), _REAL),
    "by_length": pa.list_(pa.struct([("length", pa.int32()), *_MEAN.items()])),
    **dict.fromkeys(("gap", "gap_low", "gap_high"), _REAL),  # IID less OOD accuracy of each seed
    **dict.fromkeys(("equal_gap", "equal_gap_low", "equal_gap_high"), _REAL),  # as a mean over lengths
    # Of OOD examples drawn anew (on authors' data), and what was published
    **dict.fromkeys(("independent_mean", "independent_std", "published_mean", "published_std"), _REAL),
    "published_above_95": _COUNT,
    "published_inside": pa.bool_(),  # whether the published mean lies in our interval
    **dict.fromkeys(("difference", "difference_low", "difference_high"), _REAL),  # ours less theirs
    **dict.fromkeys(("verdict", "iid_differs"), _TEXT),
    "not_compared": pa.list_(_TEXT),  # why no published number applies
    **dict.fromkeys(("learned", "learned_first", "learned_half", "learned_late"), _COUNT),  # seeds, steps
    "moved_late": _REAL,  # how far the mean OOD accuracy went in the last tenth of the steps
    "baseline": _TEXT,  # the same on `clean` data with distinct sequences
    **dict.fromkeys(("change", "change_low", "change_high"), _REAL),  # from the baseline
    "function_tables": _COUNT,  # on the row of table 0: how many there are, and how much they matter
    **dict.fromkeys(("std_between_tables", "std_within_tables", "tables_p"), _REAL),
}


@dataclass(frozen=True)
class RunResult:
    """A planned run and what has run of it: pieces, each a run folder with seeds of its own."""

    name: str
    planned: PlannedRun | None  # None for a run that the plan does not have
    setting: Setting  # the finished pieces, if there are any
    unusable: tuple[RunRecord, ...] = ()  # unfinished, damaged, of another version or of other settings

    @property
    def title(self) -> str:
        """Model and variant."""
        first = self.setting.first
        return f"{paper.TITLES.get(first.model, first.model)} on {first.variant}"

    @property
    def trained(self) -> list[int]:
        """The planned seeds that are finished."""
        asked = self.planned.seeds if self.planned else ()
        return [seed.number for seed in self.setting.seeds if seed.number in asked]

    @property
    def missing(self) -> list[int]:
        """The planned seeds that are still to be trained."""
        asked = self.planned.seeds if self.planned and not self.planned.ended else ()
        return [seed for seed in asked if seed not in self.trained]

    @cached_property
    def rows(self) -> dict[tuple[str, str], Row]:
        """Its statistics by selection, all seeds or the paper's rule, and split."""
        about = describe_run(self)
        return {
            (selection, split): make_row(about, self.setting, selection, split)
            for selection in (ALL, RULE)
            for split in SPLITS
        }

    def row(self, split: str = "ood", selection: str = "") -> Row:
        """Its statistics; counted as the paper did, unless another way is named."""
        return self.rows[selection or (RULE if self.setting.needs_rule else ALL), split]

    @cached_property
    def history(self) -> History | None:
        """The curves of all seeds; None if no piece has any."""
        try:
            history = read_history(*(piece.folder / "metrics.parquet" for piece in self.setting.runs))
        except DamagedError:
            return None
        return history if ("ood", 0) in history.accuracy else None

    @cached_property
    def measures(self) -> dict[int, dict[str, float]]:
        """The measures of every analysed seed; a damaged analysis counts as none."""
        found: dict[int, dict[str, float]] = {}
        for piece in self.setting.runs:
            with suppress(DamagedError):
                if analysis := read_analysis(piece.folder):
                    found |= {seed: analysis.measures_of(seed) for seed in analysis.seeds}
        return found

    @cached_property
    def correlations(self) -> dict[str, Correlation]:
        """Of measures with OOD accuracy, over analysed seeds that learned their data; none for few seeds."""
        analysed = [seed for seed in self.setting.seeds if seed.number in self.measures and not seed.diverged]
        learned = [seed for seed in analysed if seed.accuracy.get("iid", 0) > paper.LEARNED]
        seeds = [seed for seed in learned if "ood" in seed.accuracy]
        ood = np.array([seed.accuracy["ood"] for seed in seeds])
        if len(ood) < ENOUGH_SEEDS or np.ptp(np.sort(ood)[1:-1]) < APART:
            return {}
        found = {}
        for name in PREDICTORS:
            values = np.array([self.measures[seed.number].get(name, np.nan) for seed in seeds])
            if np.isfinite((one := correlate(values, ood)).pearson):
                found[name] = one
        return found


@dataclass(frozen=True)
class Results:
    """The runs of a results folder, compared with each other and with a plan."""

    folder: Path
    runs: dict[str, RunResult]  # planned ones in the order of the plan, begun or not, then the others

    @property
    def plan(self) -> dict[str, PlannedRun]:
        """What is planned, by name."""
        return {name: run.planned for name, run in self.runs.items() if run.planned}

    @property
    def finished(self) -> list[RunResult]:
        """Runs with at least one finished seed."""
        return [run for run in self.runs.values() if run.setting.seeds]

    @property
    def is_miniature(self) -> bool:
        """Whether the plan is the small one, which says nothing about published numbers."""
        return all(planned.preset == "quick" for planned in self.plan.values())

    def runs_of(self, experiment: str) -> list[RunResult]:
        """The runs that an experiment needs and that have finished seeds."""
        return [run for run in self.finished if run.planned and experiment in run.planned.experiments]

    def runs_on(self, condition: str) -> dict[tuple[str, str], RunResult]:
        """Finished runs on one kind of data, by model and variant in the order of the published table."""
        found = {
            (run.planned.model, run.planned.variant): run
            for run in reversed(self.finished)  # of several, the first of the plan
            if run.planned and dict(run.planned.data) == CONDITIONS[condition]
        }
        return {place: found[place] for place in paper.PUBLISHED if place in found}

    def main_runs(self) -> list[RunResult]:
        """All runs on A and R; those that are compared with the same published number stand together."""
        by_condition = [self.runs_on(condition) for condition in CONDITIONS]
        return [runs[place] for place in paper.PUBLISHED for runs in by_condition if place in runs]

    def find_baseline(self, run: RunResult) -> RunResult | None:
        """The run on `clean` data with distinct sequences, if there is one that else is the same."""
        if run.planned is None:
            return None
        wanted = run.planned.setting(protocol="clean", **{REPEATS: None})
        same = (one for one in self.finished if one.planned and one.planned.setting() == wanted)
        return next((one for one in same if one is not run), None)

    def function_tables(self) -> list[list[RunResult]]:
        """Runs that differ in nothing but the function table, where there are several."""
        groups: dict[object, list[RunResult]] = {}
        for run in self.runs_of("tables"):
            if run.planned:
                groups.setdefault(run.planned.setting(seed=None, table=None), []).append(run)
        return [runs for runs in groups.values() if len(runs) > 1]


def load_results(folder: Path) -> Results:
    """Read a results folder, and compare it with the plan that fits best."""
    pieces: dict[str, list[RunRecord]] = {}
    for place in run_folders(folder / RUNS):
        inner = place.relative_to(folder / RUNS)
        if inner.parts:
            record = read_run(place, inner.as_posix(), with_history=True)
            pieces.setdefault(current_name(inner.parts[0]), []).append(record)
    planned = find_plan(pieces.keys())
    names = [*planned, *sorted(pieces.keys() - planned.keys())]
    runs = {name: _merge_pieces(name, pieces.get(name, []), planned.get(name)) for name in names}
    results = Results(folder, runs)
    for run in results.finished:
        if base := results.find_baseline(run):
            _compare_with_baseline(run, base)
    for of_tables in results.function_tables():
        _compare_function_tables(of_tables)
    return results


def _merge_pieces(name: str, records: Sequence[RunRecord], planned: PlannedRun | None) -> RunResult:
    """Finished pieces together; one that differs from the plan or from the first is unusable."""
    pieces: list[RunRecord] = []
    unusable: list[RunRecord] = []
    for record in sorted(records, key=lambda one: (min((s.number for s in one.seeds), default=0), one.name)):
        if record.state == "finished":
            reason = first_mismatch(record.config, planned) if planned else ""
            if not reason and pieces and setting_key(record) != setting_key(pieces[0]):
                reason = f"its settings are not those of {pieces[0].name}"
            record = replace(record, state="different", reason=reason) if reason else record
        (pieces if record.state == "finished" else unusable).append(record)
    return RunResult(name, planned, Setting(tuple(pieces)), tuple(unusable))


def _compare_with_baseline(run: RunResult, base: RunResult) -> None:
    """Fill in how far the means of a run are from those on `clean` data with distinct sequences."""
    for place, row in run.rows.items():
        ours, theirs = ((one["mean"], one["std"], one["seeds"]) for one in (row, base.rows[place]))
        change = difference(ours, theirs) or (None, None)
        row |= rounded({"baseline": base.name, **with_ends("change", *change)})


def _compare_function_tables(runs: Sequence[RunResult]) -> None:
    """Fill in how much the function table matters, in the row of the first."""
    if spread := spread_of_tables([accuracies(run.setting.seeds, "ood") for run in runs]):
        names = ("std_between_tables", "std_within_tables", "tables_p")
        row = runs[0].row("ood", ALL)
        row |= {"function_tables": len(runs), **rounded(dict(zip(names, spread, strict=True)))}


def describe_run(run: RunResult) -> Row:
    """What all rows of a run have: its settings, how many seeds are which, and how they learned."""
    setting, planned = run.setting, run.planned
    functions, symbols = setting.first.cell or (None, None)
    limit = as_dict(setting.first.task.get("recipe")).get(REPEATS)
    return {
        **dict.fromkeys(COLUMNS),
        **{name: getattr(setting.first, name) for name in ("model", "variant", "protocol", "preset")},
        "cell": run.name,
        "repeated_sequences": as_str(limit) or str(as_int(limit) or "") or None,
        "table": setting.table,
        "shared_functions": functions,
        "shared_symbols": symbols,
        "planned": len(planned.seeds) if planned else None,
        "experiments": list(planned.experiments) if planned else [],
        "diverged": sum(seed.diverged for seed in setting.seeds),
        "not_converged": sum(not seed.converged for seed in setting.seeds),
        "not_compared": setting.mismatches,
        "special": planned.special if planned else [],
        **_learning(run.history),
    }


def make_row(about: Row, setting: Setting, selection: str, split: str) -> Row:
    """The row of a split, of which some of the seeds count."""
    counted = setting.every if selection == ALL else setting.by_rule
    ours = counted.summaries[split, 0]
    row = about | {
        "selection": selection,
        "split": split,
        "seeds": ours.seeds,
        **_mean(ours),
        "median": ours.median,
        "above_95": ours.solved,
        **_ends("above_95_share", ours.solved_share),
        "by_length": [{"length": n, **_mean(one)} for n, one in counted.by_length(split).items()],
    }
    if split == "ood":
        row |= _gaps(counted.seeds, setting.first.protocol)
        anew = summarise(accuracies(counted.seeds, "ood_independent"), interval=(0.0, 0.0))
        row |= {"independent_mean": anew.mean, "independent_std": anew.std}
    if published := setting.published:
        row |= _comparison(published, counted, split)
    return {name: rounded(value) for name, value in row.items()}


def _comparison(published: paper.Published, counted: Counted, split: str) -> Row:
    verdict, (mean, std) = counted.verdicts[split], getattr(published, split)
    return {
        "published_mean": mean,
        "published_std": std,
        "published_above_95": published.solved if split == "ood" else None,
        "published_inside": is_inside(mean, counted.summaries[split, 0].interval),
        **with_ends("difference", verdict.difference, verdict.interval),
        "verdict": verdict.word,
        "iid_differs": verdict.iid_differs,
    }


def _learning(history: History | None) -> Row:
    """When seeds came above 0.95 IID to stay, and how far the mean OOD accuracy moved in the last tenth."""
    if history is None or ("iid", 0) not in history.accuracy:
        return {}
    steps = history.learned_at(paper.LEARNED)
    learned = sorted(map(int, steps[np.isfinite(steps)]))
    late = history.steps > LATE * history.steps[-1]  # (E,)
    half = -(-len(steps) // 2)  # of all seeds, rounded up
    means = np.ma.masked_invalid(history.accuracy["ood", 0]).mean(axis=1).filled(np.nan)
    moved = np.nan if late.all() else float(means[-1] - means[~late][-1])
    return {
        "learned": len(learned),
        "learned_first": learned[0] if learned else None,
        "learned_half": learned[half - 1] if len(learned) >= half else None,
        "learned_late": sum(step > LATE * history.steps[-1] for step in learned),
        "moved_late": moved if np.isfinite(moved) else None,
    }


def _gaps(seeds: Sequence[SeedResult], protocol: str) -> Row:
    """IID less OOD accuracy of each seed: overall, and as a mean over lengths, free of the splits' mixes."""
    gaps: dict[str, list[float]] = {"gap": [], "equal_gap": []}
    for seed in seeds:
        if seed.diverged:
            continue
        if {*SPLITS} <= seed.accuracy.keys():
            gaps["gap"].append(seed.accuracy["iid"] - seed.accuracy["ood"])
        iid, ood = (seed.by_length.get(split, {}) for split in SPLITS)
        if both := equal_lengths(iid, ood, protocol):
            gaps["equal_gap"].append(fmean(iid[length] - ood[length] for length in both))
    row: Row = {}
    for (name, values), interval in zip(gaps.items(), mean_intervals([*gaps.values()]), strict=True):
        row |= with_ends(name, fmean(values) if values else None, interval)
    return row


def equal_lengths(iid: Iterable[int], ood: Iterable[int], protocol: str) -> list[int]:
    """The lengths that both splits have, without pairs where train has all pairs."""
    return sorted({*iid} & {*ood} - (set() if protocol == "text" else {2}))


def _mean(one: Summary) -> Row:
    return {"mean": one.mean, "std": one.std, **_ends("interval", one.interval)}


def with_ends(name: str, value: float | None, interval: Interval | None) -> Row:
    """A number and its interval as columns `name`, `name_low` and `name_high`."""
    return {name: value} | _ends(name, interval)


def _ends(name: str, interval: Interval | None) -> Row:
    return dict(zip((f"{name}_low", f"{name}_high"), interval or (None, None), strict=True))


def rounded(value: Any) -> Any:
    """Numbers to six digits, without negative zeros, also within lists and dictionaries."""
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    if isinstance(value, list):
        return [rounded(own) for own in value]
    return round(value, 6) + 0.0 if isinstance(value, float) else value


def results_table(results: Results) -> pa.Table:
    """The content of `results.parquet`."""
    rows = [row for run in results.finished for row in run.rows.values()]
    return pa.Table.from_pylist(rows, pa.schema(list(COLUMNS.items())))


def correlations_table(results: Results) -> pa.Table:
    """The content of `predictors.parquet`."""
    columns = {"cell": _TEXT, "measure": _TEXT, "seeds": _COUNT}
    numbers = ("pearson", "low", "high", "spearman", "spearman_low", "spearman_high")
    rows = [
        rounded({"cell": run.name, "measure": name, **asdict(one)})
        for run in results.main_runs()
        for name, one in run.correlations.items()
    ]
    schema = pa.schema([*columns.items(), *dict.fromkeys(numbers, _REAL).items()])
    return pa.Table.from_pylist(rows, schema)
