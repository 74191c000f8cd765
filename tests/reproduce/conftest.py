"""A folder with results of every experiment."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reproduce.making import make_piece, scatter

from ctlpp.reproduce.page import write_page, write_results


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something of every experiment, written."""
    out = tmp_path_factory.mktemp("full") / "results"
    make_piece(out, "ndr-R-released", scatter(0.8, 0.2, 13), analysed=True)
    make_piece(out, "ndr-R-released", scatter(0.8, 0.2, 12, 1), first=13)
    make_piece(out, "ndr-A-released", scatter(0.3, 0.2, 5), analysed=True)
    make_piece(out, "lstm-A-paper", scatter(0.8, 0.02, 25))
    make_piece(out, "lstm-A-released", scatter(0.95, 0.03, 25))
    make_piece(out, "transformer-R-released", scatter(0.7, 0.2, 30), iid=[0.2] * 3 + [1.0] * 27)
    for variant in ("A", "R"):
        make_piece(out, f"ndr-{variant}-released-repeats", scatter(0.75, 0.2, 25, 3))
    for table in (1, 2):
        make_piece(out, f"ndr-R-released-seed{table}", scatter(0.8 - 0.3 * table, 0.05, 5, table))
    for name, mean in (
        ("ndr-S-released-o16-s6", 0.999),
        ("lstm-S-released-o16-s6", 0.2),
        ("ndr-S-released-o4-s2", 0.1),
    ):
        make_piece(out, name, scatter(mean, 0.001, 5))
    write_results(out)
    write_page(out, out.parent / "docs" / "reproduction.md")
    return out
