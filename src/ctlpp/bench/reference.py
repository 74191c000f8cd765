"""The slow references of `benchmarks/`, from the source tree or from where the package was installed with them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import ctlpp
from ctlpp.files import UserError


def reference(name: str) -> ModuleType:
    """The module `benchmarks/<name>.py`."""
    package = Path(ctlpp.__file__).parent
    for folder in (package / "_benchmarks", package.parents[1] / "benchmarks"):
        spec = importlib.util.spec_from_file_location(f"ctlpp_reference_{name}", folder / f"{name}.py")
        if spec and spec.loader and (folder / f"{name}.py").is_file():
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise UserError(
        f"benchmarks/{name}.py, the reference to compare with, is not installed; run this in a checkout"
    )
