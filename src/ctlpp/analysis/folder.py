"""The folder of an analysis: everything that `ctlpp analyze` writes but the figures, and its one reader.

`analysis.json` holds one number per seed and measure, correlations with OOD accuracy, and what everything is called;
the Parquet files beside it hold the matrices in long form. Reading needs no PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctlpp.files import FolderKind
from ctlpp.runs.untrusted import (
    DamagedError,
    as_dict,
    as_float,
    as_int,
    as_list,
    as_str,
    read_columns,
    read_json,
)

FORMAT = 1
ANALYSIS = FolderKind("an analysis", mark="analysis.json")
TABLES = {
    "measures": ["seed", "measure", "value"],
    "pairs": ["seed", "first", "second", "symbol", "value", "expected", "answer", "right", "kind"],
    "accuracy": ["seed", "by", "first", "value", "second", "accuracy", "examples"],
    "similarity": ["seed", "value", "silhouette", "clusters", "order", "cosines"],
    "interchange": ["seed", "map", "donor", "consumer", "value", "accuracy", "examples"],
    "places": ["seed", "level", "part", "effect", "chosen"],
    "codes": ["seed", "function", "symbol", "value", "code"],
    "learned": ["seed", "second", "value", "code", "states", "answer", "share", "right"],
}
_MOST = {"seeds": 1000, "functions": 200, "symbols": 200}  # no analysis of ours comes near


@dataclass(frozen=True, eq=False)
class AnalysisRecord:
    """An analysis as it was found."""

    folder: Path
    summary: dict[str, Any]  # `analysis.json`; what everything is called has been checked

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that were analysed."""
        return tuple(self.summary["seeds"])

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions, in the task's order."""
        return tuple(self.summary["functions"])

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbols."""
        return tuple(self.summary["symbols"])

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The functions of each group."""
        return {name: tuple(members) for name, members in self.summary["groups"].items()}

    def measures_of(self, seed: int) -> dict[str, float]:
        """The measures of one seed; those that are not defined are left out."""
        row, found = self.seeds.index(seed), {}
        for name, entry in as_dict(self.summary.get("measures")).items():
            values = as_list(as_dict(entry).get("values"))
            value = as_float(values[row]) if len(values) == len(self.seeds) else None
            if value is not None:
                found[name] = value
        return found

    def has_table(self, name: str) -> bool:
        """Whether the analysis has this table: a model that records no state has none of interchange."""
        return (self.folder / f"{name}.parquet").is_file()

    def table(self, name: str, columns: list[str] | None = None) -> Any:
        """A table of the analysis as pyarrow has it, or some of its columns; raises DamagedError."""
        return read_columns(self.folder / f"{name}.parquet", columns or TABLES[name])


def read_analysis(run_folder: Path) -> AnalysisRecord | None:
    """The analysis of a run, None if there is none; raises DamagedError if it cannot be used."""
    folder = run_folder / "analysis"
    if not (folder / ANALYSIS.mark).is_file():
        return None
    summary = read_json(folder / ANALYSIS.mark)
    if summary.get("format") != FORMAT:
        raise DamagedError("analysis.json was written by another version of ctlpp")
    names: dict[str, list[Any]] = {
        "seeds": [as_int(seed) for seed in as_list(summary.get("seeds"))],
        "functions": [as_str(name) for name in as_list(summary.get("functions"))],
        "symbols": [as_str(name) for name in as_list(summary.get("symbols"))],
    }
    for key, most in _MOST.items():
        own = names[key]
        if not own or None in own or len(own) > most or len(set(own)) != len(own):
            raise DamagedError(f"analysis.json: {key} are missing, too many or not distinct")
    groups = {
        as_str(name): [as_str(member) for member in as_list(members)]
        for name, members in as_dict(summary.get("groups")).items()
    }
    if sorted(name for members in groups.values() for name in members) != sorted(names["functions"]):
        raise DamagedError("analysis.json: the groups do not hold every function once")
    return AnalysisRecord(folder, summary | names | {"groups": groups})


def write_analysis(folder: Path, summary: dict[str, Any], tables: Mapping[str, Any]) -> None:
    """Write `analysis.json` and the tables into a folder that `write_folder(ANALYSIS, …)` has made."""
    import pyarrow.parquet as pq

    text = json.dumps({"format": FORMAT, **summary}, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / ANALYSIS.mark).write_text(text + "\n", encoding="utf-8")
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
