"""Shared functions first, and restarts of which the training loss alone chooses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.runs.history import TRAINING, History, Score
from ctlpp.storage.folder import task_to_dict
from ctlpp.training.batches import Batches
from ctlpp.training.curriculum import find_curriculum
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.train import train

RECIPE = Recipe(steps=40, batch=10, eval_every=0, checkpoint_every=0, precision="float32")


@pytest.fixture(scope="module")
def staged() -> Dataset:
    sizes = {"symbols": 4, "functions": 12, "max_length": 4, "train": 400, "iid": 20, "ood": 50}
    return generate("S", protocol="clean", shared_functions=4, shared_symbols=2, **sizes)


def test_short_examples_and_shared_functions_come_first(staged: Dataset) -> None:
    names, groups, split = list(staged.task.functions), staged.task.groups, staged.tensors("train")
    curriculum = find_curriculum("short_first+shared_first", task_to_dict(staged.task, {}, {}), split)
    batches = [Batches(split, RECIPE, [0], curriculum=curriculum).at(step)[0] for step in range(40)]
    seen = [{names[i] for i in batch.flatten().tolist() if i < len(names)} for batch in batches]
    assert set().union(*seen[:20]) == {*groups["a1"], *groups["b1"], *groups["o"]}
    assert set().union(*seen[20:]) == {*names}
    assert {batch.shape[1] - 2 for batch in batches[:10]} == {2}
    assert {batch.shape[1] - 2 for batch in batches[10:]} == {2, 4}


def test_a_variant_without_shared_functions_is_told_so() -> None:
    data = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=20, ood=20, protocol="text")
    line = r"^curriculum shared_first: only the variant S has shared functions; choose another$"
    for where in (data, {name: data.tensors(name) for name in ("train", "iid")}):
        with pytest.raises(ValueError, match=line):
            train("rnn", where, seeds=[0], preset="quick", recipe=replace(RECIPE, curriculum="shared_first"))


def test_of_restarts_the_lowest_training_loss_is_chosen_whatever_the_accuracies() -> None:
    history = History.empty(range(2, 8))
    losses = {2: 0.4, 3: 0.5, 4: 0.3, 5: 0.1, 6: float("nan"), 7: 0.2}
    scores = [Score(9, seed, "ood", 0, 1 - loss / 2, 0.0) for seed, loss in losses.items()]
    history.add([*scores, *(Score(9, seed, TRAINING, 0, float("nan"), x) for seed, x in losses.items())])
    assert history.chosen(2) == [2, 5, 7]
    assert history.chosen(3) == [2, 5, 7]
    assert history.chosen(4) == [2, 5]
    assert history.chosen(1) == [2, 3, 4, 5, 6, 7]


def test_a_run_says_which_of_its_restarts_are_chosen(staged: Dataset, tmp_path: Path) -> None:
    recipe = recipe_for("permrnn", variant="S", steps=40, batch=16, checkpoint_every=0)
    assert (recipe.curriculum, recipe.restarts) == ("shared_first", 2)
    run = train("permrnn", staged, seeds=range(6), recipe=recipe, out=tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    chosen = run.history.chosen(2)
    assert [seed // 2 for seed in chosen] == [0, 1, 2]
    assert [one["seed"] for one in result["seeds"] if one["chosen"]] == chosen
    assert [row["seed"] for row in run.table() if row["chosen"]] == chosen
