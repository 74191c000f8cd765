"""The slot Transformer against a reference written with loops, and written by hand."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.benchmark.dataset import generate
from ctlpp.models.codes import MISS
from ctlpp.models.slots import Slots


def reference(model: nn.Module, tokens: Tensor) -> Tensor:
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
    assert_equals_reference(model, reference, torch.randint(9, (3, 5)))


def test_slots_can_be_written_by_hand_to_be_right_everywhere() -> None:
    sizes = {"symbols": 4, "functions": 8, "max_length": 4, "train": 300, "iid": 20, "ood": 50, "fill": 0.9}
    data = generate("A", protocol="text", **sizes)
    V, functions, n = data.task.vocabulary.size, data.task.n_functions, 4
    width = V + 1 + n
    model = Slots(V, n, width=width, heads=1, hidden=(V + 1) * n, depth=6)
    for weight in model.parameters():
        weight.data.zero_()
    model.embed.weight.data[:, : V + 1] = torch.eye(V + 1)
    model.recall.weight.data[V + 1 :] = torch.eye(n)
    model.value.weight.data.copy_(torch.eye(width))
    model.distance.weight.data[8 + 1] = 50.0  # each column reads the one to its right
    for token in range(V + 1):
        for code in range(n):  # a hidden unit for every token with every code
            unit = token * n + code
            model.up.weight.data[unit, token] = model.up.weight.data[unit, width + V + 1 + code] = 10.0
            model.up.bias.data[unit] = -15.0
            after = data.task.table[token, code] if token < functions else code
            model.down.weight.data[int(after), unit] = 10.0
    for split in ("train", "iid", "ood"):
        for tokens, targets in data.tensors(split).values():
            assert torch.equal(model(tokens).argmax(-1), targets)
