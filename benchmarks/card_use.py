"""How much of a card a training step uses: operations of its products, and bytes that its kernels move."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from ctlpp.training.step import Stepper


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes the second time, its kernels included."""
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure_card(n: int = 8192, size: int = 1 << 30) -> tuple[float, float]:
    """TFLOP/s of a large bf16 product on random numbers, and TB/s of a copy, reading and writing counted."""
    a = torch.randn(n, n, device="cuda").bfloat16()
    here, there = torch.empty(2, size, dtype=torch.uint8, device="cuda").unbind()
    works = (lambda: [a @ a for _ in range(10)]), (lambda: [there.copy_(here) for _ in range(10)])
    product, copy = (seconds(work) / 10 for work in works)
    return 2.0 * n**3 / product / 1e12, 2.0 * size / copy / 1e12


def flops_of(module: nn.Module, columns: int) -> float:
    """Floating-point operations of the matrix products of one example: forward, and twice that backward."""
    with FlopCounterMode(display=False) as counter:
        module.train()(torch.zeros(1, columns, dtype=torch.int64))
    return 3.0 * float(counter.get_total_flops())


def bytes_of_step(stepper: Stepper, batch: tuple[Tensor, Tensor]) -> int:
    """What the kernels of a step move, counted without graphs."""
    quiet = replace(stepper)
    quiet._replays = None
    return bytes_moved(lambda: quiet.step(0, *batch))


class _Operands(TorchDispatchMode):
    """Adds up what PyTorch's own kernels read and write; a view is no kernel."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and "empty" not in str(func):
            self.count((args, kwargs, result))
        return result

    def count(self, operands: Any) -> None:
        """Every tensor once, as far as it is seen: an expanded or sliced one by its own elements."""
        leaves = [getattr(leaf, "base", leaf) for leaf in tree_leaves(operands)]  # `base`: of a descriptor
        for t in {(t.data_ptr(), t.shape): t for t in leaves if isinstance(t, Tensor)}.values():
            distinct = [size for size, stride in zip(t.shape, t.stride(), strict=True) if stride]
            self.bytes += torch.Size(distinct).numel() * t.element_size()


def bytes_moved(work: Callable[[], object]) -> int:
    """How many bytes the kernels of some work read and write: their operands, each counted once."""
    operands = _Operands()
    with operands, _kernels_too(operands):
        work()
    return operands.bytes


@contextmanager
def _kernels_too(operands: _Operands) -> Iterator[None]:
    """Count the operands of Triton's kernels as well."""
    if find_spec("triton") is None:
        yield
        return
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        operands.count((args, options))
        return launch(self, *args, **options)

    JITFunction.run = counted
    try:
        yield
    finally:
        JITFunction.run = launch
