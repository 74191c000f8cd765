"""What `import ctlpp` offers."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ctlpp

NAMES = {
    *("Dataset", "Graph", "Language", "Restriction", "Task", "VariantSpec", "check", "generate", "load"),
    *("Recipe", "Run", "accuracy", "analyze", "load_run", "recipe_for", "train"),
    *("__version__", "ask", "compare", "evaluate", "load_seed", "score", "sweep", "TrainingDisplay"),
}


def test_the_list_of_public_names_is_this_one() -> None:
    assert set(ctlpp.__all__) == NAMES
    assert dir(ctlpp) == sorted(NAMES)
    assert all(getattr(ctlpp, name) is not None for name in NAMES)
    with pytest.raises(AttributeError, match="module 'ctlpp' has no attribute 'nope'"):
        ctlpp.nope  # noqa: B018


def test_the_citation_names_this_version() -> None:
    citation = (Path(__file__).parents[1] / "CITATION.cff").read_text()
    assert f"\nversion: {ctlpp.__version__}\n" in citation


def test_the_import_alone_loads_no_heavy_library() -> None:
    code = "import sys, ctlpp; print({'torch', 'numpy', 'pyarrow', 'rich', 'typer'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_public_function_says_what_each_parameter_is_and_what_it_gives() -> None:
    for name in sorted(name for name in NAMES if name[0].islower()):
        about = inspect.getdoc(getattr(ctlpp, name)) or ""
        arguments = about.partition("Args:\n")[2].partition("\n\n")[0]
        described = re.findall(r"^    (\w+): ", arguments, re.MULTILINE)
        assert described == list(inspect.signature(getattr(ctlpp, name)).parameters), name
        given = about.partition("\nReturns:\n")[2].partition("\n\n")[0]
        assert given, name
        assert ": " not in given.splitlines()[0], "the reference takes what is before it for a type"
