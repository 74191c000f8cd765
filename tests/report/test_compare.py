"""Published numbers stand beside runs that fit, and beside no others."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tests.report.conftest import config_of, make_run, make_task

from ctlpp.models.zoo import MODELS
from ctlpp.report.compare import group_by_setting, mismatches, results
from ctlpp.runs.folder import RunRecord, SeedResult, find_runs
from ctlpp.statistics.published import PUBLISHED, SEEDS
from ctlpp.statistics.summary import cautious, difference, summarise
from ctlpp.training.recipe import recipe_for


def full_size(model: str, variant: str, preset: str = "released", **recipe: Any) -> dict[str, Any]:
    """The config of a run at the paper's size."""
    own = asdict(recipe_for(model, preset, variant, **recipe))
    task, options = make_task(variant, 8, 32, max_length=6), dict(MODELS[model].sizes[preset])
    config = config_of(task, range(25), model=model, preset=preset, options=options)
    config["recipe"] = json.loads(json.dumps(own))
    config["task"]["recipe"] |= {"train": 300_000}
    return config


def record(config: dict[str, Any], accuracies: list[float], first: int = 0, iid: float = 1.0) -> RunRecord:
    seeds = tuple(SeedResult(first + at, {"iid": iid, "ood": ood}, {}) for at, ood in enumerate(accuracies))
    return RunRecord(Path("run"), "run", "finished", "", config, seeds)


@pytest.mark.parametrize("preset", ["released", "paper"])
def test_full_size_runs_stand_beside_their_published_numbers(preset: str) -> None:
    for (model, variant), row in PUBLISHED.items():
        config = full_size(model, variant, preset)
        assert mismatches(config) == []
        entry = results([record(config, [0.5, 0.9, 1.0])])[0]
        assert entry["published"]["ood"] == row.ood
        assert fmean(entry["published"]["interval"]) == pytest.approx(row.ood[0])
        assert entry["published"]["difference"]["ood"][0] == pytest.approx(0.8 - row.ood[0])


def test_the_difference_is_as_cautious_as_that_of_a_verdict() -> None:
    for n in (1, 6, 9, 10, 25):
        values = [0.97 - 0.01 * (at % 4) for at in range(n)]
        (entry,) = results([record(full_size("ndr", "R"), values)])
        theirs = PUBLISHED["ndr", "R"].ood
        expected = difference(cautious(summarise(values), theirs[1]), theirs, SEEDS)
        assert entry["published"]["difference"]["ood"] == expected
    (entry,) = results([record(full_size("ndr", "R"), [0.97] * 6)])
    gap, (low, high) = entry["published"]["difference"]["ood"]
    assert (gap, low, high) == pytest.approx((0.22, -0.07, 0.51), abs=0.006)


def test_whatever_differs_is_named_except_evaluations_and_precision() -> None:
    assert mismatches(full_size("ndr", "R", eval_every=7, precision="bf16", checkpoint_minutes=1.0)) == []
    config = full_size("ndr", "R", steps=10)
    config["options"]["width"] = 64
    assert mismatches(config) == ["changed: steps, width"]
    small = config_of(make_task("R"), range(3))
    assert mismatches(small) == ["8 functions", "4 symbols", "100 training examples", "preset quick"]
    unpublished = mismatches(full_size("ndr", "R") | {"model": "my.models:tiny"})
    assert unpublished == mismatches({"model": ["ndr"], "variant": {}})
    assert len(unpublished) == len(mismatches(full_size("ndr", "A") | {"task": None})) == 1


def test_transformers_are_also_selected_as_the_paper_did() -> None:
    config = full_size("transformer", "R")
    stuck, fine = record(config, [0.1] * 5, iid=0.2), record(config, [0.8] * 30, first=5)
    everything, selected = results([stuck, fine])
    assert [entry["summary"]["ood"]["seeds"] for entry in (everything, selected)] == [35, 25]
    assert selected["summary"]["ood"]["mean"] == pytest.approx(0.8)
    assert bool(selected["note"]) > bool(everything["note"])


def test_runs_of_one_setting_are_pooled_and_no_seed_counts_twice() -> None:
    config = full_size("ndr", "R")
    later = config | {"seeds": [1, 2], "started": "later"}
    later["recipe"] = config["recipe"] | {"eval_every": 7}  # only watches
    (entry,) = results([record(config, [0.1, 0.2]), record(later, [0.7, 0.3], first=1)])
    assert entry["values"] == [0.1, 0.2, 0.3]
    for other in ({"data": {"train": "f" * 64}}, {"recipe": config["recipe"] | {"steps": 9}}):
        assert len(group_by_setting([record(config, [0.1]), record(config | other, [0.2])])) == 2


def test_statistics_leave_out_seeds_that_diverged_and_are_there_for_every_length() -> None:
    lengths = [{2: 0.5, 3: 0.1}, {2: 0.7}, {2: 0.0}]
    seeds = tuple(
        SeedResult(at, {"iid": 1.0, "ood": own[2]}, {"ood": own}, diverged=at == 2)
        for at, own in enumerate(lengths)
    )
    run = RunRecord(Path("run"), "run", "finished", "", config_of(make_task(), range(3)), seeds)
    (entry,) = results([run])
    assert entry["values"] == [0.5, 0.7]
    assert (entry["summary"]["ood"]["seeds"], entry["summary"]["ood"]["diverged"]) == (2, 1)
    assert {n: found[0] for n, found in entry["lengths"]["ood"].items()} == pytest.approx({2: 0.6, 3: 0.1})


def test_runs_on_s_have_their_cell() -> None:
    task = make_task("S", 4, 16, shared_functions=4, shared_symbols=2)
    found = results([record(config_of(task, [0]), [0.5]), record(config_of(make_task("R"), [0]), [0.5])])
    assert [entry["cell"] for entry in found] == [None, (4, 2)]


def test_unfinished_runs_make_no_results(tmp_path: Path) -> None:
    (make_run(tmp_path / "run") / "result.json").unlink()
    assert results(find_runs([tmp_path])) == []
