from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctlpp.models.lstm import BiLSTM, LSTMCell
from ctlpp.models.recurrent import GRU, LSTM, RNN, Recurrent, gru_step

SMALL: dict[str, Any] = {"embedding": 5, "width": 3}
ONE_WAY: list[Any] = [LSTM, GRU, RNN]


def lstm_states(cell: LSTMCell, xs: list[Tensor], direction: int | None = None) -> list[Tensor]:
    """Hidden states of one example, gate by gate and unit by unit."""
    W, U, b_in, b_rec = (
        p if direction is None else p[direction] for p in (cell.W, cell.U, cell.b_in, cell.b_rec)
    )
    D, states = cell.width, []
    h = c = [torch.zeros((), dtype=W.dtype)] * cell.width
    for x in xs:
        z = [
            sum((h[m] * U[m, n] for m in range(D)), x @ W[:, n] + b_in[0, n] + b_rec[0, n])
            for n in range(4 * D)  # input, forget, output, candidate
        ]
        i, f, o = ([torch.sigmoid(z[gate * D + n]) for n in range(D)] for gate in range(3))
        c = [f[n] * c[n] + i[n] * torch.tanh(z[3 * D + n]) for n in range(D)]
        h = [o[n] * torch.tanh(c[n]) for n in range(D)]
        states.append(torch.stack(h))
    return states


def bilstm_reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, BiLSTM)
    logits = []
    for example in tokens.tolist():
        xs = [model.embed.weight[token] for token in example]
        ahead, back = lstm_states(model.cell, xs, 0), lstm_states(model.cell, xs[::-1], 1)
        logits.append(model.classify(torch.cat([ahead[-1], back[-1]])))
    return torch.stack(logits)


def one_way_reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, LSTM | Recurrent)
    logits = []
    for example in tokens.tolist():
        xs = [model.embed.weight[token] for token in (example[::-1] if model.from_end else example)]
        if isinstance(model, LSTM):
            h = lstm_states(model.cell, xs)[-1]
        else:
            h = torch.zeros(model.width, dtype=torch.float64)
            for x in xs:
                h = naive_gru(model, x, h) if model.step is gru_step else torch.tanh(model.W(x) + model.U(h))
        logits.append(model.classify(h))
    return torch.stack(logits)


def naive_gru(model: Recurrent, x: Tensor, h: Tensor) -> Tensor:
    D, new = model.width, []
    for n in range(D):
        from_x = [model.W.weight[g * D + n] @ x + model.W.bias[g * D + n] for g in range(3)]
        from_h = [model.U.weight[g * D + n] @ h + model.U.bias[g * D + n] for g in range(3)]
        r, z = torch.sigmoid(from_x[0] + from_h[0]), torch.sigmoid(from_x[1] + from_h[1])
        new.append((1 - z) * torch.tanh(from_x[2] + r * from_h[2]) + z * h[n])
    return torch.stack(new)


def test_recurrent_models_equal_their_references(assert_equals_reference: Callable[..., None]) -> None:
    for length in (1, 3, 8):
        tokens = torch.randint(9, (2, length))
        assert_equals_reference(BiLSTM(9, 4, **SMALL), bilstm_reference, tokens)
        for kind in ONE_WAY:
            for from_end in (True, False):
                model = kind(9, 4, **SMALL, from_end=from_end)
                assert_equals_reference(model, one_way_reference, tokens)


def test_bidirectional_lstm_equals_the_one_in_torch() -> None:
    model, theirs = BiLSTM(9, 4, **SMALL).eval(), nn.LSTM(5, 3, bidirectional=True, batch_first=True)
    order = [0, 1, 3, 2]  # theirs: input, forget, candidate, output
    for direction, end in enumerate(("", "_reverse")):
        for ours, name in [("W", "weight_ih"), ("U", "weight_hh"), ("b_in", "bias_ih"), ("b_rec", "bias_hh")]:
            columns = model.cell.get_parameter(ours)[direction].detach().view(-1, 4, 3)[:, order].flatten(1)
            theirs.get_parameter(f"{name}_l0{end}").data = columns.T.squeeze(-1).clone()
    tokens = torch.randint(9, (4, 6))
    final = theirs(model.embed(tokens))[1][0]  # (2, B, D)
    torch.testing.assert_close(model(tokens), model.classify(torch.cat([final[0], final[1]], dim=-1)))


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
