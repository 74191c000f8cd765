"""From run folders to rows: which seeds count, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reproduce.making import make_piece, planned

import ctlpp
from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.reproduce.results.cells import ALL, RULE, read_cells
from ctlpp.reproduce.results.found import find
from ctlpp.reproduce.results.rows import Row, equal_lengths
from ctlpp.reproduce.results.verdicts import HIGHER, REPRODUCED
from ctlpp.statistics.summary import wilson

NAME = "ndr-R-released"


def row(out: Path, name: str, split: str = "ood", selection: str = ALL) -> Row:
    return find(out).rows[name, selection, split]


def test_pieces_of_a_cell_are_counted_together(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5, 0.7])
    make_piece(tmp_path, NAME, [0.9], first=2)
    found = row(tmp_path, NAME).summary
    assert (found.seeds, found.median) == (3, 0.7)
    assert found.mean == pytest.approx(0.7)
    assert find(tmp_path).missing(planned(NAME)) == list(range(3, 25))


def test_a_seed_in_two_pieces_counts_once(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5, 0.7])
    make_piece(tmp_path, NAME, [0.7, 0.9], first=1)
    assert row(tmp_path, NAME).summary.seeds == 3


def test_pieces_that_were_watched_at_other_steps_belong_together(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, NAME, [0.5])
    config = json.loads((folder / "config.json").read_text())
    config["recipe"]["eval_every"] = 77
    (folder / "config.json").write_text(json.dumps(config))
    make_piece(tmp_path, NAME, [0.9], first=1)
    assert row(tmp_path, NAME).summary.seeds == 2


def test_a_piece_with_other_settings_is_set_aside_and_named(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5, 0.7])
    make_piece(tmp_path, NAME, [0.9], first=2, data={"train": "f" * 64})
    (cell,) = read_cells(tmp_path).values()
    assert [seed.number for seed in cell.seeds] == [0, 1]
    assert [(other.state, other.reason) for other in cell.others] == [
        ("different", "its settings are not those of ndr-R-released/0-1")
    ]


def test_an_unfinished_run_makes_no_numbers(tmp_path: Path) -> None:
    (make_piece(tmp_path, NAME, [0.5]) / "result.json").unlink()
    found = find(tmp_path)
    assert not found.rows
    assert found.done(planned(NAME)) is None


def test_the_papers_rule_keeps_the_first_25_that_converged(tmp_path: Path) -> None:
    iid = [0.2 if seed % 10 == 0 else 1.0 for seed in range(50)]
    make_piece(tmp_path, "transformer-R-released", [seed / 50 for seed in range(50)], iid=iid)
    everything = row(tmp_path, "transformer-R-released")
    kept = row(tmp_path, "transformer-R-released", selection=RULE)
    assert (everything.summary.seeds, kept.summary.seeds) == (50, 25)
    assert kept.summary.mean == pytest.approx(sum(n for n in range(28) if n % 10) / 50 / 25)
    assert (everything.not_converged, kept.not_converged) == (5, 5)


def test_a_seed_that_diverged_counts_with_what_it_had_and_never_by_the_papers_rule(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.1, 0.9, 0.9], diverged=[0])
    assert row(tmp_path, NAME).summary.mean == pytest.approx(1.9 / 3)
    assert row(tmp_path, NAME, selection=RULE).summary.mean == pytest.approx(0.9)
    assert row(tmp_path, NAME).diverged == 1


def test_transformers_are_judged_by_the_rule_and_other_models_by_all_seeds(tmp_path: Path) -> None:
    for name in ("transformer-R-released", NAME):
        make_piece(tmp_path, name, [0.1] * 10 + [0.8] * 25, iid=[0.2] * 10 + [1.0] * 25)
    found = find(tmp_path)
    used = {cell.model: found.row(cell, "ood").summary.seeds for cell in found.cells.values()}
    assert used == {"transformer": 25, "ndr": 35}


def test_success_is_more_than_95_percent_ood_and_has_a_wilson_interval(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.95, 0.951, 1.0, 0.2])
    found = row(tmp_path, NAME)
    assert (found.summary.solved, found.summary.solved_share) == (2, wilson(2, 4))
    assert found.solved == 8  # published


def test_the_gap_at_equal_lengths_leaves_out_lengths_that_one_split_lacks(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, "ndr-R-paper", [0.5, 0.5])
    result = json.loads((folder / "result.json").read_text())
    for seed in result["seeds"]:
        seed["by_length"] = {"iid": {"1": 0.0, "2": 1.0, "3": 0.8}, "ood": {"2": 0.6, "3": 0.5, "9": 0.0}}
    (folder / "result.json").write_text(json.dumps(result))
    found = row(tmp_path, "ndr-R-paper")
    assert found.gap is not None
    assert found.equal_gap is not None
    assert found.gap.mean == pytest.approx(0.5)
    assert found.equal_gap.mean == pytest.approx((0.4 + 0.3) / 2)
    assert row(tmp_path, "ndr-R-paper", "iid").gap is None


@pytest.mark.parametrize("variant", ["A", "R"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_gap_at_equal_lengths_rests_on_held_out_examples_and_on_enough_of_them(
    variant: str, protocol: str
) -> None:
    data = ctlpp.generate(variant, protocol=protocol)
    lengths = equal_lengths(data["iid"], data["ood"], protocol)
    assert lengths == ([3, 4, 5, 6] if protocol == "released" else [2, 3, 4, 5, 6])
    assert min(len(data["iid"][length]) for length in lengths) > 100
    if protocol == "released":  # what the page says of pairs
        assert len(data["iid"][2]) == data.shared("train", "iid") == 7


def test_published_numbers_stand_beside_full_size_runs_only(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [1.0] * 25)
    make_piece(tmp_path, "ndr-S-released-o16-s6", [1.0] * 5)
    higher, none = row(tmp_path, NAME), row(tmp_path, "ndr-S-released-o16-s6")
    assert higher.verdict is not None
    assert (higher.verdict.word, higher.inside, higher.published) == (HIGHER, False, (0.75, 0.27))
    assert (none.verdict, none.inside, none.published) == (None, None, None)
    iid = row(tmp_path, NAME, "iid")
    assert iid.verdict is not None
    assert (iid.verdict.word, iid.inside) == (REPRODUCED, True)


def test_the_plan_that_fits_is_chosen(tmp_path: Path) -> None:
    assert "ndr-R-released" in {one.name for one in find(tmp_path).plan}
    folder = make_piece(tmp_path, NAME, [0.5])
    folder.parent.rename(tmp_path / "runs" / "ndr-R-released-quick")
    assert "ndr-R-released-quick" in {one.name for one in find(tmp_path).plan}


def test_a_folder_that_no_plan_has_is_kept_apart(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5]).parent.rename(tmp_path / "runs" / "mine")
    found = find(tmp_path)
    assert [cell.name for cell in found.beside] == ["mine"]
    assert found.rows["mine", ALL, "ood"].summary.mean == 0.5


def test_a_run_that_is_not_what_its_folder_says_is_set_aside_and_named(tmp_path: Path) -> None:
    make_piece(tmp_path, "lstm-R-released", [0.5, 0.7]).parent.rename(tmp_path / "runs" / NAME)
    cell = find(tmp_path).cells[NAME]
    assert not cell.seeds
    assert [(other.state, other.reason) for other in cell.others] == [
        ("different", "has model lstm, the plan ndr")
    ]
