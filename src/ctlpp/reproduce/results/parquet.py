"""`results.parquet`: one row for each cell, way to count and split; numbers rounded to six digits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from ctlpp.reproduce.results.cells import ALL, SELECTIONS, Cell
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.rows import Row
from ctlpp.runs.folder import RunRecord
from ctlpp.statistics.summary import Summary, summarise

DIGITS = 6
_LENGTH = pa.struct(
    [
        ("length", pa.int32()),
        *((name, pa.float64()) for name in ("mean", "std", "interval_low", "interval_high")),
    ]
)
_TEXT, _WHOLE, _TEXTS = pa.string(), pa.int64(), pa.list_(pa.string())
KINDS: dict[str, Any] = {
    **dict.fromkeys(("cell", "model", "variant", "protocol", "preset", "repeated_sequences"), _TEXT),
    **dict.fromkeys(("selection", "split", "verdict"), _TEXT),
    **dict.fromkeys(("table", "shared_functions", "shared_symbols", "seeds", "planned"), _WHOLE),
    **dict.fromkeys(("diverged", "not_converged", "above_95", "published_above_95"), _WHOLE),
    **dict.fromkeys(("experiments", "not_compared"), _TEXTS),
    "by_length": pa.list_(_LENGTH),
    "published_inside": pa.bool_(),
}  # of the columns that are not real numbers


def as_table(found: Found) -> pa.Table:
    """All rows; without any, the columns alone."""
    lines = [_line(found, row) for row in found.rows.values()]
    columns = lines[0] if lines else _line(found, _nothing())
    return pa.table(
        {name: pa.array([line[name] for line in lines], KINDS.get(name, pa.float64())) for name in columns}
    )


def _nothing() -> Row:
    """A row that says which columns there are."""
    empty, nobody = Cell("", others=(RunRecord(Path(), "", "foreign"),)), summarise([])
    return Row(
        cell=empty, selection=ALL, split="iid", diverged=0, not_converged=0, summary=nobody, lengths={}
    )


def _line(found: Found, row: Row) -> dict[str, Any]:
    cell, ours, verdict = row.cell, row.summary, row.verdict
    planned = {one.name: one for one in found.plan}.get(cell.name)
    theirs = row.published or (None, None)
    return {
        "cell": cell.name,
        "experiments": list(planned.experiments) if planned else [],
        "model": cell.model,
        "variant": cell.variant,
        "protocol": cell.protocol,
        "preset": cell.preset,
        "table": cell.table,
        "repeated_sequences": cell.sequences or None,
        "shared_functions": cell.grid[0] if cell.grid else None,
        "shared_symbols": cell.grid[1] if cell.grid else None,
        "selection": SELECTIONS[row.selection],
        "split": row.split,
        "seeds": ours.seeds,
        "planned": len(planned.seeds) if planned else None,
        "diverged": row.diverged,
        "not_converged": row.not_converged,
        **_summary("", ours),
        "median": _round(ours.median),
        "above_95": ours.solved,
        **_ends("above_95_share", ours.solved_share),
        "by_length": [{"length": length, **_summary("", each)} for length, each in row.lengths.items()],
        **dict(_gaps(row)),
        "published_mean": theirs[0],
        "published_std": theirs[1],
        "published_above_95": row.solved,
        "published_inside": row.inside,
        "difference": _round(verdict.difference) if verdict else None,
        **_ends("difference", verdict.interval if verdict else None),
        "verdict": verdict.word if verdict else None,
        "not_compared": list(cell.mismatches),
    }


def _gaps(row: Row) -> Iterable[tuple[str, float | None]]:
    for name, gap in (("gap", row.gap), ("equal_gap", row.equal_gap)):
        yield name, _round(gap.mean) if gap else None
        yield from _ends(name, gap.interval if gap else None).items()


def _summary(prefix: str, one: Summary) -> dict[str, float | None]:
    named = {f"{prefix}mean": _round(one.mean), f"{prefix}std": _round(one.std)}
    return named | _ends(f"{prefix}interval", one.interval)


def _ends(name: str, interval: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_low": _round(low), f"{name}_high": _round(high)}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS) + 0.0
