"""Memory: measured, kept to, and said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import Tiny, tiny_splits
from torch.utils._python_dispatch import TorchDispatchMode

from ctlpp.kernels import fast
from ctlpp.training import engine
from ctlpp.training.crowd import Crowd, init_crowd
from ctlpp.training.engine import activations, memory_budget, seeds_at_a_time, threads_for
from ctlpp.training.recipe import Recipe
from ctlpp.training.run import find_device
from ctlpp.training.step import Stepper, Tally
from ctlpp.training.train import train

RECIPE = Recipe(steps=6, batch=10, lr=0.01, warmup=2)
BATCH = TOKENS, TARGETS = torch.zeros(10, 5, dtype=torch.int64), torch.zeros(10, dtype=torch.int64)


def stepper_of(seeds: int, kind: type[Stepper] = Stepper, **sizes: Any) -> Stepper:
    crowd = init_crowd(lambda v, c: Tiny(v, c, **sizes), 8, 4, range(seeds))
    return kind(crowd, RECIPE, seeds)


def test_a_crowd_that_does_not_fit_is_split_and_says_so(splits: Any, heard: Any) -> None:
    each = sum(activations(stepper_of(7), BATCH))
    run = train(Tiny, splits, seeds=range(7), recipe=RECIPE, memory=5 * each, observers=[heard])
    assert heard.notes == ["7 seeds do not fit into memory together: each step takes them 3 at a time"]
    assert run.config["engine"]["seeds_at_a_time"] == 3


def test_groups_are_as_equal_as_can_be_and_on_a_cpu_large_batches_go_one_seed_at_a_time() -> None:
    stepper = stepper_of(10)
    each = sum(activations(stepper, BATCH))
    for fit, group in ((9, 5), (4, 4), (3, 3), (1, 1), (0, 1), (10, 10)):
        assert seeds_at_a_time(stepper, BATCH, fit * (each * 3 // 2))[0] == group
    large, budget = (TOKENS.repeat(4000, 1), TARGETS.repeat(4000)), memory_budget(torch.device("cpu"))
    assert seeds_at_a_time(stepper, large, budget) == (1, "")  # which is the fastest there
    assert seeds_at_a_time(stepper, BATCH, budget) == (10, "")


def test_small_models_train_with_one_thread_and_large_ones_with_all() -> None:
    torch.set_num_threads(2)
    assert threads_for(stepper_of(3), BATCH) == 1
    large = TOKENS.repeat(4000, 1), TARGETS.repeat(4000)
    assert threads_for(stepper_of(1, width=64), large) == 2
    torch.set_num_threads(1)
    assert threads_for(stepper_of(1, width=64), large) == 1


def test_a_run_keeps_its_threads_when_it_is_resumed_and_gives_them_back(splits: Any, tmp_path: Path) -> None:
    class Counts:
        def on_evaluate(self, step: int, scores: object) -> None:
            threads.append(torch.get_num_threads())
            if step == 4 and len(threads) == 2:
                raise KeyboardInterrupt

    torch.set_num_threads(2)
    threads: list[int] = []
    how: Any = {"seeds": [0], "recipe": replace(RECIPE, eval_every=2), "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        train(Tiny, splits, **how, observers=[Counts()])
    config = tmp_path / "run" / "config.json"
    assert json.loads(config.read_text())["engine"]["threads"] == 1
    config.write_text(config.read_text().replace('"threads": 1', '"threads": 2'))
    train(Tiny, splits, **how, resume=True, observers=[Counts()])
    assert (threads[:2], set(threads[2:])) == ([1, 1], {2})
    assert torch.get_num_threads() == 2


class Tight(Stepper):
    """Has no memory for more than two seeds, or, if it is full, for any."""

    full = False

    def gradient(self, group: slice, *batch: Any) -> Any:
        if self.full:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if group.stop - group.start > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")
        return super().gradient(group, *batch)


def test_out_of_memory_in_a_step_goes_on_with_fewer_seeds_if_there_are_fewer() -> None:
    tight, roomy = stepper_of(5, Tight), stepper_of(5)
    for stepper in (tight, roomy):
        stepper.step(0, *BATCH)
    assert (tight.group, roomy.group) == (2, 5)
    torch.testing.assert_close(tight.crowd.weights, roomy.crowd.weights, rtol=1e-4, atol=1e-6)
    tight.full = True  # type: ignore[attr-defined]
    text = r"^out of memory on cpu even with one seed at a time: use a smaller batch$"
    with pytest.raises(ValueError, match=text):
        tight.step(0, *BATCH)


@pytest.mark.parametrize(
    ("limit", "error", "said"),
    [
        (
            0,
            RuntimeError("out of resource: shared memory\nmore"),
            "RuntimeError: out of resource: shared memory",
        ),
        (1, RuntimeError("no descriptors"), "RuntimeError: no descriptors"),
        (1, torch.OutOfMemoryError("CUDA"), ""),  # the memory of a crowd is not their matter
    ],
)
def test_kernels_that_fail_on_a_machine_with_one_seed_or_all_are_left_alone(
    limit: int, error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gradient(model: object, w: object, g: object, keys: torch.Tensor, *_: object) -> torch.Tensor:
        if len(keys) > limit:
            raise error
        return torch.zeros(len(keys))

    stepper = stepper_of(3)
    stepper.bf16 = stepper.crowd.kernels = True
    monkeypatch.setattr(fast, "find", lambda *_: gradient)
    assert engine.try_kernels(stepper, BATCH) == said
    assert stepper.crowd.kernels == (said == "")
    if said:
        stepper.step(0, *BATCH)  # the reference steps in
        assert bool(stepper.losses.isfinite().all())


def test_a_gpu_by_its_number_or_of_apple_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    stand_ins = {"is_available": lambda: True, "device_count": lambda: 2, "set_device": taken.append}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert taken == [1], "kernels are launched there, too"
    with pytest.raises(ValueError, match=r"^device cuda:2: this machine has cuda:0 to cuda:1$"):
        find_device("cuda:2")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("mps") == torch.device("mps")


class NoDoubles(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A device without float64, as Apple's GPUs are."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        assert getattr(found, "dtype", None) != torch.float64, func
        return found


def test_steps_and_evaluations_need_no_float64_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crowd, "sum_dtype", torch.float32)
    splits = tiny_splits()
    crowd = init_crowd(Tiny, 8, 4, seeds=[0, 1])
    tokens, targets = splits["iid"][2]
    known = [s.accuracy for s in Tally.of(crowd).evaluate(splits, 0) if (s.split, s.length) == ("iid", 2)]
    with NoDoubles():  # type: ignore[no-untyped-call]
        stepper = Stepper(crowd, RECIPE, group=2)
        right = Tally.of(crowd).sum_over(tokens, targets, 5)[:, 0]
        stepper.step(0, tokens, targets)
    assert right.tolist() == [len(targets) * accuracy for accuracy in known]
