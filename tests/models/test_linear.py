"""Linear recurrences against a reference written with loops."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.linear import SSM, DeltaNet, LinearLayer, LinearRNN, decay, delta

SMALL = {"width": 8, "heads": 2, "hidden": 10, "depth": 2}


def step(layer: LinearLayer, x: Tensor, S: list[Tensor]) -> Tensor:
    """One token through one layer, head by head; S is changed."""
    q, k, v = layer.qkv(layer.norm_x(x)).chunk(3)
    strength, read = layer.strength(layer.norm_x(x)), []
    for head, rows in enumerate(torch.arange(len(x)).chunk(layer.heads)):
        key, share = F.normalize(k[rows], dim=0), strength[head].sigmoid()
        if layer.transition is delta:
            kept = torch.eye(len(rows), dtype=x.dtype) - 2 * share * torch.outer(key, key)
            S[head] = kept @ S[head] + 2 * share * torch.outer(key, v[rows])
        else:
            S[head] = share * S[head] + (1 - share) * torch.outer(key, v[rows])
        read.append(F.normalize(q[rows], dim=0) @ S[head])
    h = x + layer.out(torch.cat(read))
    out: Tensor = h + layer.down(F.gelu(layer.up(layer.norm_h(h))))
    return out


def reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, LinearRNN)
    logits = []
    for row in tokens.tolist():
        S = [[torch.zeros(4, 4, dtype=torch.double) for _ in range(2)] for _ in model.layers]
        for token in reversed(row):
            h = model.embed.weight[token]
            for layer, own in zip(model.layers, S, strict=True):
                assert isinstance(layer, LinearLayer)
                h = step(layer, h, own)
        logits.append(model.classify(model.norm(h)))
    return torch.stack(logits)


@pytest.mark.parametrize("model", [DeltaNet, SSM])
def test_a_linear_recurrence_equals_its_reference(
    model: partial[LinearRNN], assert_equals_reference: Callable[..., None]
) -> None:
    assert_equals_reference(model(9, 4, **SMALL), reference, torch.randint(9, (3, 5)))


def test_only_the_delta_rule_can_exchange_what_two_keys_hold() -> None:
    held = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # a value under each of two keys
    along = torch.tensor([1.0, -1.0]) * 2**-0.5
    nothing, most = torch.zeros(1, 1, 2), torch.full((1, 1, 1), 50.0)
    swapped = delta(held[None, None], along[None, None], nothing, most)[0, 0]
    torch.testing.assert_close(swapped, held.flip(0))
    shrunk = decay(held[None, None], along[None, None], nothing, torch.zeros(1, 1, 1))[0, 0]
    torch.testing.assert_close(shrunk, held / 2)
