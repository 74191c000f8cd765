"""How many bytes the kernels of a piece of work read and write: their operands, each counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


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
        leaves = [
            getattr(leaf, "base", leaf) for leaf in tree_leaves(operands)
        ]  # a descriptor's tensor is its base
        seen = {(t.data_ptr(), t.shape): t for t in leaves if isinstance(t, Tensor)}
        self.bytes += sum(_distinct(t) * t.element_size() for t in seen.values())


def _distinct(tensor: Tensor) -> int:
    """Elements of a tensor that lie in places of their own."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count


def bytes_moved(work: Callable[[], object]) -> int:
    """The bytes that some work moves, counted while it runs once."""
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

    run = JITFunction.run

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        operands.count((args, options))
        return run(self, *args, **options)

    JITFunction.run = counted
    try:
        yield
    finally:
        JITFunction.run = run


def memory_rate(n: int = 1 << 30) -> float:
    """Measured TB/s of a copy on the GPU, reading and writing counted."""
    from ctlpp.bench.cuda import seconds

    here, there = torch.empty(2, n, dtype=torch.uint8, device="cuda").unbind()
    there.copy_(here)
    return 10 * 2.0 * n / seconds(lambda: [there.copy_(here) for _ in range(10)]) / 1e12
