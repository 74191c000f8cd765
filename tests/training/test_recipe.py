import re
from dataclasses import replace
from typing import Any

import pytest

from ctlpp.models.zoo import MODELS
from ctlpp.training.recipe import RECIPES, Recipe, recipe_for, watching


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"steps": 0}, "steps 0: must be a whole number, 1 or more"),
        ({"steps": 1.5}, "steps 1.5: must be a whole number, 1 or more"),
        ({"batch": -3}, "batch -3: must be a whole number, 1 or more"),
        ({"lr": 2.0}, "lr 2.0: must be above 0 and at most 1"),
        ({"lr": float("nan")}, "lr nan: must be above 0 and at most 1"),
        ({"warmup": -1}, "warmup -1: must be a whole number, 0 or more"),
        ({"batch_seed": 2**63}, "batch_seed 9223372036854775808: must be below 2 to the power of 63"),
        ({"betas": (0.9, 1.0)}, "betas (0.9, 1.0): must be two numbers from 0 to below 1"),
        ({"weight_decay": -0.1}, "weight_decay -0.1: must be 0 to 1"),
        ({"clip": -1}, "clip -1: must be 0 (none) to a million"),
        ({"optimizer": "sgd"}, "optimizer sgd: choose from adamw, adam"),
        ({"schedule": "linear"}, "schedule linear: choose from constant, cosine"),
        ({"precision": "fp16"}, "precision fp16: choose from auto, float32, bf16"),
        ({"batch_order": "mine"}, "batch_order mine: choose from shared, per_seed"),
        ({"settled_change": 2}, "settled_change 2: must be 0 to 1"),
        ({"checkpoint_minutes": 0}, "checkpoint_minutes 0: must be above 0"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text) + "$"):
        Recipe(**wrong)


def test_the_recipes_are_those_of_the_released_code() -> None:
    ndr, transformer, lstm = (RECIPES["released"][name] for name in ("ndr", "transformer", "lstm"))
    assert all(
        (r.lr, r.warmup, r.batch, r.batch_order) == (1.5e-4, 500, 512, "shared")
        for r in (ndr, transformer, lstm)
    )
    assert all(
        (r.betas, r.eps, r.schedule) == ((0.9, 0.999), 1e-8, "constant") for r in (ndr, transformer, lstm)
    )
    assert (ndr.clip, ndr.weight_decay, ndr.steps) == (1, 0, 80_000)
    assert (transformer.clip, transformer.weight_decay, transformer.steps) == (5, 0.0025, 300_000)
    assert (lstm.clip, lstm.weight_decay, lstm.steps, lstm.optimizer) == (5, 0, 80_000, "adamw")
    assert not any(r.early_stop for r in (ndr, transformer, lstm))


def test_the_lstm_on_s_has_a_recipe_of_its_own_only_as_released() -> None:
    ours = recipe_for("lstm", "released", "S")
    assert (ours.batch, ours.lr, ours.optimizer, ours.clip) == (128, 1e-3, "adam", 5)
    assert recipe_for("lstm", "paper", "S") == recipe_for("lstm", "paper", "R")


@pytest.mark.parametrize("preset", RECIPES)
def test_every_model_of_the_zoo_has_a_recipe(preset: str) -> None:
    assert set(RECIPES[preset]) == set(MODELS)
    assert recipe_for("my.module:model", preset) == RECIPES[preset]["ndr"]


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(ValueError, match=r"preset slow: choose from released, paper, quick$"):
        recipe_for("ndr", "slow")


def test_the_rate_rises_linearly_then_stays_or_falls() -> None:
    recipe = Recipe(lr=0.1, warmup=10, steps=110)
    assert [recipe.rate(step) for step in (0, 4, 9, 10, 109)] == pytest.approx([0.01, 0.05, 0.1, 0.1, 0.1])
    falling = replace(recipe, schedule="cosine")
    assert [falling.rate(step) for step in (0, 9, 10, 60, 110)] == pytest.approx([0.01, 0.1, 0.1, 0.05, 0])
    assert replace(recipe, warmup=0).rate(0) == 0.1


def test_evaluations_only_watch_unless_they_may_stop_the_training() -> None:
    assert "eval_every" in watching({"early_stop": 0})
    assert "eval_every" not in watching({"early_stop": 3})


def test_a_name_that_no_model_has_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^unknown model 'LSTM': choose from ndr, .*, or package\.module:factory$"
    ):
        recipe_for("LSTM")
