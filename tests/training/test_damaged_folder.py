"""A run folder that somebody else wrote into is refused in one line."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ctlpp import generate, load_run, recipe_for, train
from ctlpp.training.folder import read_config


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    data = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9)
    recipe = recipe_for("lstm", "quick", steps=1, batch=8)
    train("lstm", data, seeds=[0], recipe=recipe, preset="quick", splits=["iid"], device="cpu", out=folder)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def change(path: Path, entry: str, value: Any) -> None:
    """Set an entry, `recipe.steps` like, of a JSON file; None removes it."""
    content = json.loads(path.read_text())
    *outer, last = entry.split(".")
    place = content
    for key in outer:
        place = place[key]
    place.pop(last)
    if value is not None:
        place[last] = value
    path.write_text(json.dumps(content))


ENTRIES = ("model", "preset", "options", "vocab_size", "n_classes", "parameters", "seeds", "recipe", "data", "engine")


@pytest.mark.parametrize("entry", [*ENTRIES, "versions", "recipe.steps", "engine.vectorised", "engine.seeds_at_a_time"])
@pytest.mark.parametrize("value", [None, 5.5])
def test_a_config_without_an_entry_or_with_one_of_another_kind_is_damaged(
    folder: Path, entry: str, value: object
) -> None:
    change(folder / "config.json", entry, value)
    shown = "null" if value is None else value
    line = f"{folder / 'config.json'} is damaged ({entry} is {shown}): train in a new folder"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        read_config(folder)


@pytest.mark.parametrize("entry", ["seconds", "splits", "loss_count", "stopped"])
def test_a_checkpoint_without_an_entry_is_damaged(folder: Path, entry: str) -> None:
    (path,) = (folder / "checkpoint").glob("*.json")
    change(path, entry, None)
    line = f"the checkpoint in {folder} is damaged ({entry} is None): train in a new folder"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        load_run(folder)
