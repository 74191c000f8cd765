"""Data flows one way through the folders: each imports only from those before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ctlpp"
ORDER = [
    "files",
    "words",
    "benchmark",
    "storage",
    "statistics",
    "models",
    "statistics",
    "runs",
    "questions",
    "kernels",
    "training",
    "analysis",
    "figures",
    "report",
]
ORDER += ["plans", "reproduce", "cli"]
ON_TOP = {"bench", "__init__", "__main__"}  # they use the command line's tables and bars, or name everything
CONVENIENCES = {
    ("benchmark/dataset.py", "storage"),  # Dataset.save
    ("kernels/adam.py", "training"),  # the type of what it updates
    ("cli/look.py", "bench"),
}


def folder_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The folders of ctlpp that a file imports from, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names if node.module == "ctlpp"),
            ]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("ctlpp."))


FILES = sorted(path for path in PACKAGE.rglob("*.py") if folder_of(path) not in ON_TOP)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_file_imports_only_from_folders_before_its_own(path: Path) -> None:
    own, name = folder_of(path), path.relative_to(PACKAGE).as_posix()
    allowed = {*ORDER[: ORDER.index(own) + 1], *(folder for file, folder in CONVENIENCES if file == name)}
    assert {*imported(path)} & {*ORDER, *ON_TOP} <= allowed


def test_every_folder_has_its_place() -> None:
    assert {folder_of(path) for path in PACKAGE.rglob("*.py")} == {*ORDER, *ON_TOP}
