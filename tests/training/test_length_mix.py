"""How often each length is trained on."""

from collections import Counter

import pytest
import torch

from ctlpp.training.batches import Batches
from ctlpp.training.recipe import Recipe

SIZES = {1: 5, 2: 40, 3: 400}  # length -> examples


def data() -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    return {n: (torch.arange(size).expand(n + 2, size).T, torch.arange(size)) for n, size in SIZES.items()}


def lengths_of(mix: str, steps: int = 450) -> Counter[int]:
    batches = Batches(data(), Recipe(batch=10, steps=steps, length_mix=mix), seeds=[0])
    return Counter(batches.at(step)[0].shape[1] - 2 for step in range(steps))


def test_a_natural_mix_has_each_length_as_often_as_the_data() -> None:
    counts = lengths_of("natural")  # in a round of 45: one batch, four, forty
    assert counts == {1: 10, 2: 40, 3: 400}


def test_an_even_mix_has_each_length_equally_often() -> None:
    assert lengths_of("even") == {1: 150, 2: 150, 3: 150}


def test_an_even_mix_visits_all_examples_of_a_length_before_it_repeats_one() -> None:
    batches = Batches(data(), Recipe(batch=10, steps=45, length_mix="even"), seeds=[0])
    of_two = [targets for tokens, targets in map(batches.at, range(45)) if tokens.shape[1] == 4]
    assert len(of_two) == 15
    counts = Counter(torch.cat(of_two).tolist())
    assert set(counts) == set(range(40))
    assert set(counts.values()) <= {3, 4}


def test_another_mix_is_refused() -> None:
    with pytest.raises(ValueError, match="length_mix odd: choose from natural, even"):
        Recipe(length_mix="odd")
