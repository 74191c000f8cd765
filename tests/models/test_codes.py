"""Models that carry a distribution over codes, against references written with loops."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.models.codes import MISS, PermRNN, SymRNN, harden, sinkhorn
from ctlpp.models.slots import Slots

SMALL = {"symbols": 4, "functions": 8, "max_length": 4, "train": 300, "iid": 20, "ood": 50, "fill": 0.9}


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


@pytest.mark.parametrize(("codes", "training"), [(None, True), (6, True), (None, False)])
def test_permrnn_multiplies_its_matrices_in_the_order_of_application(
    codes: int | None, training: bool
) -> None:
    """At test every code goes where its share is largest."""
    model = PermRNN(9, 4, codes=codes).train(training)
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
    torch.testing.assert_close(model(tokens), torch.stack(expected))


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


def permrnn_by_hand(task: Task) -> PermRNN:
    model = PermRNN(task.vocabulary.size, 4, from_end=task.order == "right-to-left")
    moves = F.one_hot(torch.from_numpy(task.table.astype("int64")), 4).mT  # [f, target, source]
    model.moves.data.copy_(9.0 * moves)
    return model


def remember_pairs(model: SymRNN | Slots, task: Task, words: int) -> None:
    """Embeddings are one-hot words, then one-hot codes; a hidden unit is for a function with a code."""
    n = task.n_symbols
    for weight in model.parameters():
        weight.data.zero_()
    model.embed.weight.data[:, :words] = torch.eye(words)
    model.recall.weight.data[words:] = torch.eye(n)
    for word in range(words):
        for code in range(n):
            unit = word * n + code
            model.up.weight.data[unit, word] = model.up.weight.data[unit, 2 * words + n + code] = 10.0
            model.up.bias.data[unit] = -15.0
            after = task.table[word, code] if word < task.n_functions else code
            model.down.weight.data[int(after), unit] = 10.0


def symrnn_by_hand(task: Task) -> SymRNN:
    V, n = task.vocabulary.size, task.n_symbols
    model = SymRNN(V, n, width=V + n, hidden=V * n)
    remember_pairs(model, task, V)
    return model


def slots_by_hand(task: Task) -> Slots:
    V, n = task.vocabulary.size, task.n_symbols
    model = Slots(V, n, width=V + 1 + n, heads=1, hidden=(V + 1) * n, depth=6)
    remember_pairs(model, task, V + 1)
    model.value.weight.data.copy_(torch.eye(V + 1 + n))
    model.distance.weight.data[8 + 1] = 50.0  # each column reads the one to its right
    return model


@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_models_of_codes_can_be_written_by_hand_to_be_right_everywhere(order: str) -> None:
    data = generate("A", protocol="text", order=order, **SMALL)
    by_hand = (
        [permrnn_by_hand] if order == "left-to-right" else [permrnn_by_hand, symrnn_by_hand, slots_by_hand]
    )
    for make in by_hand:
        model = make(data.task).eval()
        for split in ("train", "iid", "ood"):
            for tokens, targets in data.tensors(split).values():
                assert torch.equal(model(tokens).argmax(-1), targets), make.__name__
