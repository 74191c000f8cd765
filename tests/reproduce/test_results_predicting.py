"""Which measure predicts failure, over all runs of a cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reproduce.making import make_piece

from ctlpp.reproduce.results.found import find
from ctlpp.reproduce.results.predicting import predictions, predictors_table, sentence
from ctlpp.reproduce.results.writing import write_page, write_results

NAME = "ndr-R-released"
OOD = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 1.0]


def measured(folder: Path, **values: list[float]) -> None:
    """An analysis that holds nothing but measures."""
    content = json.loads((folder / "analysis" / "analysis.json").read_text())
    content["measures"] = {
        name: {"label": name, "meaning": "…", "values": own} for name, own in values.items()
    }
    (folder / "analysis" / "analysis.json").write_text(json.dumps(content))


def two_pieces(out: Path, ood: list[float], iid: float = 1.0) -> None:
    """Interchange is the accuracy itself; cosines fall where it rises, but for one seed; codes are all alike."""
    for first, own in ((0, ood[:4]), (4, ood[4:])):
        folder = make_piece(out, NAME, own, first=first, iid=iid, analysed=True)
        cosines = [1.0 if value == ood[0] else 1 - value for value in own]
        cosines = [0.5 if value == ood[1] else cosine for value, cosine in zip(own, cosines, strict=True)]
        measured(folder, interchange_across=own, cosine_across=cosines, codes=[1.0] * len(own))


def test_seeds_of_all_pieces_count_together(tmp_path: Path) -> None:
    two_pieces(tmp_path, OOD)
    (one,) = predictions(find(tmp_path))
    assert one.seeds == len(OOD)
    assert one.found["interchange_across"].pearson == pytest.approx(1.0)
    assert -1 < one.found["cosine_across"].pearson < -0.9
    assert "codes" not in one.found  # the same for all: no correlation
    assert one.ranked == ["interchange_across", "cosine_across"]


def test_the_page_has_a_sentence_a_figure_and_a_table(tmp_path: Path) -> None:
    two_pieces(tmp_path, OOD)
    assert "predictors.png" in write_results(tmp_path).figures
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text().split("## Which measure predicts failure")[1].split("\n## ")[0]
    assert (
        "NDR on R, released: the best predictors are interchange across (1.00) and cosine across (−0.9"
        in text
    )
    assert "| interchange across | 1.00 (1.00 – 1.00) |" in text
    assert "figures/predictors.png" in text


def test_a_picture_that_predicts_little_is_named(tmp_path: Path) -> None:
    two_pieces(tmp_path, OOD)
    for folder, part in (("0-3", slice(0, 4)), ("4-9", slice(4, 10))):
        good = dict.fromkeys(("interchange_across", "probe_across", "cka"), OOD[part])
        odd = [0.1 * (i % 3) for i in range(10)][part]
        measured(tmp_path / "runs" / NAME / folder, cosine_across=odd, **good)
    (one,) = predictions(find(tmp_path))
    assert "what the matrices show, is number 4 of 4 (" in sentence(one)
    assert predictors_table([one]).splitlines()[-1].startswith("| cosine across | ")


@pytest.mark.parametrize(
    "ood", [OOD[:7], [0.2, *[0.97] * 9], [0.99] * 10], ids=["few", "one apart", "all alike"]
)
def test_where_there_is_nothing_to_predict_nothing_is_said(tmp_path: Path, ood: list[float]) -> None:
    two_pieces(tmp_path, ood)
    assert predictions(find(tmp_path)) == []


def test_seeds_that_have_not_learned_their_data_do_not_count(tmp_path: Path) -> None:
    two_pieces(tmp_path, OOD, iid=0.9)
    assert predictions(find(tmp_path)) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"seeds": [{}], "measures": 3}', '{"seeds": 7}'])
def test_a_damaged_analysis_counts_as_none(tmp_path: Path, content: str) -> None:
    two_pieces(tmp_path, OOD)
    (tmp_path / "runs" / NAME / "4-9" / "analysis" / "analysis.json").write_text(content)
    assert predictions(find(tmp_path)) == []
