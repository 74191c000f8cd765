"""The drawings in docs/images are those that the program draws today."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
BENCHMARKS = IMAGES.parents[1] / "benchmarks"
ADVICE = "`python docs/images/draw.py` brings it up to date"


def load(script: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    return load(IMAGES / "draw.py")


def test_sampling_graphs_are_up_to_date(draw: ModuleType) -> None:
    drawn = draw.graphs()
    assert [name for name, svg in drawn.items() if (IMAGES / name).read_text() != svg] == [], ADVICE


def test_the_figure_of_the_readme_is_up_to_date_and_small(draw: ModuleType) -> None:
    committed = (IMAGES / "readme.svg").read_text()
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', committed)
    assert size is not None
    assert int(size[1]) <= 900
    assert int(size[2]) <= 400
    assert re.sub(r"-?[\d.]+", "", draw.readme()) == re.sub(r"-?[\d.]+", "", committed), ADVICE


def test_the_curves_of_fast_path_and_reference_are_up_to_date(tmp_path: Path) -> None:
    load(BENCHMARKS / "learning_curves.py").draw(BENCHMARKS / "learning_curves.json", tmp_path / "drawn")
    files = (tmp_path / "drawn.svg", IMAGES / "fast-and-reference.svg")
    drawn, committed = (re.sub(r"-?[\d.]+", "", file.read_text()) for file in files)
    assert drawn == committed, "its script says how to draw it"
