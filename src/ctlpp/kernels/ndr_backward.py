"""The backward of `ctlpp.kernels.ndr.Pass`: from the gradient of the last state to all gradients of the layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.kernels import embedding, ffn, first_column, gate, geometric, norm
from ctlpp.kernels.classifier import read_out
from ctlpp.kernels.ndr import Pass, Views
from ctlpp.kernels.products import of_transposed
from ctlpp.models.ndr import NDR


class Backward:
    """Runs a pass backwards. Sums over rows that kernels leave per block are added up at the end."""

    def __init__(self, run: Pass, gradient: Views) -> None:
        self.run, self.g = run, gradient
        self.norm_part = self.part(norm.parts(run.N), 3 * run.D)
        self.gate_part = self.part(gate.parts(run.N), 4 * run.D)
        self.up_part = self.part(ffn.parts(run.of(run.pre, 0), run.D), run.hidden + run.D)
        self.attend = geometric.Sums.of(run.keys, run.depth - 1, run.N, run.T, heads=run.heads, width=run.D)

    def part(self, n: int, width: int) -> Tensor:
        """Room for sums; the last layer, which has fewer rows, leaves zeros."""
        part = torch.empty(self.run.S, self.run.depth, n, width, device=self.run.keys.device)
        part[:, -1].zero_()
        return part

    def __call__(self, dread_out: Tensor) -> tuple[Tensor, Tensor | None]:
        """From the gradient of column 0 after the last layer, (S, B, D), to the two summands of the first state's.

        The gradients of x, o, pre, d and e take their places.
        """
        run, W = self.run, self.run.weights
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(run.depth)):
            x, o, a, pre, de = (run.of(rows, n) for rows in (run.x, run.o, run.a, run.pre, run.de))
            h, (d, e) = run.state(n), de
            gate.backward(dh, more, h, a, d, e, W.vectors, self.gate_part[:, n], run.dropout("gate", n))
            ffn.backward(de, W.down, pre, W.b_up, self.up_part[:, n])
            da, out_dropout = torch.bmm(pre, W.up), run.dropout("out", n)
            norm.backward(d, da, h, o, None, W.norm_a[0], dh, self.norm_part[:, n], out_dropout, add=True)
            dread, key_dropout = torch.bmm(o, W.out), run.dropout("key", n)
            if run.last(n):
                self.last = first_column.backward(dread, x, W.bx, W.scalars, key_dropout, heads=run.heads)
            else:
                geometric.backward(dread, x, W.bx, W.scalars, run.rooms[n], self.attend.at(n), key_dropout)
            more = torch.bmm(x, W.x)
            if run.last(n):
                run.first(more).add_(dh)
                dh, more = more, None
        self.weight_gradients()
        return dh, more

    def weight_gradients(self) -> None:
        """One product over all layers for each weight, and the sums that the kernels left."""
        run, D = self.run, self.run.D
        self.put(("attend.qkv.weight", "attend.direction.weight"), of_transposed(run.x, run.h))
        self.put(("attend.out.weight",), of_transposed(run.o, run.read))
        self.put(("ffn_data.up.weight", "ffn_gate.up.weight"), of_transposed(run.pre, run.a))
        self.put(("ffn_data.down.weight",), of_transposed(run.d, run.act[..., run.data]))
        self.put(("ffn_gate.down.weight",), of_transposed(run.e, run.act[..., run.shut]))
        qkv = torch.cat([self.attend.qk.sum((1, 2)), self.attend.v.sum((1, 2))], dim=1)
        self.put(("attend.qkv.bias",), qkv + self.last.qkv)
        self.put(("ffn_data.up.bias", "ffn_gate.up.bias"), self.up_part.sum((1, 2)))
        first = self.norm_part.sum((1, 2))
        self.put(("norm_a.weight", "norm_a.bias"), first[:, : 2 * D])
        names = ("norm_u.weight", "norm_u.bias", "ffn_data.down.bias", "ffn_gate.down.bias")
        self.put(names, self.gate_part.sum((1, 2)))
        self.match_gradients()

    def match_gradients(self) -> None:
        """Of what turns content and direction preferences into a match, from the sums that the attention left."""
        sums = self.attend.match.sum((1, 2)) + self.last.match  # (S, H, 4)
        sides = sums[..., 2:].mT.flatten(1)  # to the right, then to the left, (S, 2H)
        self.put(("attend.direction.bias",), sides * self.run.weights.scalars.stretch[:, None])
        self.g["layer.attend.scale"].copy_(sums[..., 0].sum(1))
        self.g["layer.attend.direction_scale"].copy_(sums[..., 1].sum(1))
        self.g["layer.attend.bias"].copy_(sides.sum(1))

    def put(self, names: tuple[str, ...], values: Tensor) -> None:
        """Divide the values along their second axis over gradients that lie side by side in them."""
        parts = values.split([self.g[f"layer.{name}"].shape[1] for name in names], dim=1)
        for name, part in zip(names, parts, strict=True):
            self.g[f"layer.{name}"].copy_(part)


def gradient(
    model: NDR, w: Views, g: Views, keys: Tensor, tokens: Tensor, targets: Tensor, dtype: torch.dtype
) -> Tensor:
    """Losses (S,) of a crowd of NDRs on a batch; their gradients go to `g`. tokens: (B, T − 1) or (S, B, T − 1)."""
    ids = F.pad(tokens, (1, 0), value=model.start)
    run = Pass(model, w, keys, ids, dtype)
    losses, dread = read_out(run.forward(w["embed.weight"], ids), w, g, targets)
    embedding.gradient(ids, *Backward(run, g)(dread), out=g["embed.weight"])
    return losses
