"""Loss and gradient of a crowd of NDRs, written out: large products, and kernels between them.

It computes what `vmap` and autograd make of `ctlpp.models.ndr.NDR` (the tests compare all gradients), with
these differences in how:
- activations of all layers lie in one buffer of rows, in bf16; arithmetic inside kernels is float32;
- products that share an input are one product (q, k, v and direction; both feed-forward nets, see `ffn`);
- a column of the first layer's input depends on its token alone, so its first product is made once a token;
- the gradient of an activation takes the activation's place, and the gradient of a weight that all layers
  share is one product over all layers' rows at the end (`ndr_weights`);
- dropout masks are recomputed from the seeds' counters, but for the keys', which are kept as bits.

Shapes: S seeds, N rows, D width, F = hidden of both nets together, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.kernels import embedding, ffn, first_column, gate, geometric, ndr_weights, norm
from ctlpp.kernels.dropout import Dropout, Layout
from ctlpp.kernels.launch import Views, add_up, blocks, times
from ctlpp.models.ndr import NDR

FFN = ("ffn_data.up", "ffn_gate.up", "ffn_data.down", "ffn_gate.down")
MATRICES = ("attend.qkv", "attend.direction", "attend.out", *FFN)


def supports(model: NDR) -> bool:
    """Whether the kernels fit the model: sizes are powers of two, heads wide enough for tensor cores."""
    width, hidden = model.classify.in_features, model.layer.ffn_data.up.out_features
    powers = all(size & (size - 1) == 0 for size in (width, hidden))
    return powers and width // model.layer.attend.heads >= 16


@dataclass
class Weights:
    """The layer's weights as the products want them."""

    matrices: ndr_weights.Matrices
    bx: Tensor  # biases, float32
    b_up: Tensor
    scalars: geometric.Scalars
    norm_a: norm.Vectors
    vectors: gate.Vectors

    @staticmethod
    def of(w: Views, dtype: torch.dtype) -> Weights:
        def named(*names: str) -> list[Tensor]:
            return [w[f"layer.{name}"] for name in names]

        return Weights(
            matrices=ndr_weights.matrices(named(*(f"{name}.weight" for name in MATRICES)), dtype),
            bx=torch.cat(named("attend.qkv.bias", "attend.direction.bias"), dim=1),
            b_up=torch.cat(named("ffn_data.up.bias", "ffn_gate.up.bias"), dim=1),
            scalars=geometric.Scalars(*named("attend.scale", "attend.direction_scale", "attend.bias")),
            norm_a=norm.Vectors(*named("norm_a.weight", "norm_a.bias")),
            vectors=gate.Vectors(
                *named(*(f"{name}.bias" for name in FFN[2:]), "norm_u.weight", "norm_u.bias")
            ),
        )


class Pass:
    """One forward over a batch, kept for the backward.

    The classifier reads column 0 alone, so the last layer goes on with B rows instead of N behind its
    attention. Rows of all layers lie one after the other: (S, (depth − 1) · N + B, …), or (S, depth · N + V,
    …) for what attention needs; the V rows at its end are the first layer's once a token.
    """

    def __init__(self, model: NDR, w: Views, keys: Tensor, ids: Tensor, dtype: torch.dtype) -> None:
        """ids: (B, T) or (S, B, T)."""
        layer, attend = model.layer, model.layer.attend
        self.keys, self.ids, self.weights = keys, ids, Weights.of(w, dtype)
        self.V = model.embed.num_embeddings
        self.S, (self.B, self.T), self.depth = len(keys), ids.shape[-2:], model.depth
        self.N, self.D = self.B * self.T, model.classify.in_features
        self.heads, self.hidden = attend.heads, layer.ffn_data.up.out_features
        # of the hidden units
        self.data, self.shut = slice(0, self.hidden), slice(self.hidden, self.hidden + self.D)
        self.kv = slice(self.D, 3 * self.D)  # keys and values, of a row of x
        rates = {"key": attend.dropout.p, "out": layer.dropout.p, "gate": layer.gate_dropout}
        self.dropouts = Layout(rates, {"key": self.N * self.D, "out": self.N * self.D, "gate": self.N})
        self.dtype = dtype
        self.h, self.x = self.room(self.D, whole=True), self.aligned_room(3 * self.D + 2 * self.heads)
        sizes = {"heads": self.heads, "head_width": self.D // self.heads}
        self.rooms = [geometric.Room.of(self.of(self.x, n), self.B, **sizes) for n in range(self.depth - 1)]
        self.read, self.o, self.a = self.room(self.D), self.room(self.D), self.room(self.D)
        self.pre, self.act = self.room(self.hidden + self.D), self.room(self.hidden + self.D)
        self.d, self.e = self.de = self.room(self.D, 2)  # the nets' outputs
        self.scale = self.room(1, dtype=torch.float32)  # 1 / deviation, of norm_a
        self.h_first = self.h.new_empty(self.S, self.B, self.D)  # the state that the last layer updates

    def room(
        self, width: int, *several: int, whole: bool = False, dtype: torch.dtype | None = None
    ) -> Tensor:
        rows = (self.depth - 1) * self.N + (self.N + self.V if whole else self.B)
        return torch.empty(*several, self.S, rows, width, dtype=dtype or self.dtype, device=self.keys.device)

    def aligned_room(self, width: int) -> Tensor:
        """Room for what attention needs, where every row begins a line of memory (128 bytes)."""
        return self.room(blocks(width, 64) * 64, whole=True)[..., :width]

    def of(self, rows: Tensor, n: int) -> Tensor:
        """The rows of layer n."""
        return rows[..., n * self.N : (n + 1) * self.N, :]

    def by_token(self, rows: Tensor) -> Tensor:
        """The first layer's rows once a token, (S, V, …)."""
        return rows[:, self.depth * self.N :]

    def first(self, rows: Tensor) -> Tensor:
        """Column 0 of every example. (S, N, W) -> (S, B, W)"""
        return rows.unflatten(1, (self.B, self.T))[:, :, 0]

    def last(self, n: int) -> bool:
        return n == self.depth - 1

    def state(self, n: int) -> Tensor:
        """The state that layer n updates: all columns, or column 0 in the last layer."""
        return self.h_first if self.last(n) else self.of(self.h, n)

    def dropout(self, name: str, n: int) -> Dropout:
        return self.dropouts.at(name, n, self.keys, self.T if self.last(n) and name != "key" else 1)

    def begin(self, table: Tensor) -> None:
        """The first state, and the first product."""
        h, x = (self.by_token(rows) for rows in (self.h, self.x))
        times(h.copy_(table), self.weights.matrices.x, out=x)
        embedding.look_up(h, self.ids, self.of(self.h, 0))
        embedding.look_up(x, self.ids, self.of(self.x, 0))

    def ask(self, n: int) -> None:
        """The first product of a layer; of the last one queries and directions of column 0 alone."""
        h, x, w = self.of(self.h, n), self.of(self.x, n), self.weights.matrices.x
        if self.last(n):
            times(h, w[:, self.kv], out=x[..., self.kv])
            times(self.h_first, w, out=self.first(x))
        else:
            times(h, w, out=x)

    def forward(self, table: Tensor) -> Tensor:
        """Column 0 after the last layer, (S, B, D), from the embeddings, (S, V, D)."""
        W, (_, out, up, down) = self.weights, self.weights.matrices
        self.begin(table)
        for n in range(self.depth):
            x, read, o, a = (self.of(rows, n) for rows in (self.x, self.read, self.o, self.a))
            pre, act, d, e = (self.of(rows, n) for rows in (self.pre, self.act, self.d, self.e))
            if self.last(n):
                self.h_first.copy_(self.first(self.of(self.h, n)))
            if n > 0:
                self.ask(n)
            if self.last(n):
                first_column.forward(x, W.bx, W.scalars, read, self.dropout("key", n), heads=self.heads)
            else:
                geometric.forward(x, W.bx, W.scalars, self.rooms[n], read, self.dropout("key", n))
            h = self.state(n)
            times(read, out, out=o)
            norm.forward(h, o, W.norm_a, a, self.of(self.scale, n), self.dropout("out", n))
            ffn.forward(a, up, W.b_up, pre, act)
            times(act[..., self.data], down[..., self.data], out=d)
            times(act[..., self.shut], down[..., self.shut], out=e)
            new = torch.empty_like(h) if self.last(n) else self.of(self.h, n + 1)
            gate.forward(h, a, d, e, W.vectors, new, self.dropout("gate", n))
        return new


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
        run, W, (w_x, w_out, w_up, w_down) = self.run, self.run.weights, self.run.weights.matrices
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(run.depth)):
            x, o, a, pre, de = (run.of(rows, n) for rows in (run.x, run.o, run.a, run.pre, run.de))
            dropouts = (run.dropout(name, n) for name in ("gate", "out", "key"))
            gate_dropout, out_dropout, key_dropout = dropouts
            gate.backward((dh, more), run.state(n), a, de, W.vectors, self.gate_parts[n], gate_dropout)
            ffn.backward(de, w_down, pre, W.b_up, self.up_parts[n])
            da, scale, part = torch.bmm(pre, w_up), run.of(run.scale, n), self.norm_parts[n]
            norm.backward((de[0], da), o, scale, W.norm_a, dh, part, out_dropout, add=True)
            dread = torch.bmm(o, w_out)
            if run.last(n):
                self.last = first_column.backward(dread, x, W.bx, W.scalars, key_dropout, heads=run.heads)
            else:
                geometric.backward(dread, x, W.bx, W.scalars, run.rooms[n], self.attend.at(n), key_dropout)
            if n > 0 and run.last(n):  # queries of column 0 alone, keys and values of the others alone
                before = torch.bmm(x[..., run.kv], w_x[:, run.kv])
                torch.baddbmm(dh, run.first(x), w_x, out=run.first(before))
                dh = before
            elif n > 0:
                more = torch.bmm(x, w_x)
        self.embedding_gradient(dh)
        self.weight_gradients()

    def embedding_gradient(self, dh: Tensor) -> None:
        """From dh of the first state, and from the gradient of its product x, which is summed by token."""
        run, table = self.run, self.g["embed.weight"]
        x = run.by_token(run.x)
        dx = torch.empty_like(x, dtype=torch.float32)
        embedding.gradient(run.ids, run.of(run.x, 0), None, out=dx)
        embedding.gradient(run.ids[..., :1] if run.last(0) else run.ids, dh, None, out=table)
        table.add_(torch.bmm(x.copy_(dx), run.weights.matrices.x))

    def weight_gradients(self) -> None:
        """One product over all layers for each weight, and the sums that the kernels left."""
        run = self.run
        first = run.x[:, run.N :], run.h[:, run.N :]  # of all layers but the first one, and its tokens'
        rows = ndr_weights.Rows(*first, run.o, run.read, run.pre, run.a, run.de, run.act)
        ndr_weights.gradients(rows, self.places(*(f"{name}.weight" for name in MATRICES)))
        (qkv,) = self.places("attend.qkv.bias")
        add_up(self.last.qkv, [qkv])
        add_up(self.attend.qk.flatten(1, 2), [qkv[:, : 2 * run.D]], add=True)
        add_up(self.attend.v.flatten(1, 2), [qkv[:, 2 * run.D :]], add=True)
        add_up(self.up_part, self.places("ffn_data.up.bias", "ffn_gate.up.bias"))
        add_up(self.norm_part, self.places("norm_a.weight", "norm_a.bias"))
        names = ("norm_u.weight", "norm_u.bias", "ffn_data.down.bias", "ffn_gate.down.bias")
        add_up(self.gate_part, self.places(*names))
        names = ("attend.scale", "attend.direction_scale", "attend.bias", "attend.direction.bias")
        sums = self.attend.match.flatten(1, 2), self.last.match
        geometric.match_gradients(*sums, self.run.weights.scalars.stretch, self.places(*names))

    def places(self, *names: str) -> list[Tensor]:
        """Where the gradients of the layer's parameters go."""
        return [self.g[f"layer.{name}"] for name in names]


def gradient(
    model: NDR, w: Views, g: Views, keys: Tensor, tokens: Tensor, targets: Tensor, dtype: torch.dtype
) -> Tensor:
    """Losses (S,) of a crowd on a batch; its gradients go to `g`. tokens: (B, T − 1) or (S, B, T − 1)."""
    ids = F.pad(tokens, (1, 0), value=model.start)
    run = Pass(model, w, keys, ids, dtype)
    losses, dread = embedding.read_out(run.forward(w["embed.weight"]), w, g, targets)
    Backward(run, g)(dread)
    return losses
