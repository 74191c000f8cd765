"""Partial sums arrive in the places of the gradients."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import launch

S, P = 3, 5000


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("R", [0, 1, 7, 100])
def test_sums_are_divided_over_places_in_any_order_and_nothing_else_is_touched(R: int) -> None:
    gradient, part = torch.full((S, P), 7.0), draw(S, R, 300)
    places = [gradient[:, 4000:4064], gradient[:, 16:116], gradient[:, 2000:2130], gradient[:, 1200:1206]]
    launch.add_up(part, places)

    torch.testing.assert_close(torch.cat(places, dim=1), part.sum(1))
    for place in places:
        place.fill_(7.0)
    assert (gradient == 7).all()


def test_sums_are_added_to_what_is_there_and_places_may_be_matrices() -> None:
    gradient, part = draw(S, P), draw(S, 5, 40, 70)
    place = gradient[:, 100 : 100 + 40 * 70].view(S, 40, 70)
    expected = place + part.sum(1)
    launch.add_up(part, [place], add=True)
    torch.testing.assert_close(place, expected)
