"""The gradients of weights that all layers share, by one kernel or a product each, are products over all rows."""

import weakref

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import ndr_weights
from ctlpp.kernels.launch import Tile
from ctlpp.kernels.ndr_weights import Rows

S, ALL, SHORT, D, HIDDEN, SIDES = 2, 45, 37, 32, 64, 8
SHAPES = {
    "qkv": (3 * D, D),
    "direction": (SIDES, D),
    "out": (D, D),
    "up": (HIDDEN, D),
    "down": (D, HIDDEN),
    "up_gate": (D, D),
    "down_gate": (D, D),
}
NAMES = ("qkv", "direction", "out", "up", "up_gate", "down", "down_gate")  # as the products take them
OTHER = 5  # parameters before, between and after them


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def rows() -> Rows:
    return Rows(
        x=draw(S, ALL + 3, 4 * D)[:, 3:, : 3 * D + SIDES],
        h=draw(S, ALL + 3, D)[:, 3:],
        o=draw(S, SHORT, D),
        read=draw(S, SHORT, D) + 1,
        pre=draw(S, SHORT, HIDDEN + D),
        a=draw(S, SHORT, D) + 2,
        de=draw(2, S, SHORT, D),
        act=draw(S, SHORT, HIDDEN + D) + 3,
    )


def views(g: Tensor) -> dict[str, Tensor]:
    """Places for the gradients in a matrix that has other parameters as well."""
    found, at = {}, OTHER
    for name, (n, m) in SHAPES.items():
        found[name] = g[:, at : at + n * m].view(-1, n, m)
        at += n * m + OTHER
    return found


@pytest.mark.parametrize("tile", [Tile(16, 32, 16, 4, 2), Tile(32, 16, 16, 4, 2), None])
def test_gradients_are_products_over_the_rows_of_all_layers(
    tile: Tile | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ndr_weights, "fits", lambda rows: tile is not None)
    monkeypatch.setattr(ndr_weights, "TILE", tile)
    r, g = rows(), torch.full((S, sum(n * m + OTHER for n, m in SHAPES.values()) + OTHER), 7.0)
    places = views(g)
    ndr_weights.gradients(r, [places[name] for name in NAMES])

    x, pre, (d, e) = r.x.mT @ r.h, r.pre.mT @ r.a, r.de
    expected = {
        "qkv": x[:, : 3 * D],
        "direction": x[:, 3 * D :],
        "out": r.o.mT @ r.read,
        "up": pre[:, :HIDDEN],
        "up_gate": pre[:, HIDDEN:],
        "down": d.mT @ r.act[..., :HIDDEN],
        "down_gate": e.mT @ r.act[..., HIDDEN:],
    }
    for name, place in places.items():
        torch.testing.assert_close(place, expected[name], rtol=1e-5, atol=1e-4, msg=name)
        place.fill_(7.0)
    assert (g == 7).all(), "other parameters are left alone"


def test_nothing_is_held_after_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndr_weights, "fits", lambda rows: True)
    monkeypatch.setattr(ndr_weights, "TILE", Tile(16, 32, 16, 4, 2))
    r, g = rows(), torch.zeros(S, sum(n * m + OTHER for n, m in SHAPES.values()) + OTHER)
    ndr_weights.gradients(r, [views(g)[name] for name in NAMES])
    held = weakref.ref(r.h)
    del r
    assert held() is None


def full_size(
    *, seeds: int = 25, width: int = 256, sides: int = 8, dtype: torch.dtype = torch.bfloat16
) -> Rows:
    def rows(columns: int) -> Tensor:
        return torch.empty(seeds, 1, columns, dtype=dtype, device="meta")

    h, hidden = rows(width), rows(512 + width)
    return Rows(
        x=rows(3 * width + sides), h=h, o=h, read=h, pre=hidden, a=h, de=torch.stack([h, h]), act=hidden
    )


def test_one_kernel_wants_bf16_whole_tiles_and_a_card_that_they_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndr_weights, "made_for", lambda device: True)
    monkeypatch.setattr(ndr_weights, "_processors", lambda device: 132)  # of an H200
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


def test_a_layer_has_as_many_tiles_as_its_matrices() -> None:
    assert ndr_weights.tiles(256, 512) == 6 + 1 + 2 + 6 + 4 + 2
