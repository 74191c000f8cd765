"""The plan is the paper's appendix: who is trained on what, with how many seeds and steps."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

import ctlpp
from ctlpp.benchmark.variants import Settings
from ctlpp.reproduce.pieces import run_status
from ctlpp.reproduce.plan import ENDED, EXPERIMENTS, REPEATS, SIZES, PlannedRun, Scale, demo_plan, plan


def names(runs: list[PlannedRun]) -> list[str]:
    return [run.name for run in runs]


def test_table_1_has_three_models_on_two_variants_under_both_protocols_in_the_order_of_the_runs() -> None:
    assert names(plan("table1")) == [
        f"{model}-{variant}-{protocol}"
        for model in ("lstm", "ndr", "transformer")
        for protocol in ("released", "paper")
        for variant in ("A", "R")
    ]


def test_seeds_and_steps_are_those_of_the_paper() -> None:
    sizes = {(run.model, len(run.seeds), run.steps) for run in plan("table1")}
    assert sizes == {("lstm", 25, 80_000), ("ndr", 25, 80_000), ("transformer", 50, 300_000)}
    assert {len(run.seeds) for run in plan("staged")} == {5}


def test_the_grid_of_s_has_every_cell_once_for_each_model() -> None:
    runs = plan("staged")
    cells = Counter(
        (run.model, run.options["shared_functions"], run.options["shared_symbols"]) for run in runs
    )
    models = ("ndr", "lstm", "transformer")
    assert cells == {(model, o, s): 1 for model in models for o in (4, 8, 12, 16) for s in (2, 3, 4, 5, 6)}
    assert "ndr-S-released-o16-s6" in names(runs)


def test_similarity_needs_no_run_that_table_1_does_not_have() -> None:
    assert {*names(plan("similarity"))} == {"ndr-A-released", "ndr-R-released"} <= {*names(plan("table1"))}


def test_a_and_r_come_first_with_repeats_right_after_the_released_protocol_then_s_then_other_tables() -> None:
    order = [
        f"{model}-{variant}-{data}"
        for model in ("lstm", "ndr", "transformer")
        for data in ("released", "released-repeats", "paper")
        for variant in ("A", "R")
    ]
    assert names(plan("all"))[: len(order)] == order
    rest = [run.experiments for run in plan("all")[len(order) :]]
    assert rest == sorted(rest)
    assert {*rest} == {("staged",), ("tables",)}


def test_repeats_sets_the_same_run_with_repeated_sequences_beside_the_plain_one() -> None:
    runs = {run.name: run for run in plan("repeats")}
    repeated = [run for run in runs.values() if run.repeated]
    assert len(repeated) == 6
    for run in repeated:
        plain = run.without(REPEATS)
        assert plain == runs[run.name.removesuffix("-repeats")].without()
        assert (run.options, plain.options) == (plain.options | {REPEATS: "n/7"}, plain.options)


def test_what_has_ended_is_in_the_plan_and_nothing_of_it_is_to_be_trained(tmp_path: Path) -> None:
    ended = {run.name for run in plan("all") if run.ended}
    assert ended == {run.name for run in plan("all") if run.repeated or "seed" in run.options}
    for run in plan("all", only=sorted(ended)):
        assert run_status(tmp_path, run).to_do == ()


def test_tables_draws_the_functions_five_times_and_takes_the_first_from_table_1() -> None:
    others = [f"ndr-R-released-seed{n}" for n in (1, 2, 3, 4)]
    assert names(plan("tables", only=["ndr/R"])) == ["ndr-R-released", *others]
    assert all(run.seeds == (0, 1, 2, 3, 4) for run in plan("tables"))


def test_all_has_every_run_of_every_experiment_once_with_all_its_seeds() -> None:
    whole = {run.name: run for run in plan("all")}
    assert len(whole) == len(plan("all"))
    for word in EXPERIMENTS:
        for run in plan(word):
            assert {*run.seeds} <= {*whole[run.name].seeds}
            assert word in whole[run.name].experiments
    assert len(whole["ndr-R-released"].seeds) == 25
    assert whole["ndr-R-released"].experiments == ("table1", "repeats", "similarity", "tables")


def test_the_miniature_has_every_experiment_that_goes_on_and_shares_no_folder_with_the_full_plan() -> None:
    full, quick = plan("all", "full"), plan("all", "quick")
    assert {word for run in quick for word in run.experiments} == {*EXPERIMENTS} - ENDED
    assert not {*names(full)} & {*names(quick)}
    plain = [name.removesuffix("-quick") for name in names(plan("table1", "quick"))]
    assert plain == names(plan("table1"))


@pytest.mark.parametrize("scale", SIZES)
def test_every_run_asks_for_data_that_can_be_drawn(scale: str) -> None:
    runs = plan("all", cast(Scale, scale))
    for variant, data in {(run.variant, run.data) for run in runs}:
        Settings(variant=variant, **{name: value for name, value in data if name != REPEATS})
        if scale == "quick":
            assert ctlpp.generate(variant, **dict(data)).size("train") >= dict(data)["train"]


def test_every_run_is_saved_at_least_once_a_minute() -> None:
    for run in (*plan("all"), *plan("all", "quick"), *demo_plan()):
        assert run.recipe.checkpoint_minutes <= 1


def test_seeds_protocol_or_preset_take_the_place_of_the_planned_ones() -> None:
    assert {run.seeds for run in plan("all", seeds=[3, 7])} == {(3, 7)}
    assert {run.protocol for run in plan("all", protocol="paper")} == {"paper"}
    changed = plan("table1", only=["ndr/R"], protocol="released", preset="paper")
    assert names(changed) == ["ndr-R-released-paper-preset"]
    assert plan("all", "quick", preset="quick") == plan("all", "quick")


def test_only_takes_a_model_and_a_variant_or_the_name_of_a_run() -> None:
    chosen = plan("all", only=["lstm-A-paper", "ndr/A"])
    assert names(chosen) == ["lstm-A-paper", "ndr-A-released", "ndr-A-released-repeats", "ndr-A-paper"]


def test_the_demo_trains_three_models_on_a_and_r_the_longest_first() -> None:
    assert names(demo_plan()) == ["ndr-A", "ndr-R", "transformer-A", "transformer-R", "lstm-A", "lstm-R"]
    assert {(run.seeds, run.steps) for run in demo_plan(seeds=2, steps=4)} == {((0, 1), 4)}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"what": "table2"},
            "experiment table2: choose from table1, staged, similarity, repeats, tables, all",
        ),
        ({"scale": "tiny"}, "scale tiny: choose from full, quick"),
        ({"protocol": "own"}, "protocol own: choose from paper, released, authors"),
        ({"preset": "own"}, "preset own: choose from released, paper, quick"),
        (
            {"scale": "quick", "preset": "paper"},
            "preset paper is for the scale full: a miniature has its own, quick",
        ),
        (
            {"what": "similarity", "only": ["lstm/R"]},
            "only lstm/R: similarity has ndr/R, ndr/A; or give the name of a run (see plan)",
        ),
    ],
)
def test_a_mistake_is_answered_with_what_there_is_to_choose_from(
    arguments: dict[str, Any], line: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(line) + "$"):
        plan(**arguments)
