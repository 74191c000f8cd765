"""`ctlpp demo`, shortened: it runs, can be repeated, and its claim holds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from subprocess import PIPE
from typing import Any

import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.cli import reproduce
from ctlpp.reproduce.plan import DEMO_DATA, demo_plan
from ctlpp.training.recipe import recipe_for
from ctlpp.training.train import train

README = [
    " ".join(line.split())
    for line in (Path(__file__).parents[2] / "README.md").read_text().splitlines()
    if line.startswith(("variant  model", "R        ", "A        "))
]


def shown(variant: str, model: str) -> list[float]:
    """The README's row: IID with its deviation, OOD with its deviation, seeds above 0.95."""
    row = next(line for line in README if line.startswith(f"{variant} {model} "))
    return [float(number) for number in re.findall(r"\d[\d.]*", row)[:5]]


def test_the_demo_ends_with_a_table_and_a_page_and_can_be_repeated(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctlpp.reproduce.plan.DEMO_MODELS", ("lstm",))  # the figures of each take long
    with monkeypatch.context() as patch:
        patch.setattr(reproduce, "find_spec", lambda name: None)  # Dask is an extra
        first = command("demo --seeds 1 --steps 2")
    assert first.code == 0
    for words in ("2,200 train", "proved", "lstm", "IID", "OOD", README[0]):
        assert words in " ".join(first.out.split())
    assert {path.name for path in Path("demo/runs").iterdir()} == {run.name for run in demo_plan()}
    assert Path("demo/report.html").stat().st_size > 10_000
    second = command("demo --seeds 1 --steps 2")
    assert (second.code, second.err, second.out) == (0, "", first.out)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`ctlpp demo` with workers that have begun to train."""
    command = [sys.executable, "-m", "ctlpp", "demo", "--out", str(tmp_path), "--seeds", "1"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as process:
        while not list(tmp_path.glob("runs/*/*/config.json")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        yield process


@pytest.mark.skipif(os.name == "nt", reason="no groups of processes")
def test_ctrl_c_ends_the_demo_begins_nothing_more_and_says_how_to_go_on(
    training: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.killpg(training.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, errors = training.communicate(timeout=60)
    assert training.returncode == 130
    last = errors.splitlines()[-1]
    assert last == f"ctlpp: interrupted; go on with: ctlpp demo --out {tmp_path} --seeds 1"
    assert len(list(tmp_path.glob("runs/*"))) <= (os.cpu_count() or 1)


def test_when_the_demo_is_killed_no_worker_goes_on(training: subprocess.Popen[str]) -> None:
    psutil = pytest.importorskip("psutil")  # comes with Dask
    workers = psutil.Process(training.pid).children(recursive=True)
    training.kill()
    assert workers
    assert not psutil.wait_procs(workers, timeout=30)[1]


@pytest.mark.parametrize("variant", "RA")
def test_the_lstm_composes_as_the_readme_shows(variant: str) -> None:
    recipe = recipe_for("lstm", "quick")
    data = generate(variant, **DEMO_DATA)
    run = train("lstm", data, seeds=range(4), preset="quick", recipe=recipe, device="cpu", observers=[])
    iid, ood = ([row[split] for row in run.table()] for split in ("iid", "ood"))
    found = [fmean(iid), stdev(iid), fmean(ood), stdev(ood)]
    *numbers, solved = shown(variant, "lstm")
    assert found == pytest.approx(numbers, abs=0.03)  # other processors add in another order
    assert sum(one > 0.95 for one in ood) == pytest.approx(solved, abs=1)


def test_the_ndr_fails_to_although_it_fits() -> None:
    """As the demo trains it, but one seed, and only until it fits: from then on OOD stays where it is."""
    data = generate("R", **DEMO_DATA)
    until_it_fits = recipe_for(
        "ndr", "quick", early_stop=1, eval_every=100, settled_accuracy=0.93, settled_change=1.0
    )
    run = train("ndr", data, seeds=[1], preset="quick", recipe=until_it_fits, device="cpu", observers=[])
    (row,) = run.table()
    iid, iid_std, ood, ood_std, _ = shown("R", "ndr")
    assert row["iid"] == pytest.approx(iid, abs=2 * iid_std)
    assert row["ood"] == pytest.approx(ood, abs=ood_std)
