"""The folder of an analysis: everything that `ctlpp analyze` writes but the figures, and its one reader.

`analysis.json` holds one number per seed and measure, correlations with OOD accuracy, and what everything is
called; the Parquet files beside it hold the matrices in long form. Reading needs no PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctlpp.analysis.geometry import learned_tables
from ctlpp.analysis.inputs import Array, Inputs, grid
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

if TYPE_CHECKING:
    from ctlpp.analysis.analysis import Analysis

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


class About(NamedTuple):
    """A measure, in words."""

    label: str
    meaning: str


MEASURES = {
    "pairs_train": About("accuracy, known pairs", "share of right answers to pairs of the training graph"),
    "pairs_ood": About("accuracy, new pairs", "share of right answers to pairs that only the test graph has"),
    "interchange_across": About("interchange across", "a consumer reads states of a group it has never met"),
    "interchange_within": About("interchange within", "the same with states that it knows from training"),
    "stitch_orthogonal": About("interchange, rotated", "interchange across after an orthogonal map"),
    "stitch_affine": About("interchange, affine map", "interchange across after an affine map"),
    "codes": About("codes a symbol", "mean number of behaviours that stand for one symbol; 1 is systematic"),
    "clusters": About("clusters a symbol", "mean number of clusters of readouts for one symbol"),
    "cosine_across": About("cosine across", "mean similarity of readouts of one symbol between groups"),
    "cosine_within": About("cosine within", "mean similarity of readouts of one symbol within groups"),
    "probe_across": About("probe across", "a linear probe fitted on one group reads the other's symbols"),
    "probe_within": About("probe within", "a linear probe reads the symbol from unseen functions"),
    "cka": About("linear CKA", "similarity of the geometry of the two groups' states"),
}
PREDICTORS = [name for name in MEASURES if not name.startswith("pairs_")]  # not read off the answers' share


@dataclass(frozen=True, eq=False)
class AnalysisRecord:
    """An analysis as it was found."""

    folder: Path
    summary: dict[str, Any]  # `analysis.json`
    seeds: tuple[int, ...]
    functions: tuple[str, ...]  # their names, in the task's order
    symbols: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]  # the functions of each

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
    seeds = tuple(as_int(seed) for seed in as_list(summary.get("seeds")))
    functions, symbols = (tuple(map(as_str, as_list(summary.get(key)))) for key in ("functions", "symbols"))
    for key, names, most in (
        ("seeds", seeds, 1000),  # no analysis of ours comes near these numbers
        ("functions", functions, 200),
        ("symbols", symbols, 200),
    ):
        if not names or None in names or len(names) > most or len(set(names)) != len(names):
            raise DamagedError(f"analysis.json: {key} are missing, too many or not distinct")
    groups = {
        as_str(name): tuple(map(as_str, as_list(members)))
        for name, members in as_dict(summary.get("groups")).items()
    }
    if sorted(name for members in groups.values() for name in members) != sorted(functions):
        raise DamagedError("analysis.json: the groups do not hold every function once")
    return AnalysisRecord(folder, summary, seeds, functions, symbols, groups)  # type: ignore[arg-type]


def write_analysis(folder: Path, summary: dict[str, Any], analysis: Analysis) -> None:
    """Write `analysis.json` and the tables into a folder that `write_folder(ANALYSIS, …)` has made."""
    text = json.dumps({"format": FORMAT, **summary}, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / ANALYSIS.mark).write_text(text + "\n", encoding="utf-8")
    tables = {
        "measures": _measures(analysis),
        "pairs": _pairs(analysis),
        "accuracy": _accuracy(analysis),
        "codes": _codes(analysis),
        "learned": _learned(analysis),
    }
    if analysis.similarity is not None:
        tables["similarity"] = _similarity(analysis)
    if analysis.interchange is not None:
        tables |= {"places": _places(analysis), "interchange": _interchange(analysis)}
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def _measures(analysis: Analysis) -> pa.Table:
    """One row per seed and measure; the value is null where it is not defined."""
    rows = [
        (seed, name, float(value) if np.isfinite(value) else None)
        for name, values in analysis.measures.items()
        for seed, value in zip(analysis.seeds, values, strict=True)
    ]
    return _from_rows("measures", rows)


def _pairs(analysis: Analysis) -> pa.Table:
    """One row per seed and pair; `kind` tells which graph has it: train, ood or other.

    And interchange, where the model records its state: the share of bases with which the second function is
    right when given the state that the first one leaves.
    """
    inputs = analysis.inputs
    seed, first, second, symbol = (index.ravel() for index in grid(analysis.answers.shape))
    kind = inputs.train[first, second, symbol] + 2 * inputs.ood[first, second, symbol]
    functions, symbols = inputs.task.functions, inputs.task.symbols
    columns = {
        "seed": np.array(analysis.seeds)[seed],
        "first": _words(first, functions),
        "second": _words(second, functions),
        "symbol": _words(symbol, symbols),
        "value": _words(inputs.value[first, symbol], symbols),
        "expected": _words(inputs.answer[first, second, symbol], symbols),
        "answer": _words(analysis.answers.ravel(), symbols),
        "right": analysis.right.ravel(),
        "kind": _words(kind, ("other", "train", "ood")),
    }
    if analysis.interchange is not None:
        columns["interchange"] = pa.array(analysis.interchange.ravel(), pa.float32())
    return pa.table(columns)


def _accuracy(analysis: Analysis) -> pa.Table:
    """Accuracy after two applications, by the group or cluster of the first function.

    value is the symbol between the two functions; null for all together. second is the group of the second
    function.
    """
    inputs, symbols = analysis.inputs, analysis.inputs.task.symbols
    by_value = _by_value(analysis.right, inputs)  # (S, values, first, second)
    seconds = {group: inputs.members(group) for group in inputs.groups}
    rows: list[tuple[Any, ...]] = []

    def add(about: tuple[Any, ...], cells: Array) -> None:  # cells: (…, second)
        for group, members in seconds.items():
            chosen = cells[..., members]
            rows.append((*about, group, float(chosen.mean()), chosen.size))

    for row, seed in enumerate(analysis.seeds):
        for group, members in seconds.items():
            add((seed, "group", group, None), by_value[row][:, members])
            for value, symbol in enumerate(symbols):
                add((seed, "group", group, symbol), by_value[row, value, members])
        for value, own in enumerate(analysis.clusters[row] if analysis.clusters else []):
            for number in range(own.count):
                about = (seed, "cluster", str(number), symbols[value])
                add(about, by_value[row, value, own.labels == number])
    return _from_rows("accuracy", rows)


def _similarity(analysis: Analysis) -> pa.Table:
    """One row per seed and value; cosines: functions × functions row by row, in the task's order."""
    assert analysis.similarity is not None
    assert analysis.clusters is not None
    seed, value = (index.ravel() for index in grid(analysis.similarity.shape[:2]))
    each = [own for of_seed in analysis.clusters for own in of_seed]
    silhouettes = [None if np.isnan(own.silhouette) else own.silhouette for own in each]
    columns = {
        "seed": np.array(analysis.seeds)[seed],
        "value": _words(value, analysis.inputs.task.symbols),
        "silhouette": pa.array(silhouettes, pa.float64()),
        "clusters": pa.array([own.labels.tolist() for own in each], pa.list_(pa.int16())),
        "order": pa.array([own.order.tolist() for own in each], pa.list_(pa.int16())),
        "cosines": pa.array(list(analysis.similarity.reshape(len(each), -1)), pa.list_(pa.float32())),
    }
    return pa.table(columns)


def _places(analysis: Analysis) -> pa.Table:
    """The effect of every position: one row per seed, level (layer or step, from 0) and part of the state."""
    assert analysis.effect is not None
    assert analysis.position is not None
    rows = []
    for (row, level, part), effect in np.ndenumerate(analysis.effect):
        chosen = analysis.position[row].tolist() == [level, part]
        rows.append((analysis.seeds[row], level, analysis.changed[part], float(effect), chosen))
    return _from_rows("places", rows)


def _interchange(analysis: Analysis) -> pa.Table:
    """Accuracy after an exchange, by map, groups and value; examples: how many inputs were patched."""
    inputs, rows = analysis.inputs, []
    for kind, right in {"none": analysis.interchange, **analysis.stitched}.items():
        assert right is not None
        bases = analysis.bases if kind == "none" else 1
        by_value = _by_value(right, inputs)
        for donor in inputs.groups:
            for consumer in inputs.groups:
                cells = by_value[:, :, inputs.members(donor)][..., inputs.members(consumer)]
                counts, sums = np.isfinite(cells).sum(axis=(2, 3)), np.nansum(cells, axis=(2, 3))
                for (seed, value), count in np.ndenumerate(counts):
                    if count:
                        about = (analysis.seeds[seed], kind, donor, consumer, inputs.task.symbols[value])
                        rows.append((*about, float(sums[seed, value] / count), int(count) * bases))
    return _from_rows("interchange", rows)


def _codes(analysis: Analysis) -> pa.Table:
    """The code that each seed uses for a state; null if the function is never first."""
    inputs, code = analysis.inputs, analysis.codes.ravel()
    seed, function, symbol = (index.ravel() for index in grid(analysis.codes.shape))
    columns = {
        "seed": np.array(analysis.seeds)[seed],
        "function": _words(function, inputs.task.functions),
        "symbol": _words(symbol, inputs.task.symbols),
        "value": _words(inputs.value[function, symbol], inputs.task.symbols),
        "code": pa.array(code, pa.int16(), mask=code < 0),
    }
    return pa.table(columns)


def _learned(analysis: Analysis) -> pa.Table:
    """The tables really learned."""
    task = analysis.inputs.task
    columns = learned_tables(analysis.answers, analysis.codes, analysis.inputs)
    shown = {
        "seed": np.array(analysis.seeds)[columns["seed"]],
        "second": _words(columns["second"], task.functions),
        "value": _words(columns["value"], task.symbols),
        "code": columns["code"].astype(np.int16),
        "states": columns["states"].astype(np.int32),
        "answer": _words(columns["answer"], task.symbols),
        "share": columns["share"].astype(np.float32),
        "right": columns["right"].astype(bool),
    }
    return pa.table(shown)


def _by_value(pairs: Array, inputs: Inputs) -> Array:
    """Pairs ordered by the value between the functions. (S, F, F, symbols) -> (S, values, first, second)"""
    functions = np.arange(inputs.n_functions)
    return np.asarray(pairs[:, functions[:, None], :, inputs.start].transpose(2, 1, 0, 3))


def _words(indices: Array, words: Iterable[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(words), pa.string()))


def _from_rows(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(TABLES[name], zip(*rows, strict=True), strict=True)
    return pa.table({column: list(values) for column, values in columns})
