"""Small dataset folders, written once and copied for each test that edits one."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.storage.proof import check

SMALL: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4, "train": 600, "iid": 60, "ood": 60}
STAGED: dict[str, Any] = {"shared_functions": 4, "shared_symbols": 2}

Folders = Callable[..., Path]


@cache
def small(variant: str, protocol: str = "text", **options: Any) -> Dataset:
    return generate(variant, protocol=protocol, **SMALL, **(STAGED if variant == "S" else {}), **options)


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """`originals("S", "clean", format="text")`: the folder of a small dataset, to be read only."""

    @cache
    def original(variant: str, protocol: str = "text", format: str = "parquet", **options: Any) -> Path:
        folder = tmp_path_factory.mktemp("original") / f"{variant}-{protocol}-{format}"
        small(variant, protocol, **options).save(folder, format=format)
        return folder

    return original


@pytest.fixture
def copies(originals: Folders, tmp_path: Path) -> Folders:
    """The same, as a copy for this test alone; a second one replaces the first."""

    def copy(*names: str, **options: Any) -> Path:
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        return Path(shutil.copytree(originals(*names, **options), tmp_path / "data"))

    return copy


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the content of a task.json that has no checksum of its own, as those of version 0.1."""
    path = folder / "task.json"
    task = json.loads(path.read_text(encoding="utf-8"))
    del task["sha256"]
    change(task)
    path.write_text(json.dumps(task), encoding="utf-8")


def assert_refused(folder: Path, pattern: str) -> None:
    """The folder is refused in one line that names it."""
    with pytest.raises(ValueError, match=pattern) as caught:
        check(folder)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
