"""Loss and gradient of a crowd of Transformers with one shared layer, written out.

It computes what `vmap` and autograd make of `ctlpp.models.transformer.Transformer`, in the way of
`ctlpp.kernels.ndr`: matrix products by cuBLAS, everything between them in one kernel each, activations in
(S, depth, N, width) buffers, N = B · T rows. The position keys are projected once; only their dropout
differs from layer to layer.

Shapes: S seeds, N rows, D width, F hidden units, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.kernels import embedding, ffn, norm, relative
from ctlpp.kernels.dropout import Dropout, Layout, mask_words
from ctlpp.kernels.launch import Views, of_transposed, times
from ctlpp.models.transformer import Transformer, TransformerLayer, sinusoids

MOST_COLUMNS = 16
SPLIT = 4  # products that the gradient of a seed's weight is summed from: one would leave most of a GPU idle


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
    position: Tensor  # (S, D, D), float32
    vectors: relative.Vectors
    norm_a: norm.Vectors
    norm_h: norm.Vectors  # with the bias of `down`

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
            position=the("attend.position.weight"),
            vectors=relative.Vectors(the("attend.u"), the("attend.v"), the("attend.scale")),
            norm_a=norm.Vectors(the("norm_a.weight"), the("norm_a.bias")),
            norm_h=norm.Vectors(the("norm_h.weight"), the("norm_h.bias"), the("down.bias")),
        )


class Pass:
    """One forward over a batch, kept for the backward.

    The classifier reads column 0 alone, so the last layer goes on with B rows instead of N behind its
    attention. Rows of all layers lie one after the other: (S, (depth − 1) · N + B, …), or (S, depth · N, …)
    for what attention needs.
    """

    def __init__(self, model: Transformer, w: Views, keys: Tensor, ids: Tensor, dtype: torch.dtype) -> None:
        self.keys, self.weights, self.dtype = keys, Weights.of(w, dtype), dtype
        self.S, (self.B, self.T), self.depth = len(keys), ids.shape[-2:], model.depth
        self.N, self.D, self.F = self.B * self.T, model.width, self.weights.b_up.shape[1]
        rows = {"key": self.N, "position": 2 * self.T - 1, "out": self.N, "hidden": self.N, "ffn": self.N}
        sizes = {name: n * (self.F if name == "hidden" else self.D) for name, n in rows.items()}
        self.dropouts = Layout(dropout_rates(shared_layer(model)), sizes)
        self.h, self.x = self.room(self.D, whole=True), self.room(3 * self.D, whole=True)
        words = mask_words(*self.weights.vectors.u.shape[1:])
        self.bits = self.room(words, torch.int32, whole=True)  # which keys are kept
        self.read, self.o, self.a, self.d = (self.room(self.D) for _ in range(4))
        # 1 / deviation, of the norms
        self.a_scale, self.h_scale = (self.room(1, torch.float32) for _ in range(2))
        self.pre, self.act = self.room(self.F), self.room(self.F)
        self.h_first = self.h.new_empty(self.S, self.B, self.D)  # the state that the last layer adds to
        distances = torch.arange(1 - self.T, self.T, device=keys.device, dtype=torch.float32)
        self.waves = sinusoids(distances, self.D)
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
        """Column 0 after the last layer, (S, B, D). table: (S, V, D), ids: (B, T) or (S, B, T)."""
        W = self.weights
        embedding.look_up(table, ids, self.of(self.h, 0))
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
            norm.forward(h, o, W.norm_a, a, self.of(self.a_scale, n), self.dropout("out", n))
            times(a, W.up, out=pre)
            ffn.activate(pre, W.b_up, act, self.dropout("hidden", n), gelu=False)
            times(act, W.down, out=d)
            new = torch.empty_like(h) if self.last(n) else self.of(self.h, n + 1)
            norm.forward(a, d, W.norm_h, new, self.of(self.h_scale, n), self.dropout("ffn", n))
        return new


class Backward:
    """Runs a pass backwards. Sums over rows that kernels leave per block are added up at the end."""

    def __init__(self, run: Pass, gradient: Views) -> None:
        self.run, self.g = run, gradient
        self.a_part, self.h_part = (self.part(norm.parts(run.N), vectors * run.D) for vectors in (2, 3))
        self.up_part = self.part(ffn.activate_parts(run.N), run.F)
        n, heads = relative.parts(run.N, run.T), run.weights.vectors.u.shape[1]
        self.attend = relative.Sums(self.part(n, 2 * run.T + 1, run.D), self.part(n, heads))

    def part(self, *shape: int) -> Tensor:
        """Room for sums; the last layer, which has fewer rows, leaves zeros."""
        part = torch.empty(self.run.S, self.run.depth, *shape, device=self.run.keys.device)
        part[:, -1].zero_()
        return part

    def __call__(self, dread_out: Tensor) -> tuple[Tensor, Tensor | None]:
        """From the gradient of column 0 after the last layer to the two summands of the first state's.

        The gradients of x, o, pre and d take their places.
        """
        run, W = self.run, self.run.weights
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(run.depth)):
            x, bits, o, pre, d = (run.of(rows, n) for rows in (run.x, run.bits, run.o, run.pre, run.d))
            out, hidden, last, key = (run.dropout(name, n) for name in ("out", "hidden", "ffn", "key"))
            scale, part = run.of(run.h_scale, n), self.h_part[:, n]
            norm.backward((dh, more), d, scale, W.norm_h, dh, part, last, add=False)
            dact = torch.bmm(d, W.down)
            ffn.activate_backward(dact, pre, W.b_up, self.up_part[:, n], hidden, gelu=False)
            more, scale, part = torch.bmm(pre, W.up), run.of(run.a_scale, n), self.a_part[:, n]
            norm.backward((dh, more), o, scale, W.norm_a, dh, part, out, add=False)
            dread, sums = torch.bmm(o, W.out), relative.Sums(*(part[:, n] for part in self.attend))
            dread = self.spread(dread) if run.last(n) else dread
            relative.backward(dread, x, run.r[:, n], W.vectors, bits, sums, key)
            more = torch.bmm(x, W.qkv)
            if run.last(n):
                run.first(more).add_(dh)
                dh, more = more, None
        self.weight_gradients()
        self.sums()
        return dh, more

    def spread(self, first: Tensor) -> Tensor:
        """Zeros but for column 0. (S, B, D) -> (S, N, D)"""
        whole = first.new_zeros(self.run.S, self.run.N, self.run.D)
        self.run.first(whole).copy_(first)
        return whole

    def weight_gradients(self) -> None:
        """The products over the rows of all layers."""
        run = self.run
        pairs = {
            "attend.qkv.weight": (run.x, run.h),
            "attend.out.weight": (run.o, run.read),
            "up.weight": (run.pre, run.a),
            "down.weight": (run.d, run.act),
        }
        for name, (dy, x) in pairs.items():
            split = gcd(x.shape[1], SPLIT)
            parts = of_transposed(*(rows.view(run.S * split, -1, rows.shape[-1]) for rows in (dy, x)))
            self.put(name, parts.view(run.S, split, *parts.shape[1:]).sum(1))

    def sums(self) -> None:
        """The gradients that the kernels left as partial sums."""
        run, offsets = self.run, 2 * self.run.T - 1
        self.put("up.bias", self.up_part.sum((1, 2)))
        names = ("norm_a.weight", "norm_a.bias"), ("norm_h.weight", "norm_h.bias", "down.bias")
        for of_norm, part in zip(names, (self.a_part, self.h_part), strict=True):
            for name, values in zip(of_norm, part.sum((1, 2)).chunk(len(of_norm), 1), strict=True):
                self.put(name, values)
        by_layer = self.attend.vectors.sum(2)  # (S, depth, 2T + 1, D)
        dpositions = (by_layer[:, :, :offsets] * run.mask).sum(1)  # (S, 2T − 1, D)
        self.put("attend.position.weight", torch.matmul(dpositions.mT, run.waves))
        du, dv = by_layer[:, :, offsets:].sum(1).unbind(1)
        self.put("attend.u", du)
        self.put("attend.v", dv)
        self.put("attend.scale", self.attend.scale.sum((1, 2, 3)))
        self.g["layers.0.attend.bias"].zero_()  # softmax does not feel it

    def put(self, name: str, values: Tensor) -> None:
        to = self.g[f"layers.0.{name}"]
        to.copy_(values.view_as(to))


def gradient(
    model: nn.Module, w: Views, g: Views, keys: Tensor, tokens: Tensor, targets: Tensor, dtype: torch.dtype
) -> Tensor:
    """Losses (S,) of a crowd on a batch; its gradients go to `g`. tokens: (B, T − 1) or (S, B, T − 1)."""
    assert isinstance(model, Transformer)
    ids = F.pad(tokens, (1, 0), value=model.start)
    run = Pass(model, w, keys, ids, dtype)
    losses, dread = embedding.read_out(run.forward(w["embed.weight"], ids), w, g, targets)
    embedding.gradient(ids, *Backward(run, g)(dread), out=g["embed.weight"])
    return losses
