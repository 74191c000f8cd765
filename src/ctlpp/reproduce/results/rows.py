"""Statistics of every cell: one row for each way to count seeds and each split, as they stand in `results.parquet`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from ctlpp.report.compare import SPLITS, converged
from ctlpp.reproduce.results.cells import ALL, RULE, Cell
from ctlpp.reproduce.results.verdicts import HIGHER, LOWER, Verdict, beside, is_inside, judge
from ctlpp.runs.folder import SeedResult
from ctlpp.statistics.summary import Summary, mean_intervals, summarise


@dataclass(frozen=True, kw_only=True)
class Row:
    """One cell, counted in one way, on one split; all seeds are also those that diverged, as they were frozen."""

    cell: Cell
    selection: str  # all seeds, or the paper's rule
    split: str
    diverged: int  # of all seeds of the cell
    not_converged: int  # likewise: final IID accuracy of 0.5 or less, or diverged
    summary: Summary
    lengths: Mapping[int, Summary]  # by number of functions
    gap: Summary | None = None  # IID less OOD accuracy of each seed; on the row of ood only
    equal_gap: Summary | None = None  # the same as a mean over lengths: those of `equal_lengths`
    published: tuple[float, float] | None = None  # mean and standard deviation
    solved: int | None = None  # published successes among 25
    inside: bool | None = None  # the published mean in our interval
    verdict: Verdict | None = None  # None where no published number applies

    @property
    def key(self) -> tuple[str, str, str]:
        """Cell, selection, split."""
        return self.cell.name, self.selection, self.split

    @property
    def differs(self) -> bool:
        """Whether it comes out higher or lower than published."""
        return self.verdict is not None and self.verdict.word in (HIGHER, LOWER)


Rows = dict[tuple[str, str, str], Row]


def make_rows(cells: Mapping[str, Cell]) -> Rows:
    """All rows, in the order of the cells."""
    return {
        row.key: row
        for cell in cells.values()
        if cell.seeds
        for selection in (ALL, RULE)
        for row in _rows(cell, selection)
    }


def selection_for(cell: Cell) -> str:
    """How the paper counted: it kept Transformers that had converged; of the other models it ran 25 seeds."""
    return RULE if cell.model == "transformer" and cell.published else ALL


def _rows(cell: Cell, selection: str) -> list[Row]:
    seeds = cell.select(selection)
    columns = {
        (split, 0): [seed.accuracy[split] for seed in seeds if split in seed.accuracy] for split in SPLITS
    }
    for split in SPLITS:
        for length in sorted({length for seed in seeds for length in seed.by_length.get(split, {})}):
            own = [seed.by_length.get(split, {}) for seed in seeds]
            columns[split, length] = [values[length] for values in own if length in values]
    gaps = {
        "gap": [_gap(seed) for seed in seeds],
        "equal": [_equal_gap(seed, cell.protocol) for seed in seeds],
    }
    columns |= {(name, 0): [gap for gap in own if gap is not None] for name, own in gaps.items()}
    intervals = mean_intervals(list(columns.values()))
    every = zip(columns.items(), intervals, strict=True)
    found = {key: summarise(values, 0, interval) for (key, values), interval in every}
    rows = {split: _row(cell, selection, split, found) for split in SPLITS}
    iid, ood = (rows[split].verdict for split in SPLITS)
    if iid and ood:
        rows["ood"] = replace(rows["ood"], verdict=beside(ood, iid))
    return list(rows.values())


def _row(cell: Cell, selection: str, split: str, found: dict[tuple[str, int], Summary]) -> Row:
    """A row of statistics, beside the published numbers if they apply."""
    ours, known, is_ood = found[split, 0], cell.published, split == "ood"
    theirs: tuple[float, float] | None = getattr(known, split) if known else None
    return Row(
        cell=cell,
        selection=selection,
        split=split,
        diverged=sum(seed.diverged for seed in cell.seeds),
        not_converged=sum(not converged(seed) for seed in cell.seeds),
        summary=ours,
        lengths={length: summary for (name, length), summary in found.items() if name == split and length},
        gap=found["gap", 0] if is_ood else None,
        equal_gap=found["equal", 0] if is_ood else None,
        published=theirs,
        solved=known.solved if known and is_ood else None,
        inside=is_inside(theirs[0], ours.interval) if theirs else None,
        verdict=judge(ours, theirs) if theirs else None,
    )


def _gap(seed: SeedResult) -> float | None:
    if not {*SPLITS} <= seed.accuracy.keys():
        return None
    return seed.accuracy["iid"] - seed.accuracy["ood"]


def _equal_gap(seed: SeedResult, protocol: str) -> float | None:
    """The mean gap over lengths: free of the splits' different mixes of them."""
    iid, ood = (seed.by_length.get(split, {}) for split in SPLITS)
    both = equal_lengths(iid, ood, protocol)
    return fmean(iid[length] - ood[length] for length in both) if both else None


def equal_lengths(iid: Iterable[int], ood: Iterable[int], protocol: str) -> list[int]:
    """The lengths that both splits have, without pairs under `released`: train has them all, so none is held out."""
    return sorted({*iid} & {*ood} - ({2} if protocol == "released" else set()))
