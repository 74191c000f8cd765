"""`ctlpp reproduce` as a user meets it, at a size that trains in seconds."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.reproduce.making import make_piece
from tests.reproduce.small import DATA

import ctlpp.training.train
from ctlpp.reproduce import executing, plan

Command = Callable[..., Any]
Refused = Callable[..., str]
SMALL = ("--scale", "quick", "--device", "cpu", "--out", "out")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {"lstm": 6, "ndr": 2, "transformer": 2}
    size = replace(plan.QUICK, seeds=2, transformers=2, few=1, tables=2, data=DATA, steps=steps)
    monkeypatch.setitem(plan.SIZES, "quick", size)


def test_a_plan_says_what_is_there_what_is_not_and_what_it_costs(command: Command, tmp_path: Path) -> None:
    done = command("reproduce", "table1", "--only", "lstm/R", "--plan", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines() if "lstm-R" in line] == [
        ["lstm-R-released-quick", "2", "0", "2", "6", "3", "s"],
        ["lstm-R-paper-quick", "2", "0", "2", "6", "3", "s"],
    ]
    assert done.out.rstrip().endswith("4 seeds to train: about 6 s on two CPU cores.")
    assert list(tmp_path.iterdir()) == []


def test_the_whole_paper_can_be_planned_for_a_gpu_that_is_not_there(command: Command) -> None:
    done = command("reproduce", "all", "--plan", "--device", "cuda")
    assert done.code == 0
    last = done.out.rstrip().splitlines()[-1]
    assert last.startswith("940 seeds to train: about ")
    assert last.endswith(" on one NVIDIA H200.")


def test_what_the_plan_has_is_trained_and_ends_in_tables_figures_and_a_report(command: Command) -> None:
    done = command("reproduce", "table1", "--only", "lstm/R", "--protocol", "released", *SMALL)
    assert done.code == 0
    assert "1 of 1: lstm on R, released, preset quick, seeds 0-1: " in done.err
    planned = sum(len(cell.seeds) for cell in plan.plan("all", "quick"))
    assert done.out.splitlines() == [
        f"2 of 2 seeds asked for have run; 2 of {planned} planned seeds have run",
        "Tables, figures and report in out",
    ]
    out = Path("out")
    run = out / "runs" / "lstm-R-released-quick" / "0-1"
    assert {path.name for path in run.iterdir()} >= {
        "config.json",
        "metrics.parquet",
        "result.json",
        "analysis",
    }
    assert json.loads((run / "config.json").read_text())["about"] == {"cell": "lstm-R-released-quick"}
    assert "lstm-R-released-quick" in pq.read_table(out / "results.parquet").column("cell").to_pylist()
    assert (out / "report.html").stat().st_size > 10_000
    assert (out / "results.md").is_file()


def test_today_some_seeds_and_tomorrow_the_others(command: Command) -> None:
    asked = ("reproduce", "table1", "--only", "lstm-R-released-quick", "--no-analysis", *SMALL)
    assert command(*asked, "--seeds", "0-1").code == 0
    before = Path("out/runs/lstm-R-released-quick/0-1/result.json").stat().st_mtime_ns
    done = command(*asked, "--seeds", "5", "--seeds-a-piece", "2")
    assert "1 of 2: lstm on R, released, preset quick, seeds 2-3: " in done.err
    assert "2 of 2: lstm on R, released, preset quick, seeds 4-4: " in done.err
    pieces = sorted(path.name for path in Path("out/runs/lstm-R-released-quick").iterdir())
    assert pieces == ["0-1", "2-3", "4-4"]
    assert Path("out/runs/lstm-R-released-quick/0-1/result.json").stat().st_mtime_ns == before
    assert ["lstm-R-released-quick", "5", "5", "0", "6", "–"] in [
        line.split() for line in command(*asked, "--seeds", "5", "--plan").out.splitlines()
    ]
    listed = command(*asked, "--seeds", "6", "--plan").out
    assert ["lstm-R-released-quick", "6", "5", "1"] in [line.split()[:4] for line in listed.splitlines()]


def test_without_training_results_are_made_of_what_is_there(command: Command) -> None:
    command("reproduce", "table1", "--only", "lstm-R-released-quick", "--no-analysis", *SMALL)
    for made in ("results.parquet", "results.md", "report.html"):
        Path("out", made).unlink()
    done = command("reproduce", "all", "--no-train", "--page", "page.md", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert " planned seeds have run\n" in done.out
    assert [path.name for path in Path("out/runs").iterdir()] == ["lstm-R-released-quick"]
    assert all(Path("out", made).is_file() for made in ("results.parquet", "results.md", "report.html"))
    assert Path("page.md").is_file()


@pytest.mark.parametrize("there", [False, True])
def test_without_any_run_and_without_training_there_is_nothing_to_make(refused: Refused, there: bool) -> None:
    if there:
        Path("empty").mkdir()
    line = refused("reproduce", "all", "--no-train", "--out", "empty", "--page", "page.md")
    assert line == "no runs in empty: name the --out of an earlier ctlpp reproduce, or leave out --no-train"


def test_small_leaves_small_files_only(command: Command) -> None:
    done = command(
        "reproduce", "table1", "--only", "lstm-R-released-quick", "--small", "--keep-weights", "1", *SMALL
    )
    assert done.code == 0
    run = Path("out/runs/lstm-R-released-quick/0-1")
    assert not (run / "checkpoint").exists()
    assert len(list((run / "weights").iterdir())) == 1
    assert (run / "analysis" / "analysis.json").is_file()


def test_a_failure_is_reported_at_the_end_with_exit_code_1_and_taken_up_with_retry(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("reproduce", "table1", "--only", "lstm/R", "--no-analysis", *SMALL)
    train = ctlpp.training.train.train

    def unlucky(model: str, data: Any, **given: Any) -> Any:
        if data.task.protocol == "released":
            raise RuntimeError("no luck")
        return train(model, data, **given)

    with monkeypatch.context() as patch:
        patch.setattr(ctlpp.training.train, "train", unlucky)
        done = command(*asked)
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        "out/runs/lstm-R-released-quick/0-1 failed: RuntimeError: no luck",
        "ctlpp: 1 of the runs failed; try them again with --retry, or remove a folder to begin it anew",
    ]
    assert Path("out/runs/lstm-R-paper-quick/0-1/result.json").is_file()
    listed = command(*asked, "--plan").out
    assert (
        "out/runs/lstm-R-released-quick/0-1 failed: RuntimeError: no luck; --retry takes it up again."
        in listed
    )
    assert command(*asked).code == 1
    assert command(*asked, "--retry").code == 0
    assert command(*asked).code == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "table2",
            "unknown experiment 'table2': choose from table1, staged, similarity, repeats, tables, all",
        ),
        (
            "all --only lstm",
            "--only lstm: choose from lstm/A, lstm/R, ndr/A, ndr/R, transformer/A, transformer/R, "
            "ndr/S, lstm/S, transformer/S, or the name of a cell (see --plan)",
        ),
        (
            "similarity --only lstm/S",
            "--only lstm/S is of staged, not of similarity: choose from ndr/R, ndr/A, "
            "or the name of a cell (see --plan)",
        ),
        (
            "similarity --only lstm-A-released",
            "--only lstm-A-released is of table1, repeats, not of "
            "similarity: choose from ndr/R, ndr/A, or the name of a cell (see --plan)",
        ),
        ("all --seeds x", "--seeds x: write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7"),
        ("all --device tpu", "--device tpu: choose from auto, cpu, cuda"),
        ("all --plan --device tpu", "--device tpu: choose from auto, cpu, cuda"),
        ("all --device cuda", "--device cuda: PyTorch finds no CUDA GPU on this machine; use cpu"),
        ("all --scale tiny", "--scale tiny: choose from full, quick"),
        ("all --protocol text", "--protocol text: choose from paper, released"),
        ("all --preset fast", "--preset fast: choose from released, paper, quick"),
        ("all --minutes -1", "--minutes -1.0: must be 0 or more"),
        ("all --seeds-a-piece 0", "--seeds-a-piece 0: must be 1 or more"),
        ("all --small --keep-weights -1", "--keep-weights -1: must be 0 or more"),
        ("all --keep-weights 3", "--keep-weights 3 is for small files: without --small all weights are kept"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(refused: Refused, arguments: str, line: str) -> None:
    assert refused("reproduce", *arguments.split()) == line


def test_a_place_that_is_no_folder_is_refused(refused: Refused) -> None:
    Path("out").write_text("mine")
    found = refused("reproduce", "all", *SMALL)
    assert found == "cannot make the folder out: File exists; choose another"


def test_a_run_of_another_version_is_refused_before_anything_is_trained(
    command: Command, refused: Refused
) -> None:
    command("reproduce", "table1", "--only", "lstm-R-released-quick", "--no-analysis", *SMALL)
    run = Path("out/runs/lstm-R-released-quick/0-1")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"format": 99, "versions": {"ctlpp": "9.0"}}))
    line = refused("reproduce", "table1", *SMALL)
    assert line == f"{run} was written by another version of ctlpp (9.0): choose another folder with --out"


def test_a_run_of_another_plan_is_refused_before_anything_is_trained(
    command: Command, refused: Refused
) -> None:
    command("reproduce", "table1", "--only", "lstm-R-released-quick", "--no-analysis", *SMALL)
    source = Path("out/runs/lstm-R-released-quick")
    shutil.copytree(source, "out/runs/lstm-R-paper-quick")
    line = refused("reproduce", "table1", *SMALL)
    assert line == (
        "the run in out/runs/lstm-R-paper-quick/0-1 has protocol released, the plan paper:"
        " choose another folder with --out"
    )


def test_results_that_do_not_fit_on_the_disk_are_one_line_and_exit_code_1(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(out: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out/results.md")

    make_piece(Path("out"), "ndr-R-released", [0.5])
    monkeypatch.setattr(executing, "write_results", full)
    done = command("reproduce", "all", "--no-train", *SMALL)
    assert (done.code, done.out) == (1, "")
    assert done.err == "ctlpp: cannot write out/results.md: No space left on device; make room and go on\n"


def test_a_bug_of_ours_is_not_taken_for_the_users_mistake(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_piece(Path("out"), "ndr-R-released", [0.5])
    monkeypatch.setattr(executing, "write_results", lambda out: int("a bug"))
    with pytest.raises(ValueError, match="invalid literal"):
        command("reproduce", "all", "--no-train", *SMALL)
