"""Kernels that several fast paths use, each against plain PyTorch; other rows are left alone."""

import pytest
import torch
import torch.nn.functional as F
from tests.kernels.conftest import DEVICE, assert_close, draw, full
from torch import Tensor

from ctlpp.training.streams import Streams, seed_keys

pytest.importorskip("triton")

from ctlpp.kernels import embedding, ffn, launch, ndr_weights, norm
from ctlpp.kernels.dropout import Dropout
from ctlpp.kernels.launch import Tile

S, W = 2, 32
SMALL = Tile(rows=16, columns=32, step=16, warps=4, stages=2)

pytestmark = [
    pytest.mark.usefixtures("blocks_for_the_interpreter"),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2"),  # 1 / (1 + ∞) = 0 is meant
]


def in_the_middle(rows: Tensor) -> Tensor:
    """Rows with others before and behind them, as a layer's lie among other layers'."""
    return F.pad(rows, (0, 0, 5, 6), value=7.0)[..., 5:-6, :]


def others_are_untouched(rows: Tensor) -> bool:
    whole = rows._base
    assert whole is not None
    return bool((torch.cat([whole[:, :5], whole[:, -6:]], 1) == 7).all())


@pytest.mark.parametrize("shared", [True, False])
def test_embeddings_are_looked_up_and_their_gradient_is_the_sum_over_rows_with_an_id(*, shared: bool) -> None:
    V, D, shape = 70, 19, (7, 9) if shared else (S, 7, 9)
    ids = torch.randint(V, shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    by_seed = ids.flatten(-2).expand(S, -1)
    table, rows = draw(S, V * D + 5)[:, : V * D].view(S, V, D), in_the_middle(full(S, 7 * 9, D))
    embedding.look_up(table, ids, rows)
    assert torch.equal(rows, torch.stack([one[of] for one, of in zip(table, by_seed, strict=True)]))
    assert others_are_untouched(rows)

    (dy, more), gradient = draw(2, S, 7 * 9, D), full(S, V * D + 5)[:, : V * D].view(S, V, D)
    for also in (None, more):
        embedding.gradient(ids, dy, also, out=gradient)
        total = dy if also is None else dy + also
        expected = torch.zeros_like(gradient).scatter_add_(1, by_seed[..., None].expand(-1, -1, D), total)
        assert_close(gradient, expected)


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
    return F.layer_norm(z, (W,)) * v.gamma[:, None] + v.beta[:, None]


@pytest.mark.parametrize(
    ("rows", "rate", "every", "biased"), [(1, 0.0, 1, False), (37, 0.5, 1, True), (13, 0.5, 3, False)]
)
def test_residual_dropout_and_norm_equal_autograds(rows: int, rate: float, every: int, biased: bool) -> None:
    dropout = Dropout(seed_keys([3, 5]).to(DEVICE), position=11, rate=rate, every=every)
    x, o = (in_the_middle(draw(S, rows, W, seed=seed)) for seed in (0, 1))
    vectors = draw(3, S, W).requires_grad_()
    v = norm.Vectors(vectors[0], vectors[1], vectors[2] if biased else None)
    leaves = x.clone().requires_grad_(), o.clone().requires_grad_()
    expected = reference(*leaves, v, dropout)
    dy, more, before = (draw(S, rows, W, seed=seed) for seed in (3, 4, 5))
    dx, do, dvectors = torch.autograd.grad(expected, [*leaves, vectors], dy + more)

    y, scale = in_the_middle(full(S, rows, W)), in_the_middle(full(S, rows, 1))
    part = full(S, norm.BACK.parts(rows), 3 * W)
    with torch.no_grad():
        norm.forward(x, o, v, y, scale, dropout)
        assert_close(y, expected)
        assert_close(o * v.gamma[:, None] + v.beta[:, None], expected)
        norm.backward((dy, more), o, scale, v, found := before.clone(), part, dropout, add=True)

    assert_close(found, before + dx)
    assert_close(o, do)
    sums = (3 if biased else 2) * W
    assert_close(part.sum(1)[:, :sums], dvectors.movedim(0, 1).flatten(1)[:, :sums])
    assert all(others_are_untouched(of_a_layer) for of_a_layer in (y, o, scale))


@pytest.mark.parametrize("at_once", [True, False], ids=["one kernel", "product and kernel"])
def test_hidden_units_and_their_gradients_equal_autograds(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"fits": lambda *_: at_once, "FORWARD": SMALL, "BACKWARD": SMALL}.items():
        monkeypatch.setattr(ffn, name, value)
    N, D, hidden = 37, 32, 64
    a, up, b = in_the_middle(draw(S, N, D)), draw(S, hidden + D, D) / 4, draw(S, hidden + D)
    pre, act = (in_the_middle(full(S, N, hidden + D)) for _ in range(2))
    ffn.forward(a, up, b, pre, act)
    assert_close(pre, a @ up.mT)
    assert_close(act, F.gelu(a @ up.mT + b[:, None]))

    de, down, x = in_the_middle(draw(2, S, N, D)), draw(S, D, hidden + D), pre.clone().requires_grad_()
    units = F.gelu(x + b[:, None])
    nets = [units[..., net] @ down[..., net].mT for net in (slice(hidden), slice(hidden, None))]
    (expected,) = torch.autograd.grad(nets, x, (de[0], de[1]))
    part = full(S, ffn.parts(pre, D), hidden + D)
    ffn.backward(de, down, pre, b, part)
    torch.testing.assert_close(pre, expected, rtol=2e-5, atol=2e-4)
    torch.testing.assert_close(part.sum(1), expected.sum(1), rtol=2e-5, atol=2e-4)
    assert others_are_untouched(pre)
    assert others_are_untouched(act)


def test_gelu_in_the_kernels_is_close_everywhere() -> None:
    x = torch.linspace(-30, 30, 128 * 32, device=DEVICE).reshape(1, 128, 32)
    act = torch.empty_like(x)
    ffn.activate(x, torch.zeros(1, 32, device=DEVICE), act, None, gelu=True)
    torch.testing.assert_close(act, F.gelu(x.double()).float(), rtol=2e-6, atol=5e-7)


def test_hidden_units_are_one_kernel_in_bf16_on_a_card_it_was_made_for() -> None:
    assert not ffn.fits(torch.empty(S, 5, 768, device=DEVICE), 256)
    assert not ffn.fits(torch.empty(S, 5, 768, dtype=torch.bfloat16), 256)


@pytest.mark.parametrize("R", [0, 7, 100])
def test_partial_sums_are_divided_over_places_in_any_order_and_nothing_else_is_touched(R: int) -> None:
    gradient, part = full(3, 5000, value=7.0), draw(3, R, 300)
    ends = (4000, 4064), (16, 116), (2000, 2130), (1200, 1206)
    spots = [gradient[:, start:end] for start, end in ends]
    launch.add_up(part, spots)
    torch.testing.assert_close(torch.cat(spots, dim=1), part.sum(1), rtol=1e-5, atol=2e-5)
    launch.add_up(part, spots, add=True)
    torch.testing.assert_close(torch.cat(spots, dim=1), 2 * part.sum(1), rtol=1e-5, atol=4e-5)
    for spot in spots:
        spot.fill_(7.0)
    assert (gradient == 7).all()


def full_size(
    *, seeds: int = 25, width: int = 256, sides: int = 8, dtype: torch.dtype = torch.bfloat16
) -> ndr_weights.Rows:
    def rows(columns: int) -> Tensor:
        return torch.empty(seeds, 1, columns, dtype=dtype, device="meta")

    h, hidden = rows(width), rows(512 + width)
    return ndr_weights.Rows(rows(3 * width + sides), h, h, h, hidden, h, torch.stack([h, h]), hidden)


def test_gradients_of_weights_are_one_kernel_in_bf16_with_whole_tiles_that_fill_the_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ndr_weights, "made_for", lambda device: True)
    monkeypatch.setattr(ndr_weights, "_processors", lambda device: 132)  # of an H200
    assert ndr_weights.tiles(256, 512) == 6 + 1 + 2 + 6 + 4 + 2
    fits = ndr_weights.fits
    assert fits(full_size())
    assert fits(full_size(seeds=5))
    assert not fits(full_size(dtype=torch.float32))
    assert not fits(full_size(width=96))
    assert not fits(full_size(sides=130)), "the directions have one block of rows"
    assert not fits(full_size(seeds=1))
    assert not fits(full_size(seeds=7)), "a second round for a few tiles"
    monkeypatch.setattr(ndr_weights, "made_for", lambda device: False)
    assert not fits(full_size())
