"""The backward of `ctlpp.kernels.transformer.Pass`: from the last state's gradient to all of the layer's."""

from __future__ import annotations

from math import gcd

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.kernels import activation, embedding, norm, relative
from ctlpp.kernels.classifier import read_out
from ctlpp.kernels.products import of_transposed
from ctlpp.kernels.transformer import Pass, Views
from ctlpp.models.transformer import Transformer

SPLIT = 4  # products that the gradient of a seed's weight is summed from: one would leave most of a GPU idle


class Backward:
    """Runs a pass backwards. Sums over rows that kernels leave per block are added up at the end."""

    def __init__(self, run: Pass, gradient: Views) -> None:
        self.run, self.g = run, gradient
        self.a_part, self.h_part = (self.part(norm.parts(run.N), vectors * run.D) for vectors in (2, 3))
        self.up_part = self.part(activation.parts(run.N), run.F)
        self.r_part = self.part(relative.parts(run.N, run.T), 2 * run.T + 1, run.D)
        self.scale_part = self.part(relative.parts(run.N, run.T), run.weights.vectors.u.shape[1])

    def part(self, *shape: int) -> Tensor:
        """Room for sums; the last layer, which has fewer rows, leaves zeros."""
        part = torch.empty(self.run.S, self.run.depth, *shape, device=self.run.keys.device)
        part[:, -1].zero_()
        return part

    def __call__(self, dread_out: Tensor) -> tuple[Tensor, Tensor | None]:
        """From the gradient of column 0 after the last layer, (S, B, D), to the two summands of the first state's.

        The gradients of x, o, pre and d take their places.
        """
        run, W = self.run, self.run.weights
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(run.depth)):
            x, bits, o, pre, d = (run.of(rows, n) for rows in (run.x, run.bits, run.o, run.pre, run.d))
            scale, dropout = run.of(run.h_scale, n), run.dropout("ffn", n)
            norm.backward(
                dh, more, d, scale, W.norm_h[0], dh, self.h_part[:, n], dropout, add=False, bias=True
            )
            dact, dropout = torch.bmm(d, W.down), run.dropout("hidden", n)
            activation.backward(dact, pre, W.b_up, self.up_part[:, n], dropout, gelu=False)
            more, scale, dropout = torch.bmm(pre, W.up), run.of(run.a_scale, n), run.dropout("out", n)
            norm.backward(dh, more, o, scale, W.norm_a[0], dh, self.a_part[:, n], dropout, add=False)
            dread, sums = torch.bmm(o, W.out), (self.r_part[:, n], self.scale_part[:, n])
            dread = self.spread(dread) if run.last(n) else dread
            relative.backward(dread, x, run.r[:, n], W.vectors, bits, *sums, run.dropout("key", n))
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
        for name, values in zip(
            ("norm_a.weight", "norm_a.bias"), self.a_part.sum((1, 2)).chunk(2, 1), strict=True
        ):
            self.put(name, values)
        names = ("norm_h.weight", "norm_h.bias", "down.bias")
        for name, values in zip(names, self.h_part.sum((1, 2)).chunk(3, 1), strict=True):
            self.put(name, values)
        by_layer = self.r_part.sum(2)  # (S, depth, 2T + 1, D)
        dpositions = (by_layer[:, :, :offsets] * run.mask).sum(1)  # (S, 2T − 1, D)
        self.put("attend.position.weight", torch.matmul(dpositions.mT, run.waves))
        for name, values in zip(
            ("attend.u", "attend.v"), by_layer[:, :, offsets:].sum(1).unbind(1), strict=True
        ):
            self.put(name, values)
        self.put("attend.scale", self.scale_part.sum((1, 2, 3)))
        self.g["layers.0.attend.bias"].zero_()  # softmax does not feel it

    def put(self, name: str, values: Tensor) -> None:
        to = self.g[f"layers.0.{name}"]
        to.copy_(values.view_as(to))


def gradient(
    model: nn.Module, w: Views, g: Views, keys: Tensor, tokens: Tensor, targets: Tensor, dtype: torch.dtype
) -> Tensor:
    """Losses (S,) of a crowd of Transformers on a batch; gradients go to `g`. tokens: (B, T − 1) or (S, B, T − 1)."""
    assert isinstance(model, Transformer)
    ids = F.pad(tokens, (1, 0), value=model.start)
    run = Pass(model, w, keys, ids, dtype)
    losses, dread = read_out(run.forward(w["embed.weight"], ids), w, g, targets)
    embedding.gradient(ids, *Backward(run, g)(dread), out=g["embed.weight"])
    return losses
