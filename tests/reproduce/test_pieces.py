"""A cell is cut by seeds, and what is there already is recognised."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.small import cell

import ctlpp
from ctlpp.reproduce.pieces import MOST, Standing, cut, stand, take
from ctlpp.reproduce.plan import PlannedRun, plan

CELL = cell(0, 1, 2, 3)


def train_piece(out: Path, one: PlannedRun, **other: Any) -> Path:
    """A finished piece, as the command leaves it."""
    folder = out / "runs" / one.name / f"{one.seeds[0]}-{one.seeds[-1]}"
    data = ctlpp.generate(one.variant, **one.options)
    settings: dict[str, Any] = {"seeds": one.seeds, "preset": one.preset, "recipe": one.recipe, **other}
    ctlpp.train(one.model, data, device="cpu", out=folder, **settings)
    return folder


def to_do(standing: Standing) -> list[tuple[int, ...]]:
    return [piece.seeds for piece in standing.to_do]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder in which seeds 1 and 2 of the cell are finished."""
    out = tmp_path_factory.mktemp("out")
    train_piece(out, replace(CELL, seeds=(1, 2)))
    return out


@pytest.fixture
def change(trained: Path, tmp_path: Path) -> Any:
    """A copy of that folder with something else in `config.json`."""

    def make(**entries: Any) -> Path:
        source, target = (out / "runs" / CELL.name / "1-2" for out in (trained, tmp_path))
        target.mkdir(parents=True)
        for name in ("config.json", "result.json", "metrics.parquet"):
            (target / name).write_bytes((source / name).read_bytes())
        config = json.loads((target / "config.json").read_text())
        (target / "config.json").write_text(json.dumps(config | entries))
        return tmp_path

    return make


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 9))
def test_cutting_keeps_every_seed_once_in_ranges_without_gaps(seeds: set[int], most: int) -> None:
    pieces = cut(sorted(seeds), most)
    assert [seed for piece in pieces for seed in piece] == sorted(seeds)
    for piece in pieces:
        assert list(piece) == list(range(piece[0], piece[-1] + 1))
        assert len(piece) <= most


def test_nothing_there_means_one_piece_of_all_seeds(tmp_path: Path) -> None:
    standing = stand(tmp_path, CELL)
    assert to_do(standing) == [(0, 1, 2, 3)]
    assert standing.to_do[0].folder == tmp_path / "runs" / CELL.name / "0-3"
    assert list(tmp_path.iterdir()) == []


def test_only_missing_seeds_are_to_do_and_around_what_is_there(trained: Path) -> None:
    standing = stand(trained, CELL)
    assert standing.finished == (1, 2)
    assert to_do(standing) == [(0,), (3,)]


def test_more_seeds_tomorrow_are_a_piece_of_their_own(trained: Path) -> None:
    assert to_do(stand(trained, replace(CELL, seeds=tuple(range(1, 8))), at_most=3)) == [(3, 4, 5), (6, 7)]


def test_a_new_piece_is_never_longer_than_one_that_is_recognised(tmp_path: Path) -> None:
    standing = stand(tmp_path, replace(CELL, seeds=tuple(range(MOST + 1))))
    assert [len(piece.seeds) for piece in standing.to_do] == [MOST, 1]


def test_an_unfinished_piece_is_to_do_as_it_was_cut_and_says_how_far_it_is(tmp_path: Path) -> None:
    one = replace(CELL, steps=6, seeds=(0, 1))
    folder = train_piece(tmp_path, one)
    (folder / "result.json").unlink()
    newest = folder / "checkpoint" / "step-000000006.json"
    newest.rename(newest.with_stem("step-000000005"))
    standing = stand(tmp_path, replace(one, seeds=(1, 2)))
    assert to_do(standing) == [(0, 1), (2,)]
    assert [piece.step for piece in standing.to_do] == [5, 0]


def test_an_unfinished_piece_without_any_wanted_seed_is_left_alone(tmp_path: Path) -> None:
    folder = train_piece(tmp_path, replace(CELL, seeds=(0, 1)))
    (folder / "result.json").unlink()
    assert to_do(stand(tmp_path, replace(CELL, seeds=(2, 3)))) == [(2, 3)]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_piece_without_a_usable_history_goes_on_from_its_checkpoint(tmp_path: Path, damaged: bool) -> None:
    folder = train_piece(tmp_path, replace(CELL, seeds=(0, 1)))
    (folder / "result.json").unlink()
    history = folder / "metrics.parquet"
    if damaged:
        history.write_bytes(b"damaged")
    else:  # saved before its first evaluation
        pq.write_table(pq.read_table(history).slice(0, 0), history)
    (piece,) = stand(tmp_path, replace(CELL, seeds=(0, 1))).to_do
    assert (piece.finished, piece.step) == (False, CELL.steps)


def test_a_folder_that_was_made_and_not_begun_is_begun(tmp_path: Path) -> None:
    (tmp_path / "runs" / CELL.name / "0-1").mkdir(parents=True)
    assert to_do(stand(tmp_path, CELL)) == [(0, 1), (2, 3)]


def test_what_is_not_a_piece_is_nobodys_business(tmp_path: Path) -> None:
    for name in ("old-0-1", "3-99999999999", "0-10000"):
        (tmp_path / "runs" / CELL.name / name).mkdir(parents=True)
    (tmp_path / "runs" / CELL.name / "notes.txt").touch()
    assert to_do(stand(tmp_path, CELL)) == [(0, 1, 2, 3)]


def test_a_piece_is_not_taken_if_one_of_its_seeds_has_gone_to_another_process_meanwhile(
    tmp_path: Path,
) -> None:
    (mine,) = stand(tmp_path, CELL).to_do
    (theirs,) = stand(tmp_path, replace(CELL, seeds=(2, 3, 4))).to_do
    assert take(tmp_path, CELL, theirs)
    assert not take(tmp_path, CELL, mine)
    assert not mine.folder.exists()


def test_every_cell_is_saved_at_least_once_a_minute() -> None:
    for scale in ("full", "quick"):
        assert {one.recipe.checkpoint_minutes <= 1 for one in plan("all", scale)} == {True}


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ({"steps": 5}, "has steps 4, the plan 5"),
        ({"data": (*CELL.data[:3], ("train", 190), *CELL.data[4:])}, "has train 200, the plan 190"),
        ({"data": (("symbols", 3), ("functions", 6), *CELL.data[2:])}, "has symbols 4, the plan 3"),
    ],
)
def test_a_run_of_other_settings_under_the_same_name_is_refused(
    trained: Path, wanted: dict[str, Any], line: str
) -> None:
    folder = trained / "runs" / CELL.name / "1-2"
    text = f"the run in {folder} {line}: choose another folder with --out"
    with pytest.raises(ValueError, match=re.escape(text) + "$"):
        stand(trained, replace(CELL, **wanted))


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        (
            {"format": 0, "versions": {"ctlpp": "0.0.9"}},
            "was written by another version of ctlpp (0.0.9): choose another folder with --out",
        ),
        ({"seeds": [1, 3]}, "does not hold the seeds that its name says: remove or rename that folder"),
        ({"model": "ndr"}, "has model ndr, the plan lstm: choose another folder with --out"),
        ({"task": None}, "has max_length None, the plan 3: choose another folder with --out"),
    ],
)
def test_a_run_of_another_version_or_of_something_else_is_refused(
    change: Any, entries: Any, line: str
) -> None:
    out = change(**entries)
    with pytest.raises(ValueError, match=re.escape(line) + "$"):
        stand(out, CELL)


@pytest.mark.parametrize("name", ["metrics.parquet", "result.json"])
def test_a_finished_run_with_a_damaged_file_and_no_checkpoint_is_refused_with_what_to_do(
    change: Any, name: str
) -> None:
    out = change()
    path = out / "runs" / CELL.name / "1-2" / name
    path.write_bytes(b"{")
    text = re.escape(f"{out / 'runs' / CELL.name / '1-2'} is damaged ({path.name} cannot be read")
    with pytest.raises(
        ValueError, match=text + r".*\): remove that folder, and its seeds are trained again$"
    ):
        stand(out, CELL)


def test_a_damaged_run_is_refused_with_what_to_do(change: Any) -> None:
    out = change()
    folder = out / "runs" / CELL.name / "1-2"
    (folder / "config.json").write_text("{")
    (folder / "result.json").unlink()
    text = re.escape(f"{folder} is damaged (config.json cannot be read: ")
    with pytest.raises(
        ValueError, match=text + r".*\): remove that folder, and its seeds are trained again$"
    ):
        stand(out, CELL)


def test_results_without_settings_are_not_taken_for_a_finished_piece(change: Any) -> None:
    out = change()
    (out / "runs" / CELL.name / "1-2" / "config.json").unlink()
    with pytest.raises(
        ValueError, match=r"1-2 is damaged \(config\.json is missing: .*\): remove that folder, and its"
    ):
        stand(out, CELL)
