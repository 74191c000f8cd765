"""Residual, dropout and norm in one pass, forward and backward, equal autograd's."""

import pytest
import torch
import torch.nn.functional as F
from tests.kernels.conftest import DEVICE, assert_close, draw, full
from torch import Tensor

from ctlpp.training.crowd import Streams, seed_keys

pytest.importorskip("triton")

from ctlpp.kernels import norm
from ctlpp.kernels.dropout import Dropout

S, W = 2, 32


def in_the_middle(rows: Tensor) -> Tensor:
    """Rows with others before and behind them, as a layer's lie among other layers'."""
    return F.pad(rows, (0, 0, 5, 6), value=7.0)[:, 5:-6]


def others_are_untouched(rows: Tensor) -> bool:
    whole = rows._base
    assert whole is not None
    return bool((torch.cat([whole[:, :5], whole[:, -6:]], 1) == 7).all())


def reference(x: Tensor, o: Tensor, v: norm.Vectors, dropout: Dropout) -> Tensor:
    """LN(x + dropout(o + bias)) with the masks of the seeds' streams."""
    factors = []
    for key in dropout.keys:
        with Streams(key) as streams:
            streams.position = dropout.position
            rows = torch.ones(x.shape[1] * dropout.every, W, device=DEVICE)
            factors.append(F.dropout(rows, dropout.rate)[:: dropout.every])
    o = o if v.bias is None else o + v.bias[:, None]
    z = x + o * torch.stack(factors)
    return F.layer_norm(z, (W,), eps=norm.EPS) * v.gamma[:, None] + v.beta[:, None]


@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(("rows", "rate", "every"), [(1, 0.0, 1), (37, 0.5, 1), (70, 0.5, 3)])
def test_values_and_all_gradients_equal_autograds(rows: int, rate: float, every: int, biased: bool) -> None:
    dropout = Dropout(seed_keys([3, 5]).to(DEVICE), position=11, rate=rate, every=every)
    x, o = (in_the_middle(draw(S, rows, W, seed=seed)) for seed in (0, 1))
    vectors = draw(3, S, W).requires_grad_()
    v = norm.Vectors(vectors[0], vectors[1], vectors[2] if biased else None)
    leaves = x.clone().requires_grad_(), o.clone().requires_grad_()
    expected = reference(*leaves, v, dropout)
    dy, more, before = (draw(S, rows, W, seed=seed) for seed in (3, 4, 5))
    dx, do, dvectors = torch.autograd.grad(expected, [*leaves, vectors], dy + more)

    y, scale = in_the_middle(full(S, rows, W)), in_the_middle(full(S, rows, 1))
    part = full(S, norm.parts(rows), 3 * W)
    with torch.no_grad():
        norm.forward(x, o, v, y, scale, dropout)
        assert_close(y, expected)
        assert_close(o * v.gamma[:, None] + v.beta[:, None], expected)
        dx += before
        norm.backward((dy, more), o, scale, v, before, part, dropout, add=True)

    assert_close(before, dx)
    assert_close(o, do)
    sums = (3 if biased else 2) * W
    assert_close(part.sum(1)[:, :sums], dvectors.movedim(0, 1).flatten(1)[:, :sums])
    assert all(others_are_untouched(of_a_layer) for of_a_layer in (y, o, scale))


def test_the_gradient_may_come_in_one_summand_and_take_its_own_place() -> None:
    dropout = Dropout(seed_keys([3, 5]).to(DEVICE), position=0, rate=0.3)
    x, o, dy = (draw(S, 9, W, seed=seed) for seed in (0, 1, 2))
    v = norm.Vectors(*draw(2, S, W))
    leaf = x.clone().requires_grad_()
    (dx,) = torch.autograd.grad(reference(leaf, o, v, dropout), leaf, dy)
    y, scale, part = torch.empty_like(x), full(S, 9, 1), full(S, norm.parts(9), 2 * W)
    norm.forward(x, o, v, y, scale, dropout)
    norm.backward((dy, None), o, scale, v, dy, part, dropout, add=False)
    assert_close(dy, dx)
