"""Working off a plan: nothing twice, nothing forgotten, and one failure does not stop the others."""

from __future__ import annotations

import errno
import json
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from tests.reproduce.small import Silent, cell

import ctlpp.training.train
from ctlpp.models.zoo import build
from ctlpp.reproduce import executing
from ctlpp.reproduce.executing import MachineError, Orders, Outcome
from ctlpp.reproduce.holding import held
from ctlpp.reproduce.pacing import Alarm, TimeIsUpError
from ctlpp.reproduce.plan import PlannedRun
from ctlpp.training.loop import Interrupted

CELLS = [cell(0, 1), cell(0, variant="A")]
PLAIN = Orders(device="cpu", analysis=False)
train = ctlpp.training.train.train


class Desk:
    """A results folder, and what happens there."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.written = 0  # how often results were
        self.screen = Silent()

    def execute(self, *cells: PlannedRun, orders: Orders = PLAIN) -> Outcome:
        self.screen = Silent()
        outcome, _ = executing.execute(cells, self.out, orders, self.screen)
        return outcome

    def files(self) -> dict[Path, int]:
        """Everything that is no lock, with the time of its last change."""
        files = [path for path in self.out.rglob("*") if path.is_file() and "lock" not in str(path)]
        return {path.relative_to(self.out): path.stat().st_mtime_ns for path in files}

    def folder(self, one: PlannedRun) -> Path:
        return self.out / "runs" / one.name / f"{one.seeds[0]}-{one.seeds[-1]}"

    def result(self, one: PlannedRun) -> Any:
        return json.loads((self.folder(one) / "result.json").read_text())["seeds"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    here = Desk(tmp_path / "out")

    def write(out: Path) -> str:
        assert out == here.out
        here.written += 1
        return "written"

    monkeypatch.setattr(executing, "write_results", write)
    return here


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, BaseException]:
    """Variants that cannot be trained, with the error."""
    errors: dict[str, BaseException] = {}

    def maybe(model: str, data: Any, **given: Any) -> Any:
        if data.task.variant in errors:
            raise errors[data.task.variant]
        return train(model, data, **given)

    monkeypatch.setattr(ctlpp.training.train, "train", maybe)
    return errors


def test_every_piece_is_trained_and_announced_with_its_place_in_the_plan(desk: Desk) -> None:
    outcome = desk.execute(*CELLS)
    assert outcome == Outcome(done=[desk.folder(one) for one in CELLS], seeds=3)
    assert desk.screen.titles == [
        "1 of 2: lstm on R, released, preset quick, seeds 0-1",
        "2 of 2: lstm on A, released, preset quick, seeds 0-0",
    ]
    assert [seed["seed"] for seed in desk.result(CELLS[0])] == [0, 1]
    assert desk.written >= 1


def test_a_second_time_nothing_is_trained_or_touched_and_results_are_written(desk: Desk) -> None:
    desk.execute(*CELLS)
    before, written = desk.files(), desk.written
    assert desk.execute(*CELLS) == Outcome(seeds=3)
    assert desk.files() == before
    assert desk.written == written + 1


def test_a_cell_cut_into_pieces_has_the_seeds_that_it_has_in_one_piece(desk: Desk) -> None:
    desk.execute(cell(0, 1, 2), orders=replace(PLAIN, seeds_a_piece=2))
    parts = desk.result(cell(0, 1)) + desk.result(cell(2))
    assert [seed["seed"] for seed in parts] == [0, 1, 2]
    shutil.rmtree(desk.out)
    desk.execute(cell(0, 1, 2))
    for part, one in zip(parts, desk.result(cell(0, 1, 2)), strict=True):
        assert part["accuracy"] == pytest.approx(one["accuracy"])
        assert part["loss"] == pytest.approx(one["loss"], abs=1e-4)


def test_an_interrupted_piece_goes_on_and_ends_as_if_nothing_had_happened(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cell(0, 1, steps=8)
    with monkeypatch.context() as patch:
        patch.setattr(Alarm, "check", lambda alarm: None)  # the time is up only once it trains
        with pytest.raises(Interrupted, match=r"step 1 is saved in .*0-1"):
            desk.execute(one, orders=replace(PLAIN, minutes=0.0))
    assert not (desk.folder(one) / "result.json").exists()
    assert desk.execute(one).done == [desk.folder(one)]
    cut = desk.result(one)
    shutil.rmtree(desk.out)
    desk.execute(one)
    assert cut == desk.result(one)


def test_a_failure_is_kept_aside_with_its_reason_while_the_others_go_on(desk: Desk, failing: Any) -> None:
    failing["R"] = RuntimeError("no luck\nat all")
    outcome = desk.execute(*CELLS)
    folder = desk.folder(CELLS[0])
    assert outcome == Outcome(done=[desk.folder(CELLS[1])], failed={folder: "RuntimeError: no luck"}, seeds=1)
    assert desk.screen.notes == [
        "1 of 2: lstm on R, released, preset quick, seeds 0-1: failed: RuntimeError: no luck"
    ]
    note = json.loads(folder.with_name("0-1.failed.json").read_text())
    assert note["reason"] == "RuntimeError: no luck"
    assert "no luck\nat all" in "".join(note["traceback"])


def test_what_failed_is_taken_up_only_on_request(desk: Desk, failing: Any) -> None:
    failing["R"] = ValueError("the data is wrong")
    desk.execute(*CELLS)
    del failing["R"]
    assert desk.execute(*CELLS) == Outcome(failed={desk.folder(CELLS[0]): "the data is wrong"}, seeds=1)
    again = desk.execute(*CELLS, orders=replace(PLAIN, retry=True))
    assert again == Outcome(done=[desk.folder(CELLS[0])], seeds=3)
    assert not list(desk.out.rglob("*.failed.json"))


def test_a_gpu_that_fails_is_not_tried_with_the_rest_of_the_plan(desk: Desk, failing: Any) -> None:
    failing["R"] = RuntimeError("CUDA error: an illegal memory access was encountered")
    with pytest.raises(
        MachineError, match=r"^the GPU has failed \(.*illegal memory access.*\): start again, with --re"
    ):
        desk.execute(*CELLS)
    assert not desk.folder(CELLS[1]).exists()


def test_a_full_disk_stops_the_work_in_one_line_and_blames_no_piece(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.execute(CELLS[1])

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(
            MachineError, match=r"cannot write .*0-1/\S+: No space left on device; .*: make room and"
        ):
            desk.execute(*CELLS)
    assert not list(desk.out.rglob("*.part"))
    assert not list(desk.out.rglob("*.failed.json"))
    assert desk.execute(*CELLS).done == [desk.folder(CELLS[0])]


def test_a_piece_that_another_process_works_on_is_left_to_it(desk: Desk) -> None:
    with ExitStack() as other:
        other.enter_context(held(desk.out, f"{CELLS[0].name}.0-1"))
        outcome = desk.execute(*CELLS)
    assert outcome == Outcome(done=[desk.folder(CELLS[1])], busy=[desk.folder(CELLS[0])], seeds=1)
    assert desk.screen.notes == [
        "1 of 2: lstm on R, released, preset quick, seeds 0-1: another process is at it; left to that one"
    ]


def test_a_piece_that_the_other_process_has_finished_meanwhile_is_not_called_busy(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished_elsewhere(out: Path, one: PlannedRun, piece: Any) -> bool:
        monkeypatch.undo()
        assert Desk.execute(Desk(desk.out), one).done == [piece.folder]
        return False

    monkeypatch.setattr(executing, "take", finished_elsewhere)
    assert desk.execute(CELLS[0]) == Outcome(seeds=2)


def test_a_failed_piece_whose_folder_was_removed_begins_anew(
    desk: Desk, failing: dict[str, BaseException]
) -> None:
    failing["R"] = ValueError("no")
    assert list(desk.execute(CELLS[0]).failed) == [desk.folder(CELLS[0])]
    failing.clear()
    assert list(desk.execute(CELLS[0]).failed) == [desk.folder(CELLS[0])]
    shutil.rmtree(desk.folder(CELLS[0]))
    assert desk.execute(CELLS[0]).done == [desk.folder(CELLS[0])]


def test_no_piece_is_begun_when_the_time_is_up_and_results_are_still_written(desk: Desk) -> None:
    with pytest.raises(TimeIsUpError, match="the time is up"):
        desk.execute(*CELLS, orders=replace(PLAIN, minutes=0.0))
    assert not desk.folder(CELLS[0]).exists()
    assert desk.written == 1


def test_every_piece_is_analysed_without_figures_and_an_analysis_that_is_missing_is_made_up(
    desk: Desk,
) -> None:
    desk.execute(CELLS[0])
    place = desk.folder(CELLS[0]) / "analysis"
    assert not place.exists()
    outcome = desk.execute(CELLS[0], orders=replace(PLAIN, analysis=True))
    assert outcome.done == [desk.folder(CELLS[0])]
    assert (place / "analysis.json").is_file()
    assert {path.suffix for path in place.rglob("*") if path.is_file()} == {".json", ".parquet"}
    assert desk.screen.titles == []  # nothing was trained


def test_leftovers_of_a_killed_analysis_are_cleared_away(desk: Desk) -> None:
    desk.execute(CELLS[0])
    left = desk.folder(CELLS[0]) / ".analysis.123.part"
    left.mkdir()
    desk.execute(CELLS[0], orders=replace(PLAIN, analysis=True))
    assert not left.exists()


def test_small_keeps_the_weights_of_the_best_and_the_worst_seed_and_no_checkpoint(desk: Desk) -> None:
    one = cell(0, 1, 2, steps=60)
    desk.execute(one)
    run = ctlpp.load_run(desk.folder(one))
    desk.execute(one, orders=replace(PLAIN, small=True))
    assert not (desk.folder(one) / "checkpoint").exists()
    ood = {seed["seed"]: seed["accuracy"]["ood"] for seed in desk.result(one)}
    kept = sorted(path.name for path in (desk.folder(one) / "weights").iterdir())
    best, worst = max(ood, key=lambda seed: (ood[seed], -seed)), min(ood, key=lambda seed: (ood[seed], -seed))
    assert kept == sorted([f"seed-{best}.safetensors", f"seed-{worst}.safetensors"])
    model = build("lstm", run.config["vocab_size"], run.config["n_classes"], "quick")
    model.load_state_dict(
        safetensors.torch.load_file(desk.folder(one) / "weights" / f"seed-{best}.safetensors")
    )
    tokens = ctlpp.generate(one.variant, **one.options).tensors("ood")[3][0]
    assert model.eval()(tokens).equal(run.crowd.member(best).eval()(tokens))
    assert desk.execute(one, orders=replace(PLAIN, small=True)) == Outcome(
        seeds=len(one.seeds)
    )  # and that is finished


def test_small_without_weights_keeps_none(desk: Desk) -> None:
    desk.execute(CELLS[0], orders=replace(PLAIN, small=True, keep_weights=0))
    assert {path.name for path in desk.folder(CELLS[0]).iterdir()} - {".lock"} == {
        "config.json",
        "metrics.parquet",
        "result.json",
    }
