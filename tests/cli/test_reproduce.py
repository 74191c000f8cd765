"""`ctlpp reproduce` as a user meets it, at a size that trains in seconds."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.plans.small import DATA
from tests.reproduce.making import make_piece

import ctlpp.training.train
from ctlpp.reproduce import page, plan

Command = Callable[..., Any]
Refused = Callable[..., str]
SMALL = ("--scale", "quick", "--device", "cpu", "--out", "out")
ONE = ("reproduce", "table1", "--only", "lstm-R-clean-quick", *SMALL)
PIECE = Path("out/runs/lstm-R-clean-quick/0-1")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {"lstm": 6, "ndr": 2, "transformer": 2}
    small = {"A": dict(DATA), "R": dict(DATA)}
    monkeypatch.setitem(plan.SCALES, "quick", replace(plan.SCALES["quick"], small=small, steps=steps))


def test_a_plan_says_what_is_there_what_is_not_and_what_it_costs(command: Command, tmp_path: Path) -> None:
    done = command("reproduce", "table1", "--only", "lstm/R", "--plan", *SMALL)
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    for name in ("lstm-R-clean-quick", "lstm-R-text-quick"):
        assert [name, "2", "0", "2", "6", "3", "s"] in rows
    assert "4 seeds to train: about 6 s on two CPU cores." in done.out
    assert list(tmp_path.iterdir()) == []


def test_the_whole_paper_can_be_planned_for_a_gpu_that_is_not_there(command: Command) -> None:
    done = command("reproduce", "all", "--plan", "--device", "cuda")
    assert done.code == 0
    *_, last, step = done.out.splitlines()
    assert last.startswith("688 seeds to train: about ")
    assert last.endswith(" on one NVIDIA H200.")
    assert step == "Next: ctlpp reproduce all --device cuda"


def test_what_the_plan_has_is_trained_and_ends_in_tables_figures_and_a_report(command: Command) -> None:
    done = command(*ONE)
    assert done.code == 0
    assert "1 of 1: lstm-R-clean-quick, seeds 0-1: " in " ".join(done.err.split())
    assert done.out.splitlines()[-2:] == [
        "Tables, figures and report in out.",
        "Next: open out/report.html in a browser",
    ]
    names = {path.name for path in PIECE.iterdir()}
    assert names >= {"config.json", "metrics.parquet", "result.json", "checkpoint", "analysis"}
    assert json.loads((PIECE / "config.json").read_text())["about"] == {"cell": "lstm-R-clean-quick"}
    assert "lstm-R-clean-quick" in pq.read_table("out/results.parquet").column("cell").to_pylist()
    assert Path("out/report.html").stat().st_size > 10_000
    assert Path("out/results.md").is_file()


def test_without_training_results_are_made_of_what_is_there(command: Command) -> None:
    make_piece(Path("out"), "ndr-R-clean", [0.5])
    Path("page.md").write_text("# Does it reproduce?\n\nWho knows.\n")  # an earlier one gives way
    done = command("reproduce", "all", "--no-train", "--page", "page.md", "--out", "out")
    assert (done.code, done.err) == (0, "")
    assert [path.name for path in Path("out/runs").iterdir()] == ["ndr-R-clean"]
    assert all(Path("out", made).is_file() for made in ("results.parquet", "results.md", "report.html"))
    assert Path("page.md").read_text().startswith("# Does it reproduce?\n")
    assert "Who knows." not in Path("page.md").read_text()


def test_a_failure_is_reported_at_the_end_with_exit_code_1_and_taken_up_with_retry(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlucky(*given: Any, **more: Any) -> Any:
        raise RuntimeError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(ctlpp.training.train, "train", unlucky)
        done = command(*ONE)
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        f"{PIECE} failed: RuntimeError: no luck",
        "ctlpp: 1 of the runs failed; try them again with --retry, or remove a folder to begin it anew",
    ]
    planned = " ".join(command(*ONE, "--plan").out.split())
    assert f"{PIECE} failed: RuntimeError: no luck; try it with --retry." in planned
    assert command(*ONE).code == 1
    assert command(*ONE, "--no-analysis", "--retry", "--small", "--keep-weights", "1").code == 0
    assert len(list((PIECE / "weights").iterdir())) == 1


MISTAKES = {
    "similarity --only lstm/S": "--only lstm/S: similarity has ndr/R, ndr/A; or give the name of a run (see",
    "all --scale tiny": "--scale tiny: choose from full, quick",
    "all --device tpu --plan": "--device tpu: choose from auto, cpu, cuda, mps",
    "all --minutes -1 --plan": "--minutes -1.0: must be 0 or more",
    "all --seeds-a-piece 0 --plan": "--seeds-a-piece 0: must be 1 or more",
    "all --keep-weights 3 --plan": "--keep-weights 3: without --small all weights are kept",
    "all --no-train --out empty": "no runs in empty: name the --out of a reproduction, or leave out --no-tra",
    "all --out file": "cannot write file/report.html: file is not a folder; choose another place",
    "all --out src": "src holds other files (thesis.tex, …): choose an empty or a new folder as --out",
}


def test_a_mistake_is_one_line_and_leaves_nothing_behind(refused: Refused) -> None:
    Path("file").write_text("mine")
    Path("src").mkdir()
    Path("src/thesis.tex").touch()
    for arguments, line in MISTAKES.items():
        assert refused("reproduce", arguments).startswith(line)


def test_a_reproduction_that_came_to_no_run_goes_on(command: Command) -> None:
    assert command(*ONE, "--minutes", "0").code == 124
    assert not Path("out/runs").exists()
    assert command(*ONE, "--no-analysis").code == 0


def test_a_full_disk_ends_the_work_in_one_line_with_exit_code_1(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    make_piece(Path("trained"), "ndr-R-clean", [0.5])
    monkeypatch.setattr("os.fsync", full)
    for arguments, file in (
        (ONE, PIECE / "config.json"),
        (("reproduce all --no-train --out trained",), Path("trained/results.parquet")),
    ):
        done = command(*arguments)
        assert (done.code, done.out) == (1, "")
        last = done.err.splitlines()[-1]
        assert last.startswith(f"ctlpp: cannot write {file}: No space left on device; what was ")
        assert not list(Path().rglob("*.part"))


def test_a_bug_of_ours_is_not_taken_for_the_users_mistake(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_piece(Path("out"), "ndr-R-clean", [0.5])
    monkeypatch.setattr(page, "write_results", lambda out, page: int("a bug"))
    with pytest.raises(ValueError, match="invalid literal"):
        command("reproduce", "all", "--no-train", "--out", "out")
