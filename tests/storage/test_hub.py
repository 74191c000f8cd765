"""Push and load, with a local folder for a repository; the client's functions keep their signatures."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

import ctlpp

hub = pytest.importorskip("huggingface_hub")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for `hf://someone/ctl`."""
    folder = tmp_path / "repository"

    def create(api: Any, repo_id: str, **options: Any) -> None:
        assert (repo_id, options["repo_type"], options["private"]) == ("someone/ctl", "dataset", True)
        folder.mkdir(exist_ok=options["exist_ok"])

    def upload(api: Any, *, repo_id: str, folder_path: Path, **options: Any) -> SimpleNamespace:
        for old in (path for pattern in options["delete_patterns"] for path in folder.glob(pattern)):
            old.unlink()
        shutil.copytree(folder_path, folder, dirs_exist_ok=True)
        return SimpleNamespace(commit_url=f"https://example.org/{repo_id}/{options['revision']}")

    def download(repo_id: str, **options: Any) -> str:
        if repo_id != "someone/ctl":
            raise OSError("404 Client Error.\nRepository not found")
        return str(folder)

    for name, function in (("create_repo", create), ("upload_folder", upload)):
        spec = create_autospec(getattr(hub.HfApi, name), side_effect=function)
        monkeypatch.setattr(hub.HfApi, name, lambda *a, spec=spec, **options: spec(*a, **options))
    pull = create_autospec(hub.snapshot_download, side_effect=download)
    monkeypatch.setattr(hub, "snapshot_download", pull)
    return folder


def test_a_dataset_is_pushed_in_place_of_another_and_loaded_again(repository: Path) -> None:
    sizes = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}
    dataset = ctlpp.generate("R", protocol="clean", **sizes)
    repository.mkdir()
    (repository / "old.jsonl").touch()  # of a dataset in another format
    (repository / "notes.md").touch()
    commit = dataset.push("hf://someone/ctl@draft", private=True)
    assert commit == "https://example.org/someone/ctl/draft"
    assert ctlpp.load("hf://someone/ctl").texts("ood") == dataset.texts("ood")
    files = {"README.md", "notes.md", "task.json", *(f"{split}.parquet" for split in dataset.splits)}
    assert {path.name for path in repository.iterdir()} == files


def test_what_cannot_be_found_is_one_line(repository: Path) -> None:
    remedy = "check the name, the network, and that you are logged in"
    with pytest.raises(ValueError, match=rf"^hf://someone/nothing: 404 Client Error; {remedy}$"):
        ctlpp.load("hf://someone/nothing")
    written = "hf://ctl: write it as hf://owner/name, or hf://owner/name@revision"
    with pytest.raises(ValueError, match=f"^{written}$"):
        ctlpp.load("hf://ctl")
