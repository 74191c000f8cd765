"""Estimates are for orientation: what they must get right is what they depend on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reproduce.small import cell

from ctlpp.reproduce.cost import DEVICES, remaining, seconds
from ctlpp.reproduce.pieces import Piece, Standing, stand
from ctlpp.reproduce.plan import plan
from ctlpp.words import duration

NDR, LSTM = plan("table1", only=["ndr-R-released"])[0], plan("table1", only=["lstm-R-released"])[0]


@pytest.mark.parametrize("device", DEVICES)
def test_every_cell_of_both_plans_has_a_cost(device: str) -> None:
    for one in (*plan("all"), *plan("all", "quick")):
        assert seconds(one, len(one.seeds), device) > 0
        assert seconds(one, 0, device) == 0


H200 = Path(__file__).parents[2] / "benchmarks" / "H200.md"
MEASURED = re.findall(
    r"^\| (lstm|transformer|ndr) \| (\d+) \| ([\d.]+) \|", H200.read_text(), flags=re.MULTILINE
)


@pytest.mark.parametrize(("model", "seeds", "each"), MEASURED, ids=lambda value: value)
def test_the_speed_is_the_one_that_was_measured_on_the_h200(model: str, seeds: str, each: str) -> None:
    (one,) = plan("table1", only=[f"{model}-R-released"])
    training = seconds(one, int(seeds)) - seconds(one, int(seeds), steps=0)
    assert training == pytest.approx(int(seeds) * one.steps * float(each) / 1000, rel=0.01)


def test_all_crowds_of_the_table_are_measured_and_larger_ones_take_as_long_a_seed_as_the_largest() -> None:
    assert len(MEASURED) == 3 * 7
    assert seconds(NDR, 200) - seconds(NDR, 200, steps=0) == 2 * (
        seconds(NDR, 100) - seconds(NDR, 100, steps=0)
    )


def test_between_measured_crowds_a_step_takes_longer_and_a_seed_less_the_more_there_are() -> None:
    times = [seconds(NDR, seeds, steps=1_000_000) for seeds in range(1, 101)]
    assert times == sorted(times)
    shares = [time / seeds for seeds, time in enumerate(times, 1)]
    assert shares == sorted(shares, reverse=True)


def test_the_small_batches_of_the_bi_lstm_on_s_are_cheaper() -> None:
    small = next(one for one in plan("staged") if one.model == "lstm")
    assert seconds(small, 25) < seconds(LSTM, 25) / 2


def test_a_few_seeds_cost_more_than_their_share() -> None:
    assert seconds(LSTM, 5) > seconds(LSTM, 25) / 5


def test_what_is_saved_need_not_be_paid_again(tmp_path: Path) -> None:
    one = cell(0, 1, 2, 3, steps=1_000)
    fresh = stand(tmp_path, one)
    half = Standing(one, (), (replace(fresh.to_do[0], step=500),))
    around = seconds(one, 4, "cpu", steps=0)
    assert remaining(half, "cpu") - around == pytest.approx((remaining(fresh, "cpu") - around) / 2)
    assert remaining(Standing(one, (Piece(tmp_path, one.seeds, True),), ()), "cpu") == 0


@pytest.mark.parametrize(
    ("seconds_", "said"),
    [
        (0.4, "0 s"),
        (59.7, "1 min"),
        (3_594, "59 min 50 s"),
        (3_596, "1 h"),
        (8_003, "2 h 10 min"),
        (86_200, "1 day"),
        (280_003, "3.2 days"),
        (40 * 86_400, "40 days"),
        (745 * 86_400, "2 years"),
    ],
)
def test_an_estimate_is_told_no_finer_than_it_is(seconds_: float, said: str) -> None:
    assert duration(seconds_) == said


def test_a_longer_time_is_never_told_as_a_shorter_one() -> None:
    units = {
        "s": 1,
        "min": 60,
        "h": 3_600,
        "day": 86_400,
        "days": 86_400,
        "year": 31_557_600,
        "years": 31_557_600,
    }
    told = []
    for length in (1.01**n for n in range(1, 2_200)):
        words = duration(length).split()
        told.append(
            sum(float(number) * units[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
        )
        assert told[-1] == pytest.approx(length, rel=0.1, abs=0.5)
    assert told == sorted(told)


def test_the_miniature_takes_minutes_on_a_cpu(tmp_path: Path) -> None:
    assert sum(remaining(stand(tmp_path, one), "cpu") for one in plan("all", "quick")) < 6 * 60
