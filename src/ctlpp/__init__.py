"""CTL++: do neural networks compose known functions in patterns never seen in training?

    >>> import ctlpp
    >>> dataset = ctlpp.generate("A", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    >>> dataset.size("ood")
    20

Names are imported when they are used: `import ctlpp` alone is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ctlpp.analysis.analysis import analyze
    from ctlpp.benchmark.dataset import Dataset, generate
    from ctlpp.benchmark.graph import Graph, Restriction, VariantSpec
    from ctlpp.benchmark.language import Language
    from ctlpp.benchmark.task import Task
    from ctlpp.storage.folder import load
    from ctlpp.storage.proof import check
    from ctlpp.training.evaluate import accuracy
    from ctlpp.training.recipe import Recipe, recipe_for
    from ctlpp.training.train import Run, load_run, train

_HOMES = {
    "Dataset": "benchmark.dataset",
    "Graph": "benchmark.graph",
    "Language": "benchmark.language",
    "Recipe": "training.recipe",
    "Restriction": "benchmark.graph",
    "Run": "training.train",
    "Task": "benchmark.task",
    "VariantSpec": "benchmark.graph",
    "accuracy": "training.evaluate",
    "analyze": "analysis.analysis",
    "check": "storage.proof",
    "generate": "benchmark.dataset",
    "load": "storage.folder",
    "load_run": "training.train",
    "recipe_for": "training.recipe",
    "train": "training.train",
}

__all__ = [
    "Dataset",
    "Graph",
    "Language",
    "Recipe",
    "Restriction",
    "Run",
    "Task",
    "VariantSpec",
    "__version__",
    "accuracy",
    "analyze",
    "check",
    "generate",
    "load",
    "load_run",
    "recipe_for",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "Plan":  # as VariantSpec was called once
        name = "VariantSpec"
    if name not in _HOMES:
        raise AttributeError(f"module 'ctlpp' has no attribute {name!r}")
    return getattr(import_module(f"ctlpp.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
