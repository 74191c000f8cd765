"""The end of an attention made by one kernel, and by a product and a kernel, equals what autograd makes of it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import norm, residual
from ctlpp.kernels.dropout import Dropout
from ctlpp.training.streams import Streams, seed_keys

S, W, LAYERS = 2, 64, 3
KEYS = seed_keys([3, 5])
SMALL = residual.Tile(rows=16, step=16, warps=4, stages=2, registers=None, chunk=W, ahead=False)


@pytest.fixture(params=["one kernel", "one kernel by chunks", "product and kernel"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(residual, "fits", lambda n: request.param != "product and kernel")
    monkeypatch.setattr(residual, "TILE", SMALL._replace(chunk=16) if "chunks" in request.param else SMALL)
    return str(request.param)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def middle(rows: Tensor) -> Tensor:
    """The middle one of several layers' rows."""
    n = rows.shape[1] // LAYERS
    return rows[:, n : 2 * n]


def only_the_middle_changed(rows: Tensor) -> bool:
    n = rows.shape[1] // LAYERS
    return bool((rows[:, :n] == 7).all() and (rows[:, 2 * n :] == 7).all())


def factors(dropout: Dropout, n: int) -> Tensor:
    """What the seeds' streams multiply n rows by, (S, n, W)."""
    drawn = []
    for key in dropout.keys:
        with Streams(key) as streams:
            streams.position = dropout.position
            drawn.append(F.dropout(torch.ones(n * dropout.every, W), dropout.rate)[:: dropout.every])
    return torch.stack(drawn)


@pytest.mark.parametrize(("rate", "every"), [(0.0, 1), (0.5, 1), (0.5, 3)])
@pytest.mark.parametrize("rows", [1, 37])
def test_values_and_gradients_equal_autograds(rows: int, rate: float, every: int, way: str) -> None:
    dropout = Dropout(KEYS, position=11, rate=rate, every=every)
    read, h = (middle(draw(seed, S, LAYERS * rows, W)) for seed in (0, 1))
    out, vectors = draw(2, S, W, W) / 8, draw(3, 2, S, W).requires_grad_()
    y, x = (read @ out.mT).requires_grad_(), h.clone().requires_grad_()
    normal = F.layer_norm(x + y * factors(dropout, rows), (W,), eps=norm.EPS)
    expected = normal * vectors[0][:, None] + vectors[1][:, None]
    dy, more = (draw(seed, S, rows, W) for seed in (4, 5))
    dh, do, dvectors = torch.autograd.grad(expected, [x, y, vectors], dy + more)

    n, a = (torch.full((S, LAYERS * rows, W), 7.0) for _ in range(2))
    scale, part = torch.full((S, LAYERS * rows, 1), 7.0), torch.full((S, norm.parts(rows), 2 * W), torch.nan)
    gamma, beta = vectors.detach()
    residual.forward(read, out, h, gamma, beta, middle(n), middle(a), middle(scale), dropout)
    torch.testing.assert_close(middle(a), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(middle(n), normal, rtol=1e-5, atol=1e-5)
    found = torch.zeros(S, rows, W)
    norm.backward(dy, more, middle(n), middle(scale), gamma, found, part, dropout, add=True)

    torch.testing.assert_close(found, dh, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(middle(n), do, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(part.sum(1), dvectors.movedim(0, 1).flatten(1), rtol=1e-5, atol=1e-4)
    assert all(only_the_middle_changed(rows_of_all) for rows_of_all in (n, a, scale))


def test_one_kernel_wants_bf16_on_a_card_it_was_made_for() -> None:
    assert not residual.fits(torch.empty(S, 9, 256))
    assert not residual.fits(torch.empty(S, 9, 256, dtype=torch.bfloat16))
