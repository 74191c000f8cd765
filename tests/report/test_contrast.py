"""Two runs, with a test: against scipy, and on the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ctlpp
from ctlpp.report.contrast import contrast

draw = np.random.Generator(np.random.PCG64(3))
SMALL: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}


def test_difference_and_tests_are_scipys() -> None:
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
    data = ctlpp.generate("R", protocol="clean", **SMALL)
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
