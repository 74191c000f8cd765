"""Carrying out a plan: nothing twice, nothing forgotten, and one failure does not stop the others."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import safetensors.torch
from tests.plans.small import small_run

import ctlpp.training.train
from ctlpp.files import BusyError, TimeUp, lock
from ctlpp.models.zoo import build
from ctlpp.plans import work
from ctlpp.plans.pieces import Piece, run_status
from ctlpp.plans.planned import PlannedRun
from ctlpp.plans.work import MachineError, Outcome, WorkSettings, carry_out
from ctlpp.training.train import Interrupted

ON_R, ON_A = small_run(0, 1), small_run(0, variant="A")
PLAIN = WorkSettings(device="cpu", analysis=False)
train = ctlpp.training.train.train


class Plans:
    """A folder in which plans are carried out."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.seen: list[tuple[str, str]] = []  # titles and notes

    def carry_out(self, *plan: PlannedRun, **changes: Any) -> Outcome:
        self.seen = []
        return carry_out(plan, self.out, replace(PLAIN, **changes), self.watch)

    def watch(self, title: str, piece: Piece) -> object:
        return SimpleNamespace(
            on_start=lambda config, step: self.seen.append((title, f"step {step}")),
            on_note=lambda line: self.seen.append((title, line)),
        )

    def files(self) -> dict[Path, int]:
        """Everything that is no lock, with the time of its last change."""
        files = [path for path in self.out.rglob("*") if path.is_file() and "lock" not in str(path)]
        return {path: path.stat().st_mtime_ns for path in files}

    def folder(self, run: PlannedRun) -> Path:
        return self.out / "runs" / run.name / f"{run.seeds[0]}-{run.seeds[-1]}"

    def result(self, run: PlannedRun) -> Any:
        return json.loads((self.folder(run) / "result.json").read_text())["seeds"]


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    return Plans(tmp_path / "out")


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


def test_every_piece_is_trained_and_observed_and_a_second_time_nothing_is_touched(plans: Plans) -> None:
    outcome = plans.carry_out(ON_R, ON_A)
    assert sorted(outcome.done) == sorted([plans.folder(ON_R), plans.folder(ON_A)])
    assert replace(outcome, done=[]) == Outcome(seeds=3)
    assert [pair for pair in plans.seen if "warm-up" not in pair[1]] == [
        ("1 of 2: lstm-R-clean-quick, seeds 0-1", "step 0"),
        ("2 of 2: lstm-A-clean-quick, seeds 0-0", "step 0"),
    ]
    assert [seed["seed"] for seed in plans.result(ON_R)] == [0, 1]
    before = plans.files()
    assert plans.carry_out(ON_R, ON_A) == Outcome(seeds=3)
    assert plans.files() == before


def test_a_run_cut_into_pieces_has_the_seeds_that_it_has_in_one_piece(plans: Plans) -> None:
    plans.carry_out(small_run(0, 1, 2), seeds_a_piece=2)
    parts = plans.result(small_run(0, 1)) + plans.result(small_run(2))
    shutil.rmtree(plans.out)
    plans.carry_out(small_run(0, 1, 2))
    for part, whole in zip(parts, plans.result(small_run(0, 1, 2)), strict=True):
        assert part["seed"] == whole["seed"]
        assert part["accuracy"] == pytest.approx(whole["accuracy"])
        assert part["loss"] == pytest.approx(whole["loss"], abs=1e-4)


def test_seeds_whose_weights_do_not_fit_into_memory_together_are_cut_into_pieces(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "memory_budget", lambda device: 1)
    plans.carry_out(small_run(0, 1))
    assert {folder.name for folder in plans.folder(ON_R).parent.iterdir()} == {"0-0", "1-1"}


def test_a_piece_interrupted_at_the_deadline_ends_as_if_nothing_had_happened(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run(0, 1, steps=8)
    with monkeypatch.context() as patch:
        clock = iter([0.0, -1.0])  # the time is up only once it trains
        patch.setattr(work, "time", lambda: next(clock, 1.0))
        with pytest.raises(Interrupted, match=r"the time is up: step 1 is saved in .*0-1"):
            plans.carry_out(run, minutes=0.0)
    assert not (plans.folder(run) / "result.json").exists()
    assert plans.carry_out(run).done == [plans.folder(run)]
    interrupted = plans.result(run)
    shutil.rmtree(plans.out)
    with pytest.raises(TimeUp, match="the time is up"):
        plans.carry_out(run, minutes=0.0)
    assert not plans.folder(run).exists(), "it was begun when the time was up"
    plans.carry_out(run)
    assert interrupted == plans.result(run)


def test_a_failure_is_noted_while_the_others_go_on_and_is_taken_up_on_request(
    plans: Plans, failing: Any
) -> None:
    failing["R"] = RuntimeError("no luck\nat all")
    folder, reason = plans.folder(ON_R), "RuntimeError: no luck"
    assert plans.carry_out(ON_R, ON_A) == Outcome(done=[plans.folder(ON_A)], failed={folder: reason}, seeds=1)
    assert plans.seen[0] == ("1 of 2: lstm-R-clean-quick, seeds 0-1", f"failed: {reason}")
    note = json.loads(folder.with_name("0-1.failed.json").read_text())
    assert note["reason"] == reason
    assert "no luck\nat all" in "".join(note["traceback"])
    del failing["R"]
    assert plans.carry_out(ON_R, ON_A) == Outcome(failed={folder: reason}, seeds=1)
    assert plans.carry_out(ON_R, ON_A, retry=True) == Outcome(done=[folder], seeds=3)
    assert not list(plans.out.rglob("*.failed.json"))


def test_a_failed_piece_whose_folder_is_removed_begins_anew(plans: Plans, failing: Any) -> None:
    failing["R"] = ValueError("no")
    plans.carry_out(ON_R)
    del failing["R"]
    shutil.rmtree(plans.folder(ON_R))
    assert plans.carry_out(ON_R).done == [plans.folder(ON_R)]


def test_a_gpu_that_fails_is_not_tried_with_the_rest_of_the_plan(plans: Plans, failing: Any) -> None:
    failing["R"] = RuntimeError("CUDA error: an illegal memory access was encountered")
    line = r"^the GPU has failed \(.*illegal memory access.*\): start again, with retry=True$"
    with pytest.raises(MachineError, match=line):
        plans.carry_out(ON_R, ON_A)
    assert not plans.folder(ON_A).exists()


def test_a_full_disk_stops_the_work_in_one_line_and_blames_no_piece(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    line = r"cannot write .*0-1/\S+: No space left on device; .*: make room"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(MachineError, match=line):
            plans.carry_out(ON_R)
    assert not list(plans.out.rglob("*.part"))
    assert not list(plans.out.rglob("*.failed.json"))
    assert plans.carry_out(ON_R).done == [plans.folder(ON_R)]


def test_a_piece_that_another_process_works_on_is_left_to_it(plans: Plans) -> None:
    with lock(plans.out / ".locks" / f"{ON_R.name}.0-1"):
        outcome = plans.carry_out(ON_R, ON_A)
    assert outcome == Outcome(done=[plans.folder(ON_A)], busy=[plans.folder(ON_R)], seeds=1)
    assert plans.seen[0][1] == "another process is at it; left to that one"


def test_a_piece_that_the_other_process_has_finished_meanwhile_is_not_called_busy(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished_elsewhere(piece: Any) -> Any:
        monkeypatch.undo()
        assert plans.carry_out(piece.run).done == [piece.folder]
        raise BusyError("theirs")

    monkeypatch.setattr(work, "claim", finished_elsewhere)
    assert plans.carry_out(ON_R) == Outcome(seeds=2)


def test_an_analysis_that_is_missing_or_damaged_is_made_up_without_training(plans: Plans) -> None:
    plans.carry_out(ON_R)
    result, place = (plans.folder(ON_R) / name for name in ("result.json", "analysis/analysis.json"))
    before, left = result.stat().st_mtime_ns, plans.folder(ON_R) / ".analysis.123.part"
    left.mkdir()  # by a process that was killed
    for damage in (lambda: None, lambda: place.unlink(), lambda: place.write_text("{")):
        damage()
        assert plans.carry_out(ON_R, analysis=True).done == [plans.folder(ON_R)]
        assert json.loads(place.read_text())["seeds"] == [0, 1]
        assert plans.carry_out(ON_R, analysis=True).done == []
    assert result.stat().st_mtime_ns == before
    assert not left.exists()
    assert {path.suffix for path in place.parent.rglob("*") if path.is_file()} == {".json", ".parquet"}
    plans.carry_out(ON_R, small=True)
    place.write_text("{")
    assert plans.carry_out(ON_R, analysis=True).done == []  # no checkpoint: it counts as not analysed


HARM: list[tuple[str, Callable[[str], str]]] = [
    ("metrics.parquet", lambda text: ""),
    ("result.json", lambda text: "{"),
    ("result.json", lambda text: text.replace('"ood": 0.', '"ood": 7.')),
]


def test_history_and_result_are_restored_from_the_checkpoint(plans: Plans) -> None:
    plans.carry_out(ON_R)
    folder, result = plans.folder(ON_R), plans.result(ON_R)
    history, weights = folder / "metrics.parquet", folder / "checkpoint" / "step-000000004.safetensors"
    rows, before = pq.read_table(history), weights.stat().st_mtime_ns
    for name, harm in HARM:
        text = (folder / name).read_text(errors="replace")
        (folder / name).write_text(harm(text))
        (piece,) = run_status(plans.out, ON_R).to_do
        assert (piece.folder, piece.step) == (folder, ON_R.steps)
        assert plans.carry_out(ON_R).done == [folder]
        assert pq.read_table(history) == rows
        assert plans.result(ON_R) == result
        assert weights.stat().st_mtime_ns == before, "nothing was trained"
        assert run_status(plans.out, ON_R).finished == (0, 1)


def test_small_keeps_the_weights_of_the_best_and_the_worst_seed_and_no_checkpoint(plans: Plans) -> None:
    run = small_run(0, 1, 2, steps=60)
    plans.carry_out(run)
    trained, folder = ctlpp.load_run(plans.folder(run)), plans.folder(run)
    plans.carry_out(run, small=True)
    assert not (folder / "checkpoint").exists()
    ood = {seed["seed"]: (seed["accuracy"]["ood"], -seed["seed"]) for seed in plans.result(run)}
    best, worst = max(ood, key=lambda seed: ood[seed]), min(ood, key=lambda seed: ood[seed])
    kept = {path.name for path in (folder / "weights").iterdir()}
    assert kept == {f"seed-{seed}.safetensors" for seed in (best, worst)}
    model = build("lstm", trained.config["vocab_size"], trained.config["n_classes"], "quick")
    model.load_state_dict(safetensors.torch.load_file(folder / "weights" / f"seed-{best}.safetensors"))
    tokens = ctlpp.generate(run.variant, **run.options).tensors("ood")[3][0]
    assert model.eval()(tokens).equal(trained.crowd.member(best).eval()(tokens))
    assert plans.carry_out(run, small=True) == Outcome(seeds=3)
    plans.carry_out(ON_A, small=True, keep_weights=0)
    names = {path.name for path in plans.folder(ON_A).iterdir()} - {".lock"}
    assert names == {"config.json", "metrics.parquet", "result.json"}
