"""What an analysis writes: numbers that are complete, fit together and are the same every time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ctlpp.analysis.folder import TABLES, read_analysis
from ctlpp.analysis.run import Study
from ctlpp.benchmark.dataset import Dataset
from ctlpp.figures.run import analyze_run
from ctlpp.runs.untrusted import DamagedError


@pytest.fixture(scope="module")
def written(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study]:
    folder = tmp_path_factory.mktemp("analyses") / "analysis"
    return folder, analyze_run(trained, folder, formats=["svg"], device="cpu")


def rows(written: tuple[Path, Study], name: str) -> list[dict[str, Any]]:
    return pq.read_table(written[0] / f"{name}.parquet").to_pylist()  # type: ignore[no-any-return]


def test_the_folder_holds_numbers_and_figures(written: tuple[Path, Study]) -> None:
    folder, study = written
    tables = {"measures", "pairs", "accuracy", "similarity", "places", "interchange", "codes", "learned"}
    assert {path.name for path in folder.iterdir()} == {"analysis.json", "figures"} | {
        f"{t}.parquet" for t in tables
    }
    content = json.loads((folder / "analysis.json").read_text())
    assert content["seeds"] == [0, 2, 3, 7]
    assert content["model"] == "ndr"
    assert content["finished"] is True
    assert len(content["accuracy"]["ood"]) == len(content["places"]) == 4
    for name, values in study.analysis.measures.items():
        assert content["measures"][name]["values"] == pytest.approx(values.tolist(), abs=1e-5)
        assert set(content["correlations"][name]) >= {"pearson", "low", "high", "spearman"}


def test_pairs_hold_every_answer_and_accuracy_is_their_mean(
    written: tuple[Path, Study], dataset: Dataset
) -> None:
    pairs, task = rows(written, "pairs"), dataset.task
    assert len(pairs) == 4 * 6 * 6 * 3
    for row in pairs[::7]:
        value = task.functions[row["first"]][task.symbols.index(row["symbol"])]
        expected = task.symbols[task.functions[row["second"]][value]]
        assert (row["value"], row["expected"]) == (task.symbols[value], expected)
        assert row["right"] == (row["answer"] == expected)
    home = {name: group for group, names in task.groups.items() for name in names}
    for cell in rows(written, "accuracy"):
        if cell["by"] == "group" and cell["value"] is None:
            same = [
                row["right"]
                for row in pairs
                if (row["seed"], home[row["first"]], home[row["second"]])
                == (cell["seed"], cell["first"], cell["second"])
            ]
            assert cell["accuracy"] == pytest.approx(np.mean(same))
            assert cell["examples"] == len(same)
    assert {row["kind"] for row in pairs} == {"train", "ood"}


def test_matrices_clusters_and_orders_fit_together(written: tuple[Path, Study]) -> None:
    for row in rows(written, "similarity"):
        matrix = np.array(row["cosines"]).reshape(6, 6)
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
        np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-5)
        assert sorted(row["order"]) == list(range(6))
        assert len(row["clusters"]) == 6
    assert len(rows(written, "similarity")) == 4 * 3


def test_interchange_codes_and_places_are_complete(written: tuple[Path, Study]) -> None:
    exchanged = rows(written, "interchange")
    assert {row["map"] for row in exchanged} == {"none", "orthogonal", "affine"}
    crossed = [row for row in exchanged if row["map"] == "none" and row["donor"] != row["consumer"]]
    assert (
        sum(row["examples"] for row in crossed) == 4 * 2 * 3 * 3 * 3
    )  # seeds, directions, donors, consumers, symbols
    assert len(rows(written, "codes")) == 4 * 6 * 3
    chosen = [row for row in rows(written, "places") if row["chosen"]]
    assert [row["seed"] for row in chosen] == [0, 2, 3, 7]


def test_interchange_is_told_for_every_pair_and_adds_up_to_the_table_by_groups(
    written: tuple[Path, Study], dataset: Dataset
) -> None:
    home = {name: group for group, names in dataset.task.groups.items() for name in names}
    pairs = rows(written, "pairs")
    for cell in rows(written, "interchange"):
        if cell["map"] == "none":
            same = [
                row["interchange"]
                for row in pairs
                if (row["seed"], row["value"], home[row["first"]], home[row["second"]])
                == (cell["seed"], cell["value"], cell["donor"], cell["consumer"])
            ]
            assert (cell["accuracy"], cell["examples"]) == (pytest.approx(np.mean(same)), len(same))


def test_more_bases_give_means_in_the_same_files(
    trained: Path, written: tuple[Path, Study], tmp_path: Path
) -> None:
    study = analyze_run(trained, tmp_path / "all", bases=None, figures=False, device="cpu")
    again = tmp_path / "all", study
    assert json.loads((tmp_path / "all" / "analysis.json").read_text())["bases"] == 6 * 2
    assert json.loads((written[0] / "analysis.json").read_text())["bases"] == 1
    few, all_ = (
        [row for row in rows(one, "interchange") if row["map"] == "none"] for one in (written, again)
    )
    assert [row["examples"] * 12 for row in few] == [row["examples"] for row in all_]
    assert {row["interchange"] for row in rows(written, "pairs")} == {0, 1}
    assert len({row["interchange"] for row in rows(again, "pairs")}) > 2
    assert study.analysis.interchange is not None
    assert study.analysis.measures["interchange_across"] == pytest.approx(
        study.analysis.interchange[:, study.analysis.inputs.ood].mean(axis=1)
    )


def test_the_same_run_gives_the_same_bytes(
    trained: Path, written: tuple[Path, Study], tmp_path: Path
) -> None:
    analyze_run(trained, tmp_path / "again", formats=["svg"], device="cpu")
    for path in sorted(written[0].rglob("*.*")):
        assert (tmp_path / "again" / path.relative_to(written[0])).read_bytes() == path.read_bytes(), (
            path.name
        )


def test_what_was_written_is_read_again(written: tuple[Path, Study], dataset: Dataset) -> None:
    folder, study = written
    record = read_analysis(folder.parent)
    assert record is not None
    assert record.seeds == (0, 2, 3, 7)
    assert record.functions == tuple(dataset.task.functions)
    assert record.groups == {name: tuple(members) for name, members in dataset.task.groups.items()}
    measures = {name: values[1] for name, values in study.analysis.measures.items()}
    assert record.measures_of(2) == pytest.approx(measures, abs=1e-5)
    for name, columns in TABLES.items():
        assert record.has_table(name)
        assert record.table(name).column_names == columns


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
        record.table("pairs")


def test_reading_needs_no_pytorch() -> None:
    program = "import sys, ctlpp.analysis.folder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
