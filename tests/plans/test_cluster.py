"""Plans on a real cluster whose workers, scheduler and client die, run out of disk, or are unfit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.plans.crew import Cluster
from tests.plans.small import small_run

from ctlpp.plans.pieces import Piece
from ctlpp.plans.planned import PlannedRun
from ctlpp.plans.work import Outcome, WorkSettings, carry_out

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals, no forks")
PLAIN = WorkSettings(device="cpu", analysis=False)
LONG = small_run(0, 1, steps=150)
OFTEN = ("checkpoint_minutes", 0.0005)


@pytest.fixture(scope="module")
def standing() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(standing: Cluster) -> Iterator[Cluster]:
    """A scheduler that has no workers yet."""
    yield standing
    standing.send_away()


class Log:
    """What observers of all pieces were told; calls `react` at every step."""

    def __init__(self, react: Callable[[str, int], None] = lambda where, step: None) -> None:
        self.react = react
        self.places: list[str] = []
        self.starts: list[int] = []
        self.notes: list[str] = []

    def watch(self, title: str, piece: Piece) -> object:
        return SimpleNamespace(
            placed=self.places.append,
            on_start=lambda config, step: self.starts.append(step),
            on_note=self.notes.append,
            on_step=lambda stats: self.react(self.places[-1], stats.step),
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


@pytest.mark.parametrize("fault", ["", "apart"])
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
    assert not list(tmp_path.rglob("*.mark"))


@pytest.mark.parametrize("fault", ["", "apart"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_piece_whose_worker_is_killed_or_asked_to_leave_goes_on_elsewhere(
    cluster: Cluster, tmp_path: Path, undisturbed: Any, fault: str, number: signal.Signals
) -> None:
    cluster.add(fault)
    killed: list[int] = []

    def kill(where: str, step: int) -> None:
        if not killed and step > 30:
            process = cluster.workers[where]
            cluster.add(fault)
            os.kill(process.pid or 0, number)
            killed.append(step)

    run = replace(LONG, changes=(*LONG.changes, OFTEN)) if number == signal.SIGKILL else LONG
    log = Log(kill)
    assert len(train(cluster, tmp_path, run, log=log).done) == 1
    assert len(log.starts) == 2
    assert log.starts[1] > (30 if number == signal.SIGTERM else 0)  # what was saved can be reached from here
    assert results(tmp_path) == undisturbed
