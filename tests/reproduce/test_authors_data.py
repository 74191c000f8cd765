"""The table in results/authors-data/README.md says what its run folders say."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, median, stdev

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

FOLDER = Path(__file__).parents[2] / "results" / "authors-data"
LEARNED = 0.9
ROWS = [line.strip("| ").split(" | ") for line in (FOLDER / "README.md").read_text().splitlines()]
FOUND = {path.name: path for path in FOLDER.iterdir() if path.is_dir()}
FOUND |= {name: FOLDER.parent / "runs" / name / "0-24" for name in ("lstm-A-authors", "ndr-A-authors")}
TABLE = {row[0]: row[2:] for row in ROWS if len(row) == 7 and row[0] in FOUND}


def test_every_run_has_its_row() -> None:
    assert TABLE.keys() == FOUND.keys()


@pytest.mark.parametrize("run", TABLE)
def test_a_row_says_what_the_run_says(run: str) -> None:
    seeds = json.loads((FOUND[run] / "result.json").read_text())["seeds"]
    history = pq.read_table(FOUND[run] / "metrics.parquet")
    iid = history.filter((pc.field("split") == "iid") & (pc.field("length") == 0)).to_pylist()
    first: dict[int, int] = {}
    for row in sorted(iid, key=lambda row: row["step"]):
        if row["accuracy"] > LEARNED:
            first.setdefault(row["seed"], row["step"])
    accuracies = [[seed["accuracy"][split] for seed in seeds] for split in ("iid", "ood", "ood_independent")]
    expected = [f"{len(first)} of {len(seeds)}", f"{median(first.values()):,.0f}"]
    assert TABLE[run] == expected + [f"{fmean(one):.2f} ± {stdev(one):.2f}" for one in accuracies]
