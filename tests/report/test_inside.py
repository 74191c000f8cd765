"""An analysis survives the way into the page, and a damaged one is told instead of shown."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.conftest import make_run

from ctlpp.report.packing import FINEST, MISSING, Package, coarsen, quantise, unpack
from ctlpp.report.page import LEVELS, pack, squeeze
from ctlpp.runs.folder import read_run

values = st.lists(st.floats(-1, 1) | st.just(float("nan")), min_size=1, max_size=50)


@given(values=values, levels=st.sampled_from(LEVELS))
def test_a_quantised_number_is_off_by_half_a_level_at_most(values: list[float], levels: int) -> None:
    array = np.array(values)
    found = coarsen(quantise(array, -1, 1), levels)
    missing = np.isnan(array)
    assert ((found == MISSING) == missing).all()
    back = 2 * (found[~missing] / (levels - 1)) - 1
    assert np.abs(back - array[~missing]).max(initial=0) <= 1 / (levels - 1) + 1 / (FINEST - 1) + 1e-9


def test_similarities_clusters_and_answers_arrive(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    facts, arrays = unpack(pack(read_run(run, "run")).text())
    inside, F = facts["inside"], 8
    rows = pq.read_table(run / "analysis" / "similarity.parquet").to_pylist()
    triangle = np.triu_indices(F, 1)
    for at, row in enumerate(rows):
        cosines = np.array(row["cosines"]).reshape(F, F)[triangle]
        own = (
            arrays["similarity"].reshape(len(rows), -1)[at] / (FINEST - 1) * (1 - inside["low"])
            + inside["low"]
        )
        assert np.abs(own - cosines).max() < 0.01
        assert arrays["clusters"].reshape(len(rows), F)[at].tolist() == row["clusters"]
    bits = np.unpackbits(arrays["right"])[: 3 * 4 * F * F].reshape(3, 4, F, F)
    for row in pq.read_table(run / "analysis" / "pairs.parquet").to_pylist():
        names = inside["functions"]
        place = (row["seed"], int(row["value"]), names.index(row["first"]), names.index(row["second"]))
        assert bits[place] == row["right"]
        assert arrays["kind"].reshape(4, F, F)[place[1:]] == ("other", "train", "ood").index(row["kind"])
    assert arrays["interchange"].reshape(3, 3, 4, 2, 2)[0, 0, 0].tolist() == [[254, 0], [0, 254]]


def test_a_run_without_analysis_still_has_its_curves(tmp_path: Path) -> None:
    package = pack(read_run(make_run(tmp_path / "run", analysed=False), "run"))
    assert package.facts["inside_missing"].startswith("not analysed")
    assert package.facts["curves"]["steps"] == [100, 200, 300]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 7}, "another version"),
        ({"functions": ["a"] * 8}, "functions are missing, too many or not distinct"),
        ({"symbols": [str(n) for n in range(9999)]}, "symbols are missing, too many or not distinct"),
        ({"groups": {"a": ["a", "b"]}}, "do not hold every function once"),
        ({"seeds": None}, "seeds are missing"),
    ],
)
def test_an_analysis_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    run = make_run(tmp_path / "run")
    path = run / "analysis" / "analysis.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert reason in pack(read_run(run, "run")).facts["inside_missing"]


@pytest.mark.parametrize("name", ["similarity", "pairs", "interchange"])
def test_a_damaged_table_leaves_the_others(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run")
    (run / "analysis" / f"{name}.parquet").write_bytes(b"PAR1 nothing PAR1")
    package = pack(read_run(run, "run"))
    (reason,) = package.facts["inside"]["missing"]
    assert reason.startswith(f"{name}.parquet cannot be read")
    assert {"similarity", "right", "interchange"} - package.arrays.keys() == {name.replace("pairs", "right")}


def test_a_table_of_other_names_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    path = run / "analysis" / "analysis.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"seeds": [5, 6, 7]}))
    missing = pack(read_run(run, "run")).facts["inside"]["missing"]
    assert missing[0] == "similarity.parquet: the column seed has names that analysis.json does not know"


def test_a_history_of_texts_is_no_curve(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analysed=False)
    table = pq.read_table(run / "metrics.parquet")
    pq.write_table(table.set_column(0, "step", [["x"] * len(table)]), run / "metrics.parquet")
    assert "the column step holds no numbers" in pack(read_run(run, "run")).facts["curves_missing"]


def test_pages_get_coarser_before_they_get_too_large() -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    packages = [Package({}) for _ in range(3)]
    for package in packages:
        package.add("similarity", draw.integers(0, FINEST, 30_000).astype(np.uint8))
    assert squeeze(packages, 10**9)[0] == LEVELS[0]
    levels, texts = squeeze(packages, 80_000)
    assert LEVELS[-1] < levels < LEVELS[0]
    assert sum(map(len, texts)) <= 80_000
    assert squeeze(packages, 0)[0] == LEVELS[-1]


def test_as_many_levels_as_fit_whatever_the_order_of_the_runs() -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    packages = [Package({}) for _ in range(30)]
    for at, package in enumerate(packages):
        large = at % 3 == 0
        package.add("similarity", draw.integers(0, FINEST, 20_000 if large else 200).astype(np.uint8))
    for levels in LEVELS[:-1]:
        room = sum(len(package.text(levels)) for package in packages)
        assert squeeze(packages, room)[0] == levels


def test_what_a_model_does_not_record_is_told_in_the_words_of_the_analysis(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    notes = [
        'the model records no "readout": no similarity of representations',
        'the model records no "state": no interchange, stitching, probes or CKA',
    ]
    path = run / "analysis" / "analysis.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"notes": notes}))
    for name in ("similarity", "interchange"):
        (run / "analysis" / f"{name}.parquet").unlink()
    assert pack(read_run(run, "run")).facts["inside"]["missing"] == notes
