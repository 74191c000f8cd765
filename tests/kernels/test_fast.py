"""Fast paths are chosen on CUDA alone and give what the reference gives."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch

from ctlpp import bench, generate, recipe_for, train
from ctlpp.kernels import fast
from ctlpp.models.zoo import MODELS, build
from ctlpp.training import engine
from ctlpp.training.crowd import init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Replays, Stepper

pytest.importorskip("triton")

from triton.runtime.jit import JITFunction

THREE = ["lstm", "transformer", "ndr"]


def test_on_the_cpu_no_model_has_a_fast_path_and_steps_are_not_captured() -> None:
    for name in MODELS:
        assert fast.find(build(name, 41, 8, "quick"), torch.device("cpu"), 8) is None
    crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), 41, 8, [0, 1])
    stepper = Stepper(crowd, Recipe(), 2, bf16=True)
    assert stepper._replays is None
    assert not crowd.kernels


def test_a_shape_is_captured_only_after_it_has_run_as_usual() -> None:
    replays = Replays()
    tokens, targets = torch.zeros(4, 3), torch.zeros(4)

    def never(tokens: torch.Tensor, targets: torch.Tensor) -> None:
        raise AssertionError("not to be run here")

    assert not replays.run(never, tokens, targets)
    assert not replays.run(never, tokens, targets)


def a_kernel(x: Any) -> None: ...


def test_within_precompile_kernels_are_compiled_only_and_afterwards_launched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[Any, bool]] = []

    def run(kernel: Any, x: Any, *, grid: Any, warmup: bool) -> None:
        calls.append((x, warmup))

    monkeypatch.setattr(JITFunction, "run", run)
    kernel: Any = JITFunction(a_kernel)
    with fast.precompile() as possible:
        assert possible
        kernel[(1,)]("before")
    kernel[(1,)]("launched")
    assert calls == [("before", True), ("launched", False)]
    with pytest.raises(ZeroDivisionError), fast.precompile():
        _ = 1 / 0
    kernel[(1,)]("launched")
    assert calls[2:] == [("launched", False)]


def test_every_candidate_of_tune_kernels_changes_constants_that_exist_to_other_values() -> None:
    for part, tried, settings in bench.reference("tune_kernels").CANDIDATES:
        names = [name.split(".") for name in settings]
        present = {
            f"{file}.{name}": getattr(import_module(f"ctlpp.kernels.{file}"), name) for file, name in names
        }
        assert present != settings, f"{part}: {tried}"


@pytest.mark.gpu
@pytest.mark.parametrize("model", THREE)
def test_precompiling_changes_nothing_of_what_is_trained(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = generate("R", train=4000, iid=64, ood=64)
    recipe = replace(recipe_for(model, steps=12, batch=64), eval_every=0)
    compiled = train(model, data, seeds=range(3), recipe=recipe, splits=["iid"], device="cuda")
    monkeypatch.setattr(engine, "precompile_steps", lambda *args: None)
    plain = train(model, data, seeds=range(3), recipe=recipe, splits=["iid"], device="cuda")
    assert torch.equal(compiled.crowd.weights, plain.crowd.weights)


@pytest.mark.gpu
@pytest.mark.parametrize("model", THREE)
def test_in_bf16_at_full_size_the_gradient_is_close_to_the_reference_in_float32(model: str) -> None:
    spec, seeds = MODELS[model], range(5)
    crowd = init_crowd(partial(spec.factory, **spec.sizes["authors"]), 41, 8, seeds, "cuda")
    crowd.module.train()
    tokens, targets = torch.randint(41, (64, 8), device="cuda"), torch.randint(8, (64,), device="cuda")
    gradients = []
    for bf16 in (False, True):
        stepper = Stepper(crowd, recipe_for(model), len(seeds), bf16)
        stepper.scalars.set(stepper.recipe, 0)
        assert (stepper._kernel(8) is not None) == bf16
        gradients.append(stepper.gradient(slice(None), tokens, targets)[1])
    expected, found = gradients
    assert bool(((found - expected).norm(dim=1) < 0.1 * expected.norm(dim=1)).all())
