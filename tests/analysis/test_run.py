"""`ctlpp analyze` on real run folders: what it says, and runs that are not as usual."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.analysis.conftest import RECIPE, ctlpp
from tests.analysis.spoiling import damage_newest, forget_task, unfinish
from torch import nn

from ctlpp.analysis.run import fresh_folder, study_run
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.figures import run as whole_run
from ctlpp.figures.run import analyze_run
from ctlpp.runs.history import History
from ctlpp.training.train import train


def test_the_command_says_what_it_found_and_where(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ctlpp(monkeypatch, capsys, "analyze", run, "--seeds", "2-2", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "interchange across" in out
    assert "ndr on R, 1 seed" in out
    assert "correlations need 4 seeds or more" in out
    assert "Where the value is: layer" in out
    assert f"ctlpp report {run}" in out
    assert str(run / "analysis") in out.replace("\n", "")
    assert json.loads((run / "analysis" / "analysis.json").read_text())["seeds"] == [2]


def test_an_unfinished_run_can_be_analysed_on_request(run: Path) -> None:
    unfinish(run)
    study = study_run(run, unfinished=True)
    assert not study.finished
    assert study.step == 30


def test_the_analysis_of_an_older_checkpoint_says_so(run: Path) -> None:
    unfinish(run)
    damage_newest(run)
    study = study_run(run, unfinished=True, seeds=[0])
    assert study.step == 20
    line = "step-000000030.safetensors is damaged (its checksum is wrong): taken is the checkpoint before, of step 20"
    assert f"{run / 'checkpoint' / line}" in study.analysis.notes


def test_force_replaces_an_analysis(run: Path) -> None:
    for options in ({}, {"force": True}):
        analyze_run(run, seeds=[3], formats=["svg"], device="cpu", **options)  # type: ignore[arg-type]
    (run / "analysis" / "analysis.json").unlink()
    with pytest.raises(ValueError, match="is not an analysis, so it is not replaced"):
        analyze_run(run, force=True)


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("link", "link is a link, so it is not replaced: choose another folder with --out"),
        ("nowhere", "nowhere is a link, so it is not replaced: choose another folder with --out"),
        (
            ".",
            ". is the folder you are in or one above it, so it is not replaced: choose another folder with --out",
        ),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_anything_is_computed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: str, line: str
) -> None:
    here = run.with_name("here")
    here.mkdir()
    (here / "analysis.json").write_text("old")
    (here / "link").symlink_to(here)
    (here / "nowhere").symlink_to("gone")
    monkeypatch.chdir(here)
    monkeypatch.setattr(whole_run, "study_run", lambda *_, **__: pytest.fail("computed"))
    assert ctlpp(monkeypatch, capsys, "analyze", run, "--out", out, "--force") == (2, "", f"ctlpp: {line}\n")
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
    generate("R", symbols=4, functions=6, max_length=3, train=60, iid=9, ood=9).save(tmp_path / "other")
    with pytest.raises(
        ValueError, match=r"other has 11 tokens, the run in .* was trained with 10: they do not fit$"
    ):
        study_run(run, data=tmp_path / "other")


def test_a_run_that_names_its_task_is_not_analysed_as_if_it_were_of_another(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    dataset.save(tmp_path / "same")
    assert study_run(run, seeds=[0], data=tmp_path / "same").analysis.seeds == (0,)
    sizes = {"symbols": 3, "functions": 6, "max_length": 3, "train": 60, "iid": 9, "ood": 9}
    generate("R", seed=7, **sizes).save(tmp_path / "functions")
    generate("A", **sizes).save(tmp_path / "graphs")
    for other, line in (
        (
            "functions",
            r"functions has other functions than the run in .* was trained with \(\w\); use its task$",
        ),
        (
            "graphs",
            "graphs has other graphs than the run in .* was trained with: leave out --data, the run names its",
        ),
    ):
        with pytest.raises(ValueError, match=line):
            study_run(run, data=tmp_path / other)


def test_a_model_of_ones_own_that_records_nothing_is_shown_as_what_it_is(
    dataset: Dataset, tmp_path: Path
) -> None:
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


def test_a_run_without_any_evaluation_has_an_empty_history(trained: Path) -> None:
    history = History.of(pq.read_table(trained / "metrics.parquet").slice(0, 0), (0, 2))
    assert history.splits == []
    assert np.isnan(history.final("ood")).all()


def test_history_reads_the_rows_of_a_run(trained: Path) -> None:
    history = History.of(pq.read_table(trained / "metrics.parquet"), (2, 7))
    assert history.steps.tolist() == [10, 20, 30]
    assert history.accuracy["ood", 0].shape == (3, 2)
    result = {seed["seed"]: seed for seed in json.loads((trained / "result.json").read_text())["seeds"]}
    assert history.final("ood").tolist() == [result[seed]["accuracy"]["ood"] for seed in (2, 7)]
    assert history.final("iid", 2).tolist() == [result[seed]["by_length"]["iid"]["2"] for seed in (2, 7)]
    assert np.isnan(history.final("nowhere")).all()
