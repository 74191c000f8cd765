"""The seeds of one planned run, and their statistics: the rows of `results.parquet`.

A planned run is trained in pieces, each a run folder with seeds of its own. There are two rows for each way
to count seeds, one for each split; numbers are rounded to six digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from ctlpp.analysis.folder import read_analysis
from ctlpp.report.compare import KEPT, SPLITS, by_rule, converged
from ctlpp.reproduce.judge import is_inside, judge, undecided_if_iid_differs
from ctlpp.runs.folder import RunRecord, SeedResult
from ctlpp.runs.history import History
from ctlpp.runs.untrusted import DamagedError, as_dict, as_int, as_str, read_columns
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Interval, Summary, mean_intervals, summarise

ALL, RULE = "all", "rule"  # two ways to count: every seed, and the paper's rule
SELECTIONS = {ALL: "all seeds", RULE: KEPT}
LATE = 0.9  # of the steps: what comes after is the last tenth

Row = dict[str, Any]  # a line of results.parquet

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
    "baseline": _TEXT,  # the same on `released` data with distinct sequences
    **dict.fromkeys(("change", "change_low", "change_high"), _REAL),  # from the baseline
    "function_tables": _COUNT,  # on the row of table 0: how many there are, and how much they matter
    **dict.fromkeys(("std_between_tables", "std_within_tables", "tables_p"), _REAL),
}


@dataclass(frozen=True)
class RunResult:
    """The seeds of one planned run, from all its pieces."""

    name: str
    pieces: tuple[RunRecord, ...] = ()  # finished
    unusable: tuple[RunRecord, ...] = ()  # unfinished, damaged, of another version or of other settings
    seeds: tuple[SeedResult, ...] = ()  # of the finished pieces, in order, each once
    mismatches: tuple[str, ...] = ()  # why no published number applies; empty if one does

    @property
    def config(self) -> dict[str, Any]:
        """Of the first piece; the others differ in nothing that decides a result."""
        return (self.pieces or self.unusable)[0].config

    @property
    def model(self) -> str:
        """A name of the zoo."""
        return as_str(self.config.get("model"))

    @property
    def variant(self) -> str:
        """A, R, S, …"""
        return as_str(self.config.get("variant"))

    @property
    def protocol(self) -> str:
        """Of the data."""
        return as_str(self.config.get("protocol"))

    @property
    def preset(self) -> str:
        """Of the hyper-parameters."""
        return as_str(self.config.get("preset"))

    @property
    def table(self) -> int:
        """The data seed, which decides the functions."""
        return as_int(as_dict(self.config.get("task")).get("seed")) or 0

    @property
    def sequences(self) -> str:
        """The limit on distinct function sequences of a length; empty without one."""
        limit = as_dict(as_dict(self.config.get("task")).get("recipe")).get("distinct_sequences")
        return as_str(limit) or str(as_int(limit) or "")

    @property
    def cell(self) -> tuple[int, int] | None:
        """Shared functions and shared symbols, on S."""
        task = as_dict(self.config.get("task"))
        functions, symbols = as_int(task.get("shared_functions")), as_int(task.get("shared_symbols"))
        return None if functions is None or symbols is None else (functions, symbols)

    @property
    def published(self) -> paper.Published | None:
        """The published numbers, if they are of these settings."""
        return None if self.mismatches else paper.PUBLISHED.get((self.model, self.variant))

    @property
    def selection(self) -> str:
        """How the paper counted: it kept Transformers that had converged; of other models it ran 25 seeds."""
        return RULE if self.model == "transformer" and self.published else ALL

    def select(self, selection: str) -> tuple[SeedResult, ...]:
        """The seeds that a way of counting counts."""
        return self.seeds if selection == ALL else by_rule(self.seeds)

    def values(self, split: str, selection: str = ALL) -> list[float]:
        """Final accuracies; of a seed that diverged, those at which it was frozen."""
        return [seed.accuracy[split] for seed in self.select(selection) if split in seed.accuracy]

    @cached_property
    def history(self) -> History | None:
        """The curves of all seeds; None if no piece has any."""
        names = ["step", "seed", "split", "length", "accuracy"]
        try:
            parts = [read_columns(piece.folder / "metrics.parquet", names) for piece in self.pieces]
            history = History.of(pa.concat_tables(parts)) if parts else None
        except (DamagedError, pa.ArrowException, TypeError, ValueError):
            return None
        return history if history is not None and ("ood", 0) in history.accuracy else None

    @cached_property
    def measures(self) -> dict[int, dict[str, float]]:
        """The measures of every analysed seed; a damaged analysis counts as none."""
        found: dict[int, dict[str, float]] = {}
        for piece in self.pieces:
            with suppress(DamagedError):
                if analysis := read_analysis(piece.folder):
                    found |= {seed: analysis.measures_of(seed) for seed in analysis.seeds}
        return found


def make_rows(run: RunResult, selection: str) -> dict[str, Row]:
    """The rows of a run, counted in one way, by split."""
    found = _summaries(run.select(selection), run.protocol)
    about = _about(run) | _learning(run.history) | {"selection": SELECTIONS[selection]}
    rows = {split: about | {"split": split} | _statistics(found, split) for split in SPLITS}
    for name in ("gap", "equal_gap"):
        rows["ood"] |= with_ends(name, found[name, 0].mean, found[name, 0].interval)
    if known := run.published:
        verdicts = {split: judge(found[split, 0], getattr(known, split)) for split in SPLITS}
        verdicts["ood"] = undecided_if_iid_differs(verdicts["ood"], verdicts["iid"])
        for split, verdict in verdicts.items():
            mean, std = getattr(known, split)
            rows[split] |= with_ends("difference", verdict.difference, verdict.interval)
            rows[split] |= {"published_mean": mean, "published_std": std}
            rows[split] |= {"published_inside": is_inside(mean, found[split, 0].interval)}
            rows[split] |= {"verdict": verdict.word, "iid_differs": verdict.iid_differs}
        rows["ood"] |= {"published_above_95": known.solved}
    return rows


def _about(run: RunResult) -> Row:
    names = ("model", "variant", "protocol", "preset", "table")
    functions, symbols = run.cell or (None, None)
    return {
        **dict.fromkeys(COLUMNS),
        **{name: getattr(run, name) for name in names},
        "cell": run.name,
        "repeated_sequences": run.sequences or None,
        "shared_functions": functions,
        "shared_symbols": symbols,
        "diverged": sum(seed.diverged for seed in run.seeds),
        "not_converged": sum(not converged(seed) for seed in run.seeds),
        "not_compared": list(run.mismatches),
    }


def _summaries(seeds: Sequence[SeedResult], protocol: str) -> dict[tuple[str, int], Summary]:
    """Of each split and length (0 for all), and of the two gaps."""
    columns: dict[tuple[str, int], list[float | None]] = {}
    for split in SPLITS:
        columns[split, 0] = [seed.accuracy.get(split) for seed in seeds]
        by_length = [seed.by_length.get(split, {}) for seed in seeds]
        for length in sorted({length for own in by_length for length in own}):
            columns[split, length] = [own.get(length) for own in by_length]
    columns["gap", 0] = [_gap(seed) for seed in seeds]
    columns["equal_gap", 0] = [_equal_gap(seed, protocol) for seed in seeds]
    values = {key: [value for value in own if value is not None] for key, own in columns.items()}
    every = zip(values.items(), mean_intervals(list(values.values())), strict=True)
    return {key: summarise(own, 0, interval) for (key, own), interval in every}


def _gap(seed: SeedResult) -> float | None:
    return seed.accuracy["iid"] - seed.accuracy["ood"] if {*SPLITS} <= seed.accuracy.keys() else None


def _equal_gap(seed: SeedResult, protocol: str) -> float | None:
    """The mean gap over lengths: free of the splits' different mixes of them."""
    iid, ood = (seed.by_length.get(split, {}) for split in SPLITS)
    both = equal_lengths(iid, ood, protocol)
    return fmean(iid[length] - ood[length] for length in both) if both else None


def equal_lengths(iid: Iterable[int], ood: Iterable[int], protocol: str) -> list[int]:
    """The lengths that both splits have, without pairs where train has all pairs."""
    return sorted({*iid} & {*ood} - (set() if protocol == "paper" else {2}))


def _statistics(found: Mapping[tuple[str, int], Summary], split: str) -> Row:
    ours = found[split, 0]
    lengths = [(length, one) for (name, length), one in found.items() if name == split and length]
    return {
        "seeds": ours.seeds,
        **_mean(ours),
        "median": rounded(ours.median),
        "above_95": ours.solved,
        **_ends("above_95_share", ours.solved_share),
        "by_length": [{"length": length, **_mean(one)} for length, one in lengths],
    }


def _learning(history: History | None) -> Row:
    """When seeds came above 0.95 IID to stay, and how far the mean OOD accuracy moved in the last tenth."""
    if history is None or not len(history.steps) or ("iid", 0) not in history.accuracy:
        return {}
    above = np.nan_to_num(history.accuracy["iid", 0]) > paper.LEARNED  # (E, S)
    lasting = np.logical_and.accumulate(above[::-1])[::-1]
    learned = sorted(int(history.steps[column.argmax()]) for column in lasting.T if column.any())
    late = history.steps > LATE * history.steps[-1]  # (E,)
    half = -(-above.shape[1] // 2)  # of all seeds, rounded up
    means = np.ma.masked_invalid(history.accuracy["ood", 0]).mean(axis=1).filled(np.nan)
    moved = np.nan if late.all() else float(means[-1] - means[~late][-1])
    return {
        "learned": len(learned),
        "learned_first": learned[0] if learned else None,
        "learned_half": learned[half - 1] if len(learned) >= half else None,
        "learned_late": sum(step > LATE * history.steps[-1] for step in learned),
        "moved_late": rounded(moved) if np.isfinite(moved) else None,
    }


def _mean(one: Summary) -> Row:
    return {"mean": rounded(one.mean), "std": rounded(one.std), **_ends("interval", one.interval)}


def with_ends(name: str, value: float | None, interval: Interval | None) -> Row:
    """A number and its interval as columns `name`, `name_low` and `name_high`."""
    return {name: rounded(value), **_ends(name, interval)}


def _ends(name: str, interval: Interval | None) -> Row:
    low, high = interval or (None, None)
    return {f"{name}_low": rounded(low), f"{name}_high": rounded(high)}


def rounded(value: float | None) -> float | None:
    """To six digits, and no negative zero."""
    return None if value is None else round(value, 6) + 0.0
