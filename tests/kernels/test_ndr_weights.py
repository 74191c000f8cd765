"""NDR's matrices come as its products want them; their gradients are products over all rows."""

import weakref

import pytest
import torch
from tests.kernels.conftest import draw, full
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import launch, ndr_weights
from ctlpp.kernels.launch import Tile
from ctlpp.kernels.ndr_weights import Rows

S, ALL, SHORT, D, HIDDEN, SIDES = 2, 45, 37, 32, 64, 8
OTHER = 5  # parameters before, between and after the matrices


def shapes(D: int, hidden: int) -> dict[str, tuple[int, int]]:
    """The matrices in the order in which the products take them."""
    up = {"up": (hidden, D), "up_gate": (D, D)}
    return {
        "qkv": (3 * D, D),
        "direction": (SIDES, D),
        "out": (D, D),
        **up,
        "down": (D, hidden),
        "down_gate": (D, D),
    }


def places(g: Tensor, D: int, hidden: int) -> dict[str, Tensor]:
    """Views of one matrix of parameters, where the matrices lie in another order, with others between."""
    found, at = {}, OTHER
    for name, (n, m) in sorted(shapes(D, hidden).items()):
        found[name] = g[:, at : at + n * m].view(-1, n, m)
        at += n * m + OTHER
    return {name: found[name] for name in shapes(D, hidden)}


def parameters(D: int, hidden: int) -> int:
    return sum(n * m + OTHER for n, m in shapes(D, hidden).values()) + OTHER


@pytest.mark.parametrize("hidden", [8, 16, 64])
def test_matrices_of_a_layer_are_joined_wherever_they_lie(hidden: int) -> None:
    parts = places(draw(S, parameters(16, hidden)), 16, hidden)
    found = ndr_weights.matrices(list(parts.values()), torch.float32)

    assert torch.equal(found.x, torch.cat([parts["qkv"], parts["direction"]], 1))
    assert torch.equal(found.out, parts["out"])
    assert torch.equal(found.up, torch.cat([parts["up"], parts["up_gate"]], 1))
    assert torch.equal(found.down, torch.cat([parts["down"], parts["down_gate"]], 2))
    assert ndr_weights.matrices(list(parts.values()), torch.bfloat16).x.dtype == torch.bfloat16


def rows() -> Rows:
    return Rows(
        x=draw(S, ALL + 3, 4 * D)[:, 3:, : 3 * D + SIDES],
        h=draw(S, ALL + 3, D)[:, 3:],
        o=draw(S, SHORT, D),
        read=draw(S, SHORT, D, seed=1),
        pre=draw(S, SHORT, HIDDEN + D),
        a=draw(S, SHORT, D, seed=2),
        de=draw(2, S, SHORT, D),
        act=draw(S, SHORT, HIDDEN + D, seed=3),
    )


@pytest.mark.parametrize("tile", [Tile(16, 32, 16, 4, 2), Tile(32, 16, 16, 4, 2), None])
def test_gradients_are_products_over_the_rows_of_all_layers(
    tile: Tile | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ndr_weights, "fits", lambda rows: tile is not None)
    monkeypatch.setattr(ndr_weights, "TILE", tile)
    r, g = rows(), full(S, parameters(D, HIDDEN), value=7.0)
    found = places(g, D, HIDDEN)
    ndr_weights.gradients(r, list(found.values()))

    x, pre, (d, e) = r.x.mT @ r.h, r.pre.mT @ r.a, r.de
    expected = {"qkv": x[:, : 3 * D], "direction": x[:, 3 * D :], "out": r.o.mT @ r.read}
    expected |= {"up": pre[:, :HIDDEN], "up_gate": pre[:, HIDDEN:]}
    expected |= {"down": d.mT @ r.act[..., :HIDDEN], "down_gate": e.mT @ r.act[..., HIDDEN:]}
    for name, place in found.items():
        torch.testing.assert_close(place, expected[name], rtol=1e-5, atol=1e-4, msg=name)
        place.fill_(7.0)
    assert (g == 7).all(), "other parameters are left alone"

    held = weakref.ref(r.h)
    del r
    assert held() is None, "nothing is held after the products"


def full_size(
    *, seeds: int = 25, width: int = 256, sides: int = 8, dtype: torch.dtype = torch.bfloat16
) -> Rows:
    def rows(columns: int) -> Tensor:
        return torch.empty(seeds, 1, columns, dtype=dtype, device="meta")

    h, hidden = rows(width), rows(512 + width)
    return Rows(rows(3 * width + sides), h, h, h, hidden, h, torch.stack([h, h]), hidden)


def test_one_kernel_wants_bf16_whole_tiles_and_a_card_that_they_fill(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("R", [0, 1, 7, 100])
def test_partial_sums_are_divided_over_places_in_any_order_and_nothing_else_is_touched(R: int) -> None:
    gradient, part = full(3, 5000, value=7.0), draw(3, R, 300)
    ends = (4000, 4064), (16, 116), (2000, 2130), (1200, 1206)
    spots = [gradient[:, start:end] for start, end in ends]
    launch.add_up(part, spots)

    torch.testing.assert_close(torch.cat(spots, dim=1), part.sum(1), rtol=1e-5, atol=2e-5)
    for spot in spots:
        spot.fill_(7.0)
    assert (gradient == 7).all()


def test_sums_are_added_to_what_is_there_and_places_may_be_matrices() -> None:
    gradient, part = draw(3, 5000), draw(3, 5, 40, 70)
    place = gradient[:, 100 : 100 + 40 * 70].view(3, 40, 70)
    expected = place + part.sum(1)
    launch.add_up(part, [place], add=True)
    torch.testing.assert_close(place, expected, rtol=1e-5, atol=1e-5)
