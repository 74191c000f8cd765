"""The backward of `ctlpp.kernels.ndr.Pass`: from the gradient of the last state to all gradients of the layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.kernels import embedding, ffn, first_column, gate, geometric, norm, shared_weights
from ctlpp.kernels.classifier import read_out
from ctlpp.kernels.ndr import MATRICES, Pass, Views
from ctlpp.kernels.shared_weights import Rows
from ctlpp.kernels.sums import add_up
from ctlpp.models.ndr import NDR


class Backward:
    """Runs a pass backwards. Sums over rows that kernels leave per block are added up at the end."""

    def __init__(self, run: Pass, gradient: Views) -> None:
        self.run, self.g = run, gradient
        rows = [run.N] * (run.depth - 1) + [run.B]  # of each layer
        self.norm_part, self.norm_parts = self.part([norm.parts(n) for n in rows], 2 * run.D)
        self.gate_part, self.gate_parts = self.part([gate.parts(n) for n in rows], 4 * run.D)
        of_layers = [ffn.parts(run.of(run.pre, n), run.D) for n in range(run.depth)]
        self.up_part, self.up_parts = self.part(of_layers, run.hidden + run.D)
        self.attend = geometric.Sums.of(run.keys, run.depth - 1, run.N, run.T, heads=run.heads, width=run.D)

    def part(self, of_layers: list[int], width: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Room for so many sums of each layer, whole and by layer."""
        part = torch.empty(self.run.S, sum(of_layers), width, device=self.run.keys.device)
        return part, part.split(of_layers, dim=1)

    def __call__(self, dread_out: Tensor) -> None:
        """From the gradient of column 0 after the last layer, (S, B, D), to all others.

        The gradients of x, o, pre, d and e take their places.
        """
        run, W = self.run, self.run.weights
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(run.depth)):
            x, o, a, pre, de = (run.of(rows, n) for rows in (run.x, run.o, run.a, run.pre, run.de))
            h, (d, e) = run.state(n), de
            gate.backward(dh, more, h, a, d, e, W.vectors, self.gate_parts[n], run.dropout("gate", n))
            ffn.backward(de, W.down, pre, W.b_up, self.up_parts[n])
            da, out_dropout = torch.bmm(pre, W.up), run.dropout("out", n)
            norm.backward(
                d, da, o, run.of(run.scale, n), W.norm_a[0], dh, self.norm_parts[n], out_dropout, add=True
            )
            dread, key_dropout = torch.bmm(o, W.out), run.dropout("key", n)
            if run.last(n):
                self.last = first_column.backward(dread, x, W.bx, W.scalars, key_dropout, heads=run.heads)
            else:
                geometric.backward(dread, x, W.bx, W.scalars, run.rooms[n], self.attend.at(n), key_dropout)
            if n > 0 and run.last(n):  # queries of column 0 alone, keys and values of the others alone
                before = torch.bmm(x[..., run.kv], W.x[:, run.kv])
                torch.baddbmm(dh, run.first(x), W.x, out=run.first(before))
                dh = before
            elif n > 0:
                more = torch.bmm(x, W.x)
        self.embedding_gradient(dh)
        self.weight_gradients()

    def embedding_gradient(self, dh: Tensor) -> None:
        """From dh of the first state, but for what comes through its product x, whose gradient is summed by token."""
        run, table = self.run, self.g["embed.weight"]
        x = run.by_token(run.x)
        dx = torch.empty_like(x, dtype=torch.float32)
        embedding.gradient(run.ids, run.of(run.x, 0), None, out=dx)
        embedding.gradient(run.ids[..., :1] if run.last(0) else run.ids, dh, None, out=table)
        table.add_(torch.bmm(x.copy_(dx), run.weights.x))

    def weight_gradients(self) -> None:
        """One product over all layers for each weight, and the sums that the kernels left."""
        run = self.run
        rows = Rows(run.x[:, run.N :], run.h[:, run.N :], run.o, run.read, run.pre, run.a, run.de, run.act)
        shared_weights.gradients(rows, self.places(*(f"{name}.weight" for name in MATRICES)))
        (qkv,) = self.places("attend.qkv.bias")
        add_up(self.last.qkv, [qkv])
        add_up(self.attend.qk.flatten(1, 2), [qkv[:, : 2 * run.D]], add=True)
        add_up(self.attend.v.flatten(1, 2), [qkv[:, 2 * run.D :]], add=True)
        add_up(self.up_part, self.places("ffn_data.up.bias", "ffn_gate.up.bias"))
        add_up(self.norm_part, self.places("norm_a.weight", "norm_a.bias"))
        names = ("norm_u.weight", "norm_u.bias", "ffn_data.down.bias", "ffn_gate.down.bias")
        add_up(self.gate_part, self.places(*names))
        self.match_gradients()

    def match_gradients(self) -> None:
        """Of what turns content and direction preferences into a match, from the sums that the attention left."""
        names = ("attend.scale", "attend.direction_scale", "attend.bias", "attend.direction.bias")
        sums = self.attend.match.flatten(1, 2), self.last.match
        geometric.match_gradients(*sums, self.run.weights.scalars.stretch, self.places(*names))

    def places(self, *names: str) -> list[Tensor]:
        """Where the gradients of the layer's parameters go."""
        return [self.g[f"layer.{name}"] for name in names]


def gradient(
    model: NDR, w: Views, g: Views, keys: Tensor, tokens: Tensor, targets: Tensor, dtype: torch.dtype
) -> Tensor:
    """Losses (S,) of a crowd of NDRs on a batch; their gradients go to `g`. tokens: (B, T − 1) or (S, B, T − 1)."""
    ids = F.pad(tokens, (1, 0), value=model.start)
    run = Pass(model, w, keys, ids, dtype)
    losses, dread = read_out(run.forward(w["embed.weight"]), w, g, targets)
    Backward(run, g)(dread)
    return losses
