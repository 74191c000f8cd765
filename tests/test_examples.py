"""Every script in examples/ runs and stays short."""

import importlib.util
import inspect
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_short(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "main"):
        shortened = {"steps": 20} if "steps" in inspect.signature(module.main).parameters else {}
        module.main(**shortened)
    assert capsys.readouterr().out
    assert len(path.read_text().splitlines()) < 50
