"""Three kinds of data are asked for the same published numbers; which comes nearest is told by the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reproduce.making import make_piece

from ctlpp.reproduce.results.found import find
from ctlpp.reproduce.results.kinds import KINDS, asked, main_cells, nearest

REPEATS, RELEASED, PAPER = KINDS


def seeds(mean: float) -> list[float]:
    return [mean - 0.01, mean, mean + 0.01] * 4


def test_every_kind_is_asked_for_all_six_published_numbers(tmp_path: Path) -> None:
    found = find(tmp_path)
    for kind in KINDS:
        assert [(one.model, one.variant) for one in asked(found, kind)] == [
            (model, variant) for model in ("lstm", "transformer", "ndr") for variant in ("A", "R")
        ]
        assert {(one.protocol, one.repeated) for one in asked(found, kind)} == {
            (kind.protocol, kind.repeated)
        }


def test_cells_that_ask_for_the_same_number_stand_together(tmp_path: Path) -> None:
    names = ["lstm-A-released-repeats", "lstm-A-paper", "ndr-R-released-repeats", "ndr-R-released"]
    for name in reversed(names):
        make_piece(tmp_path, name, seeds(0.5))
    make_piece(tmp_path, "ndr-R-released-seed1", seeds(0.5))
    assert [cell.name for cell in main_cells(find(tmp_path))] == names


@pytest.mark.parametrize(
    ("means", "said"),
    [
        (
            {"ndr-R-released-repeats": 0.75, "ndr-R-released": 0.95, "ndr-R-paper": 0.85},
            "Nearest to the published OOD accuracy of NDR on R: **`released` with repeats**, 0.00 off, against 0.10 for"
            " `paper` and 0.20 for `released`.",
        ),
        (
            {"ndr-R-released": 0.95, "ndr-R-paper": 0.85},
            "Nearest to the published OOD accuracy of NDR on R: **`paper`**, 0.10 off, against 0.20 for `released`.",
        ),
        (
            {"ndr-R-released": 0.95, "ndr-R-paper": 0.55},
            "All kinds of data are equally near to the published OOD accuracy of NDR on R: 0.20 off.",
        ),
        (
            {"ndr-R-released": 0.85, "ndr-R-paper": 0.75, "ndr-A-released": 0.34, "ndr-A-paper": 0.74},
            "Nearest to the published OOD accuracies of NDR on A and NDR on R: **`released`**, 0.05 off on average"
            " (0.00 and 0.10), against 0.20 (0.40 and 0.00) for `paper`.",
        ),
        ({"ndr-R-released": 0.95, "ndr-A-paper": 0.85}, ""),
        ({"ndr-R-released": 0.95}, ""),
        ({}, ""),
    ],
)
def test_the_nearest_kind_is_told_over_what_all_have(
    tmp_path: Path, means: dict[str, float], said: str
) -> None:
    for name, mean in means.items():
        make_piece(tmp_path, name, seeds(mean))
    assert nearest(find(tmp_path)) == said


def test_a_single_seed_is_not_said_to_be_near(tmp_path: Path) -> None:
    make_piece(tmp_path, "ndr-R-released", seeds(0.95))
    make_piece(tmp_path, "ndr-R-paper", [0.75])
    assert nearest(find(tmp_path)) == ""


def test_all_six_are_not_listed_one_by_one(tmp_path: Path) -> None:
    for kind in (REPEATS, PAPER):
        for one in asked(find(tmp_path), kind):
            make_piece(tmp_path, one, seeds(0.5 if kind is PAPER else 0.6))
    assert nearest(find(tmp_path)).startswith(
        "Nearest to the published OOD accuracies of every model on A and R: **"
    )
