import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctlpp.models.transformer import Transformer, TransformerLayer

SMALL: dict[str, Any] = {"width": 12, "heads": 3, "hidden": 10, "depth": 2}


def waves_of(offset: int, width: int) -> Tensor:
    angles = [offset / 10_000 ** (2 * n / width) for n in range(width // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def read_for(layer: TransformerLayer, h: list[Tensor], i: int, first: int = 0) -> Tensor:
    """What column i gathers from the first column that it sees on, head by head."""
    attend, width = layer.attend, len(h[0])
    parts = []
    for head in range(attend.heads):
        rows = slice(head * width // attend.heads, (head + 1) * width // attend.heads)
        W_q, W_k, W_v = attend.qkv.weight.view(3, width, width)[:, rows]
        W_r, q = attend.position.weight[rows], W_q @ h[i]
        logits = []
        for j in range(first, len(h)):
            content = (q + attend.u[head]) @ (W_k @ h[j])
            position = (q + attend.v[head]) @ (W_r @ waves_of(j - i, width))
            logits.append((content + position) * attend.scale)
        odds = [torch.exp(logit) for logit in logits]
        parts.append(
            sum((odd / sum(odds) * (W_v @ h[first + n]) for n, odd in enumerate(odds)), torch.zeros_like(q))
        )
    return attend.out.weight @ torch.cat(parts)


def reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, Transformer)
    layers = list(model.layers) if len(model.layers) > 1 else list(model.layers) * model.depth
    logits = []
    for example in tokens.tolist():
        h = [model.embed.weight[token] for token in (model.start, *example)]
        for layer in layers:
            assert isinstance(layer, TransformerLayer)
            seen = range(len(h)) if model.causal else [0] * len(h)
            a = [layer.norm_a(h[i] + read_for(layer, h, i, seen[i])) for i in range(len(h))]
            h = [layer.norm_h(column + layer.down(layer.up(column).clamp(min=0))) for column in a]
        logits.append(model.classify(h[0]))
    return torch.stack(logits)


def test_transformer_equals_its_reference(assert_equals_reference: Callable[..., None]) -> None:
    for length in (1, 3, 8):
        for shared, causal in ((True, False), (False, False), (True, True)):
            model = Transformer(9, 4, **SMALL, shared=shared, causal=causal)
            assert_equals_reference(model, reference, torch.randint(9, (2, length)))


def test_dropout_falls_on_keys_offsets_and_the_three_sums_of_a_layer(
    dropouts: list[tuple[float, tuple[int, ...]]],
) -> None:
    Transformer(9, 4, **SMALL, dropout=0.5, key_dropout=0.2)(torch.zeros(2, 3, dtype=torch.long))
    keys = [(0.2, (2, 4, 3, 4)), (0.2, (7, 12))]
    assert dropouts == 2 * [*keys, (0.5, (2, 4, 12)), (0.5, (2, 4, 10)), (0.5, (2, 4, 12))]


def test_it_starts_as_released() -> None:
    model = Transformer(41, 8)
    (layer,) = model.layers
    assert isinstance(layer, TransformerLayer)
    attend = layer.attend
    assert attend.scale.item() == pytest.approx(32**-0.5)
    for zero in (attend.u, attend.v, attend.bias):
        assert zero.eq(0).all()
    for weights, std in [
        (model.embed.weight, (2 / 128) ** 0.5),
        (layer.up.weight, (2 * 2 / (128 + 256)) ** 0.5),
    ]:
        assert abs(weights.std().item() / std - 1) < 0.03
        assert weights.abs().max() > 3 * std  # normal, not uniform
    for weights, bound in [
        (attend.qkv.weight[:128], (6 / 256) ** 0.5),
        (attend.qkv.weight[128:], (6 / 384) ** 0.5),
        (attend.position.weight, (6 / 256) ** 0.5),
        (attend.out.weight, 128**-0.5),
        (layer.down.weight, (6 / 384) ** 0.5),
        (model.classify.weight, 128**-0.5),
    ]:
        assert 0.98 * bound < weights.abs().max().item() <= bound  # uniform up to the bound
        assert abs(weights.std().item() * 3**0.5 / bound - 1) < 0.05
