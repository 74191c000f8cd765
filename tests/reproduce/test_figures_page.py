"""The page of the paper's figures says what our analyses have."""

from pathlib import Path

import numpy as np
import pytest

from ctlpp.reproduce.drawings import Example, read_example
from ctlpp.reproduce.results import RunResult
from ctlpp.runs.folder import read_run, run_folders

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "results" / "runs"
pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="a copy of the source without its results")


def example(run: str, number: int) -> Example:
    for folder in run_folders(RUNS / run):
        piece = read_run(folder)
        for seed in piece.seeds:
            if seed.number == number and (found := read_example("", RunResult(run, None), piece, seed)):
                return found
    raise AssertionError(f"no analysis of seed {number} of {run}")


def splits(one: Example) -> dict[int, list[list[int]]]:
    """Symbols with several clusters: how many functions of each group each cluster has."""
    groups = one.matrices.inputs.group_of
    return {
        value: [np.bincount(groups[own.labels == label], minlength=2).tolist() for label in range(own.count)]
        for value, own in enumerate(one.matrices.clusters)
        if own.count > 1
    }


def test_the_seeds_of_the_page_are_right_and_split_as_it_says() -> None:
    success, failure = example("ndr-R-clean", 0), example("ndr-R-clean", 22)
    assert [round(one.seed.accuracy["ood"], 2) for one in (success, failure)] == [1.0, 0.34]
    for one, table in ((success, [[1, 1], [1, 1]]), (failure, [[1, 0.27], [0.12, 1]])):
        found = one.answers(5)
        assert found is not None
        assert np.abs(found.groups - table).max() < 0.0051
    assert splits(failure)[5] == [[16, 0], [0, 16]]
    across = splits(success)
    assert len(across) == 2
    assert all(min(counts) > 0 for counts in across[1])
    by_group = [tables for tables in splits(failure).values() if sum(map(min, tables)) <= 2]
    assert (len(splits(failure)), len(by_group)) == (5, 4)
    assert all(sum(map(min, tables)) == 0 for tables in splits(example("ndr-A-authors", 7)).values())
