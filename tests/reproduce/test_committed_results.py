"""The results in the repository are what its runs say: `make results` would change nothing."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from ctlpp.cli.main import app
from ctlpp.reproduce.page import write_page, write_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
LARGEST, ALTOGETHER = 16 * 2**20, 64 * 2**20  # bytes
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="a copy of the source without its results")
ADVICE = "`make results` brings it up to date"


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's results, made from its runs alone."""
    root = tmp_path_factory.mktemp("anew")
    (root / "results").mkdir()
    for name in ("runs", "findings.md"):
        (root / "results" / name).symlink_to(RESULTS / name)
    write_results(root / "results")
    write_page(root / "results", root / "docs" / "reproduction.md")
    return root


@pytest.mark.parametrize("name", ["results/results.md", "docs/reproduction.md"])
def test_tables_and_page_are_those_of_the_runs_byte_for_byte(anew: Path, name: str) -> None:
    assert (anew / name).read_text() == (ROOT / name).read_text(), ADVICE


def test_the_numbers_are_those_of_the_runs(anew: Path) -> None:
    for name in ("results.parquet", "predictors.parquet"):
        both = [pq.read_table(root / "results" / name) for root in (anew, ROOT)]
        assert both[0].equals(both[1]), f"{name}: {ADVICE}"


def test_the_figures_are_those_of_the_runs_pixel_for_pixel(anew: Path) -> None:
    pinned = re.search(r"^matplotlib==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    names = [{path.name for path in (root / "results").glob("figures/*.*")} for root in (anew, ROOT)]
    assert names[0] == names[1], ADVICE
    if not pinned or mpl.__version__ != pinned[1]:
        pytest.skip(f"drawn with matplotlib {pinned and pinned[1]}, here is {mpl.__version__}")
    for name in sorted(names[0]):
        if name.endswith(".png"):
            drawn, kept = (imread(root / "results" / "figures" / name) for root in (anew, ROOT))
            assert drawn.shape == kept.shape, f"{name}: {ADVICE}"
            assert np.abs(drawn - kept).max(initial=0) < 0.02, f"{name}: {ADVICE}"


def test_only_small_files_are_kept() -> None:
    files = [
        path for path in RESULTS.rglob("*") if path.is_file() and path.name not in ("report.html", ".lock")
    ]
    sizes = {path: path.stat().st_size for path in files if "checkpoint" not in path.parts}
    assert max(sizes.values(), default=0) <= LARGEST
    assert sum(sizes.values()) <= ALTOGETHER


def test_the_commands_that_the_page_names_are_understood() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text()
    commands = re.findall(r"^\| `ctlpp (.+?)` \|", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        found = CliRunner().invoke(app, [*command.split(), "--plan"])
        assert found.exit_code == 0, found.output


def test_every_link_of_the_page_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (ROOT / "docs" / "reproduction.md").read_text())
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
