"""Findings are written by people; every number in them is that of the Parquet files in `results/`.

A finding is checked in fragments: each is filled from the data and must stand in a document word for word,
and no number may stand outside of the fragments. Who changes a sentence changes its fragments here.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ctlpp.reproduce.page import estimate, mean, number
from ctlpp.reproduce.plan import plan
from ctlpp.statistics.published import CONVERGED, PUBLISHED, SEEDS, SOLVED, TITLES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="a copy of the source without its results")

REPEATS, CLEAN, TEXT = "clean-repeats", "clean", "text"


@cache
def results() -> dict[tuple[str, str, bool], dict[str, Any]]:
    """The rows by run, split, and whether all seeds count."""
    rows = pq.read_table(RESULTS / "results.parquet").to_pylist()
    return {(row["cell"], row["split"], row["selection"] == "all seeds"): row for row in rows}


@cache
def predictors() -> dict[tuple[str, str], dict[str, Any]]:
    """The correlations by run and measure."""
    rows = pq.read_table(RESULTS / "predictors.parquet").to_pylist()
    return {(row["cell"], row["measure"]): row for row in rows}


def ood(name: str) -> dict[str, Any]:
    """All seeds of a run on OOD examples."""
    return results()[name, "ood", True]


def converged(name: str) -> dict[str, Any]:
    """Those that the paper's rule keeps."""
    return results()[name, "ood", False]


def published(row: dict[str, Any]) -> str:
    return f"published {mean(row, 'published_')}"


def above(name: str) -> str:
    """Seeds above 0.95."""
    return f"{ood(name)['above_95']} of {ood(name)['seeds']}"


def off(data: str) -> list[str]:
    """How far four means are from the published ones."""
    places = ("lstm-A", "lstm-R", "ndr-A", "ndr-R")
    return [number(abs(ood(f"{place}-{data}")["difference"])) for place in places]


def r(name: str, measure: str, interval: bool = False) -> str:
    one = predictors()[name, measure]
    ends = f" ({number(one['low'])} to {number(one['high'])})" if interval else ""
    return number(one["pearson"]) + ends


def on_tables(name: str, end: str = "") -> str:
    """The means on all function tables."""
    others = [f"{name}-seed{table}{end}" for table in range(1, ood(name + end)["function_tables"])]
    means = [number(ood(run)["mean"]) for run in (name + end, *others)]
    return f"{', '.join(means[:-1])} and {means[-1]}"


def authors_data() -> list[str]:
    ndr, lstm = ood("ndr-A-authors"), ood("lstm-A-authors")
    iid, clean = (mean(results()[f"ndr-A-{data}", "iid", True]) for data in ("authors", CLEAN))
    return [
        f"All {ndr['learned']} of {ndr['seeds']} learn their data (IID {iid}; on `clean` data {clean})",
        f"OOD is {mean(ndr)}, {published(ndr)}; the difference of {estimate(ndr, 'difference')}"
        f" is still *{ndr['verdict']}*",
        f"All {lstm['learned']} of {lstm['seeds']} learn, and OOD is {mean(lstm)}, {published(lstm)}:"
        f" *{lstm['verdict']}* by {estimate(lstm, 'difference')}",
        f"functions of ours they reach {mean(ood('lstm-A-clean-repeats'))}",
    ]


def near_the_published_numbers() -> list[str]:
    lstm, plain = ood("lstm-A-clean-repeats"), ood("lstm-A-clean")
    (steps,) = {run.steps for run in plan("table1", only=["lstm/A"])}
    named = "off by {} (Bi-LSTM on A), {} (Bi-LSTM on R), {} (NDR on A) and {} (NDR on R)"
    return [
        named.format(*off(REPEATS)),
        "drawn anew it is {}, {}, {} and {}".format(*off(CLEAN)),
        "paper's text describes {}, {}, {} and {}".format(*off(TEXT)),
        f"{plain['learned']} of {plain['seeds']} seeds has learned its data after {steps:,} steps",
        f"(IID {mean(results()['lstm-A-clean', 'iid', True])}, OOD {mean(plain)})",
        f"all {lstm['learned']} of {lstm['seeds']} have, and OOD is {mean(lstm)}, {published(lstm)}",
        f"change the mean by {estimate(lstm, 'change')}",
        f"The verdict is *{lstm['verdict']}*, but the +{number(lstm['difference'])} that remains",
        f"{mean(plain)} without repeated sequences, {mean(lstm)} with them",
    ]


def ndrs() -> list[str]:
    both = {name: (ood(f"ndr-{name}-clean-repeats"), ood(f"ndr-{name}-clean")) for name in ("A", "R")}
    found = [
        f"{mean(again)} with them and {mean(plain)} without"
        f" (change {estimate(again, 'change')}, {published(plain)})"
        for again, plain in both.values()
    ]
    known = {name: f"published {plain['published_above_95']} of 25" for name, (_, plain) in both.items()}
    seeds = {name: [above(f"ndr-{name}-{data}") for data in (REPEATS, CLEAN)] for name in both}
    a, paper = converged("ndr-A-clean"), converged("ndr-A-text")
    return [
        *found,
        "not detectable with 25 seeds",
        f"Above {SOLVED} are {' and '.join(seeds['R'])}, {known['R']}",
        f"{seeds['R'][0]} with repeats, {known['R']}",
        f"{' and '.join(seeds['A'])} succeed, {known['A']}",
        f"data the verdict is *{both['A'][1]['verdict']}* ({estimate(both['A'][1], 'difference')})",
        f"{a['not_converged']} of 25 seeds end with an IID accuracy of {CONVERGED} or less,"
        f" and the other {a['seeds']} reach {mean(a)} OOD",
        f"it is {mean(ood('ndr-A-text'))}, with {paper['not_converged']} of 25 such seeds,"
        f" and {mean(paper)} for the other {paper['seeds']}",
    ]


def protocol_and_tables() -> list[str]:
    ndr, lstm, tables = ood("ndr-R-text"), ood("lstm-R-text"), ood("lstm-A-clean-repeats")
    few = ood("lstm-A-clean-seed1-repeats")["seeds"]
    return [
        f"{ndr['seeds']} NDRs reach {mean(ndr)} and {above('ndr-R-text')} succeed:"
        f" *{ndr['verdict']}* than published",
        f"on `clean` data by {estimate(ndr, 'change')}",
        f"Bi-LSTMs reach {mean(lstm)}, *{lstm['verdict']}* than published:"
        f" {lstm['learned']} of {lstm['seeds']} have learned their data at the end,"
        f" {lstm['learned_late']} of them in the last tenth of the steps,"
        f" in which the mean moved by +{number(lstm['moved_late'])}",
        f"means of {on_tables('lstm-A-clean', '-repeats')} on {tables['function_tables']} function tables",
        f"({tables['seeds']} seeds on the first, {few} on each other)",
        f"between tables is {number(tables['std_between_tables'], 3)},"
        f" within a table {number(tables['std_within_tables'], 3)} (p = {number(tables['tables_p'], 4)})",
        f"({on_tables('ndr-R-clean')}; p = {number(ood('ndr-R-clean')['tables_p'])})",
    ]


def grid_and_transformers() -> list[str]:
    least, most = ood("lstm-S-clean-o4-s2"), ood("lstm-S-clean-o16-s6")
    ndr = ood("ndr-S-clean-o16-s6")
    learned = {name: ood(f"transformer-{name}-clean") for name in ("R", "A")}
    return [
        f"from {number(least['mean'])} OOD (4 shared functions, 2 shared symbols)"
        f" to {number(most['mean'])} (16 and 6), where NDRs reach {mean(ndr)} with {ndr['seeds']} seeds;"
        " the paper says 1.00",
        ", ".join(f"{row['learned']} of {row['seeds']} have learned {name}" for name, row in learned.items()),
    ]


def inside() -> list[str]:
    interchange, cosine, run = "interchange_across", "cosine_across", "ndr-R-clean"
    seeds = {name: predictors()[name, interchange]["seeds"] for name, _ in predictors()}
    return [
        f"Over {seeds[run]} NDRs on R (`clean`)",
        f"accuracy with r = {r(run, interchange, True)},"
        f" how similar their readouts look with r = {r(run, cosine, True)}",
        f"(r = {r(run, interchange)} over {seeds[run]} NDRs on R)",
        f"Over the {seeds['ndr-A-clean']} NDRs on A that have learned their data it is"
        f" {r('ndr-A-clean', interchange)} against {r('ndr-A-clean', cosine)}",
        f"with repeats ({seeds['ndr-A-clean-repeats']} seeds)"
        f" {r('ndr-A-clean-repeats', interchange)} against {r('ndr-A-clean-repeats', cosine)}",
        f"Where {above('ndr-R-text')} succeed (R, `text`), neither tells much"
        f" ({r('ndr-R-text', interchange)} and {r('ndr-R-text', cosine)})",
        f"read off the answers, reach {r(run, 'codes')} on R",
    ]


def readme_table() -> list[str]:
    """The rows of the README's table."""
    return [f"over {SEEDS} seeds, with a verdict", *(_row(*place) for place in PUBLISHED)]


def _row(model: str, variant: str) -> str:
    known = "{:.2f} ± {:.2f}".format(*PUBLISHED[model, variant].ood)
    cells = [f"{TITLES[model]} on {variant}", known]
    for data in ("authors", REPEATS):
        row = results().get((f"{model}-{variant}-{data}", "ood", True))
        cells.append(f"{mean(row)}, {row['verdict']}" if row else "not run")
        assert not row or row["seeds"] == SEEDS
    return f"| {' | '.join(cells)} |"


@cache
def fragments() -> list[str]:
    """All of them, the longest first."""
    models = [*authors_data(), *near_the_published_numbers(), *ndrs(), *grid_and_transformers()]
    return sorted([*readme_table(), *models, *protocol_and_tables(), *inside()], key=len, reverse=True)


@cache
def documents() -> list[str]:
    """The findings of the page and of the README, each in one line."""
    readme = (ROOT / "README.md").read_text().split("## Do the published numbers hold?")[1].split("\n## ")[0]
    return [" ".join(text.split()) for text in ((RESULTS / "findings.md").read_text(), readme)]


def unchecked(text: str) -> list[str]:
    """Numbers that stand outside of the fragments."""
    for fragment in fragments():
        text = text.replace(fragment, "…")
    return re.findall(r"\d[\d.,]*", text)


def test_every_fragment_stands_in_a_document() -> None:
    assert [text for text in fragments() if not any(text in document for document in documents())] == []


def test_every_number_of_the_findings_is_checked() -> None:
    assert [unchecked(document) for document in documents()] == [[], []]


def test_a_number_that_is_changed_is_noticed() -> None:
    for document in documents():
        for digit in re.finditer(r"\d", document):
            other = str((int(digit[0]) + 1) % 10)
            assert unchecked(document[: digit.start()] + other + document[digit.end() :])


def test_what_is_said_in_words_holds() -> None:
    ndr = ood("ndr-A-authors")
    assert ndr["above_95"] == ndr["published_above_95"] == 0  # none solves A
    average = {data: sum(map(float, off(data))) for data in (REPEATS, CLEAN, TEXT)}
    assert min(average, key=lambda data: average[data]) == REPEATS  # nearest to the published accuracies
    for again in (ood("ndr-A-clean-repeats"), ood("ndr-R-clean-repeats")):
        assert again["change_low"] < 0 < again["change_high"]  # repeats change nothing that can be shown
    for row in (ood("ndr-R-clean"), ood("ndr-R-clean-repeats")):
        assert row["above_95"] >= 2 * row["published_above_95"]  # twice as many
    assert ood("lstm-R-clean-repeats")["verdict"] == "reproduced"  # as published
    one, other = (predictors()["ndr-R-clean", f"{name}_across"] for name in ("interchange", "cosine"))
    assert one["low"] < other["high"]  # the intervals overlap
