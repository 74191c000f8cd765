"""The runs of a results folder, cell by cell: `runs/CELL/PIECE`, a cell's pieces being runs of disjoint seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctlpp.report.compare import KEPT, by_rule, key_of, merge, mismatches
from ctlpp.runs.folder import RunRecord, SeedResult, read_run, run_folders
from ctlpp.runs.untrusted import as_dict, as_int, as_str
from ctlpp.statistics import published as paper

RUNS = "runs"  # the folder of a results folder that holds them
ALL, RULE = "all", "rule"  # the two ways to count: every seed, and the paper's rule
SELECTIONS = {ALL: "all seeds", RULE: KEPT}


@dataclass(frozen=True)
class Cell:
    """Seeds of one setting, from one or more runs."""

    name: str
    records: tuple[RunRecord, ...] = ()  # finished runs
    others: tuple[RunRecord, ...] = ()  # unfinished, damaged, of another version or of other settings
    seeds: tuple[SeedResult, ...] = ()  # of the finished runs, in order, each once
    mismatches: tuple[str, ...] = field(default=())  # why no published number applies; empty if one does

    @property
    def config(self) -> dict[str, Any]:
        """Of the first run; the others differ in nothing that decides a result."""
        return (self.records or self.others)[0].config

    @property
    def task(self) -> dict[str, Any]:
        """The task of its data."""
        return as_dict(self.config.get("task"))

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
        return as_int(self.task.get("seed")) or 0

    @property
    def sequences(self) -> str:
        """The limit on distinct function sequences of a length, if there is one."""
        limit = as_dict(self.task.get("recipe")).get("distinct_sequences")
        return as_str(limit) or str(as_int(limit) or "")

    @property
    def grid(self) -> tuple[int, int] | None:
        """Shared functions and shared symbols, on S."""
        knobs = as_int(self.task.get("shared_functions")), as_int(self.task.get("shared_symbols"))
        return None if knobs[0] is None or knobs[1] is None else (knobs[0], knobs[1])

    @property
    def published(self) -> paper.Published | None:
        """The published numbers, if they are of this setting."""
        return None if self.mismatches else paper.PUBLISHED.get((self.model, self.variant))

    def select(self, selection: str) -> tuple[SeedResult, ...]:
        """The seeds that a way of counting counts."""
        return self.seeds if selection == ALL else by_rule(self.seeds)

    def values(self, split: str, selection: str = ALL) -> list[float]:
        """Final accuracies; of a seed that diverged, those with which it was frozen."""
        return [seed.accuracy[split] for seed in self.select(selection) if split in seed.accuracy]


def read_cells(out: Path) -> dict[str, Cell]:
    """All cells of a results folder by name; none if there is no such folder."""
    by_name: dict[str, list[RunRecord]] = {}
    for place in run_folders(out / RUNS):
        inner = place.relative_to(out / RUNS)
        if inner.parts:
            by_name.setdefault(inner.parts[0], []).append(
                read_run(place, inner.as_posix(), with_history=True)
            )
    return {name: make_cell(name, by_name[name]) for name in sorted(by_name)}


def make_cell(name: str, records: Sequence[RunRecord]) -> Cell:
    """Finished runs of the same settings together; a run that differs from the first is set aside."""
    same: list[RunRecord] = []
    others: list[RunRecord] = []
    for record in sorted(records, key=lambda record: _first_seed(record)):
        if record.state != "finished":
            others.append(record)
        elif same and key_of(record) != key_of(same[0]):
            reason = f"its settings are not those of {same[0].name}"
            others.append(
                RunRecord(record.folder, record.name, "different", reason, record.config, record.seeds)
            )
        else:
            same.append(record)
    reasons = mismatches(same[0].config) if same else ()
    return Cell(name, tuple(same), tuple(others), merge(same), tuple(reasons))


def _first_seed(record: RunRecord) -> tuple[int, str]:
    return min((seed.number for seed in record.seeds), default=0), record.name
