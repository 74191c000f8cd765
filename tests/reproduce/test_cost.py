"""Estimates are for orientation: what they must get right is what they depend on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reproduce.small import small_run

from ctlpp.reproduce.pieces import run_status
from ctlpp.reproduce.plan import DEVICES, PlannedRun, plan, seconds

NDR, LSTM = plan("table1", only=["ndr-R-released"])[0], plan("table1", only=["lstm-R-released"])[0]
H200 = Path(__file__).parents[2] / "benchmarks" / "H200.md"


def training(run: PlannedRun, seeds: int) -> float:
    """Seconds of the steps alone."""
    return seconds(run, seeds) - seconds(run, seeds, steps=0)


def test_every_run_of_both_plans_has_a_cost() -> None:
    for device in DEVICES:
        for run in (*plan("all"), *plan("all", "quick")):
            assert seconds(run, len(run.seeds), device) > 0
            assert seconds(run, 0, device) == 0


def test_the_speed_is_the_one_that_was_measured_on_the_h200() -> None:
    row = r"^\| (lstm|transformer|ndr) \| (\d+) \| ([\d.]+) \|"
    measured = re.findall(row, H200.read_text(), flags=re.MULTILINE)
    assert len(measured) == 3 * 7
    for model, crowd, each in measured:
        (run,) = plan("table1", only=[f"{model}-R-released"])
        assert training(run, int(crowd)) == pytest.approx(
            int(crowd) * run.steps * float(each) / 1000, rel=0.01
        )


def test_a_step_takes_longer_and_a_seed_less_the_more_there_are() -> None:
    times = [seconds(NDR, seeds, steps=1_000_000) for seeds in range(1, 101)]
    assert times == sorted(times)
    shares = [time / seeds for seeds, time in enumerate(times, 1)]
    assert shares == sorted(shares, reverse=True)
    assert training(NDR, 200) == 2 * training(NDR, 100)


def test_the_small_batches_of_the_bi_lstm_on_s_are_cheaper() -> None:
    on_s = next(run for run in plan("staged") if run.model == "lstm")
    assert seconds(on_s, 25) < seconds(LSTM, 25) / 2


def test_what_is_saved_need_not_be_paid_again(tmp_path: Path) -> None:
    run = small_run(0, 1, 2, 3, steps=1_000)
    fresh = run_status(tmp_path, run)
    half = replace(fresh, to_do=(replace(fresh.to_do[0], step=500),))
    around = seconds(run, 4, "cpu", steps=0)
    assert half.remaining("cpu") - around == pytest.approx((fresh.remaining("cpu") - around) / 2)
    assert replace(fresh, to_do=()).remaining("cpu") == 0


def test_the_miniature_takes_minutes_on_a_cpu(tmp_path: Path) -> None:
    assert sum(run_status(tmp_path, run).remaining("cpu") for run in plan("all", "quick")) < 6 * 60
