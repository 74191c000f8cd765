from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.linear import SSM, DeltaNet, LinearLayer, LinearRNN, delta
from ctlpp.models.recurrent import GRU, LSTM, RNN, BiLSTM, LSTMCell, Recurrent, gru_step

SMALL: dict[str, Any] = {"embedding": 5, "width": 3}
ONE_WAY: list[Any] = [LSTM, GRU, RNN]


def as_in_torch(cell: LSTMCell) -> list[Tensor]:
    """The cell's weights, direction by direction; theirs are input, forget, candidate, output."""
    weights = []
    for way in range(len(cell.W)) if cell.W.ndim == 3 else [...]:
        for ours in (cell.W, cell.U, cell.b_in, cell.b_rec):
            i, f, o, candidate = ours[way].chunk(4, dim=-1)
            weights.append(torch.cat([i, f, candidate, o], dim=-1).T.squeeze(-1))
    return weights


def reference(model: nn.Module, tokens: Tensor) -> Tensor:
    """PyTorch's own recurrent networks, with the model's weights."""
    assert isinstance(model, BiLSTM | LSTM | Recurrent)
    x = model.embed(tokens.flip(1) if getattr(model, "from_end", False) else tokens)
    both = isinstance(model, BiLSTM)
    start, how = x.new_zeros(2 if both else 1, len(x), 3), (True, 1, 0.0, False, both, True)
    if isinstance(model, Recurrent):
        theirs = torch.gru if model.step is gru_step else torch.rnn_tanh
        weights = [model.W.weight, model.U.weight, model.W.bias, model.U.bias]
        last = theirs(x, start, weights, *how)[1]
    else:
        last = torch.lstm(x, (start, start), as_in_torch(model.cell), *how)[1]
    return model.classify(last.transpose(0, 1).flatten(1))  # type: ignore[no-any-return]


def test_recurrent_models_equal_those_in_torch(assert_equals_reference: Callable[..., None]) -> None:
    models = [kind(9, 4, **SMALL, from_end=from_end) for kind in ONE_WAY for from_end in (True, False)]
    for model in [BiLSTM(9, 4, **SMALL), *models]:
        for length in (1, 3, 8):
            assert_equals_reference(model, reference, torch.randint(9, (2, length)))


@pytest.mark.parametrize("kind", [BiLSTM, *ONE_WAY])
def test_dropout_falls_on_the_embeddings_only(
    kind: Any, dropouts: list[tuple[float, tuple[int, ...]]]
) -> None:
    kind(9, 4, **SMALL, dropout=0.3)(torch.zeros(2, 4, dtype=torch.long))
    assert dropouts == [(0.3, (2, 4, 5))]


@pytest.mark.parametrize("kind", [BiLSTM, *ONE_WAY])
def test_recurrent_weights_start_uniform_as_in_torch_and_embeddings_normal(kind: Any) -> None:
    model, bound = kind(41, 8), 128**-0.5
    assert abs(model.embed.weight.std().item() - 1) < 0.03
    for name, weights in model.named_parameters():
        if not name.startswith(("embed", "classify")):
            assert 0.9 * bound < weights.abs().max().item() <= bound
            assert abs(weights.std().item() * 3**0.5 / bound - 1) < 0.15


LINEAR = {"width": 8, "heads": 2, "hidden": 10, "depth": 2}


def linear_step(layer: LinearLayer, x: Tensor, S: list[Tensor]) -> Tensor:
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


def linear_reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, LinearRNN)
    logits = []
    for row in tokens.tolist():
        S = [[torch.zeros(4, 4, dtype=torch.double) for _ in range(2)] for _ in model.layers]
        for token in reversed(row):
            h = model.embed.weight[token]
            for layer, own in zip(model.layers, S, strict=True):
                assert isinstance(layer, LinearLayer)
                h = linear_step(layer, h, own)
        logits.append(model.classify(model.norm(h)))
    return torch.stack(logits)


@pytest.mark.parametrize("model", [DeltaNet, SSM])
def test_a_linear_recurrence_equals_its_reference(
    model: partial[LinearRNN], assert_equals_reference: Callable[..., None]
) -> None:
    assert_equals_reference(model(9, 4, **LINEAR), linear_reference, torch.randint(9, (3, 5)))
