"""Small dataset folders, written once and copied for each test that edits one."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ctlpp.benchmark.dataset import Dataset, generate

SMALL: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4, "train": 600, "iid": 60, "ood": 60}
STAGED: dict[str, Any] = {"shared_functions": 4, "shared_symbols": 2}

Copies = Callable[..., Path]


@cache
def small_dataset(variant: str, protocol: str = "paper", order: str = "right-to-left") -> Dataset:
    return generate(variant, protocol=protocol, order=order, **SMALL, **(STAGED if variant == "S" else {}))


@pytest.fixture(scope="session")
def small() -> Callable[..., Dataset]:
    """`small("S", "released")`: a small dataset."""
    return small_dataset


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    """`originals("S", "released", format="text")`: the folder of a small dataset, to be read only."""

    @cache
    def original(variant: str, protocol: str = "paper", format: str = "parquet") -> Path:
        folder = tmp_path_factory.mktemp("original") / f"{variant}-{protocol}-{format}"
        small_dataset(variant, protocol).save(folder, format=format)
        return folder

    return original


@pytest.fixture
def copies(originals: Copies, tmp_path: Path) -> Copies:
    """The same, as a copy of one's own."""

    def copy(*names: str, **options: str) -> Path:
        return Path(shutil.copytree(originals(*names, **options), tmp_path / "data"))

    return copy
