"""The linear maps of a model's layer, in floating-point numbers or in bytes.

`Floats` multiplies numbers of one type. `Bytes` multiplies 8-bit integers by PyTorch's quantised products, which is
twice as fast as anything else on CPUs with instructions for it. There a number x is the byte b with
x ≈ scale · (b − zero); scale and zero come from the range of each map's inputs, seen beforehand (`Watched`).

Shapes: N rows, I inputs, O outputs. Weights are (I, O).

Example:
    >>> weights = {"up.weight": torch.eye(2), "up.bias": torch.ones(2)}
    >>> watched = Watched(Floats(weights, torch.float32))
    >>> watched.linear("up", torch.tensor([[0.5, -1.0]])), watched.ranges
    (tensor([[1.5000, 0.0000]]), {'up': (-1.0, 0.5)})
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

import numpy as np
import torch
from torch import Tensor

ROOM = 1.1  # times as wide as the inputs seen: others may be a little larger


class Floats:
    """Products of numbers of some type."""

    def __init__(self, weights: dict[str, Tensor], dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.weights = {
            name: value.to(dtype) for name, value in weights.items()
        }  # the same if that is their type

    def ready(self, name: str, x: Tensor) -> Tensor:
        """Rows as a map takes them."""
        return x.to(self.dtype)

    def linear(self, name: str, x: Tensor) -> Tensor:
        """A linear map of rows. (N, I) -> (N, O)"""
        return torch.addmm(self.weights[f"{name}.bias"], x, self.weights[f"{name}.weight"])

    def onto(self, rows: Tensor, name: str, x: Tensor) -> Tensor:
        """Rows, and a product added to them. They keep all their digits. (N, O), (N, I) -> (N, O)"""
        weight = self.weights[f"{name}.weight"]
        return torch.addmm(rows, x, weight) if weight.dtype == rows.dtype else rows + torch.mm(x, weight)

    def hidden(self, name: str, x: Tensor) -> Tensor:
        """Linear, GELU: the hidden units of an FFN. (N, I) -> (N, O)"""
        units: Tensor = torch.ops.aten.gelu_(
            self.linear(f"{name}.up", x)
        )  # in place: new memory costs more than it
        return units


class Watched:
    """The same, and the range of every map's inputs."""

    def __init__(self, floats: Floats) -> None:
        self.floats, self.ready = floats, floats.ready
        self.ranges: dict[str, tuple[float, float]] = {}

    def _watch(self, name: str, x: Tensor) -> None:
        least, most = self.ranges.get(name, (0.0, 0.0))
        self.ranges[name] = (
            float(np.minimum(least, x.min().item())),
            float(np.maximum(most, x.max().item())),
        )  # or nan

    def bytes(self, weights: dict[str, Tensor]) -> Bytes | None:
        """Products of bytes for inputs like those seen; None if inputs or weights are not finite."""
        numbers = [bound for both in self.ranges.values() for bound in both]
        numbers += [weights[f"{name}.weight"].abs().max().item() for name in self.ranges]
        return Bytes(weights, self.ranges) if all(map(isfinite, numbers)) else None

    def linear(self, name: str, x: Tensor) -> Tensor:
        self._watch(name, x)
        return self.floats.linear(name, x)

    def onto(self, rows: Tensor, name: str, x: Tensor) -> Tensor:
        self._watch(name, x)
        return self.floats.onto(rows, name, x)

    def hidden(self, name: str, x: Tensor) -> Tensor:
        self._watch(f"{name}.up", x)
        return self.floats.hidden(name, x)


class Bytes:
    """Products of bytes, for inputs of known ranges."""

    def __init__(self, weights: dict[str, Tensor], ranges: dict[str, tuple[float, float]]) -> None:
        self.scale = {name: max(ROOM * (most - least) / 255, 1e-30) for name, (least, most) in ranges.items()}
        self.zero = {name: round(-ROOM * least / self.scale[name]) for name, (least, _) in ranges.items()}
        self.middle = {name: torch.tensor(zero - 128.0) for name, zero in self.zero.items()}
        self.bias = {name: weights.get(f"{name}.bias") for name in ranges}
        own = {name: weights[f"{name}.weight"] for name in ranges}
        self.scales = {
            name: (weight.abs().amax(0) / 127).clamp_min(1e-30) for name, weight in own.items()
        }  # (O,)
        self.zeros = {
            name: torch.zeros(len(scales), dtype=torch.int64) for name, scales in self.scales.items()
        }
        whole = {name: (weight / self.scales[name]).round().to(torch.int8).T for name, weight in own.items()}
        self.packed = {
            name: torch.ops.onednn.qlinear_prepack(w.contiguous(), None) for name, w in whole.items()
        }

    def ready(self, name: str, x: Tensor) -> Tensor:
        """Rows as bytes. By way of signed ones, which PyTorch makes faster: -128 … 127 wrap to 0 … 255."""
        signed = (
            torch.add(self.middle[name], x, alpha=1 / self.scale[name])
            .clamp_(-128, 127)
            .round_()
            .to(torch.int8)
        )
        return signed.view(torch.uint8).add_(128)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self._product(name, x, self.bias[name])

    def onto(self, rows: Tensor, name: str, x: Tensor) -> Tensor:
        return self._product(name, x, None).add_(rows)

    def hidden(self, name: str, x: Tensor) -> Tensor:
        up, down = f"{name}.up", f"{name}.down"
        return self._product(
            up, x, self.bias[up], (self.scale[down], self.zero[down], torch.uint8, "gelu", [], "none")
        )

    def _product(
        self,
        name: str,
        x: Tensor,
        bias: Tensor | None,
        made: tuple[object, ...] = (1.0, 0, torch.float32, "none", [], ""),
    ) -> Tensor:
        weight = self.packed[name], self.scales[name], self.zeros[name]
        out: Tensor = torch.ops.onednn.qlinear_pointwise(
            x, self.scale[name], self.zero[name], *weight, bias, *made
        )
        return out


@lru_cache(maxsize=1)
def multiplies_bfloat16() -> bool:
    """Whether the CPU has products of bfloat16 of its own; elsewhere they take longer than those of float32."""
    return _has("avx512_bf16", "amx_bf16")


@lru_cache(maxsize=1)
def multiplies_bytes() -> bool:
    """Whether the CPU has products of bytes of its own, and this PyTorch makes use of them: tried on a small one."""
    if not _has("avx512_vnni", "amx_int8"):
        return False
    weights = {"up.weight": torch.tensor([[2.0, 0.5]]), "up.bias": torch.tensor([0.25, -1.0])}
    try:
        found = Bytes(weights, {"up": (-1.0, 1.0)})
        product = found.linear("up", found.ready("up", torch.tensor([[0.5]])))
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(product, torch.tensor([[1.25, -0.75]]), atol=0.05)


def _has(*instructions: str) -> bool:
    able: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(able.get(name, False) for name in instructions)
