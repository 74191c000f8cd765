"""`ctlpp reproduce` in a process of its own that is killed, interrupted or crowded out."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pyarrow.parquet as pq
import pytest

from ctlpp.plans.pieces import saved_step

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals and no file locks")

RUN = Path("runs/lstm-R-clean-quick/0-1")
SCRIPT = """
import sys
from dataclasses import replace
from ctlpp.plans import planned
from ctlpp.reproduce import plan
from ctlpp.reproduce import page
page.write_results = lambda out, page=None: ""
planned.CHECKPOINTS["checkpoint_minutes"] = 0.0005
small = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 30}
steps = {"lstm": int(sys.argv.pop(1))}
plan.SCALES["quick"] = replace(plan.SCALES["quick"], small={"R": small}, steps=steps)
from ctlpp.cli.main import main
main()
"""
ASKED = ("reproduce", "table1", "--only", "lstm-R-clean-quick", "--scale", "quick", "--no-analysis")


class Processes:
    """Commands in processes of their own."""

    def __init__(self, folder: Path, preloaded: list[str]) -> None:
        self.folder, self.preloaded = folder, preloaded

    def start(self, steps: int, out: str, *more: str, python: Any = (sys.executable,)) -> Any:
        command = [*python, "-c", SCRIPT, str(steps), *ASKED, "--out", out, *more]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "1000"}
        return subprocess.Popen(
            command, stdout=PIPE, stderr=PIPE, text=True, cwd=self.folder, env=environment
        )

    def finish(self, steps: int, out: str, *more: str) -> tuple[int, str]:
        """Wait for the end of one: its exit code and what it said on stderr."""
        process = self.start(steps, out, *more, python=self.preloaded)
        errors = process.communicate()[1]
        return process.returncode, errors


@pytest.fixture
def processes(tmp_path: Path, preloaded: list[str]) -> Processes:
    return Processes(tmp_path, preloaded)


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_killed_at_random_moments_it_ends_as_if_nothing_had_happened(
    processes: Processes, tmp_path: Path
) -> None:
    steps, chance = 200, random.Random(3)
    assert processes.finish(steps, "whole")[0] == 0
    reached = [0]
    for _ in range(2):
        process = processes.start(steps, "cut", "--small")
        wait_until(lambda: saved_step(tmp_path / "cut" / RUN) > reached[-1], process)
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        process.communicate()
        reached.append(saved_step(tmp_path / "cut" / RUN))
    code, errors = processes.finish(steps, "cut", "--small")
    assert code == 0, errors
    assert reached == sorted(set(reached))
    assert f"steps, resumed at step {reached[-1]:,}" in errors
    results, histories = [], []
    for out in ("whole", "cut"):
        results.append(json.loads((tmp_path / out / RUN / "result.json").read_text())["seeds"])
        histories.append(pq.read_table(tmp_path / out / RUN / "metrics.parquet"))
    assert results[0] == results[1]
    assert histories[0] == histories[1]
    assert not (tmp_path / "cut" / RUN / "checkpoint").exists()
    assert not list((tmp_path / "cut").rglob("*.part"))


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, preloaded: list[str]) -> Iterator[Processes]:
    """A folder `out` in which another process is at seeds 0 and 1, and takes its time."""
    processes = Processes(tmp_path_factory.mktemp("busy"), preloaded)
    first = processes.start(100_000, "out", "--seeds", "0-1")
    wait_until(lambda: saved_step(processes.folder / "out" / RUN) > 0, first)
    first.send_signal(signal.SIGSTOP)
    yield processes
    first.kill()
    first.communicate()


def test_a_second_process_is_told_in_one_line_that_there_is_nothing_left_for_it(busy: Processes) -> None:
    code, errors = busy.finish(100_000, "out")
    assert code == 2
    assert errors.splitlines() == [
        "1 of 1: lstm-R-clean-quick, seeds 0-1: another process is at it; left to that one",
        f"ctlpp: out/{RUN} is in use by another process: wait for it, or choose other runs or seeds",
    ]


def test_two_processes_share_a_run_by_seeds_and_one_whose_minutes_are_over_says_how_to_go_on(
    busy: Processes,
) -> None:
    more = ("--seeds", "2-3", "--minutes", "0.02")
    code, errors = busy.finish(100_000, "out", *more)
    assert code == 124
    assert "1 of 1: lstm-R-clean-quick, seeds 2-3: " in errors
    run, last = RUN.with_name("2-3"), errors.splitlines()[-1]
    assert {path.name for path in (busy.folder / "out" / RUN.parent).iterdir()} == {RUN.name, run.name}
    assert last.startswith("ctlpp: ")
    assert last.endswith(f"; go on with: ctlpp {' '.join(ASKED)} --out out {' '.join(more)}")
    assert f"step {saved_step(busy.folder / 'out' / run)} is saved in out/{run}" in last
