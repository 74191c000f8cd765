"""The fused update equals `Stepper.update`, whatever the recipe and whatever became of a seed."""

from functools import partial
from typing import Any

import pytest
import torch
from tests.kernels.conftest import DEVICE, EXACT, draw
from torch import Tensor

from ctlpp.models.recurrent import RNN
from ctlpp.training.crowd import init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Stepper

pytest.importorskip("triton")

from ctlpp.kernels import adam

SEEDS = [0, 3, 7, 8, 11]
odd = partial(RNN, embedding=37, width=5)  # a number of weights that no block size divides


def stepper(recipe: Recipe) -> Stepper:
    """One that has trained before, and whose own `update` is the readable one."""
    crowd = init_crowd(odd, 61, 5, SEEDS, DEVICE)
    crowd.kernels = False
    made = Stepper(crowd, recipe, len(SEEDS))
    made.optimizer.mean.copy_(draw(*crowd.weights.shape))
    made.optimizer.square.copy_(draw(*crowd.weights.shape, seed=1).abs())
    made.optimizer.diverged[4] = 2  # frozen long ago
    made.scalars.set(recipe, 7)
    return made


def gradients(size: float) -> Tensor:
    return draw(*init_crowd(odd, 61, 5, SEEDS).weights.shape, seed=2) * size


def assert_same(one: Stepper, other: Stepper) -> None:
    def state(of: Stepper) -> dict[str, Tensor]:
        memory = {"mean": of.optimizer.mean, "square": of.optimizer.square, "diverged": of.optimizer.diverged}
        return {"weights": of.crowd.weights, "losses": of.losses, "norms": of.norms} | memory

    for name, expected in state(other).items():
        how: dict[str, Any] = {"rtol": EXACT / 10, "atol": EXACT / 10, "equal_nan": True, "msg": name}
        torch.testing.assert_close(state(one)[name], expected, **how)


@pytest.mark.parametrize(
    ("optimizer", "decay", "clip", "group"),
    [
        ("adam", 0.0, 1.0, slice(None)),
        ("adam", 0.1, 0.0, slice(None)),
        ("adamw", 0.1, 1.0, slice(None)),
        ("adamw", 0.1, 1.0, slice(1, 3)),  # the other seeds are left alone
    ],
)
def test_fused_update_equals_the_stepper(optimizer: str, decay: float, clip: float, group: slice) -> None:
    recipe = Recipe(optimizer=optimizer, weight_decay=decay, clip=clip, lr=0.1)
    fused, plain = stepper(recipe), stepper(recipe)
    for step, size in enumerate((10.0, 1e-3)):  # above and below the limit
        losses, gradient = torch.arange(5.0, device=DEVICE)[group], gradients(size)[group]
        for each in (fused, plain):
            each.scalars.set(recipe, 7 + step)
        training = adam.update(fused, group, losses, gradient)
        assert torch.equal(training, plain.update(group, losses, gradient.clone()))
        assert_same(fused, plain)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_a_seed_with_a_loss_or_gradient_that_is_not_finite_is_frozen(bad: float, optimizer: str) -> None:
    recipe = Recipe(optimizer=optimizer, weight_decay=0.1)
    fused, plain = stepper(recipe), stepper(recipe)
    before = fused.crowd.weights.clone()
    losses, gradient = torch.ones(5, device=DEVICE), gradients(1.0)
    losses[1], gradient[2, 5] = bad, bad
    training = adam.update(fused, slice(None), losses, gradient)
    assert torch.equal(training, plain.update(slice(None), losses, gradient.clone()))
    assert training.tolist() == [True, False, False, True, False]
    assert fused.optimizer.diverged.tolist() == [-1, 7, 7, -1, 2]
    assert torch.equal(fused.crowd.weights[~training], before[~training])
    assert_same(fused, plain)
