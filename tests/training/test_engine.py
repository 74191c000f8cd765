"""Memory: measured, kept to, and said."""

from typing import Any

import pytest
import torch

from ctlpp.kernels import fast
from ctlpp.training.crowd import init_crowd
from ctlpp.training.engine import activations, memory_budget, seeds_at_a_time, try_kernels
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper
from ctlpp.training.train import train

RECIPE = Recipe(steps=6, batch=10, lr=0.01, warmup=2)
BATCH = TOKENS, TARGETS = torch.zeros(10, 5, dtype=torch.int64), torch.zeros(10, dtype=torch.int64)


def stepper_of(factory: Any, seeds: Any, kind: type[Stepper] = Stepper) -> Stepper:
    crowd = init_crowd(factory, 8, 4, list(seeds))
    return kind(crowd, RECIPE, Optimizer.of(crowd), len(seeds))


def test_a_crowd_that_does_not_fit_is_split_and_says_so_with_the_same_results(
    tiny: Any, splits: Any, heard: Any
) -> None:
    each, _ = activations(stepper_of(tiny, range(7)), BATCH)
    run = train(tiny, splits, seeds=range(7), recipe=RECIPE, memory=5 * each, observers=[heard])
    assert heard.notes == ["7 seeds do not fit into memory together: each step takes them 3 at a time"]
    assert run.config["engine"]["seeds_at_a_time"] == 3
    whole = train(tiny, splits, seeds=range(7), recipe=RECIPE)
    torch.testing.assert_close(run.crowd.weights, whole.crowd.weights, rtol=1e-4, atol=1e-6)


def test_activations_grow_with_the_batch(tiny: Any) -> None:
    stepper = stepper_of(tiny, [0])
    small, large = (activations(stepper, (TOKENS.repeat(n, 1), TARGETS.repeat(n)))[0] for n in (1, 10))
    assert 5 * small < large < 10 * small + 1


def test_groups_are_as_equal_as_can_be(tiny: Any) -> None:
    stepper = stepper_of(tiny, range(10))
    each, _ = activations(stepper, BATCH)
    for fit, group in ((9, 5), (4, 4), (3, 3), (1, 1), (0, 1), (10, 10)):
        assert seeds_at_a_time(stepper, BATCH, fit * (each * 3 // 2))[0] == group


def test_on_a_cpu_large_batches_go_one_seed_at_a_time_because_that_is_quickest(tiny: Any) -> None:
    stepper = stepper_of(lambda v, c: tiny(v, c, width=32), range(3))
    batch = TOKENS.repeat(2000, 1), TARGETS.repeat(2000)
    assert seeds_at_a_time(stepper, batch, 1 << 60) == (1, "")
    assert seeds_at_a_time(stepper, BATCH, 1 << 60) == (3, "")


def test_there_is_a_budget_on_this_machine() -> None:
    assert 1 << 20 < memory_budget(torch.device("cpu")) < 1 << 50


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_out_of_memory_in_a_step_goes_on_with_fewer_seeds(tiny: Any, error: Any) -> None:
    class Tight(Stepper):
        def gradient(self, group: slice, *batch: Any) -> Any:
            if group.stop - group.start > 2:
                raise error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")
            return super().gradient(group, *batch)

    tight, roomy = stepper_of(tiny, range(5), Tight), stepper_of(tiny, range(5))
    for stepper in (tight, roomy):
        stepper.step(0, *BATCH)
    assert (tight.group, roomy.group) == (2, 5)
    torch.testing.assert_close(tight.crowd.weights, roomy.crowd.weights, rtol=1e-4, atol=1e-6)


def test_out_of_memory_with_one_seed_is_one_line(tiny: Any) -> None:
    class Full(Stepper):
        def gradient(self, group: slice, *batch: Any) -> Any:
            raise torch.OutOfMemoryError("CUDA out of memory")

    text = r"^out of memory on cpu even with one seed at a time: use a smaller batch$"
    with pytest.raises(ValueError, match=text):
        stepper_of(tiny, range(3), Full).step(0, *BATCH)


@pytest.fixture
def bf16(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> Stepper:
    """Three seeds that could take a fast path."""
    monkeypatch.setattr(fast, "available", lambda device: True)
    stepper = stepper_of(tiny, range(3))
    stepper.bf16 = True
    return stepper


def test_kernels_that_fail_on_a_machine_are_left_alone(
    bf16: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> torch.Tensor:
        raise RuntimeError("out of resource: shared memory\nmore")

    monkeypatch.setattr(fast, "find", lambda *_: fails)
    assert try_kernels(bf16, BATCH) == "RuntimeError: out of resource: shared memory"
    assert not bf16.crowd.kernels
    bf16.step(0, *BATCH)  # the reference steps in
    assert bool(bf16.losses.isfinite().all())


@pytest.mark.parametrize(
    "error", [RuntimeError("no descriptors"), torch.OutOfMemoryError("CUDA out of memory")]
)
def test_kernels_are_tried_on_the_whole_crowd_as_well_but_its_memory_is_not_their_matter(
    bf16: Stepper, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def gradient(model: object, w: object, g: object, keys: torch.Tensor, *_: object) -> torch.Tensor:
        sizes.append(len(keys))
        if len(keys) > 1:
            raise error
        return torch.zeros(len(keys))

    monkeypatch.setattr(fast, "find", lambda *_: gradient)
    monkeypatch.setattr(Stepper, "update", lambda *_: None)
    reason = "" if isinstance(error, torch.OutOfMemoryError) else "RuntimeError: no descriptors"
    assert try_kernels(bf16, BATCH) == reason
    assert bf16.crowd.kernels == (reason == "")
    assert sizes[:2] == [1, 3]


def test_a_module_without_kernels_is_tried_with_one_seed_only(
    bf16: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(fast, "find", lambda *_: None)
    monkeypatch.setattr(Stepper, "step", lambda self, *_: sizes.append(len(self.crowd.seeds)))
    assert try_kernels(bf16, BATCH) == ""
    assert sizes == [1]
