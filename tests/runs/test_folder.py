"""Run folders in every state are read as what they are, and refused in one line where they must be."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.report.conftest import make_run, with_seeds

from ctlpp.runs.folder import RunRecord, find_runs, read_config, read_run
from ctlpp.runs.history import accuracies
from ctlpp.training.recipe import Recipe


def only(folder: Path) -> RunRecord:
    (record,) = find_runs([folder])
    return record


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refused(line: str) -> Any:
    return pytest.raises(ValueError, match=f"^{re.escape(line)}")


def test_runs_are_found_at_any_depth_and_once(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "run-10", analysed=False)
    make_run(tmp_path / "a" / "run-2", analysed=True)
    make_run(tmp_path / "b" / "c" / "d", analysed=False)
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    assert [record.name for record in find_runs([tmp_path])] == ["a/run-2", "a/run-10", "b/c/d"]
    assert len(find_runs([tmp_path, tmp_path / "a", tmp_path / "a" / "run-2"])) == 3
    assert only(tmp_path / "b" / "c" / "d").name == "d"


def test_protocols_and_presets_are_known_by_their_old_names(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", analysed=False) / "config.json"
    task = json.loads(path.read_text())["task"]
    for then, protocol, preset in (("released", "clean", "authors"), ("paper", "text", "text")):
        edit(path, protocol=then, preset=then, task=task | {"protocol": then})
        record = only(tmp_path)
        assert (record.protocol, record.preset, record.task["protocol"]) == (protocol, preset, protocol)


def test_settings_that_a_folder_is_older_than_are_switched_off(tmp_path: Path) -> None:
    make_run(tmp_path / "run", analysed=False, recipe={"steps": 300, "restarts": 2})
    plain = Recipe()
    expected = {"steps": 300, "restarts": 2, "swap": plain.swap, "tied": plain.tied}
    assert only(tmp_path).config["recipe"] == expected


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


def test_a_run_shows_its_results_or_its_last_evaluation_or_that_there_is_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.25, 1.0), analysed=False)
    record = only(run)
    assert (record.state, record.reason, record.step) == ("finished", "", 300)
    seeds = [(seed.number, seed.accuracy["ood"], seed.by_length["ood"][3]) for seed in record.seeds]
    assert seeds == [(0, 0.25, 0.25), (1, 1.0, 1.0)]
    (run / "result.json").unlink()
    record, reason = only(run), "last evaluated at step 300 of 300"
    assert (record.state, record.reason, record.step) == ("unfinished", reason, 300)
    assert record.seeds[0].accuracy == {"iid": 0.5, "ood": 0.5}
    assert record.seeds[0].by_length == {"iid": {2: 0.5}, "ood": {2: 0.5}}
    pq.write_table(pq.read_table(run / "metrics.parquet").slice(0, 0), run / "metrics.parquet")
    record, reason = only(run), "no evaluation yet, 300 steps planned"
    assert (record.state, record.reason, record.step) == ("unfinished", reason, None)
    (run / "metrics.parquet").unlink()
    assert only(run).reason == reason


def test_diverged_seeds_need_no_accuracy_and_do_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.2, 0.8), analysed=False)
    lost = {"diverged": True, "diverged_at": 17, "accuracy": {"ood": None}, "by_length": 4}
    with_seeds(run, {0: lost})
    edit(run / "result.json", steps=float("inf"))
    record = only(run)
    assert (record.state, record.step, accuracies(record.seeds, "ood")) == ("finished", None, [0.8])
    assert (record.seeds[0].accuracy, record.seeds[0].diverged_at) == ({}, 17)


def test_a_file_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    for name, content, reason in [
        ("config.json", "{", "config.json cannot be read: Expecting property name"),
        ("config.json", "[1]", "config.json holds no JSON object"),
        ("config.json", "[" * 100_000, "config.json cannot be read"),
        ("result.json", "nonsense", "result.json cannot be read"),
        ("result.json", '{"seeds": 3}', "result.json has other seeds than config.json"),
        ("metrics.parquet", "PAR1", "metrics.parquet cannot be read"),
    ]:
        before = (run / name).read_bytes()
        (run / name).write_text(content)
        record = read_run(run, with_history=True)
        assert record.state == "damaged"
        assert record.reason.startswith(reason)
        (run / name).write_bytes(before)
    (run / "metrics.parquet").write_bytes(b"PAR1")
    assert only(run).state == "finished"
    (run / "result.json").unlink()
    assert only(run).reason.startswith("metrics.parquet cannot be read")


def test_a_result_that_training_would_not_have_written_is_damage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.5, 0.6), analysed=False)
    good = (run / "result.json").read_text()
    others = "result.json has other seeds than config.json"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"accuracy": {"iid": 1.0, "ood": float("nan")}}, "result.json has an accuracy of NaN"),
        ({"accuracy": {"iid": 7.5, "ood": 1.0}}, "result.json has an accuracy of 7.5"),
        ({"accuracy": {"iid": "1", "ood": 1.0}}, 'result.json has an accuracy of "1"'),
        ({"accuracy": {"iid": None, "ood": 1.0}}, "result.json has an accuracy of null"),
        ({"by_length": {"ood": {"2": -0.1}}}, "result.json has an accuracy of -0.1"),
        ({"accuracy": 7}, "result.json has no accuracy of seed 1"),
        ({"seed": 0}, others),
        ({"seed": "<b>"}, others),
    ]
    for changes, reason in wrong:
        (run / "result.json").write_text(good)
        record = only(with_seeds(run, {1: changes}))
        assert (record.state, record.reason, record.seeds) == ("damaged", reason, ())
    (run / "result.json").write_text(good)
    edit(run / "config.json", seeds=[0, 1, 77])
    assert only(run).reason == others


def test_a_config_with_an_entry_of_another_kind_is_damaged(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    good = json.loads((run / "config.json").read_text())
    engine = [f"engine.{name}" for name in ("device", "vectorised", "seeds_at_a_time", "threads")]
    for entry in (*good.keys() - {"format", "started"}, "recipe.steps", *engine):
        outer, _, inner = entry.rpartition(".")
        changed = {outer: good[outer] | {inner: 5.5}} if outer else {entry: 5.5}
        (run / "config.json").write_text(json.dumps(good | changed))
        line = f"config.json is damaged ({entry} is 5.5)"
        assert (only(run).state, only(run).reason) == ("damaged", line)
        with refused(f"the run in {run} cannot be used: {line}; train in a new folder"):
            read_config(run)


def test_another_version_missing_settings_and_foreign_files_are_told(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    edit(make_run(runs / "newer") / "config.json", format=2, versions={"ctlpp": "9.1"})
    (make_run(runs / "unset") / "config.json").unlink()
    (runs / "a-model").mkdir()
    (runs / "a-model" / "config.json").write_text('{"architectures": ["Bert"]}')
    missing = "config.json is missing: the settings are not known"
    other = "its config.json is not one of ctlpp"
    assert [(record.name, record.state, record.reason) for record in find_runs([runs])] == [
        ("newer", "version", "written by another version of ctlpp (9.1)"),
        ("unset", "damaged", missing),
        ("a-model", "foreign", other),
    ]
    with refused(f"no run in {runs / 'a-model'}: {other}; choose another folder"):
        read_config(runs / "a-model")


def test_a_folder_without_a_run_is_the_users_mistake(tmp_path: Path) -> None:
    nowhere, file, written = tmp_path / "nowhere", tmp_path / "file", "as `ctlpp train` writes it"
    file.touch()
    none = f"no run in {tmp_path}: there is no config.json in it"
    for folder, several, one in [
        (nowhere, "does not exist: name run folders", f"does not exist: name a run folder, {written}"),
        (file, "is not a folder: name run folders", f"is a file, not a run folder, {written}"),
    ]:
        with refused(f"{folder} {several}"):
            find_runs([folder])
        with refused(f"{folder} {one}"):
            read_config(folder)
    with refused(f"no runs in or under {tmp_path}: `ctlpp train` writes one"):
        find_runs([tmp_path])
    with refused(f"{none}; name a run folder, {written}"):
        read_config(tmp_path)
    run = make_run(tmp_path / "deep" / "run", analysed=False)
    with refused(f"{none}; choose one inside, as {run}"):
        read_config(tmp_path)
