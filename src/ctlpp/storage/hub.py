"""Datasets on the Hugging Face Hub: a repository there is a dataset folder. Needs `ctlpp[hub]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctlpp.benchmark.dataset import Dataset
from ctlpp.files import UserError
from ctlpp.storage.folder import save

ADDRESS = re.compile(r"hf://(?:datasets/)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_OURS = ("task.json", "README.md", "*.parquet", "*.jsonl", "*.txt")  # the files of a dataset folder


def push(dataset: Dataset, address: str, *, private: bool = False) -> str:
    """Upload a dataset in one commit; its repository is made if there is none.

    Args:
        dataset: What to upload.
        address: `hf://owner/name`. You must be logged in (`hf auth login`, or the variable HF_TOKEN).
        private: Whether a new repository is to be seen by its owner alone.

    Returns:
        The web address of the commit.
    """
    with TemporaryDirectory() as place, _hub(address) as (hub, repository, revision):
        save(dataset, Path(place) / "dataset")
        about = {"repo_id": repository, "repo_type": "dataset"}
        api = hub.HfApi()
        api.create_repo(**about, private=private, exist_ok=True)
        found = api.upload_folder(
            **about,
            revision=revision,
            folder_path=Path(place) / "dataset",
            commit_message=f"CTL++, variant {dataset.task.variant}",
            delete_patterns=list(_OURS),  # of another dataset that was here before
        )
    return str(found.commit_url)


def pull(address: str) -> Path:
    """Download the dataset folder at `hf://owner/name[@revision]`; gives where it is kept."""
    with _hub(address) as (hub, repository, revision):
        kept = hub.snapshot_download(
            repository, repo_type="dataset", revision=revision, allow_patterns=list(_OURS)
        )
    return Path(kept)


@contextmanager
def _hub(address: str) -> Iterator[tuple[Any, str, str | None]]:
    """The library, repository and revision of an address; what goes wrong there is one line."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise UserError(f"{address}: write it as hf://owner/name, or hf://owner/name@revision")
    try:
        import huggingface_hub as hub
    except ImportError as error:
        raise UserError(f"{address}: huggingface_hub is not installed; pip install 'ctlpp[hub]'") from error
    try:
        yield hub, found[1], found[2]
    except UserError:
        raise
    except Exception as error:  # of the library, of the one beneath it, of the network
        why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        remedy = "check the name, the network, and that you are logged in"
        raise UserError(f"{address}: {why}; {remedy}") from error
