"""Seeds of one setting in several run folders are taken together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.conftest import make_run, outdate

from ctlpp.report.page import pack, write_report
from ctlpp.report.together import add_together
from ctlpp.runs.folder import find_runs
from ctlpp.statistics.correlation import correlate


def together(*folders: Path) -> list[Any]:
    """What the only measure of each run says of all runs of its setting."""
    records = find_runs(folders)
    packages = [pack(record) for record in records]
    add_together(records, packages)
    return [package.facts["inside"]["measures"][0].get("together") for package in packages]


def test_the_correlation_is_that_over_the_seeds_of_all_parts(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "0-2", (0.3, 1.0, 0.9))
    make_run(tmp_path / "runs" / "3-6", (0.2, 0.7, 0.8, 0.9), first=3)
    both = together(tmp_path / "runs")
    # the first seed of each part has interchange 0.1, every other one 1
    expected = correlate(np.array([0.1, 1, 1, 0.1, 1, 1, 1]), np.array([0.3, 1.0, 0.9, 0.2, 0.7, 0.8, 0.9]))
    assert both[0] == both[1]
    assert both[0][0] == 7
    assert both[0][1:] == pytest.approx([expected.pearson, expected.low, expected.high], abs=1e-4)


def test_a_run_that_is_all_of_its_setting_has_nothing_to_add(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    make_run(tmp_path / "runs" / "other", model="gru")
    make_run(tmp_path / "runs" / "not-analysed", first=3, analysed=False)
    records = find_runs([tmp_path / "runs"])
    packages = [pack(record) for record in records]
    add_together(records, packages)
    measures = [
        measure for package in packages for measure in package.facts.get("inside", {}).get("measures", [])
    ]
    assert len(measures) == 2
    assert not any("together" in measure for measure in measures)


def test_an_analysis_of_an_earlier_step_is_no_part_of_it(tmp_path: Path) -> None:
    outdate(make_run(tmp_path / "runs" / "0-2"))
    make_run(tmp_path / "runs" / "3-5", first=3)
    make_run(tmp_path / "runs" / "6-8", first=6)
    old, *others = together(tmp_path / "runs")
    assert old is None
    assert [found[0] for found in others] == [6, 6]


def test_a_seed_in_two_runs_counts_once(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "first", (0.3, 1.0, 0.9, 0.8))
    make_run(tmp_path / "runs" / "again", (0.3, 1.0, 0.9, 0.8))
    assert [found[0] for found in together(tmp_path / "runs")] == [4, 4]


def test_the_page_has_a_column_over_all_seeds(opened: Callable[..., Any], tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "0-2", (0.3, 1.0, 0.9))
    make_run(tmp_path / "runs" / "3-6", (0.2, 0.7, 0.8, 0.9), first=3)
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    page = opened(tmp_path / "report.html").page
    assert page.locator("#measures-body th[scope=col]").all_inner_texts()[-1] == "… over all 7 seeds"
    assert "Other runs have more seeds of this setting" in page.inner_text("#measures-body")
    assert len(page.locator("#measures-body tbody tr").first.locator("td").all()) == 5
