"""Parts of fast paths whose precision, places or conditions show in no gradient of a small model."""

import pytest
import torch
import torch.nn.functional as F
from tests.kernels.conftest import DEVICE, draw, full
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import ffn, launch, ndr_weights


@pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # 1 / (1 + ∞) = 0 is meant
def test_gelu_in_the_kernels_is_close_everywhere() -> None:
    x = torch.linspace(-30, 30, 128 * 32, device=DEVICE).reshape(1, 128, 32)
    act = torch.empty_like(x)
    ffn.activate(x, torch.zeros(1, 32, device=DEVICE), act, None, gelu=True)
    torch.testing.assert_close(act, F.gelu(x.double()).float(), rtol=2e-6, atol=5e-7)


def test_hidden_units_are_one_kernel_in_bf16_on_a_card_it_was_made_for() -> None:
    assert not ffn.fits(torch.empty(2, 5, 768, device=DEVICE), 256)
    assert not ffn.fits(torch.empty(2, 5, 768, dtype=torch.bfloat16), 256)


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
