"""`ctlpp bench train` in a shortened form."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ctlpp.bench import train
from ctlpp.bench.reference import reference
from ctlpp.benchmark.dataset import generate
from ctlpp.cli.output import print_table
from ctlpp.models.zoo import MODELS
from ctlpp.training.recipe import recipe_for


def test_the_table_has_both_sides_for_each_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "measure_memory", lambda: "Memory")
    print_table(*train.compare((replace(train.DEMO, seeds=2, steps=1, blocks=1),)))
    out = capsys.readouterr().out
    for words in (*train.THREE, "one by one", "together", "times", "Memory"):
        assert words in out
    assert out.count("×") == len(train.THREE)


def test_the_memory_of_a_process_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: type("Done", (), {"stdout": "2.5 3.25"}))
    rows = train.measure_memory(3)
    assert [list(column.cells)[0] for column in rows.columns] == ["ndr, full size, 3 seeds", "2.5", "3.25"]  # noqa: RUF015


@pytest.mark.parametrize("model", train.THREE)
def test_the_plain_loop_trains(model: str) -> None:
    data = generate("R", symbols=4, functions=8, max_length=2, train=90, iid=5, ood=10)
    recipe = recipe_for(model, "quick", batch=30, weight_decay=0.0)
    plain = reference("plain_training").PlainTraining(
        model, 13, 4, [0, 1], recipe, MODELS[model].sizes["quick"]
    )
    tokens, targets = data.tensors("train")[1]

    def loss() -> float:
        with torch.no_grad():
            return sum(float(torch.nn.functional.cross_entropy(m(tokens), targets)) for m in plain.models)

    before = loss()
    for _ in range(30):
        plain.step(tokens, targets)
    assert loss() < before / 2
