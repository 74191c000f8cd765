"""What the page has of one run: its labels, its graph, its curves, and what would give it an analysis."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from tests.report.conftest import edit, make_run, make_task, outdate

from ctlpp.figures.graph import draw_task
from ctlpp.report.collect import NO_CHECKPOINT, NOT_ANALYSED, STALE, describe, pack
from ctlpp.runs.checkpoint import save
from ctlpp.runs.folder import RunRecord, read_run


def keep_checkpoint(run: Path) -> Path:
    save(run, 300, {"weights": torch.ones(2, 3)}, {})
    return run


def described(**config: Any) -> dict[str, Any]:
    return describe(RunRecord(Path("run"), "run", "finished", config=config), [])


def test_what_tells_data_apart_is_labelled() -> None:
    for task, labels in (
        ({}, []),
        ({"seed": 0, "recipe": {"train": 100}}, []),
        ({"recipe": {"distinct_sequences": "n/7"}, "seed": 1}, ["function table 1"]),
        ({"shared_functions": 16, "shared_symbols": 1}, ["16 shared functions", "1 shared symbol"]),
        ({"shared_functions": None, "shared_symbols": "6", "seed": "1"}, []),
    ):
        assert described(task=task)["task"] == labels


@pytest.mark.parametrize("variant", ["CTL", "A", "R", "S"])
def test_the_sampling_graph_is_that_of_the_task_and_is_drawn_once(tmp_path: Path, variant: str) -> None:
    task = make_task(variant, 8, 16)
    record = read_run(make_run(tmp_path / "run", task=task, analysed=False), "run")
    graphs: list[str] = []
    assert [describe(record, graphs)["graph"] for _ in range(2)] == [0, 0]
    assert graphs == [draw_task(task)]


@pytest.mark.parametrize("edges", [None, [], [["a"]], [["a", "nowhere"]], [["a", "b"]] * 1000, "ab"])
def test_what_is_no_graph_is_not_drawn(edges: Any) -> None:
    groups = {"a": ["f"], "b": ["g"]}
    assert described(task={"groups": groups, "train_graph": {"edges": edges}})["graph"] is None


def test_a_run_without_analysis_is_told_the_command_that_makes_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a run", analysed=False)

    def missing() -> dict[str, str]:
        return dict(pack(read_run(run, "run")).facts["inside_missing"])

    assert missing() == {"text": NO_CHECKPOINT, "command": ""}
    keep_checkpoint(run)
    assert missing() == {"text": NOT_ANALYSED, "command": f"ctlpp analyze '{run}'"}
    edit(run / "config.json", task=None)
    assert missing()["command"] == f"ctlpp analyze '{run}' --data DIR"
    (run / "result.json").unlink()
    assert missing()["command"] == f"ctlpp analyze '{run}' --unfinished --data DIR"
    (run / "config.json").write_text("{")
    assert missing()["text"].startswith("config.json cannot be read")


def test_an_analysis_made_before_the_end_is_told_the_command_that_renews_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")

    def stale() -> object:
        return pack(read_run(run, "run")).facts["inside"].get("stale")

    assert stale() is None
    outdate(run)
    assert stale() == {"text": STALE, "command": ""}
    keep_checkpoint(run)
    assert stale() == {"text": STALE, "command": f"ctlpp analyze {run} --force"}


def test_curves_are_thinned_and_arrive(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    package = pack(read_run(run, "run"))
    assert package.facts["curves"]["steps"] == [100, 200, 300]
    assert package.facts["curves"]["seeds"] == [0, 1, 2]
    assert package.arrays["curve_ood"].tolist() == [[127] * 3] * 3
    assert package.arrays["curve_loss"].tolist() == [[254] * 3, [94] * 3, [0] * 3]
    rows = pq.read_table(run / "metrics.parquet").to_pylist()
    longer = [row | {"step": row["step"] + 1000 * again} for again in range(200) for row in rows]
    pq.write_table(pq.read_table(run / "metrics.parquet").from_pylist(longer), run / "metrics.parquet")
    steps = pack(read_run(run, "run")).facts["curves"]["steps"]
    assert (len(steps), steps[0], steps[-1]) == (100, 100, 199_300)


def test_a_history_that_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    table = pq.read_table(run / "metrics.parquet")
    pq.write_table(table.set_column(0, "step", [["x"] * len(table)]), run / "metrics.parquet")
    assert "wrong kind" in pack(read_run(run, "run")).facts["curves_missing"]
    pq.write_table(table.slice(0, 0), run / "metrics.parquet")
    assert "no evaluations" in pack(read_run(run, "run")).facts["curves_missing"]
    (run / "metrics.parquet").unlink()
    assert "cannot be read" in pack(read_run(run, "run")).facts["curves_missing"]


def test_every_setting_is_listed_and_none_is_endless() -> None:
    rows = described(model="ndr", recipe={"steps": 300}, about={"note": "x" * 9999}, task={"seed": 3})[
        "settings"
    ]
    assert ["recipe", "steps", "300"] in rows
    assert ["task", "seed", "3"] in rows
    assert ["run", "model", "ndr"] in rows
    assert len(json.dumps(rows)) < 1000
