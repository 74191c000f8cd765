"""Each model of the zoo learns a small task, and a seed of it is the same alone and in a crowd."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ctlpp.models.zoo import MODELS
from ctlpp.training.recipe import Recipe
from ctlpp.training.run import Run
from ctlpp.training.train import train

RULE = {"early_stop": 1, "settled_accuracy": 0.9, "settled_change": 1.0}  # stop once it is learned
RECIPE = Recipe(steps=800, batch=32, lr=5e-3, warmup=20, eval_every=25, **RULE)  # type: ignore[arg-type]

LR = {"slots": 5e-3, "symrnn": 5e-3, "permrnn": 0.05}  # models with codes: some of their seeds get stuck


def easy(count: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens `f … f s <end>`: one of functions 0 … 3, which shift the symbol by so much; 4 … 7 do nothing."""
    drawn = torch.Generator().manual_seed(count + length)
    functions = torch.randint(4, 8, (count, length), generator=drawn)
    shift, symbol = torch.randint(4, (2, count), generator=drawn)
    functions[torch.arange(count), torch.randint(length, (count,), generator=drawn)] = shift
    tokens = torch.cat([functions, 8 + symbol[:, None], torch.full((count, 1), 12)], dim=1)
    return tokens, (symbol + shift) % 4


DATA = {name: {n: easy(count, n) for n in (2, 3)} for name, count in (("train", 1000), ("iid", 100))}


def run_of(model: str, seeds: list[int], recipe: Recipe, **sizes: float) -> Run:
    """Small enough to train in seconds."""
    sizes |= {"width": 16, "depth": 4 if model == "slots" else 2, "hidden": 32, "test_depth": 2}
    sizes = {name: value for name, value in sizes.items() if name in MODELS[model].sizes["quick"]}
    return train(model, DATA, seeds=seeds, preset="quick", sizes=sizes, recipe=recipe, observers=[])


@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_the_zoo_learns_a_small_task(model: str) -> None:
    recipe = replace(RECIPE, lr=LR.get(model, RECIPE.lr), steps=400 if model in LR else RECIPE.steps)
    learned = [row["iid"] >= 0.9 for row in run_of(model, [0, 1], recipe).table()]
    assert any(learned) if model in LR else all(learned)


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_of_a_zoo_model_is_the_same_alone_and_in_a_crowd_with_dropout(model: str) -> None:
    recipe = replace(RECIPE, steps=5, eval_every=0)
    crowd, alone = (run_of(model, seeds, recipe, dropout=0.2).crowd for seeds in ([0, 1, 6], [6]))
    assert crowd.vectorised
    tokens, _ = DATA["iid"][3]
    torch.testing.assert_close(crowd.member(6)(tokens), alone.member(6)(tokens), rtol=1e-3, atol=1e-4)
