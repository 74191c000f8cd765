"""Published numbers stand beside runs that fit, and beside no others; two runs are compared with tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.report.conftest import config_of, full_size, make_task

import ctlpp
from ctlpp.report.compare import Setting, contrast, group_by_setting, kind_of_data, mismatches
from ctlpp.report.page import count_verdicts, describe_setting, headline
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import SeedResult
from ctlpp.statistics.published import PUBLISHED
from ctlpp.statistics.summary import summarise
from ctlpp.statistics.verdict import judge


def record(
    config: dict[str, Any], accuracies: Sequence[float] = (), first: int = 0, iid: float = 1.0
) -> RunRecord:
    seeds = tuple(SeedResult(first + at, {"iid": iid, "ood": ood}, {}) for at, ood in enumerate(accuracies))
    return RunRecord(Path("run"), "run", "finished", "", config, seeds)


@pytest.mark.parametrize("preset", ["authors", "text"])
def test_full_size_runs_stand_beside_their_published_numbers(preset: str) -> None:
    for (model, variant), row in PUBLISHED.items():
        values = [0.5, 0.9, 1.0, 0.8]
        run = record(full_size(model, variant, preset), values)
        assert mismatches(run) == []
        setting = Setting((run,))
        assert setting.published == row
        assert setting.as_published.verdicts["ood"] == judge(summarise(values), row.ood)


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
    (setting,) = group_by_setting([stuck, fine])
    everything, selected = describe_setting(setting, [stuck, fine])
    assert [entry["summary"]["ood"]["seeds"] for entry in (everything, selected)] == [35, 25]
    assert selected["summary"]["ood"]["mean"] == pytest.approx(0.8)
    assert bool(selected["note"]) > bool(everything["note"])
    assert setting.as_published is setting.by_rule


def test_runs_of_one_setting_are_pooled_and_no_seed_counts_twice() -> None:
    config = full_size("ndr", "R")
    later = config | {"seeds": [1, 2], "started": "later"}
    later["recipe"] = config["recipe"] | {"eval_every": 7}  # only watches
    records = [record(config, [0.1, 0.2]), record(later, [0.7, 0.3], first=1)]
    (setting,) = group_by_setting(records)
    (entry,) = describe_setting(setting, records)
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
    found = Setting((run,)).every
    ood = found.summaries["ood", 0]
    assert ood.mean == pytest.approx(0.6)
    assert (ood.seeds, ood.diverged) == (2, 1)
    means = {length: one.mean for length, one in found.by_length("ood").items()}
    assert means == pytest.approx({2: 0.6, 3: 0.1})


def test_the_headline_counts_verdicts_on_the_data_nearest_to_the_authors() -> None:
    def said(*records: RunRecord) -> str:
        found = group_by_setting(records)
        return headline(count_verdicts(found), found)

    def on(protocol: str, values: Sequence[float], **recipe: Any) -> RunRecord:
        config = full_size("ndr", "R") | {"protocol": protocol}
        config["task"] = config["task"] | {"recipe": config["task"]["recipe"] | recipe}
        return record(config, values)

    low, high = [0.2, 0.21] * 12, [0.99, 1.0] * 12
    nearest = on("clean", low, distinct_sequences="n/7")
    assert said(on("text", high)) == "0 of 6 published accuracies reproduced, 1 higher, 5 not run"
    assert said(on("text", high), nearest) == "0 of 6 published accuracies reproduced, 1 lower, 5 not run"
    assert said(on("authors", low, twins=False), on("text", high)).startswith("0 of 6 published accuracies")
    assert kind_of_data(on("authors", low, twins=False)) == "authors, without twins"
    assert said(record(config_of(make_task(), range(2)), [0.2, 1.0])).startswith("1 of 2 seeds solved")
    assert said() == "No finished run yet"


def test_difference_and_tests_are_scipys() -> None:
    draw = np.random.Generator(np.random.PCG64(3))
    one, other = draw.random(12), draw.random(9) * 0.6
    found = contrast(one.tolist(), other.tolist())
    welch = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert found.difference == pytest.approx(one.mean() - other.mean())
    assert found.interval == pytest.approx((welch.low, welch.high))
    theirs = stats.permutation_test(
        (one, other), lambda a, b: abs(a.mean() - b.mean()), alternative="greater", n_resamples=20_000
    )
    assert found.p == pytest.approx(theirs.pvalue, abs=0.02)


def test_success_rates_count_diverged_seeds_and_means_do_not() -> None:
    found = contrast([0.99, 0.98, 0.97], [0.99, 0.3], diverged=0, other_diverged=4)
    assert (found.one.solved, found.other.solved, found.other.seeds) == (3, 1, 2)
    assert found.p_solved == pytest.approx(stats.fisher_exact([[3, 0], [1, 5]]).pvalue)
    assert found.other.mean == pytest.approx(0.645)


def test_a_single_seed_each_has_a_difference_but_no_test() -> None:
    found = contrast([0.9], [0.4])
    assert found.difference == pytest.approx(0.5)
    assert (found.interval, found.p) == (None, None)
    nothing = contrast([], [0.4], diverged=2)
    assert (nothing.difference, nothing.p, nothing.p_solved) == (None, None, 1.0)


def test_runs_are_compared_in_memory_and_from_folders_with_some_seeds_each(tmp_path: Path) -> None:
    sizes: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}
    data = ctlpp.generate("R", protocol="clean", **sizes)
    recipe = ctlpp.recipe_for("gru", "quick", steps=2, batch=8)
    usual: Any = {"preset": "quick", "recipe": recipe, "observers": ()}
    gru = ctlpp.train("gru", data, seeds=range(3), **usual)
    for seeds in (range(2), range(2, 4)):
        ctlpp.train("rnn", data, seeds=seeds, out=tmp_path / "rnn" / f"{seeds.start}", **usual)
    found = ctlpp.compare(gru, tmp_path / "rnn")
    assert list(found)[:4] == [("iid", 0), ("iid", 2), ("iid", 3), ("ood", 0)]
    row = found["ood", 0]
    assert (row.one.seeds, row.other.seeds) == (3, 4)
    assert row.difference is not None
    assert row.one.mean == pytest.approx(np.mean([seed["ood"] for seed in gru.table()]))
    back = ctlpp.compare(tmp_path / "rnn", gru)["ood", 0]
    assert back.difference == pytest.approx(-row.difference)
    assert back.p == pytest.approx(row.p, abs=0.04)
    ctlpp.train("gru", data, seeds=range(2), out=tmp_path / "rnn" / "gru", **usual)
    with pytest.raises(ValueError, match=r"^run of type dict: give a run, or its folder$"):
        ctlpp.compare(gru, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rnn has runs of 2 settings: name one of them, such as .*/rnn/"):
        ctlpp.compare(gru, tmp_path / "rnn")
