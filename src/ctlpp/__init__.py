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

__version__ = "0.2.0"

if TYPE_CHECKING:
    from ctlpp.analysis.analysis import analyze
    from ctlpp.benchmark.dataset import Dataset, generate
    from ctlpp.benchmark.graph import Graph, Restriction, VariantSpec
    from ctlpp.benchmark.language import Language
    from ctlpp.benchmark.task import Task
    from ctlpp.cli.output import TrainingDisplay
    from ctlpp.plans.sweep_folder import sweep
    from ctlpp.questions.answers import score
    from ctlpp.questions.questions import ask
    from ctlpp.report.compare import compare
    from ctlpp.storage.folder import load
    from ctlpp.storage.proof import check
    from ctlpp.training.recipe import Recipe, recipe_for
    from ctlpp.training.run import Run, accuracy, evaluate, load_run, load_seed
    from ctlpp.training.train import train

_NAMES = {  # by module
    "analysis.analysis": ("analyze",),
    "benchmark.dataset": ("Dataset", "generate"),
    "benchmark.graph": ("Graph", "Restriction", "VariantSpec"),
    "benchmark.language": ("Language",),
    "benchmark.task": ("Task",),
    "cli.output": ("TrainingDisplay",),
    "plans.sweep_folder": ("sweep",),
    "questions.answers": ("score",),
    "questions.questions": ("ask",),
    "report.compare": ("compare",),
    "storage.folder": ("load",),
    "storage.proof": ("check",),
    "training.recipe": ("Recipe", "recipe_for"),
    "training.run": ("Run", "accuracy", "evaluate", "load_run", "load_seed"),
    "training.train": ("train",),
}

__all__ = ["Dataset", "Graph", "Language", "Recipe", "Restriction", "Run", "Task", "TrainingDisplay"]
__all__ += ["VariantSpec", "__version__", "accuracy", "analyze", "ask", "check", "compare", "evaluate"]
__all__ += ["generate", "load", "load_run", "load_seed", "recipe_for", "score", "sweep", "train"]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"ctlpp.{module}"), name)
    raise AttributeError(f"module 'ctlpp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
