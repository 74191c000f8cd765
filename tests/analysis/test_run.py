"""`ctlpp analyze` on real run folders: what it writes, runs that are not as usual, and runs it refuses."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.conftest import RECIPE, ctlpp
from torch import nn

from ctlpp.analysis.run import fresh_folder, study_run
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.figures import run as whole_run
from ctlpp.figures.run import analyze_run, title_of
from ctlpp.training.train import train

SIZES = {"symbols": 3, "functions": 6, "max_length": 3, "train": 60, "iid": 9, "ood": 9}


def change_config(run: Path, **changes: object) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | changes))


def unfinish(run: Path) -> None:
    (run / "result.json").unlink()


def forget_task(run: Path) -> None:
    change_config(run, task=None)


def damage_newest(run: Path) -> None:
    os.truncate(run / "checkpoint" / "step-000000030.safetensors", 3000)


def damage_all(run: Path) -> None:
    for path in (run / "checkpoint").glob("*.safetensors"):
        os.truncate(path, 3000)


def lose_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoint")
    (run / "checkpoint").mkdir()


def stop_early(run: Path) -> None:
    lose_checkpoints(run)
    unfinish(run)


def keep_the_analysis_alone(run: Path) -> None:
    lose_checkpoints(run)
    (run / "analysis").mkdir()
    (run / "analysis" / "analysis.json").write_text("{}")


MISTAKES: list[tuple[Callable[[Path], Any], str]] = [  # what has become of the run, and the complaint
    (shutil.rmtree, "RUN does not exist"),
    (lambda run: change_config(run, model="os:system"), "model 'os:system' is no model"),
    (unfinish, "the run in RUN is unfinished (step 30 of 30): train on with --resume, or analyse its newest"),
    (forget_task, "the run in RUN does not say which task it was trained on: name its dataset with --data"),
    (damage_all, "RUN/checkpoint/step-000000030.safetensors is damaged"),
    (damage_newest, "RUN/checkpoint/step-000000030.safetensors is damaged"),
    (lose_checkpoints, "the run in RUN is finished, and only its small files were kept, not its checkpoint"),
    (keep_the_analysis_alone, "the run in RUN is finished, and only its small files were kept"),
    (stop_early, "the run in RUN has no checkpoint yet"),
    (lambda run: (run / "analysis").mkdir(), "RUN/analysis exists already"),
]
OPTIONS = {  # and what is given with a run that is as it should be
    "--seeds 0,5": "no seed 5 in this run: choose from 0, 2, 3, 7",
    "--bases some": "--bases some: write a number, or all",
    "--bases 13": "--bases 13: every donor and consumer has 12 bases of another value: use 1 to 12, or all",
    "--data nowhere": "nowhere",
    "--out RUN/config.json --force": "RUN/config.json is a file",
    "--out RUN/checkpoint --force": "RUN/checkpoint is not an analysis, so it is not replaced",
    "--out RUN/config.json/new": "cannot write RUN/config.json/new: RUN/config.json is not a folder",
}


def test_a_mistake_is_one_line_and_exit_code_2_and_nothing_is_written(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every = [(spoil, "", complaint) for spoil, complaint in MISTAKES]
    every += [(lambda run: None, options, complaint) for options, complaint in OPTIONS.items()]
    for number, (spoil, options, complaint) in enumerate(every):
        run = Path(shutil.copytree(trained, tmp_path / f"run-{number}"))
        spoil(run)
        before = sorted(run.rglob("*"))
        given = options.replace("RUN", str(run)).split()
        code, out, err = ctlpp(monkeypatch, capsys, "analyze", run, "--device", "cpu", *given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"ctlpp: {complaint.replace('RUN', str(run))}"), err
        assert sorted(run.rglob("*")) == before


def test_the_command_says_what_it_found_and_where(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ctlpp(monkeypatch, capsys, "analyze", run, "--seeds", "2-2", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "interchange across" in out
    assert "ndr on R, 1 seed" in out
    assert str(run / "analysis") in out.replace("\n", "")
    assert json.loads((run / "analysis" / "analysis.json").read_text())["seeds"] == [2]


def test_an_unfinished_run_is_analysed_on_request_from_its_newest_whole_checkpoint(run: Path) -> None:
    unfinish(run)
    study = study_run(run, unfinished=True, seeds=[0])
    assert (study.finished, study.step, study.analysis.notes) == (False, 30, [])
    damage_newest(run)
    study = study_run(run, unfinished=True, seeds=[0])
    assert study.step == 20
    (note,) = study.analysis.notes
    assert "step-000000030.safetensors is damaged" in note


def test_force_replaces_an_analysis_and_nothing_else(run: Path) -> None:
    for force in (False, True):
        analyze_run(run, seeds=[3], figures=False, device="cpu", force=force)
    (run / "analysis" / "analysis.json").unlink()
    with pytest.raises(ValueError, match="is not an analysis, so it is not replaced"):
        analyze_run(run, force=True)


def test_what_cannot_be_replaced_is_refused_before_anything_is_computed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = run.with_name("here")
    here.mkdir()
    (here / "analysis.json").write_text("old")
    (here / "link").symlink_to(here)
    monkeypatch.chdir(here)
    monkeypatch.setattr(whole_run, "study_run", lambda *_, **__: pytest.fail("computed"))
    for out, line in (("link", "link is a link"), (".", ". is the current folder or one above it")):
        with pytest.raises(ValueError, match=line):
            analyze_run(run, out, force=True)
    assert (here / "analysis.json").read_text() == "old"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(5, "Input/output error")])
def test_an_old_analysis_is_kept_until_the_new_one_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any
) -> None:
    folder, rename = tmp_path / "analysis", Path.rename
    folder.mkdir()
    (folder / "analysis.json").write_text("old")

    def fail(path: Path, target: Path) -> Path:
        if path.name.endswith(".part"):
            raise failure
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((KeyboardInterrupt, ValueError)), fresh_folder(folder, force=True) as place:
        (place / "analysis.json").write_text("new")
    assert (folder / "analysis.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_run_without_a_task_is_analysed_with_the_dataset_it_is_given(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    forget_task(run)
    dataset.save(tmp_path / "data")
    assert study_run(run, seeds=[0], data=tmp_path / "data").analysis.seeds == (0,)
    generate("R", **SIZES | {"symbols": 4}).save(tmp_path / "other")
    with pytest.raises(ValueError, match=r"other has 11 tokens, the run in .* was trained with 10"):
        study_run(run, data=tmp_path / "other")


def test_a_run_that_names_its_task_is_not_analysed_as_if_it_were_of_another(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    dataset.save(tmp_path / "same")
    assert study_run(run, seeds=[0], data=tmp_path / "same").analysis.seeds == (0,)
    generate("R", seed=7, **SIZES).save(tmp_path / "functions")
    generate("A", **SIZES).save(tmp_path / "graphs")
    for other, line in (
        ("functions", r"functions has other functions than the run in .* was trained with \(\w\)"),
        ("graphs", r"graphs has other symbols, groups or graphs than the run in .* leave out data"),
    ):
        with pytest.raises(ValueError, match=line):
            study_run(run, data=tmp_path / other)


def test_your_own_model_that_records_nothing_is_shown_as_what_it_is(dataset: Dataset, tmp_path: Path) -> None:
    def bag(vocab_size: int, n_classes: int) -> nn.Module:
        return nn.Sequential(nn.Embedding(vocab_size, 8), nn.AdaptiveAvgPool2d((1, n_classes)), nn.Flatten(1))

    train(bag, dataset, seeds=[0, 1], recipe=RECIPE, out=tmp_path / "run", device="cpu", observers=[])
    with pytest.raises(ValueError, match=r"model .*bag"):
        analyze_run(tmp_path / "run", device="cpu")
    study = analyze_run(tmp_path / "run", device="cpu", factory=bag, formats=["svg"])
    assert len(study.analysis.notes) == 2
    content = json.loads((tmp_path / "run" / "analysis" / "analysis.json").read_text())
    assert content["notes"] == study.analysis.notes
    assert "places" not in content
    assert not (tmp_path / "run" / "analysis" / "interchange.parquet").exists()


def test_diverged_seeds_are_left_out_of_correlations(trained: Path) -> None:
    study = study_run(trained)
    assert study.correlations["codes"].seeds == 4
    study = replace(study, diverged={2: 11})
    assert study.trained.tolist() == [True, False, True, True]
    assert study.correlations["codes"].seeds == 3


def test_without_an_ood_evaluation_measures_are_correlated_with_the_accuracy_on_new_pairs(
    dataset: Dataset, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"preset": "quick", "recipe": RECIPE, "device": "cpu", "splits": ["iid"]}
    train("gru", dataset, seeds=range(4), out=tmp_path / "run", **settings)
    study = analyze_run(tmp_path / "run", device="cpu", figures=False)
    assert study.ood.tolist() == study.analysis.measures["pairs_ood"].tolist()
    assert study.outcome == "accuracy, new pairs"
    content = json.loads((tmp_path / "run" / "analysis" / "analysis.json").read_text())
    assert content["notes"] == [
        "the run has no OOD accuracy: correlations are with the accuracy on new pairs"
    ]
    assert "pairs_ood" in content["measures"]
    assert "pairs_ood" not in content["correlations"]  # not with itself
    assert "pairs_train" in content["correlations"]
    assert ", new pairs 0." in title_of(study, 0)
