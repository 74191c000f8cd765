"""Curves and analysis of a run survive the way into the page; what is damaged is named instead of shown."""

import json
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.report.conftest import edit, make_run, outdate

from ctlpp.report import page
from ctlpp.report.package import (
    FINEST,
    MISSING,
    NO_CHECKPOINT,
    NOT_ANALYSED,
    STALE,
    Bytes,
    Package,
    coarsen,
    correlate_settings,
    pack,
    quantise,
)
from ctlpp.runs.checkpoint import save
from ctlpp.runs.folder import find_runs, read_run
from ctlpp.statistics.summary import correlate

RUNS = Path(__file__).parents[2] / "results" / "runs"
MANY = [f"f{at}" for at in range(200)]
values = st.lists(st.floats(-1, 1) | st.just(float("nan")), min_size=1, max_size=50)


def unpack(text: str) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """What the browser does: facts and arrays of a package."""
    whole = zlib.decompress(b64decode(text))
    size = int.from_bytes(whole[:4], "little")
    facts = json.loads(whole[4 : 4 + size])
    body = np.frombuffer(whole, np.uint8, offset=4 + size)
    return facts, {name: body[start : start + length] for name, (start, length) in facts["arrays"].items()}


def packed(run: Path) -> Package:
    return pack(read_run(run, "run"))


def test_a_run_without_analysis_is_told_the_command_that_makes_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a run", analysed=False)
    assert packed(run).facts["inside_missing"] == {"text": NO_CHECKPOINT, "command": ""}
    save(run, 300, {"weights": torch.ones(2, 3)}, {})
    analyze = f"ctlpp analyze '{run}'"
    assert packed(run).facts["inside_missing"] == {"text": NOT_ANALYSED, "command": analyze}
    edit(run / "config.json", task=None)
    (run / "result.json").unlink()
    assert packed(run).facts["inside_missing"]["command"] == f"{analyze} --unfinished --data DIR"
    (run / "config.json").write_text("{")
    assert packed(run).facts["inside_missing"]["text"].startswith("config.json cannot be read")


def test_an_analysis_made_before_the_end_is_told_the_command_that_renews_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert "stale" not in packed(run).facts["inside"]
    outdate(run)
    assert packed(run).facts["inside"]["stale"] == {"text": STALE, "command": ""}
    save(run, 300, {"weights": torch.ones(2, 3)}, {})
    assert packed(run).facts["inside"]["stale"]["command"] == f"ctlpp analyze {run} --force"


def test_curves_arrive_and_are_thinned(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    package = packed(run)
    curves = package.facts["curves"]
    assert (curves["steps"], curves["seeds"]) == ([100, 200, 300], [0, 1, 2])
    assert package.arrays["curve_ood"].tolist() == [[127] * 3] * 3
    assert package.arrays["curve_loss"].tolist() == [[254] * 3, [94] * 3, [0] * 3]
    table = pq.read_table(run / "metrics.parquet")
    rows = [row | {"step": row["step"] + 1000 * n} for n in range(200) for row in table.to_pylist()]
    pq.write_table(table.from_pylist(rows), run / "metrics.parquet")
    steps = packed(run).facts["curves"]["steps"]
    assert (len(steps), steps[0], steps[-1]) == (100, 100, 199_300)


def test_a_history_that_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    table = pq.read_table(run / "metrics.parquet")
    pq.write_table(table.set_column(0, "step", [["x"] * len(table)]), run / "metrics.parquet")
    assert "wrong kind" in packed(run).facts["curves_missing"]
    pq.write_table(table.slice(0, 0), run / "metrics.parquet")
    assert "no evaluations" in packed(run).facts["curves_missing"]


@given(values=values, levels=st.sampled_from(page.LEVELS))
def test_a_quantised_number_is_off_by_half_a_level_at_most(values: list[float], levels: int) -> None:
    array = np.array(values)
    found = coarsen(quantise(array, -1, 1), levels)
    missing = np.isnan(array)
    assert ((found == MISSING) == missing).all()
    back = 2 * (found[~missing] / (levels - 1)) - 1
    assert np.abs(back - array[~missing]).max(initial=0) <= 1 / (levels - 1) + 1 / (FINEST - 1) + 1e-9


def test_similarities_clusters_and_answers_arrive(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    facts, arrays = unpack(packed(run).text())
    inside, F = facts["inside"], 8
    rows = pq.read_table(run / "analysis" / "similarity.parquet").to_pylist()
    low, shares = inside["low"], arrays["similarity"].reshape(len(rows), -1) / (FINEST - 1)
    for at, row in enumerate(rows):
        cosines = np.array(row["cosines"]).reshape(F, F)[np.triu_indices(F, 1)]
        assert np.abs(low + (1 - low) * shares[at] - cosines).max() < 0.01
        assert arrays["clusters"].reshape(len(rows), F)[at].tolist() == row["clusters"]
    bits = np.unpackbits(arrays["right"])[: 3 * 4 * F * F].reshape(3, 4, F, F)
    for row in pq.read_table(run / "analysis" / "pairs.parquet").to_pylist():
        names = inside["functions"]
        place = (row["seed"], int(row["value"]), names.index(row["first"]), names.index(row["second"]))
        assert bits[place] == row["right"]
        assert arrays["kind"].reshape(4, F, F)[place[1:]] == ("other", "train", "ood").index(row["kind"])
    assert arrays["interchange"].reshape(3, 3, 4, 2, 2)[0, 0, 0].tolist() == [[254, 0], [0, 254]]


@pytest.mark.skipif(not RUNS.is_dir(), reason="a copy of the source without its results")
def test_analyses_of_every_version_so_far_can_be_used() -> None:
    packages = [pack(record) for record in find_runs([RUNS / "ndr-R-clean", RUNS / "ndr-A-authors"])]
    assert [package.damage for package in packages] == [[]] * len(packages)
    assert all({"similarity", "right"} <= package.arrays.keys() for package in packages)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 7}, "another version"),
        ({"functions": ["a"] * 8}, "functions are missing, too many or not distinct"),
        ({"groups": {"a": ["a", "b"]}}, "do not hold every function once"),
        ({"seeds": list(range(999)), "functions": MANY, "groups": {"a": MANY}}, "too large for a page"),
    ],
)
def test_an_analysis_that_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    run = make_run(tmp_path / "run")
    edit(run / "analysis" / "analysis.json", **change)
    package = packed(run)
    assert reason in package.facts["inside_missing"]["text"]
    assert reason in package.damage[0]


@pytest.mark.parametrize("name", ["similarity", "pairs", "interchange"])
def test_a_damaged_table_leaves_the_others(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run")
    path = run / "analysis" / f"{name}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "seed", [[77] * len(table)]), path)
    assert packed(run).damage == [f"{name}.parquet does not fit analysis.json"]
    path.write_bytes(b"PAR1 nothing PAR1")
    package = packed(run)
    (reason,) = package.facts["inside"]["missing"]
    assert reason.startswith(f"{name}.parquet cannot be read")
    assert {"similarity", "right", "interchange"} - package.arrays.keys() == {name.replace("pairs", "right")}
    edit(run / "analysis" / "analysis.json", notes=[f"no state: no {name}"])
    path.unlink()
    package = packed(run)
    assert (package.facts["inside"]["missing"], package.damage) == ([f"no state: no {name}"], [])


def test_pages_get_coarser_before_they_get_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    records = find_runs([make_run(tmp_path / "run", analysed=False)])
    package = Package()
    package.arrays["similarity"] = draw.integers(0, FINEST, 90_000).astype(np.uint8)
    whole = len(page.make_page(records, [package]))
    for room, expected in ((10**6, [FINEST]), (-140_000, page.LEVELS[1:-1]), (-(10**6), [page.LEVELS[-1]])):
        monkeypatch.setattr(page, "LARGEST", whole + 200_000 + room)
        text = page.make_page(records, [package])
        (levels,) = (level for level in page.LEVELS if f'"levels":{level}}}' in text)
        assert levels in expected


def correlations(*folders: Path) -> list[list[float]]:
    """What the only measure of each analysed run says."""
    records = find_runs(folders)
    packages = [pack(record) for record in records]
    correlate_settings(records, packages)
    inside = [package.facts["inside"] for package in packages if "inside" in package.facts]
    return [one["measures"][0]["correlation"] for one in inside]


def test_the_correlation_over_a_setting_is_that_over_the_seeds_of_all_its_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "0-2", (0.3, 1.0, 0.9))
    (own,) = correlations(tmp_path)
    make_run(tmp_path / "3-6", (0.2, 0.7, 0.8, 0.9), first=3)
    # the first seed of each run has interchange 0.1, every other one 1
    expected = correlate(np.array([0.1, 1, 1, 0.1, 1, 1, 1]), np.array([0.3, 1.0, 0.9, 0.2, 0.7, 0.8, 0.9]))
    first, second = correlations(tmp_path)
    assert first == second == pytest.approx([expected.pearson, expected.low, expected.high], abs=1e-4)
    make_run(tmp_path / "again", (0.3, 1.0, 0.9))
    assert correlations(tmp_path) == [first] * 3, "a seed in two runs counts once"
    outdate(tmp_path / "3-6")
    assert correlations(tmp_path)[1] == own, "an analysis of an earlier step is left out"
    make_run(tmp_path / "other" / "alone", model="gru")
    make_run(tmp_path / "other" / "not-analysed", first=3, model="gru", analysed=False)
    assert correlations(tmp_path / "other") == [own], "a run that is all of its setting has nothing to add"
