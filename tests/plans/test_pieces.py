"""A planned run is cut by seeds, and what is there already is recognised."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plans.small import small_run

from ctlpp.files import BusyError
from ctlpp.plans.pieces import MOST_SEEDS, RunStatus, claim, cut, run_status
from ctlpp.plans.planned import PlannedRun
from ctlpp.plans.work import WorkSettings, carry_out

RUN = small_run(0, 1, 2, 3)
PLACE = Path("runs") / RUN.name
Edit = Callable[..., Path]


def to_do(status: RunStatus) -> list[tuple[int, ...]]:
    return [piece.seeds for piece in status.to_do]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which seeds 1 and 2 of the run are finished."""
    out = tmp_path_factory.mktemp("out")
    carry_out([replace(RUN, seeds=(1, 2))], out, WorkSettings(device="cpu", analysis=False))
    return out


@pytest.fixture
def edit(trained: Path, tmp_path: Path) -> Edit:
    """A copy of that piece with something else in `config.json`, and without some files; gives its folder."""

    def make(*without: str, **entries: Any) -> Path:
        folder = tmp_path / PLACE / "1-2"
        shutil.copytree(trained / PLACE / "1-2", folder, ignore=shutil.ignore_patterns(*without))
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | entries))
        return folder

    return make


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 9))
def test_cutting_keeps_every_seed_once_in_ranges_without_gaps(seeds: set[int], most: int) -> None:
    pieces = cut(sorted(seeds), most)
    assert [seed for piece in pieces for seed in piece] == sorted(seeds)
    for piece in pieces:
        assert list(piece) == list(range(piece[0], piece[-1] + 1))
        assert len(piece) <= most


def test_only_missing_seeds_are_to_do_around_what_is_there_in_pieces_that_are_not_too_long(
    trained: Path, tmp_path: Path
) -> None:
    (piece,) = run_status(tmp_path, RUN).to_do
    assert (piece.folder, piece.seeds) == (tmp_path / PLACE / "0-3", (0, 1, 2, 3))
    assert list(tmp_path.iterdir()) == []
    status = run_status(trained, RUN)
    assert (status.finished, to_do(status)) == ((1, 2), [(0,), (3,)])
    more = replace(RUN, seeds=tuple(range(1, 8)))
    assert to_do(run_status(trained, more, at_most=3)) == [(3, 4, 5), (6, 7)]
    endless = run_status(tmp_path, replace(RUN, seeds=tuple(range(MOST_SEEDS + 1))))
    assert [len(piece.seeds) for piece in endless.to_do] == [MOST_SEEDS, 1]


def test_a_piece_with_the_names_of_before_is_known(edit: Edit, tmp_path: Path) -> None:
    edit(protocol="released")
    (tmp_path / PLACE).rename(tmp_path / "runs" / RUN.name.replace("clean", "released"))
    assert run_status(tmp_path, RUN).finished == (1, 2)


def test_an_unfinished_piece_is_to_do_as_it_was_cut_and_says_how_far_it_is(
    edit: Edit, tmp_path: Path
) -> None:
    folder = edit("result.json")
    newest = folder / "checkpoint" / "step-000000004.json"
    newest.rename(newest.with_stem("step-000000003"))
    status = run_status(tmp_path, replace(RUN, seeds=(2, 3)))
    assert [(piece.seeds, piece.step) for piece in status.to_do] == [((1, 2), 3), ((3,), 0)]
    assert to_do(run_status(tmp_path, replace(RUN, seeds=(3, 4)))) == [(3, 4)]  # and left alone by others


def test_a_piece_without_a_usable_history_goes_on_from_its_checkpoint(edit: Edit, tmp_path: Path) -> None:
    history = edit("result.json") / "metrics.parquet"
    pq.write_table(pq.read_table(history).slice(0, 0), history)  # saved before its first evaluation
    for _ in range(2):
        (piece,) = run_status(tmp_path, replace(RUN, seeds=(1, 2))).to_do
        assert (piece.finished, piece.step) == (False, RUN.steps)
        history.write_bytes(b"damaged")


def test_a_folder_that_was_made_and_not_begun_is_begun_and_other_folders_are_left_alone(
    tmp_path: Path,
) -> None:
    for name in ("0-1", "old-0-1", "3-99999999999", "0-10000"):
        (tmp_path / PLACE / name).mkdir(parents=True)
    (tmp_path / PLACE / "notes-1.txt").touch()
    assert to_do(run_status(tmp_path, RUN)) == [(0, 1), (2, 3)]


def test_a_piece_is_not_taken_if_one_of_its_seeds_has_gone_to_another_process_meanwhile(
    tmp_path: Path,
) -> None:
    (mine,) = run_status(tmp_path, RUN).to_do
    (theirs,) = run_status(tmp_path, replace(RUN, seeds=(2, 3, 4))).to_do
    with (
        claim(theirs),
        pytest.raises(BusyError, match="another process has taken some of its seeds"),
        claim(mine),
    ):
        pass
    assert not mine.folder.exists()


def refused(out: Path, run: PlannedRun) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        run_status(out, run)
    return str(error.value)


def test_a_run_of_other_settings_under_the_same_name_is_refused(trained: Path) -> None:
    def on(**changes: Any) -> PlannedRun:
        return replace(RUN, data=tuple((RUN.options | changes).items()))

    for wanted, line in (
        (replace(RUN, changes=(("steps", 5),)), "has steps 4, the plan 5"),
        (on(train=190), "has train 200, the plan 190"),
        (on(symbols=5), "has symbols 4, the plan 5"),
        (on(protocol="text"), "has protocol clean, the plan text"),
        (on(table=7), "has table None, the plan 7"),
        (on(nesting=True), "has nesting None, the plan True"),
        (replace(RUN, model="ndr"), "has model lstm, the plan ndr"),
        (replace(RUN, sizes=(("width", 7),)), "has width 32, the plan 7"),
    ):
        found = refused(trained, wanted)
        assert found.startswith(f"the run in {trained / PLACE / '1-2'} has ")
        assert found.endswith(f" {line}: choose another out")


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        (
            {"format": 0, "versions": {"ctlpp": "0.0.9"}},
            "was written by another version of ctlpp (0.0.9): choose another out",
        ),
        ({"seeds": [1, 3]}, "does not hold the seeds that its name says: remove or rename that folder"),
        ({"task": None}, "has max_length None, the plan 3: choose another out"),
    ],
)
def test_a_run_of_another_version_or_of_something_else_is_refused(
    edit: Edit, tmp_path: Path, entries: Any, line: str
) -> None:
    edit(**entries)
    assert refused(tmp_path, RUN).endswith(line)


def test_a_damaged_run_without_checkpoint_or_settings_is_refused_with_what_to_do(
    edit: Edit, tmp_path: Path
) -> None:
    folder = edit("checkpoint")
    for name in ("metrics.parquet", "result.json", "config.json"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(b"{")
        found = refused(tmp_path, RUN)
        assert found.startswith(f"{folder} is damaged ({name} cannot be read: ")
        assert found.endswith("): remove that folder, and its seeds are trained again")
        (folder / name).write_bytes(before)
    (folder / "config.json").unlink()
    assert "1-2 is damaged (config.json is missing: " in refused(tmp_path, RUN)
