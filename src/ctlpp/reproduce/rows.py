"""The rows of `results.parquet` and `predictors.parquet`; numbers are rounded to six digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ctlpp.plans.planned import REPEATS
from ctlpp.report.compare import ALL, SPLITS, Counted, Setting
from ctlpp.runs.history import History, SeedResult
from ctlpp.runs.untrusted import as_dict, as_int, as_str
from ctlpp.statistics.published import LEARNED, Published
from ctlpp.statistics.summary import Interval, Summary, mean_intervals
from ctlpp.statistics.verdict import is_inside

if TYPE_CHECKING:
    from ctlpp.reproduce.results import Results, RunResult

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
    **dict.fromkeys(("published_mean", "published_std"), _REAL),
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
    if published := setting.published:
        row |= _comparison(published, counted, split)
    return {name: rounded(value) for name, value in row.items()}


def _comparison(published: Published, counted: Counted, split: str) -> Row:
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
    steps = history.learned_at(LEARNED)
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
    return {name: value, **_ends(name, interval)}


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
