"""Estimates are for orientation: what they must get right is what they depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.reproduce.small import cell

from ctlpp.reproduce.cost import DEVICES, remaining, seconds
from ctlpp.reproduce.pieces import Piece, Standing, stand
from ctlpp.reproduce.plan import plan

NDR, LSTM = plan("table1", only=["ndr-R-released"])[0], plan("table1", only=["lstm-R-released"])[0]


@pytest.mark.parametrize("device", DEVICES)
def test_every_cell_of_both_plans_has_a_cost(device: str) -> None:
    for one in (*plan("all"), *plan("all", "quick")):
        assert seconds(one, len(one.seeds), device) > 0
        assert seconds(one, 0, device) == 0


def test_the_speed_is_the_one_that_was_measured_on_the_h200() -> None:
    training = seconds(NDR, 25) - seconds(NDR, 25, steps=0)
    assert training == pytest.approx(25 * 80_000 * 0.59e-3)


def test_a_few_seeds_cost_more_than_their_share() -> None:
    assert seconds(LSTM, 5) > seconds(LSTM, 25) / 5


def test_what_is_saved_need_not_be_paid_again(tmp_path: Path) -> None:
    one = cell(0, 1, 2, 3, steps=1_000)
    fresh = stand(tmp_path, one)
    half = Standing(one, (), (replace(fresh.to_do[0], step=500),))
    around = seconds(one, 4, "cpu", steps=0)
    assert remaining(half, "cpu") - around == pytest.approx((remaining(fresh, "cpu") - around) / 2)
    assert remaining(Standing(one, (Piece(tmp_path, one.seeds, True),), ()), "cpu") == 0


def test_the_miniature_takes_minutes_on_a_cpu(tmp_path: Path) -> None:
    assert sum(remaining(stand(tmp_path, one), "cpu") for one in plan("all", "quick")) < 6 * 60
