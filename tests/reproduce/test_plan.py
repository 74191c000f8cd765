"""The plan is the paper's appendix: who is trained on what, with how many seeds and steps."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, cast

import pytest

import ctlpp
from ctlpp.benchmark.settings import Settings
from ctlpp.reproduce.plan import EXPERIMENTS, SIZES, WORDS, Planned, Scale, plan


def names(cells: list[Planned]) -> list[str]:
    return [cell.name for cell in cells]


def test_table_1_has_three_models_on_two_variants_under_both_protocols_in_the_order_of_the_runs() -> None:
    assert names(plan("table1")) == [
        f"{model}-{variant}-{protocol}"
        for model in ("lstm", "ndr", "transformer")
        for protocol in ("released", "paper")
        for variant in ("A", "R")
    ]


def test_seeds_and_steps_are_those_of_the_paper() -> None:
    sizes = {(cell.model, len(cell.seeds), cell.steps) for cell in plan("table1")}
    assert sizes == {("lstm", 25, 80_000), ("ndr", 25, 80_000), ("transformer", 50, 300_000)}
    assert {len(cell.seeds) for cell in plan("staged")} == {5}


def test_the_grid_of_s_has_every_pair_of_knobs_once_for_each_model() -> None:
    cells = plan("staged")
    knobs = Counter(
        (cell.model, dict(cell.data)["shared_functions"], dict(cell.data)["shared_symbols"]) for cell in cells
    )
    models = ("ndr", "lstm", "transformer")
    assert knobs == {(model, o, s): 1 for model in models for o in (4, 8, 12, 16) for s in (2, 3, 4, 5, 6)}
    assert "ndr-S-released-o16-s6" in names(cells)


def test_similarity_needs_no_run_that_table_1_does_not_have() -> None:
    assert {*names(plan("similarity"))} == {"ndr-A-released", "ndr-R-released"} <= {*names(plan("table1"))}


def test_every_published_number_is_asked_on_data_with_repeats_right_after_the_released_protocol() -> None:
    on_a_and_r = [
        cell.name for cell in plan("all") if cell.variant != "S" and "tables" not in cell.experiments[:1]
    ]
    assert on_a_and_r == [
        f"{model}-{variant}-{data}"
        for model in ("lstm", "ndr", "transformer")
        for data in ("released", "released-repeats", "paper")
        for variant in ("A", "R")
    ]
    assert {len(cell.seeds) for cell in plan("repeats") if cell.model == "transformer"} == {50}


def test_a_and_r_come_before_s_and_other_function_tables_last() -> None:
    parts = [cell.experiments[0] for cell in plan("all")]
    assert list(dict.fromkeys(parts)) == ["table1", "repeats", "staged", "tables"]
    assert parts == sorted(parts, key=lambda part: {"staged": 1, "tables": 2}.get(part, 0))


def test_repeats_sets_the_same_cell_with_repeated_sequences_beside_the_plain_one() -> None:
    cells = {cell.name: cell for cell in plan("repeats")}
    repeated = [name for name in cells if name.endswith("-repeats")]
    assert len(repeated) == 6
    for name in repeated:
        plain, other = cells[name.removesuffix("-repeats")], cells[name]
        assert (plain.data, other.data) == ((), (("distinct_sequences", "n/7"),))
        assert plain.seeds == other.seeds


def test_tables_draws_the_functions_five_times_and_takes_the_first_from_table_1() -> None:
    others = [f"ndr-R-released-seed{n}" for n in (1, 2, 3, 4)]
    assert names(plan("tables", only=["ndr/R"])) == ["ndr-R-released", *others]
    assert all(cell.seeds == (0, 1, 2, 3, 4) for cell in plan("tables"))


def test_all_has_every_cell_of_every_experiment_once_with_all_its_seeds() -> None:
    whole = {cell.name: cell for cell in plan("all")}
    assert len(whole) == len(plan("all"))
    for word in EXPERIMENTS:
        for cell in plan(word):
            assert {*cell.seeds} <= {*whole[cell.name].seeds}
            assert word in whole[cell.name].experiments
    assert len(whole["ndr-R-released"].seeds) == 25
    assert whole["ndr-R-released"].experiments == ("table1", "repeats", "similarity", "tables")


def test_the_miniature_has_every_experiment_in_the_same_order_and_shares_no_folder_with_the_full_one() -> (
    None
):
    full, quick = plan("all", "full"), plan("all", "quick")
    assert {word for cell in quick for word in cell.experiments} == {*EXPERIMENTS}
    assert not {*names(full)} & {*names(quick)}
    plain = [name.removesuffix("-quick") for name in names(plan("table1", "quick"))]
    assert plain == names(plan("table1"))


@pytest.mark.parametrize("scale", SIZES)
def test_every_cell_asks_for_data_that_can_be_drawn(scale: str) -> None:
    for cell in plan("all", cast(Scale, scale)):
        Settings(variant=cell.variant, **cell.options)
    if scale == "quick":
        for options in {(cell.variant, cell.protocol, cell.data) for cell in plan("all", "quick")}:
            variant, protocol, data = options
            given: dict[str, Any] = dict(data)
            made = ctlpp.generate(variant, protocol=protocol, **given)
            assert made.size("train") >= given["train"]


def test_seeds_given_take_the_place_of_the_planned_ones() -> None:
    assert {cell.seeds for cell in plan("all", seeds=[3, 7])} == {(3, 7)}


def test_a_protocol_or_a_preset_takes_the_place_of_the_planned_one() -> None:
    assert {cell.protocol for cell in plan("all", protocol="paper")} == {"paper"}
    changed = plan("table1", only=["ndr/R"], protocol="released", preset="paper")
    assert names(changed) == ["ndr-R-released-paper-preset"]


def test_a_miniature_has_a_preset_of_its_own() -> None:
    assert plan("all", "quick", preset="quick") == plan("all", "quick")
    with pytest.raises(
        ValueError, match=r"--preset paper is for --scale full: a miniature has its own, quick"
    ):
        plan("all", "quick", preset="paper")


def test_only_takes_a_model_and_a_variant_or_the_name_of_a_cell() -> None:
    chosen = plan("all", only=["lstm-A-paper", "ndr/A"])
    assert names(chosen) == ["lstm-A-paper", "ndr-A-released", "ndr-A-released-repeats", "ndr-A-paper"]


def test_a_cell_says_in_words_what_it_is() -> None:
    titles = [cell.title for cell in plan("all", only=["ndr-S-released-o16-s6", "ndr-R-released-seed3"])]
    assert titles == [
        "ndr on S, released, 16 shared functions, 6 shared symbols",
        "ndr on R, released, data seed 3",
    ]
    (repeated,) = plan("repeats", "quick", only=["lstm-R-released-repeats-quick"])
    assert repeated.title == "lstm on R, released, repeated sequences, preset quick"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"what": "table2"}, f"unknown experiment 'table2': choose from {', '.join(WORDS)}"),
        ({"scale": "tiny"}, "unknown scale 'tiny': choose from full, quick"),
        ({"protocol": "own"}, "unknown protocol 'own': choose from paper, released"),
        ({"preset": "own"}, "unknown preset 'own': choose from released, paper, quick"),
        (
            {"what": "similarity", "only": ["lstm/R"]},
            "--only lstm/R is of table1, repeats, not of similarity: choose from ndr/R, ndr/A, or the"
            " name of a cell (see --plan)",
        ),
    ],
)
def test_a_mistake_is_answered_with_what_there_is_to_choose_from(
    arguments: dict[str, Any], line: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(line) + "$"):
        plan(**arguments)
