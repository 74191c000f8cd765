import re
from dataclasses import replace
from typing import Any

import pytest

from ctlpp.models.zoo import MODELS
from ctlpp.training.recipe import RECIPES, Recipe, recipe_for, watching


def test_a_value_out_of_range_is_named_with_its_range() -> None:
    wrong: dict[tuple[str, Any], str] = {
        ("steps", 0): "must be a whole number, 1 or more",
        ("steps", 1.5): "must be a whole number, 1 or more",
        ("batch", -3): "must be a whole number, 1 or more",
        ("lr", 2.0): "must be above 0 and at most 1",
        ("lr", float("nan")): "must be above 0 and at most 1",
        ("warmup", -1): "must be a whole number, 0 or more",
        ("batch_seed", 2**63): "must be below 2 to the power of 63",
        ("betas", (0.9, 1.0)): "must be two numbers from 0 to below 1",
        ("weight_decay", -0.1): "must be 0 to 1",
        ("settled_change", 2): "must be 0 to 1",
        ("clip", -1): "must be 0 (none) to a million",
        ("checkpoint_minutes", 0): "must be above 0",
        ("schedule", "linear"): "choose from constant, cosine, or give a function",
        ("precision", "fp16"): "choose from auto, float32, bf16",
        ("batch_order", "mine"): "choose from shared, per_seed",
        ("length_mix", "odd"): "choose from natural, even",
    }
    for (name, value), rule in wrong.items():
        with pytest.raises(ValueError, match=f"^{re.escape(f'{name} {value}: {rule}')}$"):
            Recipe(**{name: value})


def test_the_recipes_are_those_of_the_released_code() -> None:
    ndr, transformer, lstm = (RECIPES["authors"][name] for name in ("ndr", "transformer", "lstm"))
    for recipe in (ndr, transformer, lstm):
        assert (recipe.lr, recipe.warmup, recipe.batch, recipe.batch_order) == (1.5e-4, 500, 512, "shared")
        assert (recipe.betas, recipe.eps, recipe.schedule) == ((0.9, 0.999), 1e-8, "constant")
        assert not recipe.early_stop
    assert (ndr.clip, ndr.weight_decay, ndr.steps) == (1, 0, 80_000)
    assert (transformer.clip, transformer.weight_decay, transformer.steps) == (5, 0.0025, 300_000)
    assert (lstm.clip, lstm.weight_decay, lstm.steps, lstm.optimizer) == (5, 0, 80_000, "adamw")


def test_the_lstm_on_s_has_a_recipe_of_its_own_only_as_released() -> None:
    ours = recipe_for("lstm", "authors", "S")
    assert (ours.batch, ours.lr, ours.optimizer, ours.clip) == (128, 1e-3, "adam", 5)
    assert recipe_for("lstm", "text", "S") == recipe_for("lstm", "text", "R")


def test_every_model_of_the_zoo_has_a_recipe_and_other_names_are_refused() -> None:
    for preset, recipes in RECIPES.items():
        assert set(recipes) == set(MODELS)
        assert recipe_for("my.module:model", preset) == recipes["ndr"]
    with pytest.raises(ValueError, match=r"^preset slow: choose from authors, text, quick$"):
        recipe_for("ndr", "slow")
    with pytest.raises(ValueError, match=r"^unknown model 'LSTM': choose from ndr, .*, or package\.module:f"):
        recipe_for("LSTM")


def test_the_rate_rises_linearly_then_stays_or_falls() -> None:
    recipe = Recipe(lr=0.1, warmup=10, steps=110)
    assert [recipe.rate(step) for step in (0, 4, 9, 10, 109)] == pytest.approx([0.01, 0.05, 0.1, 0.1, 0.1])
    falling = replace(recipe, schedule="cosine")
    assert [falling.rate(step) for step in (0, 9, 10, 60, 110)] == pytest.approx([0.01, 0.1, 0.1, 0.05, 0])
    assert replace(recipe, warmup=0).rate(0) == 0.1


def test_evaluations_only_watch_unless_they_may_stop_the_training() -> None:
    assert "eval_every" in watching({"early_stop": 0})
    assert "eval_every" not in watching({"early_stop": 3})
