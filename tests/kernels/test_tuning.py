"""The settings that `benchmarks/tune_kernels.py` tries exist, and they differ from the present ones."""

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytest.importorskip("triton")


def test_every_candidate_changes_constants_that_exist_to_other_values() -> None:
    spec = spec_from_file_location(
        "tune_kernels", Path(__file__).parents[2] / "benchmarks" / "tune_kernels.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    for part, tried, settings in script.CANDIDATES:
        present = {
            name: getattr(import_module(f"ctlpp.kernels.{name.split('.')[0]}"), name.split(".")[1])
            for name in settings
        }
        assert present != settings, f"{part}: {tried}"
