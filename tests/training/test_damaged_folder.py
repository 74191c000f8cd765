"""A run folder that somebody else wrote into is refused in one line."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ctlpp import Recipe, generate, load_run, recipe_for, train
from ctlpp.runs.folder import read_config


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


def test_a_config_with_an_entry_of_another_kind_is_damaged(folder: Path) -> None:
    path = folder / "config.json"
    good = path.read_text()
    for entry in (*json.loads(good), "recipe.steps", "engine.vectorised", "engine.seeds_at_a_time"):
        if entry in ("format", "started", "about"):
            continue
        path.write_text(good)
        change(path, entry, 5.5)
        with pytest.raises(
            ValueError, match=f"^{re.escape(f'{path} is damaged ({entry} is 5.5)')}: train in"
        ):
            read_config(folder)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[1]", "FOLDER/config.json holds no JSON object: train in a new folder"),
        ("{}", "no run in FOLDER: its config.json is not one of ctlpp; choose another folder"),
        ("[" * 100_000, "FOLDER/config.json cannot be read: "),
        (
            '{"model": 1, "seeds": 2, "recipe": 3}',
            "FOLDER was written by another version of ctlpp (unknown): t",
        ),
    ],
)
def test_a_config_that_is_something_else_is_refused(folder: Path, text: str, line: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(line.replace('FOLDER', str(folder)))}"):
        read_config(folder)


@pytest.mark.parametrize("entry", ["seconds", "splits", "loss_count", "stopped"])
def test_a_checkpoint_without_an_entry_is_damaged(folder: Path, entry: str) -> None:
    (path,) = (folder / "checkpoint").glob("*.json")
    change(path, entry, None)
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'{path} is damaged ({entry} is None), and no older')}"
    ):
        load_run(folder)


def test_the_only_checkpoint_of_a_finished_run_is_damaged(folder: Path) -> None:
    (path,) = (folder / "checkpoint").glob("*.safetensors")
    os.truncate(path, 3000)
    line = (
        f"{path} is damaged (its checksum is wrong), and no older checkpoint is whole:"
        " the results of the run stay, only what needs its weights is lost: train it again in a new folder"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        load_run(folder)


@pytest.fixture
def longer(tiny: Any, splits: Any, tmp_path: Path) -> Path:
    """A finished run with two checkpoints, of steps 16 and 20."""
    recipe = Recipe(steps=20, batch=10, checkpoint_every=4)
    train(tiny, splits, recipe=recipe, seeds=[0], out=tmp_path / "longer")
    return tmp_path / "longer"


def truncate(checkpoint: Path) -> str:
    os.truncate(checkpoint / "step-000000020.safetensors", 300)
    return "step-000000020.safetensors is damaged (its checksum is wrong)"


def lose_weights(checkpoint: Path) -> str:
    (checkpoint / "step-000000020.safetensors").unlink()
    return "step-000000020.safetensors is missing"


def lose_facts(checkpoint: Path) -> str:
    (checkpoint / "step-000000020.json").unlink()
    return "step-000000020.json is missing"


def write_over_facts(checkpoint: Path) -> str:
    (checkpoint / "step-000000020.json").write_text("{")
    return "step-000000020.json is damaged (not JSON)"


@pytest.mark.parametrize("damage", [truncate, lose_weights, lose_facts, write_over_facts])
def test_a_finished_run_is_not_mistaken_for_its_older_checkpoint(
    longer: Path, tiny: Any, damage: Any
) -> None:
    line = (
        f"{longer / 'checkpoint'}/{damage(longer / 'checkpoint')}: the finished run in {longer} keeps its results, but"
        " its weights are lost; training it as before with resume=True makes them anew from step 16"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        load_run(longer, tiny)


def test_of_an_unfinished_run_the_older_checkpoint_is_taken_with_a_note(longer: Path, tiny: Any) -> None:
    (longer / "result.json").unlink()
    line = truncate(longer / "checkpoint")
    run = load_run(longer, tiny)
    assert run.step == 16
    assert run.notes == (f"{longer / 'checkpoint'}/{line}: taken is the checkpoint before, of step 16",)
