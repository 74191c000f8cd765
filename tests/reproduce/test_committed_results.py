"""The results in the repository are what its runs say: `make results` would change nothing."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from ctlpp.cli.main import make_app
from ctlpp.reproduce.drawings import FORMATS, NAMES, draw_all
from ctlpp.reproduce.page import render
from ctlpp.reproduce.results import Results, correlations_table, load_results, results_table

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "results", ROOT / "docs" / "reproduction.md"
LARGEST, ALTOGETHER = 16 * 2**20, 64 * 2**20  # bytes
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="a copy of the source without its results")
ADVICE = "`make results` brings it up to date"


@pytest.fixture(scope="module")
def results() -> Results:
    """Made from the repository's runs alone."""
    return load_results(RESULTS)


def test_tables_and_page_are_those_of_the_runs_byte_for_byte(results: Results) -> None:
    for template, path in (("results.md.j2", RESULTS / "results.md"), ("page.md.j2", PAGE)):
        assert render(template, results, path) == path.read_text(), ADVICE


def test_the_numbers_are_those_of_the_runs(results: Results) -> None:
    for name, made in (("results", results_table), ("predictors", correlations_table)):
        table = pq.read_table(RESULTS / f"{name}.parquet")
        assert made(results).to_pylist() == table.to_pylist(), f"{name}: {ADVICE}"


def test_every_figure_is_there_and_that_of_the_runs_pixel_for_pixel(results: Results) -> None:
    names = {f"{name}.{kind}" for name in NAMES for kind in FORMATS}
    assert {path.name for path in (RESULTS / "figures").iterdir()} == names
    pinned = re.search(r"^matplotlib==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    if not pinned or mpl.__version__ != pinned[1]:
        pytest.skip(f"drawn with matplotlib {pinned and pinned[1]}, here is {mpl.__version__}")
    drawn = dict(draw_all(results, ["png"]))
    assert drawn.keys() == {f"{name}.png" for name in NAMES}
    for name, content in drawn.items():
        now, kept = imread(BytesIO(content), "png"), imread(RESULTS / "figures" / name)
        assert now.shape == kept.shape, f"{name}: {ADVICE}"
        assert np.abs(now - kept).max(initial=0) < 0.02, f"{name}: {ADVICE}"


def test_only_small_files_are_kept() -> None:
    files = [
        path for path in RESULTS.rglob("*") if path.is_file() and path.name not in ("report.html", ".lock")
    ]
    sizes = {path: path.stat().st_size for path in files if "checkpoint" not in path.parts}
    assert max(sizes.values(), default=0) <= LARGEST
    assert sum(sizes.values()) <= ALTOGETHER


def test_the_commands_that_the_page_names_are_understood() -> None:
    commands = re.findall(r"^\| `ctlpp (.+?)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        found = CliRunner().invoke(make_app(), [*command.split(), "--plan"])
        assert found.exit_code == 0, found.output


def test_every_link_of_the_page_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
