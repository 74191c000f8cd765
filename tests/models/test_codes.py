"""Models that carry a distribution over codes, against references written with loops."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.codes import MISS, PermRNN, SymRNN, harden, sinkhorn
from ctlpp.models.slots import Slots


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


@pytest.mark.parametrize(
    ("codes", "training", "from_end"),
    [(None, True, True), (6, True, True), (None, False, True), (None, True, False)],
)
def test_permrnn_multiplies_its_matrices_in_the_order_of_application(
    codes: int | None, training: bool, from_end: bool
) -> None:
    """At test every code goes where its share is largest."""
    model = PermRNN(9, 4, codes=codes, from_end=from_end).train(training)
    torch.nn.init.normal_(model.moves)
    model.progress.fill_(0.5)
    M = sinkhorn(model.moves / 0.55, 5) if training else F.one_hot(model.matrices().argmax(1)).mT.float()
    tokens = torch.cat([torch.randint(4, (20, 3)), torch.randint(4, 8, (20, 1)), torch.full((20, 1), 8)], 1)
    expected = []
    for *functions, symbol, _ in tokens.tolist():
        state = F.one_hot(torch.tensor(symbol - 4), codes or 4).float()
        for function in reversed(functions):
            state = M[function] @ state
        expected.append((state[:4] + MISS).log())
    read = tokens if from_end else torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], dim=1)
    torch.testing.assert_close(model(read), torch.stack(expected))


def slots_reference(model: nn.Module, tokens: Tensor) -> Tensor:
    assert isinstance(model, Slots)
    logits = []
    for row in tokens.tolist():
        x = [model.embed.weight[token] for token in (model.start, *row)]
        own = {
            i: torch.eye(4, dtype=torch.double)[token - 4] for i, token in enumerate(row, 1) if 4 <= token < 8
        }
        slots = [own.get(i, torch.full((4,), 0.25, dtype=torch.double)) for i in range(len(x))]
        for _ in range(model.depth):
            held = [model.recall.weight @ slot for slot in slots]
            nets = [model.up(torch.cat([x[i], read_for(model, x[i], held, i)])) for i in range(len(x))]
            slots = [own.get(i, (5 * model.down(F.gelu(net))).softmax(0)) for i, net in enumerate(nets)]
        logits.append((slots[0] + MISS).log())
    return torch.stack(logits)


def read_for(model: Slots, x: Tensor, held: list[Tensor], i: int) -> Tensor:
    q, parts = model.query(x), []
    for head, rows in enumerate(torch.arange(len(x)).chunk(model.heads)):
        odds = [
            torch.exp(
                q[rows] @ model.key(slot)[rows] * len(rows) ** -0.5 + model.distance.weight[j - i + 8, head]
            )
            for j, slot in enumerate(held)
        ]
        parts.append(
            sum(odd / sum(odds) * model.value(slot)[rows] for odd, slot in zip(odds, held, strict=True))
        )
    return torch.cat([torch.as_tensor(part) for part in parts])


def test_slots_equal_their_reference(assert_equals_reference: Callable[..., None]) -> None:
    model = Slots(9, 4, width=8, heads=2, hidden=10, depth=3)
    assert_equals_reference(model, slots_reference, torch.randint(9, (3, 5)))
