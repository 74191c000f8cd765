"""Kernels compiled at the same time, on all cores, before the first step needs them.

Triton compiles a kernel when it is launched first, one after the other; those of NDR, for all lengths, take over a
minute. In a rehearsal a step runs as usual, except that its kernels are only handed to the compiler.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


@contextmanager
def compiling_only() -> Iterator[bool]:
    """Within: kernels are compiled and not launched, so that what they would have written is not there.

    Afterwards all of them are ready. A kernel that cannot be compiled fails when it is launched, as ever. Gives False,
    and changes nothing, where Triton cannot compile several at a time (before 3.5).
    """
    import triton
    from triton.runtime.jit import JITFunction

    at_once = getattr(triton, "AsyncCompileMode", None)
    if at_once is None:
        yield False
        return
    launch = JITFunction.run

    def compile_only(kernel: Any, *args: Any, warmup: bool, **kwargs: Any) -> Any:
        return launch(kernel, *args, warmup=True, **kwargs)

    JITFunction.run = compile_only
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool, at_once(pool, ignore_errors=True):
            yield True
    finally:
        JITFunction.run = launch
