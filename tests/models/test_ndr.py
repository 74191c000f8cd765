from collections.abc import Callable

import torch
from torch import Tensor, nn

from ctlpp.models.ndr import NDR, NDRLayer, geometric_attention, look

SMALL = {"width": 12, "heads": 3, "hidden": 10, "depth": 2, "test_depth": 3}


def nearest_first(i: int, length: int) -> list[int]:
    """The other columns as column i meets them: i + 1, i - 1, i + 2, i - 2, …"""
    steps = [i + sign * distance for distance in range(1, length) for sign in (1, -1)]
    return [j for j in steps if 0 <= j < length]


def read_for(layer: NDRLayer, h: list[Tensor], i: int) -> Tensor:
    """What column i gathers, head by head: go outwards until something matches."""
    attend, length, width = layer.attend, len(h), len(h[0])
    heads = attend.heads
    parts = []
    for head in range(heads):
        rows = slice(head * width // heads, (head + 1) * width // heads)
        W, b = attend.qkv.weight.view(3, width, width)[:, rows], attend.qkv.bias.view(3, width)[:, rows]
        to_right = attend.direction.weight[head] @ h[i] + attend.direction.bias[head]
        to_left = attend.direction.weight[heads + head] @ h[i] + attend.direction.bias[heads + head]
        q = W[0] @ h[i] + b[0]
        gathered, not_yet = torch.zeros_like(q), torch.ones((), dtype=q.dtype)
        for j in nearest_first(i, length):
            k, v = W[1] @ h[j] + b[1], W[2] @ h[j] + b[2]
            preference = attend.direction_scale * (to_right if j > i else to_left)
            p = torch.sigmoid(q @ k * attend.scale + preference + attend.bias)
            gathered, not_yet = gathered + not_yet * p * v, not_yet * (1 - p)
        parts.append(gathered)
    return attend.out.weight @ torch.cat(parts)


def reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, NDR)
    layer, logits = model.layer, []
    for example in tokens.tolist():
        h = [model.embed.weight[token] for token in (model.start, *example)]
        for _ in range(model.test_depth):
            new = []
            for i in range(len(h)):
                a = layer.norm_a(h[i] + read_for(layer, h, i))
                u = layer.norm_u(layer.ffn_data.down(nn.functional.gelu(layer.ffn_data.up(a))) + a)
                g = torch.sigmoid(layer.ffn_gate.down(nn.functional.gelu(layer.ffn_gate.up(a))))
                new.append(g * u + (1 - g) * h[i])
            h = new
        logits.append(model.classify(h[0]))
    return torch.stack(logits)


def test_ndr_equals_its_reference(assert_equals_reference: Callable[..., None]) -> None:
    for length in (1, 3, 6, 8):
        assert_equals_reference(NDR(9, 4, **SMALL), reference, torch.randint(9, (2, length)))


def test_evaluation_takes_as_many_steps_as_it_is_told_or_those_of_training() -> None:
    model, seen = NDR(9, 4, **SMALL), []
    model.layer.register_forward_hook(lambda *_: seen.append("step"))
    model(torch.zeros(1, 3, dtype=torch.long))
    assert len(seen) == 2
    model.eval()(torch.zeros(1, 3, dtype=torch.long))
    assert len(seen) == 2 + 3
    assert NDR(9, 4, depth=8, test_depth=None).test_depth == 8


def test_dropout_falls_on_keys_on_what_attention_read_and_on_whole_columns_of_the_gate(
    dropouts: list[tuple[float, tuple[int, ...]]],
) -> None:
    NDR(9, 4, **SMALL, dropout=0.5, key_dropout=0.2, gate_dropout=0.1)(torch.zeros(2, 3, dtype=torch.long))
    assert dropouts == 2 * [(0.2, (2, 4, 3, 4)), (0.5, (2, 4, 12)), (0.1, (2, 4, 1))]


def test_gate_dropout_copies_whole_columns_and_does_not_scale_the_others() -> None:
    layer = NDRLayer(8, 2, 8, dropout=0.0, key_dropout=0.0, gate_dropout=0.5)
    h, view = torch.randn(64, 5, 8), look(5)
    dropped, plain = layer.train()(h, view), layer.eval()(h, view)
    copied = (dropped == h).all(-1)  # (B, T)
    assert 0.3 < copied.float().mean() < 0.7
    torch.testing.assert_close(dropped, torch.where(copied[..., None], h, plain))


def test_it_starts_as_released() -> None:
    model = NDR(41, 8)
    attend, ffn_data, ffn_gate = model.layer.attend, model.layer.ffn_data, model.layer.ffn_gate
    assert attend.scale.item() == 1 / 8
    assert attend.direction_scale.item() == 1
    assert attend.bias.item() == 0
    assert ffn_gate.down.bias.eq(-3).all()
    assert abs(model.embed.weight.std().item() - 1) < 0.03
    q, k, v = attend.qkv.weight.view(3, 4, 64, 256)
    a_head, all_heads = (6 / (256 + 64)) ** 0.5, (6 / (256 + 256)) ** 0.5
    for weights, bound in [
        (q, a_head),
        (torch.stack([k[:2], v[:2]]), a_head),
        (torch.stack([k[2:], v[2:]]), all_heads),
        (attend.out.weight, all_heads),
        (attend.direction.weight, 1 / 16),
        (ffn_data.up.weight, (2 * 6 / (256 + 512)) ** 0.5),
        (ffn_data.down.weight, (6 / (256 + 512)) ** 0.5),
        (ffn_gate.up.weight, (2 * 6 / (256 + 256)) ** 0.5),
        (ffn_gate.down.weight, all_heads),
        (model.classify.weight, 1 / 16),
    ]:
        assert 0.98 * bound < weights.abs().max().item() <= bound  # uniform up to the bound
        assert abs(weights.std().item() * 3**0.5 / bound - 1) < 0.05


def test_attention_keeps_its_precision_under_autocast() -> None:
    match = torch.randn(4, 9, 9).masked_fill(torch.eye(9, dtype=torch.bool), -torch.inf)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = geometric_attention(match, look(9).near)
    torch.testing.assert_close(low, geometric_attention(match, look(9).near))


def test_gradients_stay_finite_when_matches_are_certain() -> None:
    match = torch.tensor([[-torch.inf, 200.0], [-200.0, -torch.inf]], requires_grad=True)
    (grad,) = torch.autograd.grad(geometric_attention(match, look(2).near).sum(), match)
    assert grad.isfinite().all()
