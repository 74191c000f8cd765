"""Run folders in every state are found and shown as what they are."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.report.conftest import make_run, with_seeds

from ctlpp.runs.folder import RunRecord, find_runs


def only(folder: Path) -> RunRecord:
    (record,) = find_runs([folder])
    return record


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_runs_are_found_at_any_depth_and_once(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "run-10", analysed=False)
    make_run(tmp_path / "a" / "run-2", analysed=True)
    make_run(tmp_path / "b" / "c" / "d", analysed=False)
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    names = [record.name for record in find_runs([tmp_path])]
    assert names == ["a/run-2", "a/run-10", "b/c/d"]
    assert len(find_runs([tmp_path, tmp_path / "a", tmp_path / "a" / "run-2"])) == 3


def test_a_link_to_a_run_is_followed_and_a_link_elsewhere_is_not(tmp_path: Path) -> None:
    here = tmp_path / "here"
    run = make_run(here / "own" / "run", analysed=False)
    (here / "another").symlink_to(make_run(tmp_path / "there" / "far", analysed=False))
    (here / "a-second-name").symlink_to(run)
    (here / "many").symlink_to(tmp_path / "there")
    (here / "own" / "round").symlink_to(here)
    (run / "itself").symlink_to(run)
    (here / "nowhere").symlink_to(tmp_path / "nowhere")
    assert [record.name for record in find_runs([here])] == ["another", "own/run"]


def test_a_run_itself_may_be_named(tmp_path: Path) -> None:
    assert only(make_run(tmp_path / "run")).name == "run"


def test_a_finished_run_has_its_seeds(tmp_path: Path) -> None:
    record = only(make_run(tmp_path / "run", (0.25, 1.0)))
    assert (record.state, record.reason, record.step) == ("finished", "", 300)
    assert [(seed.number, seed.accuracy["ood"], seed.by_length["ood"][3]) for seed in record.seeds] == [
        (0, 0.25, 0.25),
        (1, 1.0, 1.0),
    ]


def test_an_unfinished_run_shows_its_last_evaluation(tmp_path: Path) -> None:
    (make_run(tmp_path / "run") / "result.json").unlink()
    record = only(tmp_path / "run")
    assert (record.state, record.reason, record.step) == (
        "unfinished",
        "last evaluated at step 300 of 300",
        300,
    )
    assert record.seeds[0].accuracy == {"iid": 0.5, "ood": 0.5}
    assert record.seeds[0].by_length == {"iid": {2: 0.5}, "ood": {2: 0.5}}


def test_seeds_of_an_unfinished_run_have_diverged_if_its_analysis_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "result.json").unlink()
    analysis = run / "analysis" / "analysis.json"
    analysis.write_text(json.dumps(json.loads(analysis.read_text()) | {"diverged": [1, None, "2"]}))
    assert [seed.diverged for seed in only(run).seeds] == [False, True, False]
    analysis.write_text("{")
    assert not any(seed.diverged for seed in only(run).seeds)


def test_a_run_without_any_evaluation_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    (run / "result.json").unlink()
    (run / "metrics.parquet").unlink()
    assert only(tmp_path / "run").reason == "no evaluation yet, 300 steps planned"


def test_a_run_that_was_saved_before_its_first_evaluation_is_unfinished_and_not_damaged(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    (run / "result.json").unlink()
    pq.write_table(pq.read_table(run / "metrics.parquet").slice(0, 0), run / "metrics.parquet")
    record = only(run)
    assert (record.state, record.reason, record.step) == (
        "unfinished",
        "no evaluation yet, 300 steps planned",
        None,
    )


def test_diverged_seeds_are_no_part_of_the_accuracies(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.2, 0.8))
    result = json.loads((run / "result.json").read_text())
    result["seeds"][0] |= {"diverged": True, "diverged_at": 17}
    (run / "result.json").write_text(json.dumps(result))
    record = only(run)
    assert record.accuracies("ood") == [0.8]
    assert record.seeds[0].diverged_at == 17


@pytest.mark.parametrize(
    ("name", "content", "state", "reason"),
    [
        ("config.json", "{", "damaged", "config.json cannot be read: Expecting property name"),
        ("config.json", "[1]", "damaged", "config.json holds no JSON object"),
        ("config.json", "[" * 100_000, "damaged", "config.json cannot be read"),
        ("result.json", "nonsense", "damaged", "result.json cannot be read"),
        ("result.json", '{"seeds": 3}', "damaged", "result.json lists no seeds"),
        ("result.json", '{"seeds": [{"seed": "<b>"}, 7, null]}', "damaged", "result.json lists no seeds"),
    ],
)
def test_damage_is_told(tmp_path: Path, name: str, content: str, state: str, reason: str) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    (run / name).write_text(content)
    record = only(run)
    assert record.state == state
    assert record.reason.startswith(reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accuracy": {"iid": 1.0, "ood": float("nan")}}, "result.json has an accuracy of NaN"),
        ({"accuracy": {"iid": 7.5, "ood": 1.0}}, "result.json has an accuracy of 7.5"),
        ({"accuracy": {"iid": "1", "ood": 1.0}}, 'result.json has an accuracy of "1"'),
        ({"accuracy": {"iid": None, "ood": 1.0}}, "result.json has an accuracy of null"),
        ({"by_length": {"ood": {"2": -0.1}}}, "result.json has an accuracy of -0.1"),
        ({"accuracy": 7}, "result.json has no accuracy of seed 1"),
        ({"seed": 0}, "result.json has other seeds than config.json"),
        ({"seed": 77}, "result.json has other seeds than config.json"),
        ({"seed": "<b>"}, "result.json has other seeds than config.json"),
    ],
)
def test_a_result_that_training_would_not_have_written_is_damage(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    record = only(with_seeds(make_run(tmp_path / "run", (0.5, 0.6), analysed=False), {1: changes}))
    assert (record.state, record.reason, record.seeds) == ("damaged", reason, ())


@pytest.mark.parametrize("seeds", [[0], [0, 1, 77]])
def test_seeds_that_are_missing_in_a_result_or_that_its_settings_do_not_have_are_damage(
    tmp_path: Path, seeds: Any
) -> None:
    run = make_run(tmp_path / "run", (0.5, 0.6), analysed=False)
    edit(run / "config.json", seeds=seeds)
    assert only(run).reason == "result.json has other seeds than config.json"


def test_a_diverged_seed_needs_no_accuracy_and_an_unknown_number_of_steps_is_no_damage(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", (0.5, 0.6), analysed=False)
    with_seeds(run, {1: {"diverged": True, "accuracy": {"ood": None}, "by_length": 4}})
    edit(run / "result.json", steps=float("inf"))
    record = only(run)
    assert (record.state, record.step) == ("finished", None)
    assert (record.seeds[1].accuracy, record.seeds[1].by_length) == ({}, {})


def test_another_version_and_missing_settings_are_told(tmp_path: Path) -> None:
    edit(make_run(tmp_path / "runs" / "newer") / "config.json", format=2, versions={"ctlpp": "9.1"})
    (make_run(tmp_path / "runs" / "unset") / "config.json").unlink()
    newer, unset = find_runs([tmp_path / "runs"])
    assert (newer.state, newer.reason) == ("version", "written by another version of ctlpp (9.1)")
    assert (unset.state, unset.reason) == ("damaged", "config.json is missing: the settings are not known")
    assert len(unset.seeds) == 3


def test_a_foreign_config_is_listed_last_as_no_run(tmp_path: Path) -> None:
    (tmp_path / "a-model").mkdir()
    (tmp_path / "a-model" / "config.json").write_text('{"architectures": ["Bert"]}')
    make_run(tmp_path / "run")
    assert [(record.name, record.state) for record in find_runs([tmp_path])] == [
        ("run", "finished"),
        ("a-model", "foreign"),
    ]


def test_a_truncated_history_of_an_unfinished_run_is_damage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "result.json").unlink()
    (run / "metrics.parquet").write_bytes((run / "metrics.parquet").read_bytes()[:99])
    assert only(run).reason.startswith("metrics.parquet cannot be read")


def test_nothing_to_report_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist: name run folders"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="no runs in or under"):
        find_runs([tmp_path])
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="no runs in or under"):
        find_runs([tmp_path])
    with pytest.raises(ValueError, match="is not a folder"):
        find_runs([tmp_path / "config.json"])
