"""The folder of an analysis: its one writer, without the figures, and its one reader.

`analysis.json` holds one number per seed and measure, correlations with OOD accuracy, and what everything is
called; the Parquet files beside it hold the matrices in long form. Reading needs no PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import ctlpp
from ctlpp.analysis.geometry import Clustering, learned_tables
from ctlpp.analysis.inputs import Array
from ctlpp.benchmark.task import Task
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
    from ctlpp.analysis.analysis import Analysis, Interchange, Study

FORMAT = 1
MOST = {"seeds": 1000, "functions": 200, "symbols": 200}  # no analysis of ours comes near these numbers
ANALYSIS = FolderKind("an analysis", mark="analysis.json")


class About(NamedTuple):
    """A measure, in words."""

    label: str
    meaning: str


MEASURES = {
    "pairs_train": About("accuracy, known pairs", "share of right answers to pairs of the training graph"),
    "pairs_ood": About("accuracy, new pairs", "share of right answers to pairs that only the test graph has"),
    "interchange_across": About(
        "interchange across",
        "how often a function is right when it gets the state of a group it has never met",
    ),
    "interchange_within": About("interchange within", "the same with states that it knows from training"),
    "stitch_orthogonal": About("interchange, rotated", "interchange across after an orthogonal map"),
    "stitch_affine": About("interchange, affine map", "interchange across after an affine map"),
    "codes": About("codes per symbol", "mean number of behaviours for one symbol; 1 is systematic"),
    "clusters": About("clusters per symbol", "mean number of clusters of readouts for one symbol"),
    "cosine_across": About("cosine across", "mean similarity of readouts of one symbol between groups"),
    "cosine_within": About("cosine within", "mean similarity of readouts of one symbol within groups"),
    "probe_across": About("probe across", "a linear probe fitted on one group reads the other's symbols"),
    "probe_within": About("probe within", "a linear probe reads the symbol from unseen functions"),
    "cka": About("linear CKA", "similarity of the geometry of the two groups' states"),
}
PREDICTORS = [name for name in MEASURES if not name.startswith("pairs_")]  # not read off the answers' share


@dataclass(frozen=True, eq=False)
class AnalysisRecord:
    """What the folder of an analysis says."""

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

    def table(self, name: str, columns: list[str]) -> Any:
        """Some columns of a table of the analysis, as pyarrow has them; raises DamagedError."""
        return read_columns(self.folder / f"{name}.parquet", columns)


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
    for key, names in (("seeds", seeds), ("functions", functions), ("symbols", symbols)):
        if not names or None in names or len(names) > MOST[key] or len(set(names)) != len(names):
            raise DamagedError(f"analysis.json: {key} are missing, too many or not distinct")
    groups = {
        as_str(name): tuple(map(as_str, as_list(members)))
        for name, members in as_dict(summary.get("groups")).items()
    }
    if sorted(name for members in groups.values() for name in members) != sorted(functions):
        raise DamagedError("analysis.json: the groups do not hold every function once")
    return AnalysisRecord(folder, summary, seeds, functions, symbols, groups)  # type: ignore[arg-type]


def write_analysis(folder: Path, study: Study) -> None:
    """Write `analysis.json` and the tables into a folder that `write_folder(ANALYSIS, …)` has made."""
    content = {"format": FORMAT, **_summary(study)}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / ANALYSIS.mark).write_text(text + "\n", encoding="utf-8")
    analysis = study.analysis
    tables = {
        "measures": _measures(analysis),
        "pairs": _pairs(analysis),
        "accuracy": _accuracy(analysis),
        "codes": _codes(analysis),
        "learned": _learned(analysis),
    }
    if analysis.similarity is not None and analysis.clusters is not None:
        tables["similarity"] = _similarity(analysis, analysis.similarity, analysis.clusters)
    if analysis.interchange is not None:
        tables["places"] = _places(analysis.seeds, analysis.interchange)
        tables["interchange"] = _interchange(analysis, analysis.interchange)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def _summary(study: Study) -> dict[str, Any]:
    """The content of `analysis.json`."""
    found, inputs = study.analysis, study.analysis.inputs
    content: dict[str, Any] = {
        **{key: study.config[key] for key in ("model", "preset", "variant", "protocol", "parameters")},
        "seeds": found.seeds,
        "step": study.step,
        "finished": study.finished,
        "diverged": [seed for seed in found.seeds if seed in study.diverged],
        "functions": [*inputs.task.functions],
        "symbols": inputs.task.symbols,
        "groups": inputs.task.groups,
        "compared": inputs.partners,
        "pairs": {"train": int(inputs.train.sum()), "ood": int(inputs.ood.sum())},
        "accuracy": {split: _plain(study.history.final(split)) for split in study.history.splits},
        "measures": {
            name: {**MEASURES[name]._asdict(), "values": _plain(v)} for name, v in found.measures.items()
        },
        "correlations": {
            name: {key: n if np.isfinite(n) else None for key, n in asdict(one).items()}
            for name, one in study.correlations.items()
        },
        "notes": found.notes,
        "versions": {"ctlpp": ctlpp.__version__},
    }
    if exchanged := found.interchange:
        levels, parts = exchanged.effect.shape[1], exchanged.changed
        content["state"] = {"kind": exchanged.kind, "levels": levels, "parts": parts}
        content["bases"] = exchanged.bases
        content["places"] = []
        for (level, part), effects in zip(exchanged.position.tolist(), exchanged.effect, strict=True):
            effect = round(float(effects[level, part]), 6)
            content["places"].append({"level": level, "part": parts[part], "effect": effect})
    return content


def _plain(values: Array) -> list[float | None]:
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]


def _long(axes: Mapping[str, Iterable[Any]], **columns: Any) -> pa.Table:
    """Arrays over the same axes as a table: a row per cell, its names along the axes first; nan is null."""
    names = [np.array(list(along), dtype=object) for along in axes.values()]
    shape = tuple(map(len, names))
    cells = dict(zip(axes, np.meshgrid(*names, indexing="ij"), strict=True)) | columns
    return pa.table(
        {name: pa.array(np.broadcast_to(c, shape).ravel(), from_pandas=True) for name, c in cells.items()}
    )


def _words(task: Task) -> tuple[Array, Array]:
    """The names of functions and symbols."""
    return np.array([*task.functions], dtype=object), np.array(task.symbols, dtype=object)


def _measures(analysis: Analysis) -> pa.Table:
    """One row per seed and measure; the value is null where it is not defined."""
    values = np.stack([*analysis.measures.values()], axis=1)
    return _long({"seed": analysis.seeds, "measure": analysis.measures}, value=values)


def _pairs(analysis: Analysis) -> pa.Table:
    """One row per seed and pair; `kind` tells which graph has it: train, ood or other.

    And interchange, where the model records its state: the share of bases with which the second function is
    right when given the state that the first one leaves.
    """
    inputs = analysis.inputs
    functions, symbols = _words(inputs.task)
    kinds = np.array(["other", "train", "ood"], dtype=object)
    columns = {
        "value": symbols[inputs.value[:, None]],
        "expected": symbols[inputs.answer],
        "answer": symbols[analysis.answers],
        "right": analysis.right,
        "kind": kinds[inputs.train + 2 * inputs.ood],
    }
    if analysis.interchange is not None:
        columns["interchange"] = analysis.interchange.right["none"]
    axes = {"seed": analysis.seeds, "first": functions, "second": functions, "symbol": symbols}
    return _long(axes, **columns)


def _accuracy(analysis: Analysis) -> pa.Table:
    """Accuracy after two applications, by the group or cluster of the first function.

    value is the symbol between the two functions; null for all together. second is the group of the second
    function.
    """
    inputs, symbols = analysis.inputs, analysis.inputs.task.symbols
    means, counts = inputs.means(analysis.right)  # (S, values, G, G)
    means = np.concatenate([means, means.mean(axis=1, keepdims=True)], axis=1)
    counts = np.concatenate([counts, counts.sum(axis=1, keepdims=True)], axis=1)
    groups = {"first": inputs.groups, "second": inputs.groups}
    about = {"seed": analysis.seeds, "value": [*symbols, None]}
    tables = [_long({**about, **groups}, by="group", accuracy=means, examples=counts)]
    for row, seed in enumerate(analysis.seeds):
        for value, own in enumerate(analysis.clusters[row] if analysis.clusters else []):
            means, counts = (each[0, value] for each in inputs.means(analysis.right[row, None], own.labels))
            clusters = {"first": [str(number) for number in range(own.count)], "second": inputs.groups}
            about = {"seed": (seed,), "value": [symbols[value]]}
            tables.append(_long({**about, **clusters}, by="cluster", accuracy=means, examples=counts))
    return pa.concat_tables(tables)


def _similarity(analysis: Analysis, cosines: Array, clusters: list[list[Clustering]]) -> pa.Table:
    """One row per seed and value; cosines: functions × functions row by row, in the task's order."""
    each = [own for of_seed in clusters for own in of_seed]
    silhouettes = [[own.silhouette for own in of_seed] for of_seed in clusters]
    table = _long({"seed": analysis.seeds, "value": analysis.inputs.task.symbols}, silhouette=silhouettes)
    for name, lists, kind in (
        ("clusters", [own.labels for own in each], pa.int16()),
        ("order", [own.order for own in each], pa.int16()),
        ("cosines", list(cosines.reshape(len(each), -1)), pa.float32()),
    ):
        table = table.append_column(name, pa.array(lists, pa.list_(kind)))
    return table


def _places(seeds: Iterable[int], found: Interchange) -> pa.Table:
    """The effect of every position: one row per seed, level (layer or step, from 0) and part of the state."""
    _, levels, parts = found.effect.shape
    level, part = found.position.T[..., None, None]  # (S, 1, 1) each
    chosen = (np.arange(levels)[:, None] == level) & (np.arange(parts) == part)
    axes = {"seed": seeds, "level": range(levels), "part": found.changed}
    return _long(axes, effect=found.effect.astype(float), chosen=chosen)


def _interchange(analysis: Analysis, found: Interchange) -> pa.Table:
    """Accuracy after an exchange, by map, groups and value; examples: how many inputs were patched."""
    inputs = analysis.inputs
    groups = {"donor": inputs.groups, "consumer": inputs.groups}
    axes = {"seed": analysis.seeds, "value": inputs.task.symbols, **groups}
    tables = []
    for kind, right in found.right.items():
        means, counts = inputs.means(right)  # (S, values, G, G)
        patched = counts * (found.bases if kind == "none" else 1)
        tables.append(_long({"map": [kind], **axes}, accuracy=means, examples=patched))
    return pa.concat_tables(tables).filter(pc.field("examples") > 0)


def _codes(analysis: Analysis) -> pa.Table:
    """The code that each seed uses for a state; null if the function is never first."""
    functions, symbols = _words(analysis.inputs.task)
    code = analysis.codes.astype(object)
    code[analysis.codes < 0] = None
    axes = {"seed": analysis.seeds, "value": symbols, "function": functions}
    return _long(axes, symbol=symbols[analysis.inputs.start.T], code=code)


def _learned(analysis: Analysis) -> pa.Table:
    """The tables really learned: what each second function makes of each code; `share` of its states."""
    inputs = analysis.inputs
    functions, symbols = _words(inputs.task)
    states, answer, share = learned_tables(analysis.answers, analysis.codes, inputs)
    right = answer == inputs.value[inputs.seconds].T[:, None]
    axes = {"seed": analysis.seeds, "value": symbols, "code": range(states.shape[2])}
    columns = {"states": states[..., None], "answer": symbols[answer], "share": share, "right": right}
    return _long({**axes, "second": functions[inputs.seconds]}, **columns).filter(pc.field("states") > 0)
