"""Plans on a real cluster whose workers, scheduler and client die, have no disk space, or other versions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.plans.local_cluster import Cluster
from tests.plans.small import DATA, small_run

import ctlpp
from ctlpp.files import TimeUp, UserError
from ctlpp.plans.cluster import connect
from ctlpp.plans.pieces import Piece
from ctlpp.plans.planned import PlannedRun
from ctlpp.plans.sweep_file import plan_sweep, read_sweep
from ctlpp.plans.work import MachineError, Outcome, WorkSettings, carry_out

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals, no forks")
PLAIN = WorkSettings(device="cpu", analysis=False)
LONG = small_run(0, 1, steps=220)
OFTEN = ("checkpoint_minutes", 0.0005)


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """A scheduler that has no workers yet."""
    yield running_cluster
    running_cluster.kill_workers()


class Log:
    """What observers of all pieces were told; calls `react` at every step."""

    def __init__(self, react: Callable[[str, int], None] = lambda worker, step: None) -> None:
        self.react = react
        self.workers: list[str] = []
        self.starts: list[int] = []
        self.notes: list[str] = []

    def watch(self, title: str, piece: Piece) -> object:
        return SimpleNamespace(
            assigned=self.workers.append,
            on_start=lambda config, step: self.starts.append(step),
            on_note=self.notes.append,
            on_step=lambda stats: self.react(self.workers[-1], stats.step),
        )


def train(cluster: Cluster, out: Path, *plan: PlannedRun, log: Log | None = None, **changes: Any) -> Outcome:
    settings = replace(PLAIN, on=cluster.address, **changes)
    return carry_out(plan, out, settings, (log or Log()).watch)


def results(out: Path) -> dict[str, Any]:
    """Everything that a result consists of, by piece."""
    found = {}
    for path in sorted(out.glob("runs/*/*/result.json")):
        seeds = json.loads(path.read_text())["seeds"]
        found[str(path.parent.relative_to(out))] = seeds, pq.read_table(path.with_name("metrics.parquet"))
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of LONG in one process."""
    out = tmp_path_factory.mktemp("undisturbed")
    carry_out([LONG], out, PLAIN)
    return results(out)


@pytest.mark.parametrize("fault", ["", "own folder"])
def test_results_equal_those_of_one_process_also_if_workers_do_not_see_the_folder(
    cluster: Cluster, tmp_path: Path, fault: str
) -> None:
    plan = [small_run(0, 1, 2, 4), small_run(0, variant="A")]
    for _ in range(2):
        cluster.add(fault)
    outcome = train(cluster, tmp_path / "many", *plan, seeds_a_piece=2)
    assert len(outcome.done) == 4
    assert outcome.seeds == 5
    carry_out(plan, tmp_path / "one", replace(PLAIN, seeds_a_piece=2))
    assert results(tmp_path / "many") == results(tmp_path / "one")
    assert train(cluster, tmp_path / "many", *plan, seeds_a_piece=2) == Outcome(seeds=5)
    assert not list(tmp_path.rglob("*.marker"))


@pytest.mark.parametrize("fault", ["", "own folder"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_piece_whose_worker_is_killed_or_asked_to_leave_goes_on_elsewhere(
    cluster: Cluster, tmp_path: Path, undisturbed: Any, fault: str, number: signal.Signals
) -> None:
    cluster.add(fault)
    killed: list[int] = []

    def kill(worker: str, step: int) -> None:
        if not killed and step > 30:
            process = cluster.workers[worker]
            cluster.add(fault)
            os.kill(process.pid or 0, number)
            killed.append(step)

    run = replace(LONG, changes=(*LONG.changes, OFTEN)) if number == signal.SIGKILL else LONG
    log = Log(kill)
    assert len(train(cluster, tmp_path, run, log=log).done) == 1
    assert len(log.starts) == 2
    assert log.starts[1] > (30 if number == signal.SIGTERM else 0)  # what was saved can be reached from here
    assert results(tmp_path) == undisturbed


def test_a_worker_with_a_full_disk_takes_no_more_pieces_and_blames_none(
    cluster: Cluster, tmp_path: Path, undisturbed: Any
) -> None:
    cluster.add("disk")
    (full,), log = cluster.workers, Log()

    def more(worker: str, step: int) -> None:
        if len(cluster.workers) == 1:
            cluster.add()

    log.react = more
    assert len(train(cluster, tmp_path, LONG, log=log).done) == 1
    assert log.workers[0] == full != log.workers[-1]
    (line,) = [line for line in log.notes if "takes no more pieces" in line]
    assert line.startswith(f"{full} takes no more pieces: cannot write {tmp_path}/runs/")
    assert "File too large" in line
    assert results(tmp_path) == undisturbed
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    ("fault", "threads", "line"),
    [
        ("version", 1, f"it has ctlpp 0.0.1, the client {ctlpp.__version__}: install the same"),
        ("", 2, "it has 2 threads, each would train: start it with --nthreads 1"),
    ],
)
def test_a_worker_that_would_compute_something_else_is_refused_in_one_line(
    cluster: Cluster, tmp_path: Path, fault: str, threads: int, line: str
) -> None:
    cluster.add(fault, threads)
    (worker,) = cluster.workers
    log = Log()
    with pytest.raises(MachineError, match=f"^{re.escape(line)}$"):
        train(cluster, tmp_path, LONG, log=log)
    assert log.notes == [f"{worker} takes no more pieces: {line}"]
    assert not list(tmp_path.rglob("config.json"))
    assert not list(tmp_path.rglob("*.failed.json"))


def test_own_code_reaches_the_workers_and_what_fails_three_times_is_set_aside(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "parts_of_mine.py").write_text("from torch import nn\n\nLayer = nn.Linear\n")
    (tmp_path / "nets_of_mine.py").write_text(CODE)
    rows = [row | {"data": dict(DATA), "seeds": 1, "preset": "quick", "steps": 4} for row in OWN]
    plan = plan_sweep(rows, tmp_path)
    assert list(plan[0].about["code"]) == ["parts_of_mine.py", "nets_of_mine.py"]
    cluster.add()
    log, out = Log(), tmp_path / "out"
    outcome = train(cluster, out, *plan, log=log)
    good, bad = (out / "runs" / name / "0-0" for name in ("good", "bad"))
    reason = "model 'nets_of_mine:bad': the factory raised RuntimeError: no luck"
    assert outcome == Outcome(done=[good], failed={bad: reason}, seeds=1)
    assert log.notes.count(f"failed: {reason}") == 3
    assert "no luck" in json.loads(bad.with_name("0-0.failed.json").read_text())["traceback"][-1]
    assert json.loads((good / "config.json").read_text())["about"]["code"] == plan[0].about["code"]
    (tmp_path / "parts_of_mine.py").write_text("from torch import nn\n\nLayer = nn.Linear  # another\n")
    with pytest.raises(UserError, match="was trained with other code of its model: choose another out"):
        train(cluster, out, *plan_sweep(rows, tmp_path))


def test_two_sweeps_may_have_files_of_the_same_name(cluster: Cluster, tmp_path: Path) -> None:
    plans, row = [], OWN[1] | {"data": dict(DATA), "seeds": 2, "preset": "quick", "steps": 20}
    for width in (4, 5):
        folder = tmp_path / str(width)
        folder.mkdir()
        (folder / "parts_of_mine.py").write_text("from torch import nn\n\nLayer = nn.Linear\n")
        (folder / "nets_of_mine.py").write_text(CODE.replace("4", str(width)))
        plans.append(plan_sweep([row], folder))
    cluster.add()
    others: list[Outcome] = []

    def another(worker: str, step: int) -> None:
        if not others:
            others.append(Outcome())  # once
            others.append(train(cluster, tmp_path / "5", *plans[1], seeds_a_piece=1))

    log = Log(another)
    outcome = train(cluster, tmp_path / "4", *plans[0], log=log, seeds_a_piece=1)
    for width, done in ((4, outcome.done), (5, others[1].done)):
        assert len(done) == 2
        configs = [json.loads((folder / "config.json").read_text()) for folder in done]
        assert {config["parameters"] for config in configs} == {13 * width + 4 * width + 4}
    assert not [line for line in log.notes if "takes no more pieces" in line]


CODE = """
from torch import nn
from parts_of_mine import Layer

class Net(nn.Module):
    def __init__(self, vocab_size, n_classes):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocab_size, 4), Layer(4, n_classes)

    def forward(self, tokens):
        return self.out(self.embed(tokens).sum(1))

def bad(vocab_size, n_classes):
    raise RuntimeError("no luck")
"""
OWN = [
    {"name": "bad", "model": "nets_of_mine:bad", "variant": "R"},
    {"name": "good", "model": "nets_of_mine:Net", "variant": "R"},
]


def test_a_cluster_without_workers_or_with_one_that_lacks_ctlpp_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    try:
        cluster.add("nothing installed")
        with pytest.raises(UserError, match=r"^workers cannot import ctlpp: .*No module named"):
            train(cluster, tmp_path, LONG)
        cluster.kill_workers()
        with pytest.raises(TimeUp):
            train(cluster, tmp_path, LONG, seeds_a_piece=2, minutes=0.01)
    finally:
        cluster.close()
    waiting = f"no worker yet: waiting for the first on {cluster.address}\n"
    assert waiting in capsys.readouterr().err
    assert not list(tmp_path.rglob("config.json"))


def test_a_cluster_whose_last_worker_has_left_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    process = cluster.add()
    log = Log(lambda worker, step: process.terminate())
    with pytest.raises(TimeUp):
        train(cluster, tmp_path, LONG, log=log, minutes=0.15)
    assert "no worker is left: waiting for another" in log.notes


def test_local_workers_compute_with_one_thread_and_keep_the_memory_that_a_step_will_want_again() -> None:
    with connect(WorkSettings(on="local", workers=1)) as client:
        names = ("OMP_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
        assert client.gather([client.submit(os.environ.get, name) for name in names]) == ["1", None]


def test_a_finished_plan_needs_no_cluster(tmp_path: Path) -> None:
    run = small_run(0)
    carry_out([run], tmp_path, PLAIN)
    assert carry_out([run], tmp_path, replace(PLAIN, on="tcp://127.0.0.1:9")) == Outcome(seeds=1)


def test_a_piece_that_takes_too_much_memory_is_set_aside_after_some_workers_died_of_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "hungry_nets.py").write_text(HUNGRY)
    common = {"variant": "R", "data": dict(DATA), "seeds": 1, "preset": "quick", "steps": 400}
    rows = [common | {"name": name, "model": f"hungry_nets:{name}"} for name in ("Hungry", "Net")]
    cluster.add("memory")
    log, out = Log(), tmp_path / "out"
    outcome = train(cluster, out, *plan_sweep(rows, tmp_path), log=log)
    good, bad = (out / "runs" / name / "0-0" for name in ("Net", "Hungry"))
    assert outcome.done == [good]
    assert list(outcome.failed) == [bad]
    line = r"its worker died, [34] times in a row at step 0: above the memory limit that Dask gives it"
    assert re.fullmatch(line, outcome.failed[bad])
    assert len([line for line in log.notes if line.startswith("goes on at step 0 on tcp://")]) >= 2


HUNGRY = """
from torch import nn

class Net(nn.Module):
    def __init__(self, vocab_size, n_classes):
        super().__init__()
        self.embed, self.out, self.kept = nn.Embedding(vocab_size, 4), nn.Linear(4, n_classes), []

    def forward(self, tokens):
        return self.out(self.embed(tokens).sum(1))

class Hungry(Net):
    def forward(self, tokens):
        self.kept.append(bytearray(20_000_000))
        return super().forward(tokens)
"""


def test_when_the_scheduler_is_killed_the_same_command_goes_on_with_another(
    tmp_path: Path, undisturbed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Cluster(), Cluster()
    try:
        first.add()
        log = Log(lambda worker, step: first.scheduler.kill() if step == 20 else None)
        with pytest.raises(MachineError, match=r"^the scheduler is gone: the same command goes on when"):
            train(first, tmp_path, LONG, log=log)
        second.add()
        log = Log()
        assert len(train(second, tmp_path, LONG, log=log).done) == 1
        assert log.starts[0] >= 20
        assert caplog.records == []  # nothing of Dask's own beside that line
        assert results(tmp_path) == undisturbed
    finally:
        first.close()
        second.close()


def test_when_the_client_is_killed_workers_save_and_stop_and_the_same_command_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    row = {"name": "one", "model": "lstm", "variant": "R", "seeds": 2, "preset": "quick", "steps": 400}
    (tmp_path / "file.py").write_text(f"RUNS = {[row | {'data': dict(DATA)}]}")
    more = ("--on", cluster.address, "--device", "cpu")
    command = [sys.executable, "-m", "ctlpp", "sweep", "file.py", "--out", "out", *more]
    cluster.add()
    piece = tmp_path / "out" / ".pieces" / "runs" / "one" / "0-1"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as client:
        while not (piece / "config.json").exists():
            assert client.poll() is None
            time.sleep(0.05)
        client.kill()
    while not list(piece.glob("checkpoint/*.json")):
        time.sleep(0.05)
    (saved,) = piece.glob("checkpoint/*.json")
    assert saved.stem < "step-000000400"
    log = Log()
    (run,) = read_sweep(tmp_path / "file.py")
    assert len(train(cluster, tmp_path / "out" / ".pieces", run, log=log).done) == 1
    assert log.starts == [int(saved.stem.removeprefix("step-"))]


def test_two_clients_on_one_folder_do_not_do_the_same_work(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add()
    plan = [LONG, small_run(0, variant="A")]
    others: list[Outcome] = []

    def another(worker: str, step: int) -> None:
        if not others:
            others.append(Outcome())  # once
            others.append(train(cluster, tmp_path, LONG))

    outcome = train(cluster, tmp_path, *plan, log=Log(another))
    assert len(outcome.done) == 2
    assert (others[1].done, others[1].busy) == ([], [outcome.done[0]])
