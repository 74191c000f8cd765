"""A planned run is cut by seeds, and pieces that exist are recognised."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plans.small import small_run

from ctlpp.files import BusyError, UserError
from ctlpp.plans.pieces import MOST_SEEDS, RunStatus, claim, cut, run_status
from ctlpp.plans.planned import KEPT, PlannedRun, seconds, seeds_that_fit
from ctlpp.plans.work import WorkSettings, carry_out

RUN = small_run(0, 1, 2, 3)
FOLDER = Path("runs") / RUN.name
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
    """Copy that piece with other entries in `config.json` and without some files; gives the folder."""

    def make(*without: str, **entries: Any) -> Path:
        folder = tmp_path / FOLDER / "1-2"
        shutil.copytree(trained / FOLDER / "1-2", folder, ignore=shutil.ignore_patterns(*without))
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


def test_missing_seeds_are_to_do_in_pieces_that_are_not_too_large(trained: Path, tmp_path: Path) -> None:
    (piece,) = run_status(tmp_path, RUN).to_do
    assert (piece.folder, piece.seeds) == (tmp_path / FOLDER / "0-3", (0, 1, 2, 3))
    assert list(tmp_path.iterdir()) == []
    status = run_status(trained, RUN)
    assert (status.finished, to_do(status)) == ((1, 2), [(0,), (3,)])
    more = replace(RUN, seeds=tuple(range(1, 8)))
    assert to_do(run_status(trained, more, lambda run: 3)) == [(3, 4, 5), (6, 7)]
    endless = run_status(tmp_path, replace(RUN, seeds=tuple(range(MOST_SEEDS + 1))))
    assert [len(piece.seeds) for piece in endless.to_do] == [MOST_SEEDS, 1]


def test_a_piece_has_as_many_seeds_as_memory_and_time_allow() -> None:
    run = PlannedRun(name="one", model="lstm", variant="R", seeds=tuple(range(100)))
    weights = 407_816
    assert seeds_that_fit(run, inf, "cpu", memory=10.5 * KEPT * weights) == 10
    assert seeds_that_fit(run, inf, "cpu", memory=1.0) == 1
    assert seeds_that_fit(run, inf, "cuda", memory=inf) == 100
    minutes = seconds(run, 7, "cuda") / 60
    assert seeds_that_fit(run, minutes, "cuda", memory=inf) == 7
    whole = replace(run, changes=(("early_stop", 1),))  # ends when all of its seeds have settled
    assert seeds_that_fit(whole, minutes, "cuda", memory=1.0) == 100
    assert seeds_that_fit(replace(run, model="no:model"), inf, "cpu", memory=1.0) == 100


def test_a_piece_with_earlier_names_is_known(edit: Edit, tmp_path: Path) -> None:
    edit(protocol="released")
    (tmp_path / FOLDER).rename(tmp_path / "runs" / RUN.name.replace("clean", "released"))
    assert run_status(tmp_path, RUN).finished == (1, 2)


def test_an_unfinished_piece_keeps_its_seeds_and_says_how_far_it_is(edit: Edit, tmp_path: Path) -> None:
    newest = edit("result.json") / "checkpoint" / "step-000000004.json"
    newest.rename(newest.with_stem("step-000000003"))
    status = run_status(tmp_path, replace(RUN, seeds=(2, 3)))
    assert [(piece.seeds, piece.step) for piece in status.to_do] == [((1, 2), 3), ((3,), 0)]
    assert to_do(run_status(tmp_path, replace(RUN, seeds=(3, 4)))) == [(3, 4)]


def test_a_piece_without_a_usable_history_goes_on_from_its_checkpoint(edit: Edit, tmp_path: Path) -> None:
    history = edit("result.json") / "metrics.parquet"
    pq.write_table(pq.read_table(history).slice(0, 0), history)  # saved before its first evaluation
    for _ in range(2):
        (piece,) = run_status(tmp_path, replace(RUN, seeds=(1, 2))).to_do
        assert (piece.finished, piece.step) == (False, RUN.steps)
        history.write_bytes(b"damaged")


def test_an_empty_folder_of_a_piece_is_used_and_other_folders_are_left_alone(tmp_path: Path) -> None:
    for name in ("0-1", "old-0-1", "3-99999999999", "0-10000"):
        (tmp_path / FOLDER / name).mkdir(parents=True)
    (tmp_path / FOLDER / "notes-1.txt").touch()
    assert to_do(run_status(tmp_path, RUN)) == [(0, 1), (2, 3)]


def test_a_piece_cannot_be_claimed_if_another_process_has_one_of_its_seeds(tmp_path: Path) -> None:
    (mine,) = run_status(tmp_path, RUN).to_do
    (theirs,) = run_status(tmp_path, replace(RUN, seeds=(2, 3, 4))).to_do
    refusal = pytest.raises(BusyError, match="another process has taken some of its seeds")
    with claim(theirs), refusal, claim(mine):
        pass
    assert not mine.folder.exists()


def refused(out: Path, run: PlannedRun = RUN) -> str:
    with pytest.raises(UserError) as error:
        run_status(out, run)
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"changes": (("steps", 5),)}, "has steps 4, the plan 5"),
        ({"train": 190}, "has train 200, the plan 190"),
        ({"symbols": 5}, "has symbols 4, the plan 5"),
        ({"protocol": "text"}, "has protocol clean, the plan text"),
        ({"table": 7}, "has table None, the plan 7"),
        ({"nesting": True}, "has nesting None, the plan True"),
        ({"model": "ndr"}, "has model lstm, the plan ndr"),
        ({"sizes": (("width", 7),)}, "has width 32, the plan 7"),
    ],
)
def test_a_run_with_other_settings_under_the_same_name_is_refused(
    trained: Path, changes: dict[str, Any], line: str
) -> None:
    if not {*changes} & {"changes", "model", "sizes"}:
        changes = {"data": tuple((RUN.options | changes).items())}
    where = f"the run in {trained / FOLDER / '1-2'}"
    assert refused(trained, replace(RUN, **changes)) == f"{where} {line}: choose another out"


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ({"format": 0, "versions": {"ctlpp": "0.0.9"}}, "was written by another version of ctlpp (0.0.9): "),
        ({"seeds": [1, 3]}, "does not hold the seeds that its name says: remove or rename that folder"),
        ({"task": None}, "has max_length None, the plan 3: choose another out"),
    ],
)
def test_a_run_of_another_version_or_of_something_else_is_refused(
    edit: Edit, tmp_path: Path, entries: Any, line: str
) -> None:
    edit(**entries)
    assert line in refused(tmp_path)


def test_a_damaged_run_without_checkpoint_or_settings_is_refused_with_what_to_do(
    edit: Edit, tmp_path: Path
) -> None:
    folder = edit("checkpoint")
    for name in ("metrics.parquet", "result.json", "config.json"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(b"{")
        found = refused(tmp_path)
        assert found.startswith(f"{folder} is damaged ({name} cannot be read: ")
        assert found.endswith("): remove that folder, and its seeds are trained again")
        (folder / name).write_bytes(before)
    (folder / "config.json").unlink()
    assert "1-2 is damaged (config.json is missing: " in refused(tmp_path)
