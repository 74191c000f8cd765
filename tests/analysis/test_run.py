"""`ctlpp analyze` on real run folders: what it writes, runs that are not as usual, and runs it refuses."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.conftest import RECIPE, SMALL, bag
from tests.cli.conftest import Command

from ctlpp.analysis.analysis import Study, study_run
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.figures import run as whole_run
from ctlpp.figures.run import analyze_run, title_of
from ctlpp.training.train import train


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


def keep_only_the_analysis(run: Path) -> None:
    lose_checkpoints(run)
    (run / "analysis").mkdir()
    (run / "analysis" / "analysis.json").write_text("{}")


MISTAKES: list[tuple[Callable[[Path], Any], str]] = [  # what has become of the run, and the complaint
    (shutil.rmtree, "RUN does not exist"),
    (lambda run: change_config(run, model="os:system"), "model 'os:system' is no model"),
    (unfinish, "the run in RUN is unfinished (step 30 of 30): train on with --resume, or analyse its newest"),
    (forget_task, "the run in RUN does not say which task it was trained on: name its dataset with --data"),
    (
        lambda run: change_config(run, vocab_size=99),
        "RUN/config.json has 10 tokens, the run in RUN was trained with 99: they do not fit",
    ),
    (damage_all, "RUN/checkpoint/step-000000030.safetensors is damaged"),
    (damage_newest, "RUN/checkpoint/step-000000030.safetensors is damaged"),
    (lose_checkpoints, "the run in RUN is finished, and only its small files were kept, not its checkpoint"),
    (
        keep_only_the_analysis,
        "the run in RUN is finished, and only its small files were kept, not its checkpoint: its analysis is"
        " in RUN/analysis",
    ),
    (stop_early, "the run in RUN has no checkpoint yet"),
    (lambda run: (run / "analysis").mkdir(), "RUN/analysis exists already"),
]
OPTIONS = {  # and what is given with a run that is as it should be
    "--seeds 0,5": "no seed 5 in this run: choose from 0, 2, 3, 7",
    "--bases some": "--bases some: write a number, or all",
    "--bases 0": "--bases 0: every donor and consumer has 12 bases of another value: use 1 to 12, or all",
    "--bases 13": "--bases 13: every donor and consumer has 12 bases of another value: use 1 to 12, or all",
    "--data nowhere": "nowhere",
    "--out RUN/config.json --force": "RUN/config.json is a file",
    "--out RUN/checkpoint --force": "RUN/checkpoint is not an analysis, so it is not replaced",
    "--out RUN/config.json/new": "cannot write RUN/config.json/new: RUN/config.json is not a folder",
}


def test_a_mistake_is_one_line_and_exit_code_2_and_nothing_is_written(
    trained: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    every = [(spoil, "", complaint) for spoil, complaint in MISTAKES]
    every += [(lambda run: None, options, complaint) for options, complaint in OPTIONS.items()]
    for number, (spoil, options, complaint) in enumerate(every):
        run = Path(shutil.copytree(trained, tmp_path / f"run-{number}"))
        spoil(run)
        line = refused("analyze", run, "--device cpu", options.replace("RUN", str(run)))
        assert line.startswith(complaint.replace("RUN", str(run)))


def test_an_unfinished_run_is_analysed_on_request_from_its_newest_whole_checkpoint(run: Path) -> None:
    unfinish(run)
    study = study_run(run, unfinished=True, seeds=[0])
    assert (study.finished, study.step, study.analysis.notes) == (False, 30, [])
    damage_newest(run)
    study = study_run(run, unfinished=True, seeds=[0])
    assert study.step == 20
    (note,) = study.analysis.notes
    assert "step-000000030.safetensors is damaged" in note


def test_force_replaces_an_analysis_and_what_cannot_be_replaced_is_refused_before_anything_is_computed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for force in (False, True):
        analyze_run(run, seeds=[3], figures=False, device="cpu", force=force)
    monkeypatch.setattr(whole_run, "study_run", lambda *_, **__: pytest.fail("computed"))
    with pytest.raises(ValueError, match="exists already"):
        analyze_run(run)
    with pytest.raises(ValueError, match="cannot write /proc/analysis"):
        analyze_run(run, Path("/proc/analysis"))


def test_a_dataset_is_needed_by_a_run_without_a_task_and_must_be_that_of_the_run(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    dataset.save(tmp_path / "same")
    generate("R", seed=7, **SMALL).save(tmp_path / "functions")
    generate("A", **SMALL).save(tmp_path / "graphs")
    generate("R", **SMALL | {"symbols": 4}).save(tmp_path / "symbols")
    for other, line in (
        ("functions", r"functions has other functions than the run in .* was trained with \(\w\)"),
        ("graphs", r"graphs has other symbols, groups or graphs than the run in .* leave out data"),
        ("symbols", r"symbols has 11 tokens, the run in .* was trained with 10"),
    ):
        with pytest.raises(ValueError, match=line):
            study_run(run, data=tmp_path / other)
    for prepare in (lambda run: None, forget_task):
        prepare(run)
        assert study_run(run, seeds=[0], data=tmp_path / "same").analysis.seeds == (0,)


def test_the_command_says_what_it_found_and_where_and_what_your_own_model_does_not_allow(
    dataset: Dataset, tmp_path: Path, command: Command
) -> None:
    run, folder = tmp_path / "run", tmp_path / "run" / "analysis"
    settings: dict[str, Any] = {"recipe": RECIPE, "device": "cpu", "observers": []}
    train("tests.analysis.conftest:bag", dataset, seeds=[0, 1], out=run, **settings)
    done = command("analyze", run, "--seeds 1-1 --device cpu")
    content = json.loads((folder / "analysis.json").read_text())
    assert (done.code, content["seeds"], len(content["notes"])) == (0, [1], 2)
    assert done.err.splitlines() == [f"Note: {note}." for note in content["notes"]]
    for words in ("conftest:bag on R, 1 seed", "accuracy, new pairs", str(folder)):
        assert words in done.out.replace("\n", "")
    assert "places" not in content
    assert not (folder / "interchange.parquet").exists()
    drawn = {path.name for path in (folder / "figures").iterdir()}
    names = ("curves", "lengths", "accuracy", "compatibility")
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("pdf", "png", "svg")}
    train(lambda v, c: bag(v, c), dataset, seeds=[0], out=tmp_path / "callable", **settings)
    with pytest.raises(ValueError, match=r"model .*lambda"):
        analyze_run(tmp_path / "callable", device="cpu")
    analyze_run(tmp_path / "callable", device="cpu", factory=bag, figures=False)


def test_diverged_seeds_are_left_out_of_correlations(written: tuple[Path, Study]) -> None:
    study = written[1]
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
