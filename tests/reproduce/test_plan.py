"""The plan is the paper's appendix: who is trained on what, how long, and what it costs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.plans.small import small_run

import ctlpp
from ctlpp.benchmark.variants import Settings
from ctlpp.plans.pieces import run_status
from ctlpp.plans.planned import DEVICES, REPEATS, PlannedRun, current_name, seconds
from ctlpp.reproduce.plan import EXPERIMENTS, SCALES, SETTLED, demo_plan, plan

H200 = Path(__file__).parents[2] / "benchmarks" / "H200.md"


def names(runs: list[PlannedRun]) -> list[str]:
    return [run.name for run in runs]


def to_train(*arguments: Any, **more: Any) -> list[PlannedRun]:
    return [run for run in plan(*arguments, **more) if not run.ended]


def test_seeds_steps_and_cells_are_those_of_the_paper() -> None:
    sizes = {(run.model, len(run.seeds), run.steps) for run in plan("table1")}
    assert sizes == {("lstm", 25, 80_000), ("ndr", 25, 80_000), ("transformer", 50, 300_000)}
    seeds = {"ndr": 5, "lstm": 5, "transformer": 3}
    assert {(run.model, len(run.seeds)) for run in to_train("staged")} == {*seeds.items()}
    cells = [f"{model}-S-authors-o{o}-s{s}" for model in seeds for o in (4, 8, 12, 16) for s in range(2, 7)]
    assert names(to_train("staged")) == cells
    assert {run.protocol for run in to_train("all") if "data" not in run.experiments} == {"authors"}


def test_the_experiment_data_switches_one_thing_at_a_time() -> None:
    for run in plan("data"):
        base = Settings(variant="A", protocol=run.protocol)
        other = Settings(variant="A", **run.options)
        (switched,) = {*run.options} - {"protocol"}
        assert getattr(base, switched) != getattr(other, switched)
        assert replace(other, **{switched: getattr(base, switched)}) == base


def test_what_has_ended_is_in_the_plan_and_nothing_of_it_is_to_be_trained(tmp_path: Path) -> None:
    ended = [run for run in plan("all") if run.ended]
    assert {run.protocol for run in ended} == {"clean", "text"}
    assert all(run_status(tmp_path, run).to_do == () for run in ended)


def test_runs_with_repeats_stand_beside_those_that_differ_in_nothing_else() -> None:
    runs = {run.name: run for run in plan("all")}
    repeated = plan("repeats")
    assert len(repeated) == 6
    for run in repeated:
        plain = runs[run.name.removesuffix("-repeats")]
        assert run.setting(**{REPEATS: None}) == plain.setting() != run.setting()
        assert run.options == plain.options | {REPEATS: "n/7"}


def test_all_has_every_run_of_every_experiment_once_with_all_its_seeds() -> None:
    whole = {run.name: run for run in plan("all")}
    assert len(whole) == len(plan("all"))
    for word in EXPERIMENTS:
        for run in plan(word):
            assert {*run.seeds} <= {*whole[run.name].seeds}
            assert word in whole[run.name].experiments
    assert whole["ndr-R-authors"].experiments == ("table1", "similarity", "tables")


def test_the_miniature_is_the_paper_on_other_data_and_shares_no_folder_with_the_full_plan() -> None:
    full, quick = plan("all", "full"), plan("all", "quick")
    assert {word for run in quick for word in run.experiments} == {"table1", "staged", "similarity"}
    assert {run.protocol for run in plan("table1", "quick")} == {"clean", "text"}
    assert not {*names(full)} & {*names(quick)}


def test_runs_that_stop_when_nothing_changes_any_more_are_runs_of_their_own() -> None:
    whole, early = to_train("table1"), plan("table1", until="settled")
    assert names(early) == [f"{name}-until-settled" for name in names(whole)]
    for run, other in zip(whole, early, strict=True):
        assert replace(run.recipe, **dict(SETTLED)) == other.recipe != run.recipe


def test_old_names_are_understood() -> None:
    assert current_name("ndr-S-released-o16-s6") == "ndr-S-clean-o16-s6"
    assert plan("all", only=["lstm-A-released-repeats"]) == plan("all", only=["lstm-A-clean-repeats"])
    assert plan("table1", protocol="paper", preset="released") == plan("table1", protocol="text")


@pytest.mark.parametrize("scale", SCALES)
def test_every_run_asks_for_data_that_can_be_drawn_and_is_saved_once_a_minute(scale: str) -> None:
    runs = plan("all", scale)
    assert all(run.recipe.checkpoint_minutes <= 1 for run in (*runs, *demo_plan()))
    for variant, data in {(run.variant, run.data + run.small) for run in runs}:
        Settings(variant=variant, **{name: value for name, value in data if name != REPEATS})
        if scale == "quick":
            assert ctlpp.generate(variant, **dict(data)).size("train") >= dict(data)["train"]


def test_seeds_protocol_or_preset_take_the_place_of_the_planned_ones() -> None:
    assert {run.seeds for run in plan("all", seeds=[3, 7])} == {(3, 7)}
    assert {run.protocol for run in plan("all", protocol="authors")} == {"authors"}
    changed = plan("table1", only=["ndr/R"], protocol="clean", preset="text")
    assert names(changed) == ["ndr-R-clean-text-preset"]
    assert plan("all", "quick", preset="quick") == plan("all", "quick")


def test_only_takes_a_model_and_a_variant_or_the_name_of_a_run() -> None:
    chosen = plan("all", only=["lstm-A-text", "ndr/A"])
    assert {*names(chosen)} >= {"lstm-A-text", "ndr-A-authors", "ndr-A-authors-table0", "ndr-A-clean"}
    assert {f"{run.model}/{run.variant}" for run in chosen} == {"lstm/A", "ndr/A"}


WORDS = "table1, similarity, data, staged, tables, repeats, all"
MISTAKES: dict[str, dict[str, Any]] = {
    f"experiment table2: choose from {WORDS}": {"what": "table2"},
    "scale tiny: choose from full, quick": {"scale": "tiny"},
    "protocol own: choose from authors, clean, text": {"protocol": "own"},
    "until noon: choose from settled": {"until": "noon"},
    "preset own: choose from authors, text, quick": {"preset": "own"},
    "preset text is for the scale full: a miniature has its own, quick": {"scale": "quick", "preset": "text"},
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_with_what_there_is_to_choose_from(line: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        plan(**MISTAKES[line])


def test_every_run_of_both_plans_has_a_cost_and_the_miniature_takes_minutes_on_a_cpu() -> None:
    for device in DEVICES:
        for run in (*plan("all"), *plan("all", "quick")):
            assert seconds(run, len(run.seeds), device) > 0 == seconds(run, 0, device)
    assert sum(seconds(run, len(run.seeds), "cpu") for run in plan("all", "quick")) < 6 * 60


def test_the_speed_is_the_one_that_was_measured_on_the_h200() -> None:
    row = r"^\| (lstm|transformer|ndr) \| (\d+) \| ([\d.]+) \|"
    measured = re.findall(row, H200.read_text(), flags=re.MULTILINE)
    assert len(measured) == 3 * 7
    for model, crowd, each in measured:
        (run,) = plan("table1", only=[f"{model}-R-authors"])
        training = seconds(run, int(crowd)) - seconds(run, int(crowd), steps=0)
        assert training == pytest.approx(int(crowd) * run.steps * float(each) / 1000, rel=0.01)


def test_a_step_takes_longer_and_a_seed_less_the_more_there_are_and_small_batches_are_cheaper() -> None:
    (ndr,), (lstm,) = (plan("table1", only=[name]) for name in ("ndr-R-authors", "lstm-R-authors"))
    times = [seconds(ndr, seeds, steps=1_000_000) for seeds in range(1, 201)]
    assert times == sorted(times)
    shares = [time / seeds for seeds, time in enumerate(times, 1)]
    assert shares == sorted(shares, reverse=True)
    on_s = next(run for run in plan("staged") if run.model == "lstm")  # with a quarter of the examples
    assert seconds(on_s, 25) < seconds(lstm, 25) / 2


def test_what_is_saved_need_not_be_paid_again(tmp_path: Path) -> None:
    run = small_run(0, 1, 2, 3, steps=1_000)
    fresh = run_status(tmp_path, run)
    half = replace(fresh, to_do=(replace(fresh.to_do[0], step=500),))
    around = seconds(run, 4, "cpu", steps=0)
    assert half.remaining("cpu") - around == pytest.approx((fresh.remaining("cpu") - around) / 2)
