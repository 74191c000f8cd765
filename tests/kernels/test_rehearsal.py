"""A rehearsal compiles the kernels of a step and launches none."""

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from triton.runtime.jit import JITFunction

from ctlpp import generate, recipe_for, train
from ctlpp.kernels.fast import precompile
from ctlpp.training import engine


def a_kernel(x: Any) -> None: ...


def test_within_a_rehearsal_kernels_are_compiled_only_and_afterwards_launched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[Any, bool]] = []

    def run(kernel: Any, x: Any, *, grid: Any, warmup: bool) -> None:
        calls.append((x, warmup))

    monkeypatch.setattr(JITFunction, "run", run)
    kernel: Any = JITFunction(a_kernel)
    with precompile() as possible:
        assert possible
        kernel[(1,)]("rehearsed")
    kernel[(1,)]("launched")
    assert calls == [("rehearsed", True), ("launched", False)]


def test_an_error_within_a_rehearsal_does_not_keep_kernels_from_being_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = JITFunction.run
    with pytest.raises(ZeroDivisionError), precompile():
        _ = 1 / 0
    assert JITFunction.run is before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@pytest.mark.parametrize("model", ["ndr", "transformer", "lstm"])
def test_a_rehearsal_changes_nothing_of_what_is_trained(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = generate("R", train=4000, iid=64, ood=64)
    recipe = replace(recipe_for(model, steps=12, batch=64), eval_every=0)
    rehearsed = train(model, data, seeds=range(3), recipe=recipe, splits=["iid"], device="cuda")
    monkeypatch.setattr(engine, "precompile_steps", lambda *args: None)
    plain = train(model, data, seeds=range(3), recipe=recipe, splits=["iid"], device="cuda")
    assert torch.equal(rehearsed.crowd.weights, plain.crowd.weights)
