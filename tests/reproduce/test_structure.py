"""The table in results/structure says what its run folders say; training losses choose their seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ctlpp.runs.history import read_history

FOLDER = Path(__file__).parents[2] / "results" / "structure"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="a copy of the source without its results")
SOLVED = 0.99
RUNS = sorted(path.parent for path in FOLDER.glob("runs/*/*/result.json"))
README = (FOLDER / "README.md").read_text() if FOLDER.is_dir() else ""


def seeds_of(run: Path) -> list[dict[str, Any]]:
    return list(json.loads((run / "result.json").read_text())["seeds"])


def count(seeds: Sequence[dict[str, Any]]) -> str:
    return f"{sum(seed['accuracy']['ood'] >= SOLVED for seed in seeds)} of {len(seeds)}"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.parent.name)
def test_a_run_has_its_entry_and_its_choice_is_by_training_loss_alone(run: Path) -> None:
    seeds, restarts = seeds_of(run), json.loads((run / "config.json").read_text())["recipe"]["restarts"]
    chosen = [seed for seed in seeds if seed["chosen"]]
    assert [seed["seed"] for seed in chosen] == read_history(run / "metrics.parquet").chosen(restarts)
    assert f"| {run.parent.name} | {count(chosen)} | {count(seeds)} | " in README


def test_the_table_has_no_other_runs() -> None:
    rows = [line for line in README.splitlines() if " of " in line and line.startswith("| ")]
    assert len(rows) == len(RUNS)


def test_the_page_has_the_rungs_that_have_run() -> None:
    page = (FOLDER.parents[1] / "docs" / "concepts" / "models-that-compose.md").read_text()
    hardest = {
        run.parent.name.partition("-o4-s2")[2].lstrip("-"): run for run in RUNS if "authors-o4-s2" in str(run)
    }
    rows = re.findall(r"^\| (\S+) \| .* \| (\d of \d|not run) \|$", page, re.MULTILINE)
    told = {label.strip("`–"): result for label, result in rows}
    assert {label: result for label, result in told.items() if result != "not run"} == {
        label: count([seed for seed in seeds_of(run) if seed["chosen"]]) for label, run in hardest.items()
    }
