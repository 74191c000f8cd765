"""What `ctlpp analyze` has left in a run folder, checked and quantised for the page.

Shapes: S seeds, n symbols (the value between two functions), F functions, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctlpp.report.packing import MISSING, Package, quantise
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

FORMAT = 1  # of analysis.json; that of `analysis.run`, which takes a second to import
MAPS = ("none", "orthogonal", "affine")
KINDS = ("other", "train", "ood")
MOST = {"seeds": 1000, "functions": 200, "symbols": 200}  # no run of ours comes near
MOST_CELLS = 60_000_000  # of all matrices of a run


@dataclass(frozen=True)
class Names:
    """What everything in an analysis is called."""

    seeds: tuple[int, ...]
    functions: tuple[str, ...]
    symbols: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]

    @staticmethod
    def of(content: dict[str, Any]) -> Names:
        """From `analysis.json`."""
        groups = {
            as_str(name): tuple(map(as_str, as_list(own)))
            for name, own in as_dict(content.get("groups")).items()
        }
        seeds = tuple(as_int(seed) or 0 for seed in as_list(content.get("seeds")))
        functions, symbols = (
            tuple(map(as_str, as_list(content.get(key)))) for key in ("functions", "symbols")
        )
        names = Names(seeds, functions, symbols, groups)
        for key, most in MOST.items():
            own = getattr(names, key)
            if not own or len(own) > most or len(set(own)) != len(own):
                raise DamagedError(f"analysis.json: {key} are missing, too many or not distinct")
        if sorted(name for own in groups.values() for name in own) != sorted(names.functions):
            raise DamagedError("analysis.json: the groups do not hold every function once")
        if len(names.seeds) * len(names.symbols) * len(names.functions) ** 2 > MOST_CELLS:
            raise DamagedError("the analysis is too large for a page")
        return names


def add_inside(package: Package, folder: Path) -> None:
    """The analysis of a run, from its `analysis.json` on; the facts get "inside", or "inside_missing" with a reason."""
    try:
        content = read_json(folder / "analysis.json")
        if content.get("format") != FORMAT:
            raise DamagedError("analysis.json was written by another version of ctlpp")
        names = Names.of(content)
    except DamagedError as error:
        package.facts["inside_missing"] = str(error)
        package.damage.append(str(error))
        return
    notes = [as_str(note) for note in as_list(content.get("notes"))]
    package.facts["inside"] = {
        "seeds": names.seeds,
        "step": as_int(content.get("step")),
        "functions": names.functions,
        "symbols": names.symbols,
        "groups": names.groups,
        "measures": _measures(content, len(names.seeds)),
        "places": [_place(entry) for entry in map(as_dict, as_list(content.get("places")))],
        "state": as_str(as_dict(content.get("state")).get("kind")),
        "notes": notes,
        "missing": [],
    }
    for name, add in (("similarity", _similarity), ("pairs", _pairs), ("interchange", _interchange)):
        if (folder / f"{name}.parquet").is_file():
            try:
                add(package, folder / f"{name}.parquet", names)
            except DamagedError as error:
                package.facts["inside"]["missing"].append(str(error))
                package.damage.append(str(error))
        else:
            reason = next((note for note in notes if name in note), f"the analysis has no {name}.parquet")
            package.facts["inside"]["missing"].append(reason)


def _measures(content: dict[str, Any], seeds: int) -> list[dict[str, Any]]:
    """Each measure with its values and its correlation with OOD accuracy."""
    found = []
    correlations = as_dict(content.get("correlations"))
    for name, entry in as_dict(content.get("measures")).items():
        values = [rounded(value) for value in as_list(as_dict(entry).get("values"))]
        if len(values) == seeds:
            about = {key: as_str(as_dict(entry).get(key)) for key in ("label", "meaning")}
            numbers = [
                rounded(as_dict(correlations.get(name)).get(key)) for key in ("pearson", "low", "high")
            ]
            found.append({"name": as_str(name), **about, "values": values, "correlation": numbers})
    return found


def rounded(value: object) -> float | None:
    """A number as the page has it; None for what is none."""
    number = as_float(value)
    return None if number is None else round(number, 4)


def _place(entry: dict[str, Any]) -> list[Any]:
    return [as_int(entry.get("level")), as_str(entry.get("part")), rounded(entry.get("effect"))]


def _similarity(package: Package, path: Path, names: Names) -> None:
    """Upper triangles of cosines (S, n, F (F - 1) / 2), clusters and order (S, n, F)."""
    rows = read_columns(path, ["seed", "value", "clusters", "order", "cosines"])
    S, n, F = len(names.seeds), len(names.symbols), len(names.functions)
    where = _index(rows, {"seed": names.seeds, "value": names.symbols}, path)
    cosines = np.full((S, n, F * F), np.nan, dtype=np.float32)
    clusters, order = (np.full((S, n, F), MISSING, dtype=np.uint8) for _ in range(2))
    cosines[where] = _stacked(rows, "cosines", F * F, path)
    for name, array in (("clusters", clusters), ("order", order)):
        numbers = _stacked(rows, name, F, path)
        if not ((numbers >= 0) & (numbers < F)).all():
            raise DamagedError(f"{path.name}: {name} are out of range")
        array[where] = numbers
    known = cosines[np.isfinite(cosines)]
    low = float(np.clip(known.min() if len(known) else 0, -1, 0.99))
    above, right = np.triu_indices(F, 1)
    package.facts["inside"]["low"] = low = np.floor(low * 100) / 100
    package.add("similarity", quantise(cosines.reshape(S, n, F, F)[..., above, right], low, 1))
    package.add("clusters", clusters)
    package.add("order", order)


def _pairs(package: Package, path: Path, names: Names) -> None:
    """Which pairs are answered right, one bit each (S, n, F, F), and which graph has them (n, F, F)."""
    rows = read_columns(path, ["seed", "value", "first", "second", "right", "kind"])
    S, n, F = len(names.seeds), len(names.symbols), len(names.functions)
    axes: dict[str, Sequence[Any]] = {
        "seed": names.seeds,
        "value": names.symbols,
        "first": names.functions,
        "second": names.functions,
    }
    where = _index(rows, axes, path)
    if len(where[0]) != S * n * F * F:
        raise DamagedError(f"{path.name} does not hold every pair once")
    right = np.zeros((S, n, F, F), dtype=bool)
    right[where] = rows["right"].to_numpy(zero_copy_only=False).astype(bool)
    kind = np.zeros((n, F, F), dtype=np.uint8)
    kind[where[1:]] = _index(rows, {"kind": KINDS}, path)[0]
    package.add("right", np.packbits(right))
    package.add("kind", kind)


def _interchange(package: Package, path: Path, names: Names) -> None:
    """Accuracy after an exchange (S, 3 maps, n, donor groups, consumer groups)."""
    rows = read_columns(path, ["seed", "map", "value", "donor", "consumer", "accuracy"])
    groups = tuple(names.groups)
    axes: dict[str, Sequence[Any]] = {
        "seed": names.seeds,
        "map": MAPS,
        "value": names.symbols,
        "donor": groups,
        "consumer": groups,
    }
    found = np.full(tuple(map(len, axes.values())), np.nan)
    found[_index(rows, axes, path)] = rows["accuracy"].to_numpy()
    package.add("interchange", quantise(found, 0, 1))


def _index(rows: Any, axes: dict[str, Sequence[Any]], path: Path) -> tuple[NDArray[np.int64], ...]:
    """The place of every row on every axis."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for column, known in axes.items():
        values = rows[column]
        try:
            if pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            places = pc.index_in(values, value_set=pa.array(list(known), values.type))
        except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
            raise DamagedError(f"{path.name}: the column {column} is of the wrong kind") from error
        if places.null_count:
            raise DamagedError(f"{path.name}: the column {column} has names that analysis.json does not know")
        found.append(places.to_numpy().astype(np.int64))
    return tuple(found)


def _stacked(rows: Any, column: str, width: int, path: Path) -> NDArray[Any]:
    """A column of lists as a table (rows, width)."""
    try:
        flat = rows[column].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat, dtype=np.float32).reshape(len(rows), width)
    except (AttributeError, TypeError, ValueError) as error:
        raise DamagedError(f"{path.name}: the column {column} has another shape") from error
