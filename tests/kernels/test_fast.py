"""Fast paths are chosen on CUDA alone; the CPU always takes the reference."""

import torch

from ctlpp.kernels import fast
from ctlpp.models.zoo import MODELS, build
from ctlpp.training.crowd import init_crowd
from ctlpp.training.engine import Replays
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper


def test_on_the_cpu_no_model_has_a_fast_path() -> None:
    for name in MODELS:
        assert fast.find(build(name, 41, 8, "quick"), torch.device("cpu"), 8) is None


def test_on_the_cpu_steps_are_neither_captured_nor_replaced() -> None:
    crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), 41, 8, [0, 1])
    stepper = Stepper(crowd, Recipe(), Optimizer.of(crowd), 2, bf16=True)
    assert stepper._replays is None
    assert not stepper._kernels


def test_a_shape_is_captured_only_after_it_has_run_as_usual() -> None:
    replays = Replays()
    tokens, targets = torch.zeros(4, 3), torch.zeros(4)

    def never(tokens: torch.Tensor, targets: torch.Tensor) -> None:
        raise AssertionError("not to be run here")

    assert not replays.run(never, tokens, targets)
    assert not replays.run(never, tokens, targets)
