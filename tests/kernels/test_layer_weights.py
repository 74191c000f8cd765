"""The matrices of a layer come in the order that its products want."""

import pytest
import torch

pytest.importorskip("triton")

from ctlpp.kernels import ndr_weights

S, D, SIDES = 2, 16, 6


@pytest.mark.parametrize("hidden", [8, 16, 64])
def test_matrices_of_a_layer_are_joined_wherever_they_lie(hidden: int) -> None:
    shapes = [(3 * D, D), (SIDES, D), (D, D), (hidden, D), (D, D), (D, hidden), (D, D)]
    order, at, places = [3, 0, 6, 1, 5, 2, 4], 5, {}
    for n in order:  # parameters lie in another order, with others between them
        places[n] = at
        at += shapes[n][0] * shapes[n][1] + n
    w = torch.randn(S, at, generator=torch.Generator().manual_seed(hidden))
    parts = [w[:, places[n] :][:, : a * b].view(S, a, b) for n, (a, b) in enumerate(shapes)]
    qkv, direction, out, up, up_gate, down, down_gate = parts

    found = ndr_weights.matrices(parts, torch.float32)

    torch.testing.assert_close(found.x, torch.cat([qkv, direction], 1))
    torch.testing.assert_close(found.out, out)
    torch.testing.assert_close(found.up, torch.cat([up, up_gate], 1))
    torch.testing.assert_close(found.down, torch.cat([down, down_gate], 2))
    assert ndr_weights.matrices(parts, torch.bfloat16).x.dtype == torch.bfloat16
