"""Each model of the zoo learns a small task, and a seed of it is the same alone and in a crowd."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ctlpp.benchmark.dataset import generate
from ctlpp.models.zoo import MODELS
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

RECIPE = Recipe(steps=800, batch=64, lr=3e-3, warmup=50, eval_every=50, early_stop=1, settled_accuracy=1.0)


def easy(count: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Tokens `f … f s <end>`: one of functions 0 … 3, which shift the symbol by so much; 4 … 7 do nothing."""
    drawn = torch.Generator().manual_seed(seed)
    functions = torch.randint(4, 8, (count, length), generator=drawn)
    shift, symbol = torch.randint(4, (2, count), generator=drawn)
    functions[torch.arange(count), torch.randint(length, (count,), generator=drawn)] = shift
    tokens = torch.cat([functions, 8 + symbol[:, None], torch.full((count, 1), 12)], dim=1)
    return tokens, (symbol + shift) % 4


def sizes_of(model: str, **others: float) -> dict[str, float]:
    """Small enough to train in seconds."""
    attends = "heads" in MODELS[model].sizes["quick"]
    return (
        {"width": 16, **others}
        | ({"depth": 2, "hidden": 32} if attends else {})
        | ({"test_depth": 2} if model == "ndr" else {})
    )


@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_the_zoo_learns_a_small_task_perfectly(model: str) -> None:
    data = {
        name: {n: easy(count, n, count + n) for n in (2, 3)}
        for name, count in (("train", 1000), ("iid", 100))
    }
    run = train(
        model, data, seeds=range(2), preset="quick", sizes=sizes_of(model), recipe=RECIPE, observers=[]
    )
    assert [row["iid"] for row in run.table()] == [1.0, 1.0]


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_of_a_zoo_model_is_the_same_alone_and_in_a_crowd_with_dropout(model: str) -> None:
    data = generate("R", symbols=4, functions=8, max_length=3, train=120, iid=12, ood=12)
    recipe = replace(RECIPE, steps=5, batch=16, early_stop=0)
    tokens, _ = data.tensors("iid")[3]

    def logits(seeds: list[int]) -> Tensor:
        options = sizes_of(model, dropout=0.2)
        run = train(model, data, seeds=seeds, preset="quick", sizes=options, recipe=recipe, observers=[])
        assert run.crowd.vectorised
        answers: Tensor = run.crowd.member(6)(tokens)
        return answers

    torch.testing.assert_close(logits([0, 1, 6]), logits([6]), rtol=1e-3, atol=1e-4)
