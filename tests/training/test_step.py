"""One step of a crowd against PyTorch's own optimisers and clipping on single seeds; its evaluation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.training.conftest import Tiny, assert_same_seed
from torch import Tensor, nn

from ctlpp.training.crowd import drawn_from, init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Stepper, Tally

RECIPE = Recipe(steps=20, batch=6, lr=0.02, warmup=3, clip=0.05, weight_decay=0.1)


def batch(step: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(step)
    return torch.randint(8, (6, 4), generator=drawn), torch.randint(4, (6,), generator=drawn)


def trained(seeds: list[int], recipe: Recipe = RECIPE, group: int = 9, **how: Any) -> Stepper:
    crowd = init_crowd(how.get("factory", Tiny), 8, 4, seeds)
    crowd.vectorised = how.get("vectorised", True)
    stepper = Stepper(crowd, recipe, group)
    for step in range(6):
        stepper.step(step, *batch(step))
    return stepper


@pytest.mark.parametrize(("optimizer", "clip"), [("adamw", 0.05), ("adam", 0.0), ("adam", 100.0)])
def test_a_seed_in_a_crowd_equals_pytorchs_optimizer_and_clipping_on_it_alone(
    optimizer: str, clip: float
) -> None:
    recipe = replace(RECIPE, optimizer=optimizer, clip=clip)
    crowd = trained([3, 4, 5], recipe, factory=lambda v, c: Tiny(v, c, dropout=0.0)).crowd
    with drawn_from(4):
        model = Tiny(8, 4, dropout=0.0)
    make = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[optimizer]
    adam = make(model.parameters(), lr=1.0, weight_decay=0.1)
    for step in range(6):
        tokens, targets = batch(step)
        adam.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(tokens), targets))
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        adam.param_groups[0]["lr"] = recipe.rate(step)
        adam.step()
    torch.testing.assert_close(crowd.member(4).state_dict(), model.state_dict(), rtol=1e-4, atol=1e-6)


def test_a_seed_is_the_same_alone_and_in_a_crowd_of_any_grouping_or_one_after_the_other() -> None:
    alone = trained([7])
    for crowd in (*(trained([7, 1, 2], group=n) for n in (1, 2, 3)), trained([7, 1], vectorised=False)):
        assert_same_seed(crowd.crowd, alone.crowd, 7)
        torch.testing.assert_close(crowd.losses[0], alone.losses[0])


def test_different_seeds_have_different_weights_and_masks_without_the_global_generator() -> None:
    before = torch.get_rng_state()
    crowd = init_crowd(Tiny, 8, 4, [0, 1])
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(*crowd.weights)
    crowd.weights[1] = crowd.weights[0]
    losses, _ = Stepper(crowd, RECIPE, 2).gradient(slice(0, 2), *batch(0))
    assert losses[0] != losses[1]


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
        self.seen.add_(1.0)
        logits: Tensor = self.embed(tokens).mean(1) / (1 - self.bomb * (self.seen >= 3))
        return logits


@pytest.mark.parametrize("group", [1, 4])
def test_a_seed_that_diverges_is_frozen_and_the_others_do_not_notice(group: int) -> None:
    def run(bombs: list[float]) -> tuple[Stepper, list[Tensor]]:
        crowd = init_crowd(Fragile, 8, 4, [0, 1, 2, 3])
        crowd.seed_buffers |= {"bomb": torch.tensor(bombs), "seen": torch.zeros(4)}
        stepper, weights = Stepper(crowd, RECIPE, group), []
        for step in range(8):
            stepper.step(step, *batch(step))
            weights.append(crowd.weights.clone())
        return stepper, weights

    (_, calm), (stepper, struck) = run([0, 0, 0, 0]), run([0, 0, 1, 0])
    assert stepper.optimizer.diverged.tolist() == [-1, -1, 2, -1]
    assert torch.equal(struck[-1][[0, 1, 3]], calm[-1][[0, 1, 3]])
    assert torch.equal(struck[-1][2], calm[1][2])
    assert stepper.crowd.seed_buffers["seen"].tolist() == [8, 8, 2, 8]


@pytest.mark.parametrize(("group", "batch", "vectorised"), [(0, 1024, True), (2, 5, True), (1, 7, False)])
def test_scores_equal_those_of_each_module_on_its_own(
    splits: Any, group: int, batch: int, vectorised: bool
) -> None:
    crowd = init_crowd(Tiny, 8, 4, [2, 3, 5])
    crowd.vectorised = vectorised
    found = Tally.of(crowd, group).evaluate(splits, 0, batch)
    scores = {(score.seed, score.split, score.length): score for score in found}
    assert len(scores) == 3 * 3 * 4
    for seed in crowd.seeds:
        model = crowd.member(seed)
        for name, split in splits.items():
            logits = {length: model(tokens) for length, (tokens, _) in split.items()}
            right = {length: (logits[length].argmax(-1) == split[length][1]).float() for length in split}
            loss = F.cross_entropy(logits[2], split[2][1])
            assert scores[seed, name, 2].accuracy == pytest.approx(right[2].mean().item())
            assert scores[seed, name, 2].loss == pytest.approx(loss.item(), rel=1e-5)
            every = torch.cat(list(right.values())).mean().item()
            assert scores[seed, name, 0].accuracy == pytest.approx(every)


def test_what_is_no_number_is_no_right_answer_and_an_empty_split_is_refused() -> None:
    crowd = init_crowd(Tiny, 8, 4, [0, 1])
    crowd.weights.fill_(torch.nan)
    tokens, targets = torch.zeros(8, 3, dtype=torch.int64), torch.zeros(8, dtype=torch.int64)
    scores = Tally.of(crowd).evaluate({"iid": {1: (tokens, targets)}}, 0)
    assert {score.accuracy for score in scores} == {0.0}
    with pytest.raises(ValueError, match=r"^split 'iid' is empty: nothing to evaluate$"):
        Tally.of(crowd).evaluate({"iid": {2: (tokens[:0], targets[:0])}}, 0)


def test_bad_seeds_and_a_model_without_weights_are_named() -> None:
    def frozen(vocab_size: int, n_classes: int) -> nn.Module:
        return Tiny(vocab_size, n_classes).requires_grad_(False)

    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: init_crowd(Tiny, 8, 4, []), "no seeds: give at least one"),
        (lambda: init_crowd(Tiny, 8, 4, [1, 2, 1]), "seed 1 is given twice: every seed once"),
        (lambda: init_crowd(Tiny, 8, 4, [-1]), "seed -1: must be a whole number from 0 to 4294967295"),
        (lambda: init_crowd(Tiny, 8, 4, [0.5]), "seed 0.5: must be a whole number from 0 to 4294967295"),  # type: ignore[list-item]
        (lambda: init_crowd(Tiny, 8, 4, [0, 1]).member(5), "no seed 5 in this crowd: choose from 0, 1"),
        (lambda: init_crowd(frozen, 8, 4, [0]), "model Tiny: it has no trainable parameters"),
    ]
    for mistake, text in mistakes:
        with pytest.raises(ValueError, match=f"^{text}$"):
            mistake()
