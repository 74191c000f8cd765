"""Residual, dropout and norm in one pass, forward and backward, equal what autograd makes of their definition."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import norm
from ctlpp.kernels.dropout import Dropout
from ctlpp.training.streams import Streams, seed_keys

S, W = 2, 32
KEYS = seed_keys([3, 5])


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def in_the_middle(rows: Tensor) -> Tensor:
    """The same rows of every seed with others before and behind them, as a layer's lie among other layers'."""
    return F.pad(rows, (0, 0, 5, 6), value=7.0)[:, 5:-6]


def surroundings(rows: Tensor) -> Tensor:
    whole = rows._base
    assert whole is not None
    return torch.cat([whole[:, :5], whole[:, -6:]], 1)


def factors(dropout: Dropout, n: int) -> Tensor:
    """What the seeds' streams multiply n rows by, (S, n, W)."""
    drawn = []
    for key in dropout.keys:
        with Streams(key) as streams:
            streams.position = dropout.position
            drawn.append(F.dropout(torch.ones(n * dropout.every, W), dropout.rate)[:: dropout.every])
    return torch.stack(drawn)


def reference(
    x: Tensor, o: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, dropout: Dropout
) -> Tensor:
    """LN(x + dropout(o + bias))"""
    o = o if bias is None else o + bias[:, None]
    z = x + o * factors(dropout, x.shape[1])
    return F.layer_norm(z, (W,), eps=norm.EPS) * gamma[:, None] + beta[:, None]


@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(("rate", "every"), [(0.0, 1), (0.5, 1), (0.5, 3)])
@pytest.mark.parametrize("rows", [1, 37, 70])
def test_values_and_all_gradients_equal_autograds(rows: int, rate: float, every: int, biased: bool) -> None:
    dropout = Dropout(KEYS, position=11, rate=rate, every=every)
    x, o = (in_the_middle(draw(seed, S, rows, W)) for seed in (0, 1))
    vectors = draw(2, 3, S, W).requires_grad_()
    gamma, beta, bias = vectors[0], vectors[1], vectors[2] if biased else None
    leaves = x.clone().requires_grad_(), o.clone().requires_grad_()
    expected = reference(*leaves, bias, gamma, beta, dropout)
    dy, more, before = (draw(seed, S, rows, W) for seed in (3, 4, 5))
    dx, do, dvectors = torch.autograd.grad(expected, [*leaves, vectors], dy + more)

    y, scale = in_the_middle(torch.empty(S, rows, W)), in_the_middle(torch.empty(S, rows, 1))
    part = torch.full((S, norm.parts(rows), 3 * W), torch.nan)
    with torch.no_grad():
        norm.forward(x, o, norm.Vectors(gamma, beta, bias), y, scale, dropout)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(o * gamma[:, None] + beta[:, None], expected)
        norm.backward((dy, more), o, scale, norm.Vectors(gamma, beta, bias), before, part, dropout, add=True)

    torch.testing.assert_close(before, dx + draw(5, S, rows, W))
    torch.testing.assert_close(o, do)
    sums = 3 if biased else 2
    torch.testing.assert_close(part.sum(1)[:, : sums * W], dvectors.movedim(0, 1).flatten(1)[:, : sums * W])
    for rows_of_a_layer in (y, o, scale):
        assert bool((surroundings(rows_of_a_layer) == 7).all())


def test_the_gradient_may_come_in_one_summand_and_take_its_own_place() -> None:
    dropout = Dropout(KEYS, position=0, rate=0.3)
    x, o, dy = (draw(seed, S, 9, W) for seed in (0, 1, 2))
    gamma, beta = draw(3, 2, S, W)
    leaf = x.clone().requires_grad_()
    (dx,) = torch.autograd.grad(reference(leaf, o, None, gamma, beta, dropout), leaf, dy)
    y, scale, part = torch.empty_like(x), torch.empty(S, 9, 1), torch.empty(S, norm.parts(9), 2 * W)
    norm.forward(x, o, norm.Vectors(gamma, beta), y, scale, dropout)
    norm.backward((dy, None), o, scale, norm.Vectors(gamma, beta), dy, part, dropout, add=False)
    torch.testing.assert_close(dy, dx)
