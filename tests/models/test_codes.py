"""Models that carry a distribution over codes, against references written with loops."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.benchmark.dataset import generate
from ctlpp.models.codes import PermRNN, SymRNN, harden, sinkhorn

SMALL = {"symbols": 4, "functions": 8, "max_length": 4, "train": 300, "iid": 20, "ood": 50, "fill": 0.9}


def follow(model: PermRNN, row: list[int]) -> int:
    """The answer of a hard PermRNN to one input: the code that is left when every move is an argmax."""
    functions, classes = len(model.moves), model.classes
    targets, code = model.matrices().argmax(1), None
    for token in reversed(row):
        if functions <= token < functions + classes:
            code = token - functions
        elif token < functions and code is not None:
            code = int(targets[token, code])
    assert code is not None
    return code


def test_moves_are_doubly_stochastic_and_become_permutations_as_they_cool() -> None:
    scores = torch.randn(5, 6, 6, dtype=torch.double)
    ones = torch.ones(5, 6, dtype=torch.double)
    warm, cold = sinkhorn(scores, 200), sinkhorn(scores / 0.02, 2000)
    for matrices, error in ((warm, 1e-9), (cold, 0.02)):
        torch.testing.assert_close(matrices.sum(1), ones)
        torch.testing.assert_close(matrices.sum(2), ones, atol=error, rtol=0)
    torch.testing.assert_close(cold, harden(cold, 1), atol=0.2, rtol=0)
    soft = PermRNN(9, 4, bijective=False).train().matrices()
    torch.testing.assert_close(soft.sum(1), torch.ones(4, 4))
    assert not torch.allclose(soft.sum(2), torch.ones(4, 4), atol=1e-3)


@pytest.mark.parametrize("codes", [None, 6])
def test_permrnn_multiplies_its_matrices_in_the_order_of_application(codes: int | None) -> None:
    model = PermRNN(9, 4, codes=codes).train()
    torch.nn.init.normal_(model.moves)
    model.progress.fill_(0.5)
    M = sinkhorn(model.moves / 0.55, 5)
    tokens = torch.tensor([[0, 3, 2, 4, 8], [1, 1, 0, 7, 8]])
    expected = []
    for *functions, symbol, _ in tokens.tolist():
        state = F.one_hot(torch.tensor(symbol - 4), codes or 4).float()
        for function in reversed(functions):
            state = M[function] @ state
        expected.append((state[:4] + 1e-4).log())
    torch.testing.assert_close(model(tokens), torch.stack(expected))


def test_hard_at_test_means_that_every_code_goes_where_its_share_is_largest() -> None:
    model = PermRNN(12, 5).eval()
    torch.nn.init.normal_(model.moves)
    tokens = torch.cat([torch.randint(6, (40, 3)), torch.randint(6, 11, (40, 1)), torch.full((40, 1), 11)], 1)
    assert model(tokens).argmax(-1).tolist() == [follow(model, row) for row in tokens.tolist()]
    assert model(tokens).amax(-1).tolist() == pytest.approx([0.0] * 40, abs=1e-3)


@pytest.mark.parametrize("hard", [True, False])
def test_symrnn_knows_nothing_between_steps_but_the_distribution(hard: bool) -> None:
    model, tokens = SymRNN(9, 4, hard=hard).eval(), torch.randint(8, (6, 5))
    tokens[:, -1] = 8
    expected = []
    for row in tokens.tolist():
        state = torch.full((4,), 0.25)
        for token in reversed(row[:-1]):
            h = F.gelu(model.up(torch.cat([model.embed.weight[token], model.recall.weight @ state])))
            state = (5 * model.down(h)).softmax(0)
            state = F.one_hot(state.argmax(), 4).float() if hard else state
            state = F.one_hot(torch.tensor(token - 4), 4).float() if token >= 4 else state
        expected.append((state + 1e-4).log())
    torch.testing.assert_close(model(tokens), torch.stack(expected))


@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_permrnn_can_be_written_by_hand_to_be_right_everywhere(order: str) -> None:
    data = generate("A", protocol="text", order=order, **SMALL)
    model = PermRNN(data.task.vocabulary.size, 4, from_end=order == "right-to-left").eval()
    moves = F.one_hot(torch.from_numpy(data.task.table.astype("int64")), 4).mT  # [f, target, source]
    model.moves.data.copy_(9.0 * moves)
    assert all(right(model, data.tensors(split)) for split in ("train", "iid", "ood"))


def right(model: torch.nn.Module, split: dict[int, tuple[Tensor, Tensor]]) -> bool:
    return all(bool((model(tokens).argmax(-1) == targets).all()) for tokens, targets in split.values())


def test_symrnn_can_be_written_by_hand_to_be_right_everywhere() -> None:
    data = generate("R", protocol="text", **SMALL)
    V, n = data.task.vocabulary.size, 4
    model = SymRNN(V, n, width=V + n, hidden=V * n).eval()
    for weight in model.parameters():
        weight.data.zero_()
    model.embed.weight.data[:, :V] = torch.eye(V)
    model.recall.weight.data[V:] = torch.eye(n)
    for token in range(data.task.n_functions):
        for code in range(n):  # a hidden unit for every token with every code
            unit = token * n + code
            model.up.weight.data[unit, token] = 10.0
            model.up.weight.data[unit, V + n + V + code] = 10.0
            model.up.bias.data[unit] = -15.0
            after = data.task.table[token, code]
            model.down.weight.data[int(after), unit] = 10.0
    assert all(right(model, data.tensors(split)) for split in ("train", "iid", "ood"))
