"""Files of a finished piece that are lost or damaged: what its checkpoint can give anew is not trained again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.reproduce.small import Silent, cell

from ctlpp.reproduce import executing
from ctlpp.reproduce.executing import Orders
from ctlpp.reproduce.pieces import stand

CELL = cell(0, 1)
ORDERS = Orders(device="cpu", analysis=False)
Execute = Callable[[Orders], list[Path]]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Works off a plan of one piece; gives what was done."""
    monkeypatch.setattr(executing, "write_results", lambda out: None)
    return lambda orders: executing.execute([CELL], tmp_path, orders, Silent())[0].done


@pytest.fixture
def run(execute: Execute) -> Path:
    (folder,) = execute(ORDERS)
    return folder


def lose(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    path.write_text("{")


def doctor(path: Path) -> None:
    path.write_text(path.read_text().replace('"ood": 0.', '"ood": 7.'))


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("harm", [lose, damage])
def test_a_damaged_analysis_is_made_anew_like_one_that_is_missing(
    execute: Execute, run: Path, tmp_path: Path, harm: Callable[[Path], None], analysed: bool
) -> None:
    orders = replace(ORDERS, analysis=True)
    execute(orders)
    harm(run / "analysis" / "analysis.json")
    if not analysed:  # nothing else of it is left
        for path in (run / "analysis").glob("*.parquet"):
            path.unlink()
    before = (run / "result.json").stat().st_mtime_ns
    assert stand(tmp_path, CELL).finished == (0, 1)
    assert execute(ORDERS) == []
    assert execute(orders) == [run]
    assert json.loads((run / "analysis" / "analysis.json").read_text())["seeds"] == [0, 1]
    assert (run / "result.json").stat().st_mtime_ns == before
    assert execute(orders) == []


def test_a_damaged_analysis_of_a_run_without_checkpoint_counts_as_none(execute: Execute, run: Path) -> None:
    orders = replace(ORDERS, analysis=True)
    execute(replace(orders, small=True))
    damage(run / "analysis" / "analysis.json")
    assert execute(orders) == []


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("metrics.parquet", lose),
        ("metrics.parquet", damage),
        ("result.json", damage),
        ("result.json", doctor),
    ],
)
def test_history_and_result_are_restored_from_the_checkpoint(
    execute: Execute, run: Path, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    history, result = pq.read_table(run / "metrics.parquet"), json.loads((run / "result.json").read_text())
    weights = (run / "checkpoint" / "step-000000004.safetensors").stat().st_mtime_ns
    harm(run / name)
    (piece,) = stand(tmp_path, CELL).to_do
    assert (piece.folder, piece.step) == (run, CELL.steps)
    assert execute(ORDERS) == [run]
    assert pq.read_table(run / "metrics.parquet") == history
    assert json.loads((run / "result.json").read_text())["seeds"] == result["seeds"]
    assert (run / "checkpoint" / "step-000000004.safetensors").stat().st_mtime_ns == weights, (
        "nothing was trained"
    )
    assert stand(tmp_path, CELL).finished == (0, 1)
