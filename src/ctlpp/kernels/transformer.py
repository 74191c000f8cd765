"""Loss and gradient of a crowd of Transformers with one shared layer, written out.

It computes what `vmap` and autograd make of `ctlpp.models.transformer.Transformer`, in the way of
`ctlpp.kernels.ndr`: matrix products by cuBLAS, everything between them in one kernel each, activations in
(S, depth, N, width) buffers, N = B · T rows. The position keys are projected once; only their dropout
differs from layer to layer.

Shapes: S seeds, N rows, D width, F hidden units, H heads.
"""

from __future__ import annotations

from math import gcd
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.kernels import embedding, ffn, norm, relative
from ctlpp.kernels.dropout import Layers, mask_words
from ctlpp.kernels.launch import Views, are_powers, of_transposed, times, together
from ctlpp.models.transformer import Transformer, TransformerLayer, sinusoids

COLUMNS = 16  # that the attention kernels can hold, the start column included
SPLIT = 4  # products that the gradient of a seed's weight is summed from: one would leave most of a GPU idle


def supports(model: Transformer, tokens: int) -> bool:
    """Whether this path computes what the model does on inputs of so many tokens."""
    layer = cast(TransformerLayer, model.layers[0])
    sizes = model.width, model.width // layer.attend.heads, layer.up.out_features
    rates = layer.dropout.p, layer.attend.dropout.p
    if model.causal:
        return False
    return len(model.layers) == 1 and tokens < COLUMNS and are_powers(*sizes) and max(rates) < 1


class Pass:
    """A forward over a batch, and the backward.

    What attention needs has rows of all columns in the last layer, too.
    """

    def __init__(
        self, model: Transformer, w: Views, keys: Tensor, tokens: Tensor, dtype: torch.dtype
    ) -> None:
        """tokens: (B, T − 1) or (S, B, T − 1)."""
        self.ids, self.table = F.pad(tokens, (1, 0), value=model.start), w["embed.weight"]
        layer, (B, self.T) = cast(TransformerLayer, model.layers[0]), self.ids.shape[-2:]
        self.S, self.N, self.depth = len(keys), B * self.T, model.depth
        self.D, self.F, self.offsets = model.width, layer.up.out_features, 2 * self.T - 1
        key, rest = layer.attend.dropout.p, layer.dropout.p
        dropouts = {"key": (key, self.N * self.D), "position": (key, self.offsets * self.D)}
        dropouts |= {"out": (rest, self.N * self.D), "hidden": (rest, self.N * self.F)}
        dropouts |= {"ffn": (rest, self.N * self.D)}
        L = self.layers = Layers(keys, self.N, self.T, self.depth, dtype, dropouts)

        def the(*names: str) -> list[Tensor]:
            return [w[f"layers.0.{name}"] for name in names]

        matrices = the("attend.qkv.weight", "attend.out.weight", "up.weight", "down.weight")
        self.w_qkv, self.w_out, self.w_up, self.w_down = (matrix.to(dtype) for matrix in matrices)
        self.b_up, position = the("up.bias", "attend.position.weight")
        self.vectors = together(*the("attend.u", "attend.v", "attend.scale"))
        self.norm_a = norm.Vectors(*the("norm_a.weight", "norm_a.bias"))
        self.norm_h = norm.Vectors(*the("norm_h.weight", "norm_h.bias", "down.bias"))

        self.h, self.x = L.room(self.D, last=self.N), L.room(3 * self.D, last=self.N)
        words = mask_words(*self.vectors[0].shape[1:])
        self.bits = L.room(words, last=self.N, dtype=torch.int32)  # which keys are kept
        self.read, self.o, self.a, self.d = (L.room(self.D) for _ in range(4))
        # 1 / deviation, of the norms
        self.a_scale, self.h_scale = (L.room(1, dtype=torch.float32) for _ in range(2))
        self.pre, self.act = L.room(self.F), L.room(self.F)
        self.h_first = self.h.new_empty(self.S, B, self.D)  # the state that the last layer adds to
        distances = torch.arange(1 - self.T, self.T, device=keys.device, dtype=torch.float32)
        self.waves = sinusoids(distances, self.D)
        self.mask = self.position_mask()
        positions = torch.matmul(self.waves, position.mT)  # (S, 2T − 1, D)
        self.r = (positions[:, None] * self.mask).to(dtype)  # (S, depth, 2T − 1, D)

    def position_mask(self) -> Tensor:
        """What the dropouts do to the position keys of all layers, (S, depth, 2T − 1, D)."""
        mask = torch.ones(self.S, self.depth, self.offsets, self.D, device=self.h.device)
        first, second = (self.layers.dropout("position", n) for n in range(2))
        if first.some:
            relative.fill_mask(mask, first, second)
        return mask

    def forward(self) -> Tensor:
        """Column 0 after the last layer, (S, B, D)."""
        L = self.layers
        embedding.look_up(self.table, self.ids, L.of(self.h, 0))
        for n in range(self.depth):
            h, x, bits, read, o = (L.of(rows, n) for rows in (self.h, self.x, self.bits, self.read, self.o))
            a, pre, act, d = (L.of(rows, n) for rows in (self.a, self.pre, self.act, self.d))
            times(h, self.w_qkv, out=x)
            whole = x.new_empty(self.S, self.N, self.D) if L.last(n) else read
            relative.forward(x, self.r[:, n], self.vectors, whole, bits, L.dropout("key", n))
            if L.last(n):
                read.copy_(L.first(whole))
                h = self.h_first.copy_(L.first(h))
            times(read, self.w_out, out=o)
            norm.forward(h, o, self.norm_a, a, L.of(self.a_scale, n), L.dropout("out", n))
            times(a, self.w_up, out=pre)
            ffn.activate(pre, self.b_up, act, L.dropout("hidden", n), gelu=False)
            times(act, self.w_down, out=d)
            new = torch.empty_like(h) if L.last(n) else L.of(self.h, n + 1)
            norm.forward(a, d, self.norm_h, new, L.of(self.h_scale, n), L.dropout("ffn", n))
        return new

    def backward(self, dread_out: Tensor, g: Views) -> None:
        """From the gradient of column 0 after the last layer to all others.

        The gradients of x, o, pre and d take their places.
        """
        L = self.layers
        self.make_parts()
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(self.depth)):
            x, bits, o, pre, d = (L.of(rows, n) for rows in (self.x, self.bits, self.o, self.pre, self.d))
            of_norm = self.norm_h, dh, self.h_part[:, n], L.dropout("ffn", n)
            norm.backward((dh, more), d, L.of(self.h_scale, n), *of_norm, add=False)
            dact, hidden = torch.bmm(d, self.w_down), L.dropout("hidden", n)
            ffn.activate_backward(dact, pre, self.b_up, self.up_part[:, n], hidden, gelu=False)
            more = torch.bmm(pre, self.w_up)
            of_norm = self.norm_a, dh, self.a_part[:, n], L.dropout("out", n)
            norm.backward((dh, more), o, L.of(self.a_scale, n), *of_norm, add=False)
            dread, sums = torch.bmm(o, self.w_out), (self.vectors_part[:, n], self.scale_part[:, n])
            dread = self.spread(dread) if L.last(n) else dread
            relative.backward(dread, x, self.r[:, n], self.vectors, bits, sums, L.dropout("key", n))
            more = torch.bmm(x, self.w_qkv)
            if L.last(n):
                L.first(more).add_(dh)
                dh, more = more, None
        self.matrix_gradients(g)
        self.vector_gradients(g)
        embedding.gradient(self.ids, dh, more, out=g["embed.weight"])

    def make_parts(self) -> None:
        """Room for the sums over rows that kernels leave per block; the last layer leaves fewer."""
        n = relative.parts(self.N, self.T)
        shapes: list[tuple[int, ...]] = [(norm.BACK.parts(self.N), vectors * self.D) for vectors in (2, 3)]
        shapes += [
            (ffn.BACK.parts(self.N), self.F),
            (n, 2 * self.T + 1, self.D),
            (n, self.vectors[0].shape[1]),
        ]
        parts = [torch.empty(self.S, self.depth, *shape, device=self.h.device) for shape in shapes]
        for part in parts:
            part[:, -1].zero_()
        self.a_part, self.h_part, self.up_part, self.vectors_part, self.scale_part = parts

    def spread(self, first: Tensor) -> Tensor:
        """Zeros but for column 0. (S, B, D) -> (S, N, D)"""
        whole = first.new_zeros(self.S, self.N, self.D)
        self.layers.first(whole).copy_(first)
        return whole

    def matrix_gradients(self, g: Views) -> None:
        """The products over the rows of all layers."""
        pairs = {
            "attend.qkv.weight": (self.x, self.h),
            "attend.out.weight": (self.o, self.read),
            "up.weight": (self.pre, self.a),
            "down.weight": (self.d, self.act),
        }
        for name, (dy, x) in pairs.items():
            split = gcd(x.shape[1], SPLIT)
            parts = of_transposed(*(rows.view(self.S * split, -1, rows.shape[-1]) for rows in (dy, x)))
            put(g, parts.view(self.S, split, *parts.shape[1:]).sum(1), name)

    def vector_gradients(self, g: Views) -> None:
        """The gradients that the kernels left as partial sums."""
        put(g, self.up_part.sum((1, 2)), "up.bias")
        put(g, self.a_part.sum((1, 2)), "norm_a.weight", "norm_a.bias")
        put(g, self.h_part.sum((1, 2)), "norm_h.weight", "norm_h.bias", "down.bias")
        by_layer = self.vectors_part.sum(2)  # (S, depth, 2T + 1, D)
        dpositions = (by_layer[:, :, : self.offsets] * self.mask).sum(1)  # (S, 2T − 1, D)
        put(g, torch.matmul(dpositions.mT, self.waves), "attend.position.weight")
        put(g, by_layer[:, :, self.offsets :].sum(1), "attend.u", "attend.v")
        put(g, self.scale_part.sum((1, 2, 3)), "attend.scale")
        g["layers.0.attend.bias"].zero_()  # softmax does not feel it


def put(g: Views, values: Tensor, *names: str) -> None:
    """Divide values, (S, …), over the gradients of as many parameters."""
    for name, part in zip(names, values.chunk(len(names), 1) if len(names) > 1 else [values], strict=True):
        to = g[f"layers.0.{name}"]
        to.copy_(part.view_as(to))
