"""One step of a crowd against PyTorch's own optimisers and clipping, one seed at a time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.training.crowd import Crowd, check_seeds, drawn_from, init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper

Factory = Callable[[int, int], nn.Module]
RECIPE = Recipe(steps=20, batch=6, lr=0.02, warmup=3, clip=0.05, weight_decay=0.1)


def batch(step: int, seeds: int = 0) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(step)
    lead = (seeds,) if seeds else ()
    return torch.randint(8, (*lead, 6, 4), generator=drawn), torch.randint(4, (*lead, 6), generator=drawn)


def trained(
    factory: Factory, seeds: list[int], recipe: Recipe = RECIPE, group: int = 9, **how: Any
) -> Stepper:
    crowd = init_crowd(factory, 8, 4, seeds)
    crowd.vectorised = how.get("vectorised", True)
    stepper = Stepper(crowd, recipe, Optimizer.of(crowd), group)
    for step in range(how.get("steps", 6)):
        stepper.step(step, *batch(step))
    return stepper


def assert_same_seed(one: Crowd, other: Crowd, seed: int) -> None:
    left, right = one.member(seed).state_dict(), other.member(seed).state_dict()
    torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("optimizer", "clip"), [("adamw", 0.05), ("adam", 0.0), ("adam", 100.0)])
def test_a_seed_in_a_crowd_equals_pytorchs_optimizer_and_clipping_on_it_alone(
    tiny: Any, optimizer: str, clip: float
) -> None:
    recipe = replace(RECIPE, optimizer=optimizer, clip=clip)
    crowd = trained(lambda v, c: tiny(v, c, dropout=0.0), [3, 4, 5], recipe).crowd
    with drawn_from(4):
        model = tiny(8, 4, dropout=0.0)
    make = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[optimizer]
    adam = make(model.parameters(), lr=1.0, weight_decay=0.1)
    for step in range(6):
        tokens, targets = batch(step)
        adam.zero_grad()
        loss = F.cross_entropy(model(tokens), targets)
        torch.autograd.backward(loss)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        adam.param_groups[0]["lr"] = recipe.rate(step)
        adam.step()
    torch.testing.assert_close(
        dict(crowd.member(4).state_dict()), dict(model.state_dict()), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("group", [1, 2, 3])
def test_a_seed_is_the_same_alone_and_in_a_crowd_of_any_grouping(tiny: Factory, group: int) -> None:
    crowd, alone = trained(tiny, [7, 1, 2], group=group), trained(tiny, [7])
    assert_same_seed(crowd.crowd, alone.crowd, 7)
    torch.testing.assert_close(crowd.losses[0], alone.losses[0])


def test_seeds_one_after_the_other_equal_seeds_together(tiny: Factory) -> None:
    together, apart = trained(tiny, [0, 1]), trained(tiny, [0, 1], vectorised=False)
    for seed in (0, 1):
        assert_same_seed(together.crowd, apart.crowd, seed)


def test_different_seeds_have_different_weights_and_masks(tiny: Factory) -> None:
    stepper = trained(tiny, [0, 1], steps=1)
    assert not torch.equal(*stepper.crowd.weights)
    same = init_crowd(tiny, 8, 4, [0, 1])
    same.weights[1] = same.weights[0]
    one = Stepper(same, RECIPE, Optimizer.of(same), 2)
    losses, _ = one.gradient(slice(0, 2), *batch(0))
    assert losses[0] != losses[1]


def test_every_seed_may_read_its_own_batch(tiny: Factory) -> None:
    crowd = init_crowd(tiny, 8, 4, [0, 1])
    stepper = Stepper(crowd, RECIPE, Optimizer.of(crowd), 2)
    tokens, targets = batch(0, seeds=2)
    stepper.step(0, tokens, targets)
    for i, seed in enumerate((0, 1)):
        alone = init_crowd(tiny, 8, 4, [seed])
        single = Stepper(alone, RECIPE, Optimizer.of(alone), 1)
        single.step(0, tokens[i], targets[i])
        assert_same_seed(crowd, alone, seed)


def test_initial_weights_do_not_depend_on_others_nor_touch_the_global_generator(tiny: Factory) -> None:
    before = torch.get_rng_state()
    many, one = init_crowd(tiny, 8, 4, [5, 6, 7]), init_crowd(tiny, 8, 4, [7])
    assert torch.equal(many.weights[2], one.weights[0])
    assert torch.equal(before, torch.get_rng_state())


class Fragile(nn.Module):
    """Divides by zero from its third step on if its bomb is 1."""

    bomb: Tensor
    seen: Tensor

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, n_classes)
        self.register_buffer("bomb", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training:
            self.seen.add_(1.0)
        logits: Tensor = self.embed(tokens).mean(1) / (1 - self.bomb * (self.seen >= 3))
        return logits


@pytest.mark.parametrize("group", [1, 4])
def test_a_seed_that_diverges_is_frozen_and_the_others_do_not_notice(group: int) -> None:
    def run(bombs: list[float]) -> Stepper:
        crowd = init_crowd(Fragile, 8, 4, [0, 1, 2, 3])
        crowd.seed_buffers |= {"bomb": torch.tensor(bombs), "seen": torch.zeros(4)}
        stepper = Stepper(crowd, RECIPE, Optimizer.of(crowd), group)
        history = []
        for step in range(8):
            stepper.step(step, *batch(step))
            history.append(crowd.weights.clone())
        stepper.history = history  # type: ignore[attr-defined]
        return stepper

    calm, struck = run([0, 0, 0, 0]), run([0, 0, 1, 0])
    assert struck.optimizer.diverged.tolist() == [-1, -1, 2, -1]
    others = [0, 1, 3]
    assert torch.equal(struck.crowd.weights[others], calm.crowd.weights[others])
    assert torch.equal(struck.crowd.weights[2], calm.history[1][2])  # type: ignore[attr-defined]
    assert bool(struck.crowd.weights.isfinite().all())
    assert struck.crowd.seed_buffers["seen"].tolist() == [8, 8, 2, 8]


def test_bad_seeds_are_named() -> None:
    for seeds, text in [
        ([], "no seeds: give at least one"),
        ([1, 2, 1], "seed 1 is given twice: every seed once"),
        ([-1], "seed -1: must be a whole number from 0 to 4294967295"),
        ([0.5], "seed 0.5: must be a whole number from 0 to 4294967295"),
    ]:
        with pytest.raises(ValueError, match=f"^{text}$"):
            check_seeds(seeds)  # type: ignore[arg-type]


def test_asking_for_a_seed_that_is_not_there_names_those_that_are(tiny: Factory) -> None:
    with pytest.raises(ValueError, match=r"no seed 5 in this crowd: choose from 0, 1"):
        init_crowd(tiny, 8, 4, [0, 1]).member(5)


def test_a_model_without_weights_is_refused() -> None:
    class Empty(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            return torch.zeros(len(tokens), 4)

    with pytest.raises(ValueError, match="it has no trainable parameters"):
        init_crowd(lambda v, c: Empty(), 8, 4, [0])
