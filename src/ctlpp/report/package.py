"""What the page has of one run in few bytes: its curves, and what `ctlpp analyze` has left in its folder.

A package is four bytes with the length of a JSON text (little-endian), that text, and the arrays one after
the other, with a byte for each number; the JSON says under "arrays" where each begins and how long it is. All
of it is deflated, and written as base64.

Shapes: S seeds, n symbols (the value between two functions), F functions, G groups.

Example:
    >>> quantise(np.array([0.0, 0.5, 1.0, np.nan]), 0, 1).tolist()
    [0, 127, 254, 255]
"""

from __future__ import annotations

import json
import math
import shlex
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ctlpp.analysis.folder import MEASURES, AnalysisRecord, read_analysis
from ctlpp.report.compare import SPLITS, group_by_setting
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import TRAINING, SeedResult, read_history
from ctlpp.runs.untrusted import DamagedError, as_dict, as_float, as_int, as_list, as_str
from ctlpp.statistics.summary import correlate

MISSING = 255
FINEST = 255  # levels of a quantised number
Bytes = NDArray[np.uint8]
MAPS = ("none", "orthogonal", "affine")
KINDS = ("other", "train", "ood")
MOST_CELLS = 60_000_000  # of all matrices of a run
MOST_POINTS = 100  # of a curve
MOST_SEEDS = 1000  # with curves
NOT_ANALYSED = "Not analysed. This command does it; then write the report again:"
NO_CHECKPOINT = "Not analysed, and there is no checkpoint to analyse."
STALE = "This analysis was made at an earlier step than the accuracies beside it."


@dataclass
class Package:
    """Facts and arrays of one run."""

    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Bytes] = field(default_factory=dict)  # of any shape
    damage: list[str] = field(default_factory=list)  # why something of the analysis cannot be used

    def text(self, levels: int = FINEST) -> str:
        """As base64, with so many levels of the array "similarity", which is by far the largest."""
        arrays = {name: array.ravel() for name, array in self.arrays.items()}
        if "similarity" in arrays and levels < FINEST:
            arrays["similarity"] = coarsen(arrays["similarity"], levels)
        places, start = {}, 0
        for name, array in arrays.items():
            places[name] = [start, len(array)]
            start += len(array)
        facts = {**self.facts, "levels": levels, "arrays": places}
        head = json.dumps(facts, separators=(",", ":"), allow_nan=False).encode()
        body = b"".join(array.tobytes() for array in arrays.values())
        return b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + body, 6)).decode("ascii")


def coarsen(array: Bytes, levels: int) -> Bytes:
    """An array quantised as finely as can be, with fewer levels."""
    scaled = np.rint(array * ((levels - 1) / (FINEST - 1)))
    return np.where(array == MISSING, MISSING, scaled).astype(np.uint8)


def quantise(values: NDArray[Any], low: float, high: float) -> Bytes:
    """Numbers from low to high as 0 … 254, rounded; 255 where there is no number."""
    known = np.isfinite(values)
    scaled = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    return np.where(known, np.rint(np.clip(scaled, 0, 1) * (FINEST - 1)), MISSING).astype(np.uint8)


def rounded(value: object) -> float | None:
    """A number as the page has it; None for what is none."""
    number = as_float(value)
    return None if number is None else round(number, 5)


def pack(record: RunRecord) -> Package:
    """Curves and analysis of a run; a reason for what is missing."""
    if record.state in ("foreign", "version"):
        return Package({"curves_missing": record.reason, "inside_missing": {"text": record.reason}})
    package = Package()
    try:
        add_curves(package, record)
    except DamagedError as error:
        package.facts["curves_missing"] = str(error)
    try:
        add_analysis(package, record)
    except DamagedError as error:
        package.facts["inside_missing"] = {"text": str(error)}
        package.damage.append(str(error))
    return package


def add_curves(package: Package, record: RunRecord) -> None:
    """Accuracy on iid and ood and the training loss (its logarithm), arrays (points, seeds) each.

    The facts get "curves": the steps, the seeds and the range of the loss.
    """
    history = read_history(record.folder / "metrics.parquet")
    if not len(history.steps) or len(history.seeds) > MOST_SEEDS:
        raise DamagedError("metrics.parquet has no evaluations that can be drawn")
    evenly = np.linspace(0, len(history.steps) - 1, min(len(history.steps), MOST_POINTS))
    points = np.unique(evenly.round().astype(int))
    facts: dict[str, Any] = {"steps": history.steps[points].tolist(), "seeds": history.seeds.tolist()}
    for split in SPLITS:
        if (split, 0) in history.accuracy:
            package.arrays[f"curve_{split}"] = quantise(history.accuracy[split, 0][points], 0, 1)
    losses = history.loss.get((TRAINING, 0), np.full((len(history.steps), 1), np.nan))[points]
    losses = np.log10(np.where(losses > 0, losses, np.nan))
    if len(known := losses[np.isfinite(losses)]):
        facts["loss"] = [round(float(known.min()), 6), round(float(known.max()), 6)]
        package.arrays["curve_loss"] = quantise(losses, known.min(), known.max())
    package.facts["curves"] = facts


def add_analysis(package: Package, record: RunRecord) -> None:
    """What the analysis says, and whether it is older than the accuracies; or else what would make one."""
    analysis = read_analysis(record.folder)
    if analysis is not None:
        add_inside(package, analysis)
        inside = package.facts["inside"]
        if inside["step"] is not None and record.step is not None and inside["step"] < record.step:
            inside["stale"] = {"text": STALE, "command": analyze_command(record, "--force")}
    elif record.state in ("finished", "unfinished"):
        command = analyze_command(record)
        text = NOT_ANALYSED if command else NO_CHECKPOINT
        package.facts["inside_missing"] = {"text": text, "command": command}
    else:
        package.facts["inside_missing"] = {"text": record.reason}


def analyze_command(record: RunRecord, *options: str) -> str:
    """The command that analyses a run; empty without a checkpoint."""
    if not any((record.folder / "checkpoint").glob("step-*.json")):
        return ""
    unfinished = ["--unfinished"] * (record.state != "finished")
    data = [] if record.task else ["--data", "DIR"]
    return shlex.join(["ctlpp", "analyze", str(record.folder), *unfinished, *data, *options])


def add_inside(package: Package, analysis: AnalysisRecord) -> None:
    """The facts get "inside"; a table that is absent or cannot be used is named there under "missing"."""
    if len(analysis.seeds) * len(analysis.symbols) * len(analysis.functions) ** 2 > MOST_CELLS:
        raise DamagedError("the analysis is too large for a page")
    summary = analysis.summary
    notes = [as_str(note) for note in as_list(summary.get("notes"))]
    places = map(as_dict, as_list(summary.get("places")))
    inside: dict[str, Any] = {
        "seeds": analysis.seeds,
        "step": as_int(summary.get("step")),
        "functions": analysis.functions,
        "symbols": analysis.symbols,
        "groups": analysis.groups,
        "measures": _measures(summary, len(analysis.seeds)),
        "places": [[as_int(p.get("level")), as_str(p.get("part")), rounded(p.get("effect"))] for p in places],
        "state": as_str(as_dict(summary.get("state")).get("kind")),
        "notes": notes,
        "missing": [],
    }
    package.facts["inside"] = inside
    for name, add in (("similarity", _similarity), ("pairs", _pairs), ("interchange", _interchange)):
        if not analysis.has_table(name):
            reason = next((note for note in notes if name in note), f"the analysis has no {name}.parquet")
            inside["missing"].append(reason)
            continue
        try:
            add(package, analysis)
        except DamagedError as error:
            package.damage.append(str(error))
    inside["missing"] += package.damage


def _measures(summary: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    """Each measure with its values and its correlation with OOD accuracy."""
    found = []
    for name, entry in as_dict(summary.get("measures")).items():
        values = [rounded(value) for value in as_list(as_dict(entry).get("values"))]
        if len(values) == seeds:
            ours = MEASURES.get(name)
            words = ours._asdict() if ours else {key: as_str(entry.get(key)) for key in ("label", "meaning")}
            own = as_dict(as_dict(summary.get("correlations")).get(name))
            correlation = [rounded(own.get(key)) for key in ("pearson", "low", "high")]
            found.append({"name": as_str(name), **words, "values": values, "correlation": correlation})
    return found


def _similarity(package: Package, analysis: AnalysisRecord) -> None:
    """Upper triangles of cosines (S, n, F (F - 1) / 2), clusters and order (S, n, F)."""
    found = read_similarity(analysis)
    cosines = found.cosines[..., *np.triu_indices(len(analysis.functions), 1)]
    known = cosines[np.isfinite(cosines)]
    low = math.floor(100 * np.clip(known.min() if len(known) else 0, -1, 0.99)) / 100
    silhouettes = [[*map(rounded, row)] for row in found.silhouettes.tolist()]
    package.facts["inside"] |= {"low": low, "silhouettes": silhouettes}
    package.arrays["similarity"] = quantise(cosines, low, 1)
    package.arrays |= {"clusters": found.clusters, "order": found.order}


def _pairs(package: Package, analysis: AnalysisRecord) -> None:
    """Which pairs are answered right, one bit each (S, n, F, F), and which graph has them (n, F, F)."""
    right, kind = read_pairs(analysis)
    package.arrays |= {"right": np.packbits(right), "kind": kind}


def _interchange(package: Package, analysis: AnalysisRecord) -> None:
    """Accuracy after an exchange (S, 3 maps, n, donor groups, consumer groups)."""
    groups = tuple(analysis.groups)
    axes: dict[str, Sequence[Any]] = {"seed": analysis.seeds, "map": MAPS, "value": analysis.symbols}
    axes |= {"donor": groups, "consumer": groups}
    with _fitting(analysis, "interchange", [*axes, "accuracy"]) as rows:
        found = np.full(tuple(map(len, axes.values())), np.nan)
        found[_index(rows, axes)] = rows["accuracy"].to_numpy()
    package.arrays["interchange"] = quantise(found, 0, 1)


@dataclass(frozen=True, eq=False)
class Similarity:
    """Similarity and clusters of the readouts of all functions; nan and MISSING where there are none."""

    cosines: NDArray[np.float32]  # (S, n, F, F)
    clusters: Bytes  # (S, n, F)
    order: Bytes  # (S, n, F) the functions as the tree has its leaves
    silhouettes: NDArray[np.float64]  # (S, n)


def read_similarity(analysis: AnalysisRecord) -> Similarity:
    """`similarity.parquet`; raises DamagedError."""
    S, n, F = len(analysis.seeds), len(analysis.symbols), len(analysis.functions)
    cosines, silhouettes = np.full((S, n, F, F), np.nan, dtype=np.float32), np.full((S, n), np.nan)
    numbers = {name: np.full((S, n, F), MISSING, dtype=np.uint8) for name in ("clusters", "order")}
    with _fitting(analysis, "similarity", ["seed", "value", "silhouette", "cosines", *numbers]) as rows:
        where = _index(rows, {"seed": analysis.seeds, "value": analysis.symbols})
        cosines[where] = _stack(rows["cosines"], len(rows), F, F)
        silhouettes[where] = rows["silhouette"].to_numpy()
        for name, array in numbers.items():
            given = _stack(rows[name], len(rows), F)
            if not ((given >= 0) & (given < F)).all():
                raise DamagedError(f"similarity.parquet: {name} are out of range")
            array[where] = given
    return Similarity(cosines, **numbers, silhouettes=silhouettes)


def read_pairs(analysis: AnalysisRecord) -> tuple[NDArray[np.bool_], Bytes]:
    """`pairs.parquet`: which pairs are right (S, n, F, F), and of which of KINDS they are (n, F, F)."""
    functions = analysis.functions
    axes = {"seed": analysis.seeds, "value": analysis.symbols, "first": functions, "second": functions}
    right = np.zeros(tuple(map(len, axes.values())), dtype=bool)
    kind = np.zeros(right.shape[1:], dtype=np.uint8)
    with _fitting(analysis, "pairs", [*axes, "right", "kind"]) as rows:
        if len(rows) != right.size:
            raise DamagedError("pairs.parquet does not hold every pair once")
        where = _index(rows, axes)
        right[where] = rows["right"].to_numpy(zero_copy_only=False).astype(bool)
        kind[where[1:]] = _index(rows, {"kind": KINDS})[0]
    return right, kind


@contextmanager
def _fitting(analysis: AnalysisRecord, name: str, columns: list[str]) -> Iterator[Any]:
    """A table of the analysis, in use: anybody may have written it, so it may fit or not."""
    try:
        yield analysis.table(name, columns)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise DamagedError(f"{name}.parquet does not fit analysis.json") from error


def _index(rows: Any, axes: Mapping[str, Sequence[Any]]) -> tuple[NDArray[np.int64], ...]:
    """The place of every row on every axis; ValueError for names that no axis has."""
    found = []
    for column, known in axes.items():
        values = rows[column]
        if pa.types.is_dictionary(values.type):  # as older analyses have them
            values = values.cast(values.type.value_type)
        places = pc.index_in(values, value_set=pa.array(list(known), values.type))
        if places.null_count:
            raise ValueError(column)
        found.append(places.to_numpy().astype(np.int64))
    return tuple(found)


def _stack(column: Any, *shape: int) -> NDArray[np.float32]:
    """A column of lists as one array."""
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(shape)


def correlate_settings(records: Sequence[RunRecord], packages: Sequence[Package]) -> None:
    """Measures of runs of one setting get their correlation over all its seeds; old analyses do not count."""
    inside = {
        record.folder: package.facts["inside"]
        for record, package in zip(records, packages, strict=True)
        if "inside" in package.facts and "stale" not in package.facts["inside"]
    }
    for setting in group_by_setting(records):
        parts = [inside[run.folder] for run in setting.runs if run.folder in inside]
        if len(parts) < 2:
            continue
        for name in {measure["name"] for part in parts for measure in part["measures"]}:
            found = [(part["seeds"], m) for part in parts for m in part["measures"] if m["name"] == name]
            correlation = _correlate(setting.seeds, found)
            for _, measure in found:
                measure["correlation"] = correlation


def _correlate(
    seeds: Sequence[SeedResult], found: Sequence[tuple[list[int], dict[str, Any]]]
) -> list[float | None]:
    """Correlation and interval over the seeds that have not diverged, each counted once."""
    values: dict[int, float | None] = {}
    for numbers, measure in reversed(found):
        values |= dict(zip(numbers, measure["values"], strict=True))
    both = [(values.get(seed.number), seed.accuracy.get("ood")) for seed in seeds if not seed.diverged]
    result = correlate(*np.array(both, dtype=np.float64).reshape(-1, 2).T)
    return [rounded(number) for number in (result.pearson, result.low, result.high)]
