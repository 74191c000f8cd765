"""Which fast path applies to a module: `find` gives its gradient function, or None.

Triton compiles a kernel when it is launched first, one after the other; those of NDR, for all lengths, take
over a minute. `precompile` has them compiled at the same time, on all cores, before the first step needs
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from ctlpp.models.ndr import NDR
from ctlpp.models.recurrent import BiLSTM
from ctlpp.models.transformer import Transformer

Views = dict[str, Tensor]
# (model, parameters, gradients, keys, tokens, targets, dtype) -> losses
Gradient = Callable[[Any, Views, Views, Tensor, Tensor, Tensor, torch.dtype], Tensor]

PATHS: dict[type, str] = {BiLSTM: "lstm", NDR: "ndr", Transformer: "transformer"}  # modules of this folder


@cache
def available(device: str) -> bool:
    """Whether kernels can run on a kind of device."""
    return device == "cuda" and find_spec("triton") is not None and torch.cuda.get_device_capability()[0] >= 8


def without_workspace() -> None:
    """Tell cuBLAS to do without one, unless the user has set it; it listens before its first use only.

    With a workspace it clears a counter before every product.
    """
    if os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":0:0") == ":0:0":
        os.environ.setdefault("CUBLASLT_WORKSPACE_SIZE", "0")


def find(model: nn.Module, device: torch.device, tokens: int) -> Gradient | None:
    """The fast path for a model and inputs of so many tokens, if there is one."""
    if type(model) not in PATHS or not available(device.type):
        return None
    path = import_module(f"ctlpp.kernels.{PATHS[type(model)]}")
    if not path.supports(model, tokens):
        return None
    without_workspace()
    return partial(gradient, path.Pass)


def gradient(
    begin: Callable[..., Any],
    model: nn.Module,
    w: Views,
    g: Views,
    keys: Tensor,
    tokens: Tensor,
    targets: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Losses (S,) of a crowd on a batch; its gradients go to `g`. tokens: (B, T) or (S, B, T)."""
    from ctlpp.kernels.embedding import read_out

    run = begin(model, w, keys, tokens, dtype)
    losses, dread = read_out(run.forward(), w, g, targets)
    run.backward(dread, g)
    return losses


@contextmanager
def precompile() -> Iterator[bool]:
    """Within: kernels are compiled and not launched, so that what they would have written is not there.

    Afterwards all of them are ready. A kernel that cannot be compiled fails when it is launched, as ever.
    Gives False, and changes nothing, where Triton cannot compile several at a time (before 3.5).
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
