"""The drawings in docs/images are those that the program draws today."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ADVICE = "`python docs/images/draw.py` brings it up to date"


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", IMAGES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
