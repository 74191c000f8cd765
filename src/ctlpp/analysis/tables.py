"""The numbers of an analysis as tables, in long form: what `ctlpp analyze` writes as Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ctlpp.analysis.codes import table as learned_tables
from ctlpp.analysis.inputs import Array, Inputs, grid
from ctlpp.analysis.study import Analysis

KINDS = np.array(["other", "train", "ood"])  # which graph has a pair


def tables(analysis: Analysis) -> dict[str, pa.Table]:
    """All tables that this analysis has, by name."""
    makers: dict[str, Callable[[Analysis], pa.Table | None]] = {
        "measures": measures,
        "pairs": pairs,
        "accuracy": accuracy,
        "similarity": similarity,
        "places": places,
        "interchange": interchange,
        "codes": codes,
        "learned": learned,
    }
    made = {name: make(analysis) for name, make in makers.items()}
    return {name: table for name, table in made.items() if table is not None}


def measures(analysis: Analysis) -> pa.Table:
    """seed, measure, value (null where it is not defined)"""
    rows = [
        (seed, name, float(value) if np.isfinite(value) else None)
        for name, values in analysis.measures.items()
        for seed, value in zip(analysis.seeds, values, strict=True)
    ]
    return _rows(["seed", "measure", "value"], rows)


def pairs(analysis: Analysis) -> pa.Table:
    """Every pair: seed, first, second, symbol, value, expected, answer, right, kind (train, ood or other)

    And interchange, where the model records its state: the share of bases with which the second function is right when
    given the state that the first one leaves.
    """
    inputs, shape = analysis.inputs, analysis.answers.shape
    seed, first, second, symbol = (index.ravel() for index in grid(shape))
    names, symbols = _names(inputs)
    kind = inputs.train[first, second, symbol] + 2 * inputs.ood[first, second, symbol]
    columns = {
        "seed": pa.array(np.array(analysis.seeds)[seed], pa.int64()),
        "first": _words(first, names),
        "second": _words(second, names),
        "symbol": _words(symbol, symbols),
        "value": _words(inputs.value[first, symbol], symbols),
        "expected": _words(inputs.answer[first, second, symbol], symbols),
        "answer": _words(analysis.answers.ravel(), symbols),
        "right": pa.array(analysis.right.ravel()),
        "kind": _words(kind, KINDS.tolist()),
    }
    if analysis.interchange is not None:
        columns["interchange"] = pa.array(analysis.interchange.ravel(), pa.float32())
    return pa.table(columns)


def accuracy(analysis: Analysis) -> pa.Table:
    """Accuracy after two applications: seed, by (group or cluster of the first function), first, value, second, …

    value is the symbol between the two functions; null for all together. second is the group of the second function.
    """
    inputs, right = analysis.inputs, analysis.right
    functions = np.arange(inputs.n_functions)
    by_value = right[:, functions[:, None], :, inputs.start].transpose(
        2, 1, 0, 3
    )  # (S, values, first, second)
    seconds = {group: inputs.members(group) for group in inputs.groups}
    rows: list[tuple[Any, ...]] = []

    def add(seed: int, by: str, first: str, value: str | None, cells: Array) -> None:  # cells: (…, second)
        for group, members in seconds.items():
            chosen = cells[..., members]
            rows.append((analysis.seeds[seed], by, first, value, group, float(chosen.mean()), chosen.size))

    for seed in range(len(analysis.seeds)):
        for group, members in seconds.items():
            add(seed, "group", group, None, by_value[seed][:, members])
            for value, name in enumerate(inputs.task.symbols):
                add(seed, "group", group, name, by_value[seed, value, members])
        for value, one in enumerate(analysis.clusters[seed] if analysis.clusters else []):
            for number in range(one.count):
                add(
                    seed,
                    "cluster",
                    str(number),
                    inputs.task.symbols[value],
                    by_value[seed, value, one.labels == number],
                )
    return _rows(["seed", "by", "first", "value", "second", "accuracy", "examples"], rows)


def similarity(analysis: Analysis) -> pa.Table | None:
    """seed, value, silhouette, clusters, order, cosines: functions × functions row by row, in the task's order"""
    if analysis.similarity is None or analysis.clusters is None:
        return None
    seed, value = (index.ravel() for index in grid(analysis.similarity.shape[:2]))
    each = [one for of_seed in analysis.clusters for one in of_seed]
    return pa.table(
        {
            "seed": pa.array(np.array(analysis.seeds)[seed], pa.int64()),
            "value": _words(value, list(analysis.inputs.task.symbols)),
            "silhouette": pa.array(
                [None if np.isnan(one.silhouette) else one.silhouette for one in each], pa.float64()
            ),
            "clusters": pa.array([one.labels.tolist() for one in each], pa.list_(pa.int16())),
            "order": pa.array([one.order.tolist() for one in each], pa.list_(pa.int16())),
            "cosines": pa.array(list(analysis.similarity.reshape(len(each), -1)), pa.list_(pa.float32())),
        }
    )


def places(analysis: Analysis) -> pa.Table | None:
    """seed, level (layer or step, from 0), part (of the state), effect, chosen"""
    if analysis.effect is None or analysis.place is None:
        return None
    rows = [
        (
            analysis.seeds[s],
            level,
            analysis.changed[part],
            float(effect),
            analysis.place[s].tolist() == [level, part],
        )
        for (s, level, part), effect in np.ndenumerate(analysis.effect)
    ]
    return _rows(["seed", "level", "part", "effect", "chosen"], rows)


def interchange(analysis: Analysis) -> pa.Table | None:
    """seed, map (none, orthogonal or affine), donor and consumer (groups), value, accuracy, examples (patched)"""
    if analysis.interchange is None:
        return None
    inputs, rows = analysis.inputs, []
    functions = np.arange(inputs.n_functions)
    for kind, right in {"none": analysis.interchange, **analysis.stitched}.items():
        bases = analysis.bases if kind == "none" else 1
        by_value = right[:, functions[:, None], :, inputs.start].transpose(
            2, 1, 0, 3
        )  # (S, values, first, second)
        for donor in inputs.groups:
            for consumer in inputs.groups:
                cells = by_value[:, :, inputs.members(donor)][..., inputs.members(consumer)]
                tried = np.isfinite(cells)
                counts = tried.sum(axis=(2, 3))
                sums = np.where(tried, cells, 0).sum(axis=(2, 3))
                for (seed, value), count in np.ndenumerate(counts):
                    if count:
                        shown = (analysis.seeds[seed], kind, donor, consumer, inputs.task.symbols[value])
                        rows.append((*shown, float(sums[seed, value] / count), int(count) * bases))
    return _rows(["seed", "map", "donor", "consumer", "value", "accuracy", "examples"], rows)


def codes(analysis: Analysis) -> pa.Table:
    """The code that each seed uses for a state: seed, function, symbol, value, code (null: never first)"""
    names, symbols = _names(analysis.inputs)
    seed, function, symbol = (index.ravel() for index in grid(analysis.codes.shape))
    code = analysis.codes.ravel()
    return pa.table(
        {
            "seed": pa.array(np.array(analysis.seeds)[seed], pa.int64()),
            "function": _words(function, names),
            "symbol": _words(symbol, symbols),
            "value": _words(analysis.inputs.value[function, symbol], symbols),
            "code": pa.array(code, pa.int16(), mask=code < 0),
        }
    )


def learned(analysis: Analysis) -> pa.Table:
    """The tables really learned: seed, second, value, code, states that use the code, answer, share, right"""
    rows = learned_tables(analysis.answers, analysis.codes, analysis.inputs)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    names, symbols = _names(analysis.inputs)
    return pa.table(
        {
            "seed": pa.array(np.array(analysis.seeds)[columns["seed"]], pa.int64()),
            "second": _words(columns["second"], names),
            "value": _words(columns["value"], symbols),
            "code": pa.array(columns["code"], pa.int16()),
            "states": pa.array(columns["states"], pa.int32()),
            "answer": _words(columns["answer"], symbols),
            "share": pa.array(columns["share"], pa.float32()),
            "right": pa.array(columns["right"].astype(bool)),
        }
    )


def _names(inputs: Inputs) -> tuple[list[str], list[str]]:
    return list(inputs.task.functions), list(inputs.task.symbols)


def _words(indices: Array, words: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(words, pa.string()))


def _rows(names: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
