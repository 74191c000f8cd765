"""Tiles that come and go by descriptors (the tensor memory accelerator of sm_90: H100, H200)."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor


@cache
def made_for(device: torch.device) -> bool:
    """Whether kernels with descriptors are made for a card; the host's side of them came with Triton 3.4."""
    known = find_spec("triton.tools.tensor_descriptor") is not None
    return known and device.type == "cuda" and torch.cuda.get_device_capability(device) == (9, 0)


def described(x: Tensor, rows: int, columns: int) -> Any:
    """A descriptor that moves a seed's tiles of x, (S, …, …); beyond its rows it reads zeros and writes nothing."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(x, [1, rows, columns])
