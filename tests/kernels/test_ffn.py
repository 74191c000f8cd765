"""Hidden units made by one kernel, and by a product and a kernel, equal autograd's."""

import pytest
import torch
import torch.nn.functional as F
from tests.kernels.conftest import DEVICE, assert_close, draw, full
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import ffn
from ctlpp.kernels.launch import Tile

S, N, D, HIDDEN, LAYERS = 2, 37, 32, 64, 3
SMALL = Tile(rows=16, columns=32, step=16, warps=4, stages=2)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # 1 / (1 + ∞) = 0 is meant


@pytest.fixture(params=["one kernel", "product and kernel"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(ffn, "fits", lambda pre, width: request.param == "one kernel")
    monkeypatch.setattr(ffn, "FORWARD", SMALL)
    monkeypatch.setattr(ffn, "BACKWARD", SMALL)
    return str(request.param)


def layer(rows: Tensor) -> Tensor:
    """The middle one of several layers' rows."""
    return rows[..., N : 2 * N, :]


def others_are_untouched(rows: Tensor) -> bool:
    return bool((rows[..., :N, :] == 7).all() and (rows[..., 2 * N :, :] == 7).all())


@pytest.mark.usefixtures("way")
def test_hidden_units_are_the_gelu_of_a_product_and_a_bias() -> None:
    a, up, b = layer(draw(S, LAYERS * N, D)), draw(S, HIDDEN + D, D) / 4, draw(S, HIDDEN + D)
    pre, act = (full(S, LAYERS * N, HIDDEN + D, value=7.0) for _ in range(2))
    ffn.forward(a, up, b, layer(pre), layer(act))

    assert_close(layer(pre), a @ up.mT)
    assert_close(layer(act), F.gelu(a @ up.mT + b[:, None]))
    assert others_are_untouched(pre)
    assert others_are_untouched(act)


@pytest.mark.usefixtures("way")
def test_gradients_and_their_sums_equal_autograds() -> None:
    de, down, b = layer(draw(2, S, LAYERS * N, D)), draw(S, D, HIDDEN + D), draw(S, HIDDEN + D)
    pre = full(S, LAYERS * N, HIDDEN + D, value=7.0)
    layer(pre).copy_(2 * draw(S, N, HIDDEN + D))
    x = layer(pre).clone().requires_grad_()
    act = F.gelu(x + b[:, None])
    d, e = act[..., :HIDDEN] @ down[..., :HIDDEN].mT, act[..., HIDDEN:] @ down[..., HIDDEN:].mT
    (expected,) = torch.autograd.grad((d, e), x, (de[0], de[1]))

    part = full(S, ffn.parts(layer(pre), D), HIDDEN + D)
    ffn.backward(de, down, layer(pre), b, part)

    torch.testing.assert_close(layer(pre), expected, rtol=2e-5, atol=2e-4)
    torch.testing.assert_close(part.sum(1), expected.sum(1), rtol=2e-5, atol=2e-4)
    assert others_are_untouched(pre)


def test_gelu_in_the_kernels_is_close_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ffn, "fits", lambda pre, width: True)
    monkeypatch.setattr(ffn, "FORWARD", SMALL)
    x = torch.linspace(-30, 30, 128 * 32, device=DEVICE).reshape(1, 128, 32)
    pre, act = torch.empty_like(x), torch.empty_like(x)
    ffn.forward(x, torch.eye(32, device=DEVICE)[None], torch.zeros(1, 32, device=DEVICE), pre, act)
    torch.testing.assert_close(act, F.gelu(x.double()).float(), rtol=2e-6, atol=5e-7)


def test_one_kernel_wants_bf16_on_a_card_it_was_made_for() -> None:
    assert not ffn.fits(torch.empty(S, N, 768, device=DEVICE), 256)
    assert not ffn.fits(torch.empty(S, N, 768, dtype=torch.bfloat16), 256)
