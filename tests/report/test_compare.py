"""Published numbers stand beside runs that fit, and beside no others."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tests.report.conftest import config_of, make_task

from ctlpp.models.zoo import MODELS
from ctlpp.report.compare import count_verdicts, data_of, group_by_setting, headline, mismatches, results
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import SeedResult
from ctlpp.statistics.published import PUBLISHED
from ctlpp.statistics.summary import summarise
from ctlpp.statistics.verdict import judge
from ctlpp.training.recipe import recipe_for


def full_size(model: str, variant: str, preset: str = "authors", **recipe: Any) -> dict[str, Any]:
    """The config of a run at the paper's size."""
    own = asdict(recipe_for(model, preset, variant, **recipe))
    task, options = make_task(variant, 8, 32, max_length=6), dict(MODELS[model].sizes[preset])
    config = config_of(task, range(25), model=model, preset=preset, options=options)
    config["recipe"] = json.loads(json.dumps(own))
    config["task"]["recipe"] |= {"train": 300_000}
    return config


def record(
    config: dict[str, Any], accuracies: Sequence[float] = (), first: int = 0, iid: float = 1.0
) -> RunRecord:
    seeds = tuple(SeedResult(first + at, {"iid": iid, "ood": ood}, {}) for at, ood in enumerate(accuracies))
    return RunRecord(Path("run"), "run", "finished", "", config, seeds)


@pytest.mark.parametrize("preset", ["authors", "text"])
def test_full_size_runs_stand_beside_their_published_numbers(preset: str) -> None:
    for (model, variant), row in PUBLISHED.items():
        run = record(full_size(model, variant, preset), [0.5, 0.9, 1.0, 0.8])
        assert mismatches(run) == []
        entry = results([run])[0]
        assert entry["published"]["ood"] == row.ood
        assert fmean(entry["published"]["interval"]) == pytest.approx(row.ood[0])
        assert entry["published"]["difference"]["ood"][0] == pytest.approx(0.8 - row.ood[0])


def test_the_difference_is_that_of_the_verdict() -> None:
    for n in (1, 6, 25):
        values = [0.97 - 0.01 * (at % 4) for at in range(n)]
        (entry,) = results([record(full_size("ndr", "R"), values)])
        expected = judge(summarise(values), PUBLISHED["ndr", "R"].ood)
        assert entry["published"]["verdict"]["ood"] == expected.word
        difference = (expected.difference, expected.interval) if n > 1 else None
        assert entry["published"]["difference"]["ood"] == difference


def test_whatever_differs_is_named_except_evaluations_and_precision() -> None:
    def found(config: dict[str, Any]) -> list[str]:
        return mismatches(record(config))

    assert found(full_size("ndr", "R", eval_every=7, precision="bf16", checkpoint_minutes=1.0)) == []
    config = full_size("ndr", "R", steps=10)
    config["options"]["width"] = 64
    assert found(config) == ["changed: steps, width"]
    small = config_of(make_task("R"), range(3))
    assert found(small) == ["8 functions", "4 symbols", "100 training examples", "preset quick"]
    unpublished = found(full_size("ndr", "R") | {"model": "my.models:tiny"})
    assert unpublished == found({"model": ["ndr"], "variant": {}})
    assert len(unpublished) == len(found(full_size("ndr", "A") | {"task": None})) == 1


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
    assert (entry["runs"], entry["seeds"]) == ([0, 1], [[0, 0], [0, 1], [1, 2]])
    assert entry["summary"]["ood"]["mean"] == pytest.approx(0.2)
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
    ood = entry["summary"]["ood"]
    assert (ood["mean"], ood["seeds"], ood["diverged"]) == (pytest.approx(0.6), 2, 1)
    assert {n: found[0] for n, found in entry["lengths"]["ood"].items()} == pytest.approx({2: 0.6, 3: 0.1})


def test_runs_on_s_have_their_cell_and_unfinished_ones_make_no_results() -> None:
    task = make_task("S", 4, 16, shared_functions=4, shared_symbols=2)
    runs = [record(config_of(task, [0]), [0.5]), record(config_of(make_task("R"), [0]), [0.5])]
    found = results([*runs, replace(runs[0], state="unfinished")])
    assert [entry["cell"] for entry in found] == [None, (4, 2)]


def test_the_headline_counts_verdicts_on_the_data_nearest_to_the_authors() -> None:
    def said(*records: RunRecord) -> str:
        entries = results(records)
        return headline(count_verdicts(records, entries), entries)

    def on(protocol: str, values: Sequence[float], **recipe: Any) -> RunRecord:
        config = full_size("ndr", "R") | {"protocol": protocol}
        config["task"] = config["task"] | {"recipe": config["task"]["recipe"] | recipe}
        return record(config, values)

    low, high = [0.2, 0.21] * 12, [0.99, 1.0] * 12
    nearest = on("clean", low, distinct_sequences="n/7")
    assert said(on("text", high)) == "0 of 6 published accuracies reproduced, 1 higher, 5 not run"
    assert said(on("text", high), nearest) == "0 of 6 published accuracies reproduced, 1 lower, 5 not run"
    assert said(on("authors", low, twins=False), on("text", high)).startswith("0 of 6 published accuracies")
    assert data_of(on("authors", low, twins=False)) == "authors, without twins"
    assert said(record(config_of(make_task(), range(2)), [0.2, 1.0])).startswith("1 of 2 seeds solved")
    assert said() == "No finished run yet"
