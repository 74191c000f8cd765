"""The seeds of the paper's similarity figures: a successful and a failed NDR on R, and a failed one on A."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctlpp.analysis.clusters import Clustering
from ctlpp.analysis.inputs import Inputs
from ctlpp.figures.similarity import Matrices
from ctlpp.files import UserError
from ctlpp.report.compare import converged
from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.wording import number, title
from ctlpp.runs.folder import RunRecord, SeedResult
from ctlpp.runs.untrusted import DamagedError, as_dict, as_float, as_list, as_str, read_columns, read_json
from ctlpp.statistics.published import SOLVED
from ctlpp.storage.task_json import from_json

MEASURES = ("clusters", "cosine_across", "codes", "interchange_across")  # that the page tells


@dataclass(frozen=True, eq=False)
class Example:
    """A seed worth a figure."""

    name: str  # of its figure: success-R, failure-R, failure-A
    cell: Cell
    seed: SeedResult
    matrices: Matrices
    measures: dict[str, tuple[str, float]]  # label and value

    @property
    def fails(self) -> bool:
        """Whether it stands for success without being one."""
        return self.name.startswith("success") and self.seed.accuracy["ood"] <= SOLVED

    @property
    def succeeds(self) -> bool:
        """Whether it stands for failure without being one."""
        return self.name.startswith("failure") and self.seed.accuracy["ood"] > SOLVED

    @property
    def value(self) -> int:
        """The symbol for which the groups' readouts are least alike."""
        home = self.matrices.inputs.group_of
        apart = home[:, None] != home
        return int(np.argmin([cosines[apart].mean() for cosines in self.matrices.cosines]))


def examples(found: Found) -> list[Example]:
    """The seeds with most and least OOD accuracy on R and the one with least on A, of those that learned their data."""
    return list(_examples(found))


def _examples(found: Found) -> Iterator[Example]:
    asked = {planned.variant: planned for planned in found.asked("similarity") if planned.model == "ndr"}
    shown: set[tuple[str, int]] = set()
    for name, variant, best in (
        ("success-R", "R", True),
        ("failure-R", "R", False),
        ("failure-A", "A", False),
    ):
        if variant not in asked or not (cell := found.done(asked[variant])):
            continue
        for record, seed in _ranked(cell, best):
            if (record.name, seed.number) not in shown and (example := _load(name, cell, record, seed)):
                shown.add((record.name, seed.number))
                yield example
                break


def _ranked(cell: Cell, best: bool) -> list[tuple[RunRecord, SeedResult]]:
    """Analysed seeds, the most telling first."""
    analysed = [
        record for record in cell.records if (record.folder / "analysis" / "similarity.parquet").is_file()
    ]
    pairs = [(record, seed) for record in analysed for seed in record.seeds if "ood" in seed.accuracy]
    kept = [pair for pair in pairs if converged(pair[1])] or pairs
    return sorted(
        kept, key=lambda pair: (-pair[1].accuracy["ood"] if best else pair[1].accuracy["ood"], pair[1].number)
    )


def _load(name: str, cell: Cell, record: RunRecord, seed: SeedResult) -> Example | None:
    """A seed from its run's analysis; None if that is damaged."""
    folder = record.folder / "analysis"
    try:
        task = from_json(json.dumps({"splits": {}, **record.task}))[0]
        inputs = Inputs.of(task)
        rows = read_columns(
            folder / "similarity.parquet", ["seed", "value", "clusters", "order", "cosines"]
        ).to_pylist()
        own = {row["value"]: row for row in rows if row["seed"] == seed.number}
        F = inputs.n_functions
        clusters = [_clustering(own[symbol], F) for symbol in task.symbols]
        cosines = np.array([own[symbol]["cosines"] for symbol in task.symbols], dtype=np.float32).reshape(
            -1, F, F
        )
        measures = dict(_measures(read_json(folder / "analysis.json"), seed.number))
    except (DamagedError, ValueError, KeyError, TypeError):
        return None
    words = f"{title(cell.model)} on {cell.variant}, seed {seed.number}, OOD {number(seed.accuracy['ood'])}"
    return Example(name, cell, seed, Matrices(inputs, cosines, clusters, words), measures)


def _clustering(row: dict[str, Any], functions: int) -> Clustering:
    labels, order = np.array(row["clusters"]), np.array(row["order"])
    if labels.shape != (functions,) or sorted(order.tolist()) != list(range(functions)):
        raise UserError("clusters of other functions")
    return Clustering(labels, order, np.nan)


def _measures(content: dict[str, Any], seed: int) -> Iterator[tuple[str, tuple[str, float]]]:
    at = as_list(content.get("seeds")).index(seed)
    for name in MEASURES:
        entry = as_dict(as_dict(content.get("measures")).get(name))
        values = as_list(entry.get("values"))
        value = as_float(values[at]) if at < len(values) else None
        if value is not None:
            yield name, (as_str(entry.get("label")) or name, value)
