"""Data flows one way through the folders: each imports only from those before it."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ctlpp"
ORDER = ["files", "words", "benchmark", "storage", "statistics", "models", "runs", "questions", "kernels"]
ORDER += ["training", "analysis", "figures", "report", "plans", "reproduce", "cli"]
ON_TOP = {"bench", "__init__", "__main__"}  # they use the command line's tables and bars, or name everything
EXCEPTIONS = {
    ("benchmark/dataset.py", "storage"),  # Dataset.save
    ("kernels/adam.py", "training"),  # the type of what it updates
    ("cli/look.py", "bench"),
}
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}


def folder_of(name: str) -> str:
    return name.partition("/")[0].removesuffix(".py")


def imported_folders(path: Path) -> set[str]:
    """The folders of ctlpp that a file imports from, anywhere in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("ctlpp.")} & {*ORDER, *ON_TOP}


def test_every_folder_has_its_place_and_its_files_import_only_from_those_before() -> None:
    for name, path in FILES.items():
        if (own := folder_of(name)) not in ON_TOP:
            exceptions = {folder for file, folder in EXCEPTIONS if file == name}
            assert imported_folders(path) <= {*ORDER[: ORDER.index(own) + 1]} | exceptions, name
