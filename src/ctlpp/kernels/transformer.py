"""The forward of a crowd of Transformers with one shared layer, written out; its backward is `transformer_backward`.

It computes what `vmap` makes of `ctlpp.models.transformer.Transformer`, in the way of `ctlpp.kernels.ndr`: matrix
products by cuBLAS, everything between them in one kernel each, activations in (S, depth, N, width) buffers, N = B · T
rows. The position keys are projected once; only their dropout differs from layer to layer.

Shapes: S seeds, N rows, D width, F hidden units, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ctlpp.kernels import activation, norm, relative
from ctlpp.kernels.dropout import Dropout, Layout
from ctlpp.kernels.products import times
from ctlpp.models.transformer import Transformer, TransformerLayer, sinusoids

MOST_COLUMNS = 16
Views = dict[str, Tensor]  # parameters or their gradients by name, (S, …) each, float32


def supports(model: nn.Module, columns: int = 1) -> bool:
    """Whether this path computes what the model does on so many columns, the start column included."""
    if type(model) is not Transformer or len(model.layers) != 1 or columns > MOST_COLUMNS:
        return False
    layer = shared_layer(model)
    sizes = model.width, model.width // layer.attend.heads, layer.up.out_features
    return (
        all(size >= 16 and size & (size - 1) == 0 for size in sizes)
        and all(0 <= rate < 1 for rate in dropout_rates(layer).values())
        and all(of.eps == norm.EPS for of in (layer.norm_a, layer.norm_h))
    )


def shared_layer(model: Transformer) -> TransformerLayer:
    return cast(TransformerLayer, model.layers[0])


def dropout_rates(layer: TransformerLayer) -> dict[str, float]:
    """In the order in which the layer calls its dropouts."""
    key, rest = layer.attend.dropout.p, layer.dropout.p
    return {"key": key, "position": key, "out": rest, "hidden": rest, "ffn": rest}


@dataclass
class Weights:
    """The layer's weights as the products and kernels want them."""

    qkv: Tensor  # (S, 3D, D)
    out: Tensor
    up: Tensor  # (S, F, D)
    b_up: Tensor
    down: Tensor  # (S, D, F)
    b_down: Tensor
    position: Tensor  # (S, D, D), float32
    vectors: relative.Vectors
    norm_a: tuple[Tensor, Tensor]  # γ, β
    norm_h: tuple[Tensor, Tensor]

    @staticmethod
    def of(w: Views, dtype: torch.dtype) -> Weights:
        def the(name: str) -> Tensor:
            return w[f"layers.0.{name}"]

        return Weights(
            qkv=the("attend.qkv.weight").to(dtype),
            out=the("attend.out.weight").to(dtype),
            up=the("up.weight").to(dtype),
            b_up=the("up.bias"),
            down=the("down.weight").to(dtype),
            b_down=the("down.bias"),
            position=the("attend.position.weight"),
            vectors=relative.Vectors(the("attend.u"), the("attend.v"), the("attend.scale")),
            norm_a=(the("norm_a.weight"), the("norm_a.bias")),
            norm_h=(the("norm_h.weight"), the("norm_h.bias")),
        )


class Pass:
    """One forward over a batch, kept for the backward."""

    def __init__(self, model: Transformer, w: Views, keys: Tensor, ids: Tensor, dtype: torch.dtype) -> None:
        self.keys, self.weights = keys, Weights.of(w, dtype)
        self.S, (self.B, self.T), self.depth = len(keys), ids.shape[-2:], model.depth
        self.N, self.D, self.F = self.B * self.T, model.width, self.weights.b_up.shape[1]
        rows = {"key": self.N, "position": 2 * self.T - 1, "out": self.N, "hidden": self.N, "ffn": self.N}
        sizes = {name: n * (self.F if name == "hidden" else self.D) for name, n in rows.items()}
        self.dropouts = Layout(dropout_rates(shared_layer(model)), sizes)
        self.dtype = dtype
        self.h, self.x = self.room(self.D), self.room(3 * self.D)  # h: what each layer gets
        self.read, self.o, self.a, self.d = (self.room(self.D) for _ in range(4))
        self.pre, self.act = self.room(self.F), self.room(self.F)
        self.bits = self.room(relative.words(*self.weights.vectors.u.shape[1:]), torch.int32)  # which keys are kept
        self.last = torch.empty(self.S, self.N, self.D, dtype=dtype, device=keys.device)
        self.waves = sinusoids(torch.arange(1 - self.T, self.T, device=keys.device, dtype=torch.float32), self.D)
        self.mask = self.position_mask()

    def room(self, width: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(self.S, self.depth, self.N, width, dtype=dtype or self.dtype, device=self.keys.device)

    def dropout(self, name: str, layer: int) -> Dropout:
        return self.dropouts.at(name, layer, self.keys)

    def position_mask(self) -> Tensor:
        """What the dropouts do to the position keys of all layers, (S, depth, 2T − 1, D)."""
        mask = torch.ones(self.S, self.depth, 2 * self.T - 1, self.D, device=self.keys.device)
        first, second = self.dropout("position", 0), self.dropout("position", 1)
        if first.some:
            relative.fill_mask(mask, first, second)
        return mask

    def forward(self, embedded: Tensor) -> Tensor:
        """The state after the last layer, (S, N, D)."""
        W = self.weights
        positions = torch.matmul(self.waves, W.position.mT)  # (S, 2T − 1, D)
        self.r = (positions[:, None] * self.mask).to(self.dtype)  # (S, depth, 2T − 1, D)
        self.h[:, 0] = embedded
        for n in range(self.depth):
            h, x, r, read, o, a = (of[:, n] for of in (self.h, self.x, self.r, self.read, self.o, self.a))
            pre, act, d = self.pre[:, n], self.act[:, n], self.d[:, n]
            times(h, W.qkv, out=x)
            relative.forward(x, r, W.vectors, read, self.bits[:, n], self.dropout("key", n))
            times(read, W.out, out=o)
            norm.forward(h, o, None, *W.norm_a, a, self.dropout("out", n))
            times(a, W.up, out=pre)
            activation.forward(pre, W.b_up, act, self.dropout("hidden", n), gelu=False)
            times(act, W.down, out=d)
            new = self.h[:, n + 1] if n + 1 < self.depth else self.last
            norm.forward(a, d, W.b_down, *W.norm_h, new, self.dropout("ffn", n))
        return self.last
