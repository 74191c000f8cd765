from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import vmap

from ctlpp.training.crowd import Streams, mix, seed_keys, step_keys


def keys_of(seeds: range, step: int = 0) -> Tensor:
    return step_keys(seed_keys(seeds), torch.tensor(step))


def splitmix(z: int) -> int:
    """The finaliser in Python's unbounded integers."""
    z &= 2**64 - 1
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
@settings(max_examples=50)
def test_mixing_equals_the_same_arithmetic_on_unbounded_integers(numbers: list[int]) -> None:
    mixed = mix(torch.tensor(numbers)).tolist()
    assert [z % 2**64 for z in mixed] == [splitmix(z) for z in numbers]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_the_share_it_should_and_keeps_the_mean(p: float) -> None:
    before = torch.get_rng_state()
    with Streams(keys_of(range(1))[0]) as streams:
        out = F.dropout(torch.ones(400, 500), p)
        used = streams.position
        assert nn.Dropout(0.5).eval()(out) is out, "in evaluation mode nothing is drawn"
        assert bool(F.dropout(out, 0.999999).isfinite().all())
    assert used == 400 * 500 // 4
    assert torch.equal(before, torch.get_rng_state())
    share = (out == 0).float().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / out.numel()) ** 0.5 + 1e-5
    assert sorted(set(out.flatten().tolist())) == pytest.approx([0, 1 / (1 - p)], rel=1e-4)


def correlation(one: Tensor, other: Tensor) -> float:
    both = torch.stack([one.flatten(), other.flatten()]).double()
    return abs(torch.corrcoef(both)[0, 1].item())


def test_masks_of_seeds_steps_calls_and_neighbours_are_independent() -> None:
    def masks(key: Tensor) -> tuple[Tensor, Tensor]:
        with Streams(key):
            return F.dropout(torch.ones(100_000), 0.5), F.dropout(torch.ones(100_000), 0.5)

    first, second = masks(keys_of(range(2))[0])
    others = [second, masks(keys_of(range(2))[1])[0], masks(keys_of(range(1), step=1)[0])[0], first.roll(1)]
    others += [first.roll(4), first.view(-1, 4).flip(1)]  # the four lanes of one word
    limit = 5 / 100_000**0.5
    assert all(correlation(first, other) < limit for other in others)


def test_a_seed_draws_the_same_alone_and_in_a_crowd() -> None:
    def draw(key: Tensor) -> tuple[Tensor, ...]:
        x = torch.ones(5, 7)
        with Streams(key):
            attended = F.scaled_dot_product_attention(x, x, x, dropout_p=0.3)
            return (
                F.dropout(x, 0.3),
                torch.rand_like(x),
                torch.randn_like(x),
                torch.bernoulli(x / 2),
                attended,
            )

    keys = keys_of(range(4))
    crowd = vmap(draw, randomness="error")(keys)
    for i, key in enumerate(keys.unbind()):
        for together, alone in zip(crowd, draw(key), strict=True):
            assert torch.equal(together[i], alone)


def test_uniform_and_normal_numbers_have_their_moments() -> None:
    x = torch.empty(200_000)
    with Streams(keys_of(range(1))[0]):
        u, n, b = torch.rand_like(x), torch.randn_like(x), torch.bernoulli(torch.full_like(x, 0.2))
    assert u.min() > 0
    assert u.max() <= 1
    moments = [u.mean(), u.var(), n.mean(), n.var(), (n**4).mean()]
    expected = [0.5, 1 / 12, 0, 1, 3]
    assert [float(m) for m in moments] == pytest.approx(expected, rel=0.04, abs=0.01)
    assert abs(b.mean() - 0.2) < 0.005


@pytest.mark.parametrize("causal", [False, True])
def test_attention_written_out_equals_the_library_function(causal: bool) -> None:
    q, k, v = torch.randn(3, 2, 4, 5, 6).unbind()
    masks = [None] if causal else [None, torch.rand(5, 5) > 0.3, torch.randn(5, 5)]
    for mask in masks:
        if mask is not None and mask.dtype == torch.bool:
            mask[:, 0] = True
        expected = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        with Streams(keys_of(range(1))[0]):
            found = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        torch.testing.assert_close(found, expected)


def test_other_random_functions_are_refused_in_one_line() -> None:
    draws: list[Any] = [F.dropout2d, F.gumbel_softmax, lambda x: torch.randn(3), Tensor.normal_]
    text = r"the model calls \w+, whose random numbers cannot be drawn per seed: use F\."
    for draw in draws:
        with Streams(keys_of(range(1))[0]), pytest.raises(ValueError, match=text):
            draw(torch.ones(2, 3, 4, 4))
