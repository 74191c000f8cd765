"""What `ctlpp analyze` says of diverged seeds, single seeds, unfinished runs and runs without an OOD accuracy."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ctlpp.cli.analyze import show, where_the_value_is
from tests.analysis.conftest import RECIPE

from ctlpp.analysis.run import Study, study_run
from ctlpp.benchmark.dataset import Dataset
from ctlpp.figures.run import analyze_run, title_of
from ctlpp.training.train import train


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_diverged_seeds_are_marked_and_left_out_of_correlations(run: Path, tmp_path: Path) -> None:
    study = study_run(run)
    study.diverged[2] = 11
    assert study.correlations["codes"].seeds == 3


def shown(study: Study, capsys: pytest.CaptureFixture[str]) -> str:
    show(study)
    return " ".join(capsys.readouterr().out.split())


def test_diverged_seeds_are_counted_and_left_out_of_the_means(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    study = study_run(trained)
    assert "ndr on R, 4 seeds ┏" in shown(study, capsys)
    study = replace(study, diverged={2: 11})
    text, kept = shown(study, capsys), study.analysis.measures["pairs_train"][[0, 2, 3]]
    assert "ndr on R, 4 seeds, 1 of them diverged and left out ┏" in text
    assert f"accuracy, known pairs │ {kept.mean():.3f} ± {kept.std(ddof=1):.3f} │ – │" in text
    assert "correlations need 4 seeds or more that have not diverged" in text
    assert sum(map(int, re.findall(r"\((\d+) seed", where_the_value_is(study)))) == 3
    study.diverged.update(dict.fromkeys((0, 3, 7), 11))
    assert "accuracy, known pairs │ – │ – │" in shown(study, capsys)
    assert where_the_value_is(study) == ""


def test_a_single_seed_has_no_standard_deviation(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = study_run(trained, seeds=[3])
    assert f"accuracy, known pairs │ {study.analysis.measures['pairs_train'][0]:.3f} │" in shown(
        study, capsys
    )


def test_an_unfinished_run_is_said_to_be_unfinished(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    (run / "result.json").unlink()
    assert "ndr on R, 1 seed, unfinished: step 30 of 30 ┏" in shown(
        study_run(run, seeds=[0], unfinished=True), capsys
    )


def test_without_an_ood_evaluation_the_accuracy_on_new_pairs_is_named_and_not_correlated_with_itself(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    train(
        "gru",
        dataset,
        seeds=range(4),
        preset="quick",
        recipe=RECIPE,
        out=tmp_path / "run",
        device="cpu",
        splits=["iid"],
    )
    study = analyze_run(tmp_path / "run", device="cpu", formats=["svg"])
    assert study.ood.tolist() == study.analysis.measures["pairs_ood"].tolist()
    text = shown(study, capsys)
    assert "correlation with accuracy, new pairs" in text
    assert "OOD" not in text
    content = json.loads((tmp_path / "run" / "analysis" / "analysis.json").read_text())
    assert content["notes"] == [
        "the run has no OOD accuracy: correlations are with the accuracy on new pairs"
    ]
    assert "pairs_ood" in content["measures"]
    assert "pairs_ood" not in content["correlations"]
    assert "pairs_train" in content["correlations"]
    assert ", new pairs 0." in title_of(study, 0)
