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
from ctlpp.kernels.embedding import look_up
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
    """One forward over a batch, kept for the backward.

    The classifier reads column 0 alone, so the last layer goes on with B rows instead of N behind its attention. Rows
    of all layers lie one after the other: (S, (depth − 1) · N + B, …), or (S, depth · N, …) for what attention needs.
    """

    def __init__(self, model: Transformer, w: Views, keys: Tensor, ids: Tensor, dtype: torch.dtype) -> None:
        self.keys, self.weights, self.dtype = keys, Weights.of(w, dtype), dtype
        self.S, (self.B, self.T), self.depth = len(keys), ids.shape[-2:], model.depth
        self.N, self.D, self.F = self.B * self.T, model.width, self.weights.b_up.shape[1]
        rows = {"key": self.N, "position": 2 * self.T - 1, "out": self.N, "hidden": self.N, "ffn": self.N}
        sizes = {name: n * (self.F if name == "hidden" else self.D) for name, n in rows.items()}
        self.dropouts = Layout(dropout_rates(shared_layer(model)), sizes)
        self.h, self.x = self.room(self.D, whole=True), self.room(3 * self.D, whole=True)
        words = relative.words(*self.weights.vectors.u.shape[1:])
        self.bits = self.room(words, torch.int32, whole=True)  # which keys are kept
        self.read, self.o, self.a, self.d = (self.room(self.D) for _ in range(4))
        self.a_scale, self.h_scale = (
            self.room(1, torch.float32) for _ in range(2)
        )  # 1 / deviation, of the norms
        self.pre, self.act = self.room(self.F), self.room(self.F)
        self.h_first = self.h.new_empty(self.S, self.B, self.D)  # the state that the last layer adds to
        self.waves = sinusoids(
            torch.arange(1 - self.T, self.T, device=keys.device, dtype=torch.float32), self.D
        )
        self.mask = self.position_mask()
        positions = torch.matmul(self.waves, self.weights.position.mT)  # (S, 2T − 1, D)
        self.r = (positions[:, None] * self.mask).to(dtype)  # (S, depth, 2T − 1, D)

    def room(self, width: int, dtype: torch.dtype | None = None, *, whole: bool = False) -> Tensor:
        rows = (self.depth - 1) * self.N + (self.N if whole else self.B)
        return torch.empty(self.S, rows, width, dtype=dtype or self.dtype, device=self.keys.device)

    def of(self, rows: Tensor, n: int) -> Tensor:
        """The rows of layer n."""
        return rows[:, n * self.N : (n + 1) * self.N]

    def first(self, rows: Tensor) -> Tensor:
        """Column 0 of every example. (S, N, W) -> (S, B, W)"""
        return rows.view(self.S, self.B, self.T, -1)[:, :, 0]

    def last(self, n: int) -> bool:
        return n == self.depth - 1

    def state(self, n: int) -> Tensor:
        """The state that layer n adds to: all columns, or column 0 in the last layer."""
        return self.h_first if self.last(n) else self.of(self.h, n)

    def dropout(self, name: str, n: int) -> Dropout:
        return self.dropouts.at(name, n, self.keys, self.T if self.last(n) and name != "key" else 1)

    def position_mask(self) -> Tensor:
        """What the dropouts do to the position keys of all layers, (S, depth, 2T − 1, D)."""
        mask = torch.ones(self.S, self.depth, 2 * self.T - 1, self.D, device=self.keys.device)
        first, second = (self.dropouts.at("position", n, self.keys) for n in range(2))
        if first.some:
            relative.fill_mask(mask, first, second)
        return mask

    def forward(self, table: Tensor, ids: Tensor) -> Tensor:
        """Column 0 after the last layer, (S, B, D), from the embeddings, (S, V, D), of ids: (B, T) or (S, B, T)."""
        W = self.weights
        look_up(table, ids, self.of(self.h, 0))
        for n in range(self.depth):
            x, bits, read, o = (self.of(rows, n) for rows in (self.x, self.bits, self.read, self.o))
            a, pre, act, d = (self.of(rows, n) for rows in (self.a, self.pre, self.act, self.d))
            times(self.of(self.h, n), W.qkv, out=x)
            whole = x.new_empty(self.S, self.N, self.D) if self.last(n) else read
            relative.forward(x, self.r[:, n], W.vectors, whole, bits, self.dropout("key", n))
            if self.last(n):
                read.copy_(self.first(whole))
                self.h_first.copy_(self.first(self.of(self.h, n)))
            h = self.state(n)
            times(read, W.out, out=o)
            norm.forward(h, o, None, *W.norm_a, a, self.of(self.a_scale, n), self.dropout("out", n))
            times(a, W.up, out=pre)
            activation.forward(pre, W.b_up, act, self.dropout("hidden", n), gelu=False)
            times(act, W.down, out=d)
            new = torch.empty_like(h) if self.last(n) else self.of(self.h, n + 1)
            norm.forward(a, d, W.b_down, *W.norm_h, new, self.of(self.h_scale, n), self.dropout("ffn", n))
        return new
