"""Your own optimisers and schedules."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.conftest import RECIPE, Tiny, assert_same_alone_and_resumed
from torch import Tensor, nn

from ctlpp.training.crowd import init_crowd
from ctlpp.training.optimizer import OwnOptimizer
from ctlpp.training.train import train


class Counting(torch.optim.SGD):
    """Keeps a plain number for each weight and one for the group, which both decide its steps."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["taken"] = group.get("taken", 0) + 1
            for p in group["params"]:
                state = self.state[p]
                state["scale"] = state.get("scale", 1.0) * 0.9
                p.sub_(p.grad, alpha=group["lr"] * state["scale"] / group["taken"])


def sgd_for_matrices(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """Decays what has two axes, which stacked biases would have, too."""
    matrices = {"params": [p for p in parameters if p.ndim == 2], "weight_decay": 0.1}
    others = {"params": [p for p in parameters if p.ndim != 2], "lr": lr / 2}
    return torch.optim.SGD([matrices, others], lr=lr)


MAKERS: list[tuple[Any, bool]] = [  # and whether stacked seeds share one
    (partial(torch.optim.SGD, momentum=0.9), True),
    (torch.optim.NAdam, True),
    (torch.optim.ASGD, True),
    (torch.optim.Adafactor, False),
    (Counting, True),
    (sgd_for_matrices, False),
]


def test_adam_as_your_own_optimiser_is_ours(splits: Any) -> None:
    clipped = replace(RECIPE, clip=0.1, schedule="cosine")
    ours = train(Tiny, splits, seeds=[0, 3], recipe=replace(clipped, weight_decay=0.1))
    make = partial(torch.optim.AdamW, weight_decay=0.1)
    theirs = train(Tiny, splits, seeds=[0, 3], recipe=replace(clipped, optimizer=make))
    assert torch.allclose(ours.crowd.weights, theirs.crowd.weights, atol=1e-6)
    assert theirs.config["recipe"]["optimizer"] == "torch.optim.adamw:AdamW(weight_decay=0.1)"


@pytest.mark.parametrize(("make", "together"), MAKERS)
def test_a_seed_is_the_same_alone_and_among_others_and_after_a_resume(
    make: Any, together: bool, splits: Any, tmp_path: Path
) -> None:
    assert OwnOptimizer(init_crowd(Tiny, 9, 4, [0, 1]), make, 0.1).together == together
    assert_same_alone_and_resumed(tmp_path / "run", Tiny, splits, recipe=replace(RECIPE, optimizer=make))


class Fragile(Tiny):
    """Some seeds get an infinite loss half way."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__(vocab_size, n_classes)
        self.register_buffer("lasts", torch.rand(()) < 0.5)
        self.register_buffer("progress", torch.zeros(()))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        fine = torch.as_tensor(self.lasts) | (torch.as_tensor(self.progress) < 0.5)
        return nn.functional.cross_entropy(logits, targets) / fine


def test_a_diverged_seed_is_marked_and_keeps_its_weights_whatever_the_optimiser_remembers(
    splits: Any, tmp_path: Path, heard: Any
) -> None:
    recipe = replace(RECIPE, optimizer=partial(torch.optim.SGD, momentum=0.9, weight_decay=0.1))
    usual: Any = {"seeds": range(6), "out": tmp_path / "run"}
    run = train(Fragile, splits, recipe=recipe, **usual)
    assert 0 < len(run.diverged) < 6
    assert set(run.diverged.values()) == {10}
    marked = {seed["seed"]: seed["diverged_at"] for seed in run.result()["seeds"] if seed["diverged"]}
    assert marked == run.diverged
    recipe = replace(recipe, steps=30)
    longer = train(Fragile, splits, recipe=recipe, **usual, resume=True, observers=[heard])
    assert heard.notes == ["up to step 20 the progress was that of a run of 20 steps, not of 30"]
    moved = (longer.crowd.weights != run.crowd.weights).any(1).tolist()
    assert moved == [seed not in run.diverged for seed in range(6)]


def test_a_schedule_is_a_function_of_the_step(splits: Any) -> None:
    rates: list[tuple[int, float]] = []
    watch = SimpleNamespace(on_step=lambda stats: rates.append((stats.step, stats.rate)))
    recipe = replace(RECIPE, warmup=5, schedule=lambda step: 1 / (1 + step))
    run = train(Tiny, splits, seeds=[0], recipe=recipe, observers=[watch])
    assert all(rate == pytest.approx(0.01 / step) for step, rate in rates)
    assert "<lambda>" in run.config["recipe"]["schedule"]
    constant = train(Tiny, splits, seeds=[0], recipe=replace(RECIPE, warmup=0, schedule=lambda step: 1.0))
    plain = train(Tiny, splits, seeds=[0], recipe=replace(RECIPE, warmup=0))
    assert torch.equal(constant.crowd.weights, plain.crowd.weights)


def test_what_cannot_be_used_is_one_line_and_leaves_no_folder(splits: Any, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"optimizer": torch.optim.LBFGS}, "the optimiser failed in a first step: TypeError: LBFGS.step() m"),
        ({"optimizer": lambda p, lr: None}, "TypeError: it gives a NoneType, not a torch.optim.Optimizer"),
        ({"optimizer": torch.optim.SGD, "weight_decay": 0.1}, "weight_decay 0.1: an optimiser of your own h"),
        ({"optimizer": "sgd"}, "optimizer sgd: choose from adamw, adam, or give a function"),
        ({"schedule": "nowhere:course"}, "schedule 'nowhere:course': cannot import nowhere"),
        ({"curriculum": "nothing"}, "curriculum 'nothing': write it as package.module:function"),
        ({"schedule": lambda step: 1 / step}, "the schedule failed: ZeroDivisionError: "),
        ({"schedule": lambda step: -1.0}, "the schedule gives rates of -0.01 and -0.01: they must be 0 or m"),
    ]
    for change, line in cases:
        with pytest.raises(ValueError, match=re.escape(line)):
            train(Tiny, splits, seeds=[0], recipe=replace(RECIPE, **change), out=tmp_path / "run")
        assert not (tmp_path / "run").exists()


COURSE = """
def halves(step): return 0.5 ** (step // 10)
def every(progress, length, tokens): return tokens[:, 0] * 0 + 1
"""


def test_names_do_for_the_command_line(splits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "course.py").write_text(COURSE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"optimizer": "torch.optim:RMSprop", "schedule": "course:halves", "curriculum": "course:every"}
    recipe = replace(RECIPE, **names)  # type: ignore[arg-type]
    train(Tiny, splits, seeds=[0], recipe=recipe, out=tmp_path / "run")
    found = json.loads((tmp_path / "run" / "config.json").read_text())["recipe"]
    expected = names | {"optimizer": "torch.optim.rmsprop:RMSprop"}
    assert {name: found[name] for name in names} == expected
    train(Tiny, splits, seeds=[0], recipe=replace(recipe, steps=25), out=tmp_path / "run", resume=True)
