"""Push and load, with a folder in place of the Hub. Calls must have the signatures of the real client."""

import shutil
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

import ctlpp
from ctlpp.files import UserError

library = pytest.importorskip("huggingface_hub")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with a folder for every repository."""
    root = tmp_path / "hub"

    def create(repo_id: str, **_: Any) -> None:
        (root / repo_id).mkdir(parents=True, exist_ok=True)

    def upload(*, repo_id: str, folder_path: Path, delete_patterns: list[str], **_: Any) -> Any:
        for path in (root / repo_id).iterdir():
            if any(fnmatch(path.name, pattern) for pattern in delete_patterns):
                path.unlink()
        shutil.copytree(folder_path, root / repo_id, dirs_exist_ok=True)
        return SimpleNamespace(commit_url=f"https://huggingface.co/datasets/{repo_id}/commit/0")

    def download(repo_id: str, *, allow_patterns: list[str], **_: Any) -> str:
        if not (root / repo_id).is_dir():
            raise OSError("404 Client Error.\nRepository not found")
        return str(shutil.copytree(root / repo_id, tmp_path / "kept"))

    api = create_autospec(library.HfApi, instance=True)
    api.create_repo.side_effect, api.upload_folder.side_effect = create, upload
    monkeypatch.setattr(library, "HfApi", lambda: api)
    snapshot = create_autospec(library.snapshot_download, side_effect=download)
    monkeypatch.setattr(library, "snapshot_download", snapshot)
    return root


def test_a_dataset_is_pushed_and_loaded_again(hub: Path) -> None:
    repository = hub / "someone" / "ctl"
    repository.mkdir(parents=True)
    (repository / "old.jsonl").touch()  # of a dataset in another format
    (repository / ".gitattributes").touch()
    sizes: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}
    dataset = ctlpp.generate("R", protocol="clean", **sizes)
    assert dataset.push("hf://someone/ctl").endswith("/datasets/someone/ctl/commit/0")
    assert ctlpp.load("hf://someone/ctl").texts("ood") == dataset.texts("ood")
    files = {"README.md", "task.json", *(f"{split}.parquet" for split in dataset.splits)}
    assert {path.name for path in repository.iterdir()} == files | {".gitattributes"}


def test_what_cannot_be_found_is_one_line(hub: Path) -> None:
    remedy = "check the name, the network, and that you are logged in"
    for address, line in {
        "hf://someone/nothing": f"hf://someone/nothing: 404 Client Error; {remedy}",
        "hf://ctl": "hf://ctl: write it as hf://owner/name, or hf://owner/name@revision",
    }.items():
        with pytest.raises(ValueError, match=r"^hf://") as caught:
            ctlpp.load(address)
        assert str(caught.value) == line


def test_a_full_disk_is_not_blamed_on_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise UserError("cannot write")

    monkeypatch.setattr("ctlpp.storage.hub.save", fail)
    sizes: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}
    with pytest.raises(UserError, match=r"^cannot write$"):
        ctlpp.generate("R", protocol="clean", **sizes).push("hf://someone/ctl")
