"""What an analysis writes: numbers that are complete, fit together and are the same every time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ctlpp.analysis.analysis import Study
from ctlpp.analysis.folder import read_analysis
from ctlpp.figures.run import analyze_run
from ctlpp.runs.untrusted import DamagedError


def rows(written: tuple[Path, Study], name: str) -> list[dict[str, Any]]:
    return pq.read_table(written[0] / f"{name}.parquet").to_pylist()  # type: ignore[no-any-return]


def test_the_folder_holds_all_tables_and_is_read_again(written: tuple[Path, Study]) -> None:
    folder, study = written
    tables = {"measures", "pairs", "accuracy", "similarity", "places", "interchange", "codes", "learned"}
    files = {"analysis.json", *(f"{table}.parquet" for table in tables)}
    assert {path.name for path in folder.iterdir()} == files
    content = json.loads((folder / "analysis.json").read_text())
    assert (content["model"], content["finished"], content["bases"]) == ("ndr", True, 1)
    assert len(content["accuracy"]["ood"]) == len(content["places"]) == 4
    assert set(content["correlations"]) == set(study.analysis.measures)
    record, task = read_analysis(folder.parent), study.analysis.inputs.task
    assert record is not None
    assert (record.seeds, record.functions) == ((0, 2, 3, 7), tuple(task.functions))
    assert record.groups == {name: tuple(members) for name, members in task.groups.items()}
    measures = {name: values[1] for name, values in study.analysis.measures.items()}
    assert record.measures_of(2) == pytest.approx(measures, abs=1e-5)
    assert record.has_table("pairs")
    assert record.table("pairs", ["second", "first"]).column_names == ["second", "first"]


def test_pairs_hold_every_answer_and_other_tables_are_means_of_them(written: tuple[Path, Study]) -> None:
    pairs, task = rows(written, "pairs"), written[1].analysis.inputs.task
    assert len(pairs) == 4 * 6 * 6 * 3
    assert {row["kind"] for row in pairs} == {"train", "ood"}
    for row in pairs[::7]:
        value = task.functions[row["first"]][task.symbols.index(row["symbol"])]
        expected = task.symbols[task.functions[row["second"]][value]]
        assert (row["value"], row["expected"]) == (task.symbols[value], expected)
        assert row["right"] == (row["answer"] == expected)
    home = {name: group for group, names in task.groups.items() for name in names}

    def check(cell: dict[str, Any], of: str, first: str, second: str) -> None:
        where = cell["seed"], cell[first], cell[second]
        same = [row for row in pairs if (row["seed"], home[row["first"]], home[row["second"]]) == where]
        chosen = [row[of] for row in same if cell["value"] in (row["value"], None)]
        assert (cell["accuracy"], cell["examples"]) == (pytest.approx(np.mean(chosen)), len(chosen))

    for cell in rows(written, "accuracy"):
        if cell["by"] == "group":
            check(cell, "right", "first", "second")
    exchanged = rows(written, "interchange")
    assert {row["map"] for row in exchanged} == {"none", "orthogonal", "affine"}
    for cell in exchanged:
        if cell["map"] == "none":
            check(cell, "interchange", "donor", "consumer")


def test_other_tables_are_complete_and_fit_together(written: tuple[Path, Study]) -> None:
    similarity, clusters = rows(written, "similarity"), set()
    assert len(similarity) == 4 * 3
    for row in similarity:
        matrix = np.array(row["cosines"]).reshape(6, 6)
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
        np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-5)
        assert sorted(row["order"]) == list(range(6))
        clusters |= {(row["seed"], row["value"], str(cluster)) for cluster in row["clusters"]}
    by_cluster = [cell for cell in rows(written, "accuracy") if cell["by"] == "cluster"]
    assert {(cell["seed"], cell["value"], cell["first"]) for cell in by_cluster} == clusters
    assert [row["seed"] for row in rows(written, "places") if row["chosen"]] == [0, 2, 3, 7]
    codes, learned = rows(written, "codes"), rows(written, "learned")
    assert len(codes) == 4 * 6 * 3
    used, known = ({(row["seed"], row["value"], row["code"]) for row in table} for table in (codes, learned))
    assert used == known
    assert all(0 < row["share"] <= 1 and 0 < row["states"] <= 6 for row in learned)


def test_more_bases_give_means_in_the_same_files(
    trained: Path, written: tuple[Path, Study], tmp_path: Path
) -> None:
    more = tmp_path / "all", analyze_run(trained, tmp_path / "all", bases=None, figures=False, device="cpu")
    assert json.loads((tmp_path / "all" / "analysis.json").read_text())["bases"] == 6 * 2
    for one, examples in ((written, 6 * 6), (more, 6 * 6 * 12)):  # for each seed and value
        exchanged = [row["examples"] for row in rows(one, "interchange") if row["map"] == "none"]
        assert sum(exchanged) == 4 * 3 * examples
    assert {row["interchange"] for row in rows(written, "pairs")} == {0, 1}
    new = [row["interchange"] for row in rows(more, "pairs") if row["seed"] == 7 and row["kind"] == "ood"]
    assert len({*new}) > 2
    assert more[1].analysis.measures["interchange_across"][3] == pytest.approx(np.mean(new))


def test_the_same_run_gives_the_same_bytes(
    trained: Path, written: tuple[Path, Study], tmp_path: Path
) -> None:
    analyze_run(trained, tmp_path / "again", figures=False, device="cpu")
    for path in written[0].iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_an_analysis_that_cannot_be_used_says_why_and_none_is_none(
    written: tuple[Path, Study], tmp_path: Path
) -> None:
    assert read_analysis(tmp_path) is None
    content = json.loads((written[0] / "analysis.json").read_text())
    place = tmp_path / "analysis"
    place.mkdir()
    for change, reason in (
        ({"format": 7}, "written by another version"),
        ({"seeds": [0, 0]}, "seeds are missing, too many or not distinct"),
        ({"symbols": None}, "symbols are missing"),
        ({"groups": {"a": ["a"]}}, "the groups do not hold every function once"),
    ):
        (place / "analysis.json").write_text(json.dumps(content | change))
        with pytest.raises(DamagedError, match=reason):
            read_analysis(tmp_path)
    (place / "analysis.json").write_text(json.dumps(content))
    (place / "pairs.parquet").write_bytes(b"PAR1 and nothing else")
    record = read_analysis(tmp_path)
    assert record is not None
    with pytest.raises(DamagedError, match=r"pairs.parquet cannot be read"):
        record.table("pairs", ["seed"])


def test_reading_needs_no_pytorch() -> None:
    program = "import sys, ctlpp.analysis.folder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
