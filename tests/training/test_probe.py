"""Memory: measured, kept to, and said."""

from typing import Any

import pytest
import torch

from ctlpp.kernels import fast
from ctlpp.models.zoo import build
from ctlpp.training.crowd import gather
from ctlpp.training.probe import activations, memory_budget, seeds_at_a_time, try_kernels
from ctlpp.training.recipe import Recipe
from ctlpp.training.run import train
from ctlpp.training.step import Optimizer, Stepper

RECIPE = Recipe(steps=6, batch=10, lr=0.01, warmup=2)
TOKENS, TARGETS = torch.zeros(10, 5, dtype=torch.int64), torch.zeros(10, dtype=torch.int64)


def test_a_crowd_that_does_not_fit_is_split_and_says_so_with_the_same_results(
    tiny: Any, splits: Any, heard: Any
) -> None:
    each, _ = activations(gather(tiny, 8, 4, range(7)), RECIPE, TOKENS, TARGETS, False)
    run = train(tiny, splits, seeds=range(7), recipe=RECIPE, memory=5 * each, observers=[heard])
    assert heard.notes == ["7 seeds do not fit into memory together: each step takes them 3 at a time"]
    assert run.config["engine"]["seeds_at_a_time"] == 3
    whole = train(tiny, splits, seeds=range(7), recipe=RECIPE)
    torch.testing.assert_close(run.crowd.weights, whole.crowd.weights, rtol=1e-4, atol=1e-6)


def test_activations_grow_with_the_batch(tiny: Any) -> None:
    crowd = gather(tiny, 8, 4, [0])
    small, large = (
        activations(crowd, RECIPE, TOKENS.repeat(n, 1), TARGETS.repeat(n), False)[0] for n in (1, 10)
    )
    assert 5 * small < large < 10 * small + 1


def test_groups_are_as_equal_as_can_be(tiny: Any) -> None:
    crowd = gather(tiny, 8, 4, range(10))
    each, _ = activations(crowd, RECIPE, TOKENS, TARGETS, False)
    for fit, group in ((9, 5), (4, 4), (3, 3), (1, 1), (0, 1), (10, 10)):
        assert seeds_at_a_time(crowd, RECIPE, TOKENS, TARGETS, False, fit * (each * 3 // 2))[0] == group


def test_on_a_cpu_large_batches_go_one_seed_at_a_time_because_that_is_quickest(tiny: Any) -> None:
    crowd = gather(lambda v, c: tiny(v, c, width=32), 8, 4, range(3))
    batch = TOKENS.repeat(2000, 1), TARGETS.repeat(2000)
    assert seeds_at_a_time(crowd, RECIPE, *batch, False, 1 << 60) == (1, "")
    assert seeds_at_a_time(crowd, RECIPE, TOKENS, TARGETS, False, 1 << 60) == (3, "")


def test_there_is_a_budget_on_this_machine() -> None:
    assert 1 << 20 < memory_budget(torch.device("cpu")) < 1 << 50


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_out_of_memory_in_a_step_goes_on_with_fewer_seeds(tiny: Any, error: Any) -> None:
    class Tight(Stepper):
        def gradient(self, group: slice, *batch: Any) -> Any:
            if group.stop - group.start > 2:
                raise error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")
            return super().gradient(group, *batch)

    tight, roomy = ((kind, gather(tiny, 8, 4, range(5))) for kind in (Tight, Stepper))
    steppers = [kind(crowd, RECIPE, Optimizer.of(crowd), 5) for kind, crowd in (tight, roomy)]
    for stepper in steppers:
        stepper.step(0, TOKENS, TARGETS)
    assert [stepper.group for stepper in steppers] == [2, 5]
    torch.testing.assert_close(steppers[0].crowd.weights, steppers[1].crowd.weights, rtol=1e-4, atol=1e-6)


def test_out_of_memory_with_one_seed_is_one_line(tiny: Any) -> None:
    class Full(Stepper):
        def gradient(self, group: slice, *batch: Any) -> Any:
            raise torch.OutOfMemoryError("CUDA out of memory")

    crowd = gather(tiny, 8, 4, range(3))
    stepper = Full(crowd, RECIPE, Optimizer.of(crowd), 3)
    with pytest.raises(
        ValueError, match=r"^out of memory on cpu even with one seed at a time: use a smaller batch$"
    ):
        stepper.step(0, TOKENS, TARGETS)


def test_kernels_that_fail_on_a_machine_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> torch.Tensor:
        raise RuntimeError("out of resource: shared memory\nmore")

    crowd = gather(lambda v, c: build("rnn", v, c, "quick"), 41, 8, [0, 1])
    monkeypatch.setattr(fast, "available", lambda device: True)
    monkeypatch.setattr(fast, "find", lambda *_: fails)
    tokens, targets = torch.zeros(4, 5, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    assert try_kernels(crowd, Recipe(batch=4), tokens, targets, bf16=True) == "out of resource: shared memory"
    assert not crowd.kernels
    stepper = Stepper(crowd, Recipe(batch=4), Optimizer.of(crowd), 2, bf16=True)
    stepper.step(0, tokens, targets)  # the reference steps in
    assert bool(stepper.losses.isfinite().all())


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RuntimeError("no descriptors"), "no descriptors"), (torch.OutOfMemoryError("CUDA out of memory"), "")],
)
def test_kernels_are_tried_on_the_whole_crowd_as_well_but_its_memory_is_not_their_matter(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def gradient(
        model: object, w: object, g: dict[str, torch.Tensor], keys: torch.Tensor, *_: object
    ) -> torch.Tensor:
        sizes.append(len(keys))
        if len(keys) > 1:
            raise error
        return torch.zeros(len(keys))

    crowd = gather(lambda v, c: build("rnn", v, c, "quick"), 41, 8, [0, 1, 2])
    monkeypatch.setattr(fast, "available", lambda device: True)
    monkeypatch.setattr(fast, "find", lambda *_: gradient)
    monkeypatch.setattr(Stepper, "update", lambda *_: None)
    tokens, targets = torch.zeros(4, 5, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    assert try_kernels(crowd, Recipe(batch=4), tokens, targets, bf16=True) == reason
    assert crowd.kernels == (reason == "")
    assert sizes[:2] == [1, 3]


def test_a_module_without_kernels_is_tried_with_one_seed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = gather(lambda v, c: build("rnn", v, c, "quick"), 41, 8, [0, 1, 2])
    sizes: list[int] = []
    monkeypatch.setattr(fast, "available", lambda device: True)
    monkeypatch.setattr(fast, "find", lambda *_: None)
    monkeypatch.setattr(Stepper, "step", lambda self, *_: sizes.append(len(self.crowd.seeds)))
    tokens, targets = torch.zeros(4, 5, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    assert try_kernels(crowd, Recipe(batch=4), tokens, targets, bf16=True) == ""
    assert sizes == [1]
