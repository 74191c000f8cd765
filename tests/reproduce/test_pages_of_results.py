"""What pages say of the runs in `results/` is what their folders say."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ctlpp.report.compare import Setting
from ctlpp.reproduce.examples import Example, read_example
from ctlpp.reproduce.results import RunResult
from ctlpp.runs.folder import read_run, run_folders
from ctlpp.runs.history import read_history

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="a copy of the source without its results")


def seeds_of(run: Path) -> list[dict[str, Any]]:
    return list(json.loads((run / "result.json").read_text())["seeds"])


def table_of(folder: str) -> list[list[str]]:
    """The rows of the tables in a README of `results/`."""
    path = RESULTS / folder / "README.md"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]


# The authors' data

AUTHORS = {path.name: path for path in (RESULTS / "authors-data").glob("*") if path.is_dir()}
AUTHORS |= {name: RESULTS / "runs" / name / "0-24" for name in ("lstm-A-authors", "ndr-A-authors")}
TABLE = {row[0]: row[2:] for row in table_of("authors-data") if len(row) == 7 and row[0] in AUTHORS}
LEARNED = 0.9


def test_every_run_on_the_authors_data_has_its_row() -> None:
    assert TABLE.keys() == AUTHORS.keys()


@pytest.mark.parametrize("run", TABLE)
def test_a_row_says_what_the_run_says(run: str) -> None:
    seeds = seeds_of(AUTHORS[run])
    history = pq.read_table(AUTHORS[run] / "metrics.parquet")
    iid = history.filter((pc.field("split") == "iid") & (pc.field("length") == 0)).to_pylist()
    first: dict[int, int] = {}
    for row in sorted(iid, key=lambda row: row["step"]):
        if row["accuracy"] > LEARNED:
            first.setdefault(row["seed"], row["step"])
    accuracies = [[seed["accuracy"][split] for seed in seeds] for split in ("iid", "ood", "ood_independent")]
    expected = [f"{len(first)} of {len(seeds)}", f"{median(first.values()):,.0f}"]
    assert TABLE[run] == expected + [f"{fmean(one):.2f} ± {stdev(one):.2f}" for one in accuracies]


# Models that compose

STRUCTURE = {path.parents[1].name: path.parent for path in RESULTS.glob("structure/runs/*/*/result.json")}
NAME = re.compile(r"(\w+)-([ARS])-(authors|clean)(?:-o(\d+)-s(\d+))?(-seed1)?-?(.*)")
SOLVED = 0.99


def count(seeds: Sequence[dict[str, Any]], split: str) -> int:
    return sum(seed["accuracy"][split] >= SOLVED for seed in seeds)


def chosen_of(run: Path) -> list[dict[str, Any]]:
    return [seed for seed in seeds_of(run) if seed["chosen"]]


def structure_tables() -> dict[tuple[str, str, str], str]:
    """The cells of the tables, by protocol, task and rung."""
    cells, heads = {}, [""]
    for row in table_of("structure"):
        heads = row if row[0] in ("authors", "clean", "fresh") else heads
        for head, cell in zip(heads[1:], row[1:], strict=True):
            cells[heads[0], row[0], head.strip("`")] = cell
    return {at: cell for at, cell in cells.items() if cell[0].isdigit()}


def rung_of(name: str) -> tuple[str, str, str]:
    """The table, task and rung of a run, as the tables call them."""
    match = NAME.fullmatch(name)
    assert match is not None
    model, variant, protocol, functions, symbols, fresh, label = match.groups("")
    rung = f"{model}-{label}".removeprefix("permrnn-").rstrip("-") or model
    return "fresh" if fresh else protocol, f"{variant} {functions} {symbols}".strip(), rung


@pytest.mark.parametrize("name", sorted(STRUCTURE))
def test_a_run_has_its_entry_and_its_choice_is_by_training_loss_alone(name: str) -> None:
    run = STRUCTURE[name]
    restarts = json.loads((run / "config.json").read_text())["recipe"]["restarts"]
    chosen = chosen_of(run)
    assert [seed["seed"] for seed in chosen] == read_history(run / "metrics.parquet").chosen(restarts)
    assert structure_tables()[rung_of(name)] == f"{count(chosen, 'ood')} ({count(chosen, 'iid')})"


def test_the_tables_have_no_other_runs_and_the_page_has_the_rungs_that_have_run() -> None:
    assert structure_tables().keys() == {rung_of(name) for name in STRUCTURE}
    page = (ROOT / "docs" / "concepts" / "models-that-compose.md").read_text()
    rungs = re.findall(r"^\| `(\S+)` \| .* \| (\d+ of .*) \| (\d.*) \| (\d.*) \|$", page, re.MULTILINE)
    assert {label: tuple(counts) for label, *counts in rungs} == {
        rung: (of_all(runs, "iid"), of_all(runs, "ood"), of_all(runs, "ood", "o4-s2"))
        for rung, runs in runs_in("authors").items()
    }


def test_the_page_counts_the_seeds_that_no_recipe_was_chosen_on() -> None:
    page = " ".join((ROOT / "docs" / "concepts" / "models-that-compose.md").read_text().split())
    fresh = {rung: of_all(runs, "ood") for rung, runs in runs_in("fresh").items()}
    two = f"{fresh['permrnn']} compose with `permrnn`, and {fresh['any-map-decay']} with `any-map-decay`"
    assert f"Of the chosen seeds {two}." in page


def runs_in(table: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """By rung and name the chosen seeds of the runs in a table."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, run in STRUCTURE.items():
        of, _, rung = rung_of(name)
        if of == table:
            found.setdefault(rung, {})[name] = chosen_of(run)
    return found


def of_all(runs: dict[str, list[dict[str, Any]]], split: str, task: str = "") -> str:
    seeds = [seed for name, chosen in runs.items() if task in name for seed in chosen]
    return f"{count(seeds, split)} of {len(seeds)}"


# The paper's figures


def example(run: str, number: int) -> Example:
    for folder in run_folders(RESULTS / "runs" / run):
        piece = read_run(folder)
        named = RunResult(run, None, Setting((piece,)))
        for seed in piece.seeds:
            if seed.number == number and (found := read_example("", named, piece, seed)):
                return found
    raise AssertionError(f"no analysis of seed {number} of {run}")


def splits(one: Example) -> dict[int, list[list[int]]]:
    """Symbols with several clusters: how many functions of each group each cluster has."""
    groups = one.inside.inputs.group_of
    return {
        value: [np.bincount(groups[own.labels == label], minlength=2).tolist() for label in range(own.count)]
        for value, own in enumerate(one.inside.clusters or ())
        if own.count > 1
    }


def test_the_seeds_of_the_page_are_right_and_split_as_it_says() -> None:
    success, failure = example("ndr-R-clean", 0), example("ndr-R-clean", 22)
    assert [round(one.seed.accuracy["ood"], 2) for one in (success, failure)] == [1.0, 0.34]
    for one, table in ((success, [[1, 1], [1, 1]]), (failure, [[1, 0.27], [0.12, 1]])):
        groups = one.inside.inputs.means(one.inside.asked)[0][0, 5]
        assert np.abs(groups - table).max() < 0.0051
    assert splits(failure)[5] == [[16, 0], [0, 16]]
    across = splits(success)
    assert len(across) == 2
    assert all(min(counts) > 0 for counts in across[1])
    by_group = [tables for tables in splits(failure).values() if sum(map(min, tables)) <= 2]
    assert (len(splits(failure)), len(by_group)) == (5, 4)
    assert all(sum(map(min, tables)) == 0 for tables in splits(example("ndr-A-authors", 7)).values())
