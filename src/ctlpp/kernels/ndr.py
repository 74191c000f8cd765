"""Loss and gradient of a crowd of NDRs, written out: large products, and everything between them in one kernel each.

It computes what `vmap` and autograd make of `ctlpp.models.ndr.NDR` (the tests compare all gradients), with these
differences in how:
- activations of all layers lie in one buffer of rows and are kept in bf16; arithmetic inside kernels is float32;
- products that share an input are one product (q, k, v and direction; both feed-forward nets, see `ffn`);
- a column of the first layer's input depends on its token alone, so its first product is made once a token;
- the gradient of an activation takes the activation's place, and the gradient of a weight that all layers share is one
  product over all layers' rows at the end (`shared_weights`);
- dropout masks are recomputed from the seeds' counters, but for the keys', which are kept as bits.

Shapes: S seeds, N rows, D width, F = hidden of both nets together, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ctlpp.kernels import ffn, first_column, gate, geometric, layer_weights, norm
from ctlpp.kernels.dropout import Dropout, Layout
from ctlpp.kernels.embedding import look_up
from ctlpp.kernels.products import blocks, times
from ctlpp.models.ndr import NDR

Views = dict[str, Tensor]  # parameters or their gradients by name, (S, …) each, float32
FFN = ("ffn_data.up", "ffn_gate.up", "ffn_data.down", "ffn_gate.down")
MATRICES = ("attend.qkv", "attend.direction", "attend.out", *FFN)


def supports(model: NDR) -> bool:
    """Whether the kernels fit the model's sizes: powers of two, and heads wide enough for the tensor cores."""
    width, hidden, heads = (
        model.classify.in_features,
        model.layer.ffn_data.up.out_features,
        model.layer.attend.heads,
    )
    return all(size & (size - 1) == 0 for size in (width, hidden)) and width // heads >= 16


@dataclass
class Weights:
    """The layer's weights as the products want them."""

    x: Tensor  # q, k, v and direction, (S, 3D + 2H, D)
    out: Tensor
    up: Tensor  # data net and gate net, (S, F, D)
    down: Tensor  # of both nets, (S, D, F)
    bx: Tensor  # biases, float32
    b_up: Tensor
    scalars: geometric.Scalars
    norm_a: tuple[Tensor, Tensor]  # γ, β
    vectors: gate.Vectors

    @staticmethod
    def of(w: Views, dtype: torch.dtype) -> Weights:
        def joined(*names: str) -> Tensor:
            return torch.cat([w[f"layer.{name}"] for name in names], dim=1)

        return Weights(
            **layer_weights.matrices([w[f"layer.{name}.weight"] for name in MATRICES], dtype)._asdict(),
            bx=joined("attend.qkv.bias", "attend.direction.bias"),
            b_up=joined("ffn_data.up.bias", "ffn_gate.up.bias"),
            scalars=geometric.Scalars(
                *(w[f"layer.attend.{name}"] for name in ("scale", "direction_scale", "bias"))
            ),
            norm_a=(w["layer.norm_a.weight"], w["layer.norm_a.bias"]),
            vectors=gate.Vectors(
                b=w["layer.ffn_data.down.bias"],
                c=w["layer.ffn_gate.down.bias"],
                gamma=w["layer.norm_u.weight"],
                beta=w["layer.norm_u.bias"],
            ),
        )


class Pass:
    """One forward over a batch, kept for the backward.

    The classifier reads column 0 alone, so the last layer goes on with B rows instead of N behind its attention. Rows
    of all layers lie one after the other: (S, (depth − 1) · N + B, …), or (S, depth · N + V, …) for what attention
    needs; the V rows at its end are the first layer's once a token.
    """

    def __init__(self, model: NDR, w: Views, keys: Tensor, ids: Tensor, dtype: torch.dtype) -> None:
        """ids: (B, T) or (S, B, T)."""
        layer, attend = model.layer, model.layer.attend
        self.keys, self.ids, self.weights = keys, ids, Weights.of(w, dtype)
        self.V = model.embed.num_embeddings
        self.S, (self.B, self.T), self.depth = len(keys), ids.shape[-2:], model.depth
        self.N, self.D = self.B * self.T, model.classify.in_features
        self.heads, self.hidden = attend.heads, layer.ffn_data.up.out_features
        self.data, self.shut = (
            slice(0, self.hidden),
            slice(self.hidden, self.hidden + self.D),
        )  # of the hidden units
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
        times(h.copy_(table), self.weights.x, out=x)
        look_up(h, self.ids, self.of(self.h, 0))
        look_up(x, self.ids, self.of(self.x, 0))

    def ask(self, n: int) -> None:
        """The first product of a layer; of the last one queries and directions of column 0 alone."""
        h, x, w = self.of(self.h, n), self.of(self.x, n), self.weights.x
        if self.last(n):
            times(h, w[:, self.kv], out=x[..., self.kv])
            times(self.h_first, w, out=self.first(x))
        else:
            times(h, w, out=x)

    def forward(self, table: Tensor) -> Tensor:
        """Column 0 after the last layer, (S, B, D), from the embeddings, (S, V, D)."""
        W = self.weights
        self.begin(table)
        for n in range(self.depth):
            x, read, o, a, pre, act, d, e = (
                self.of(rows, n)
                for rows in (self.x, self.read, self.o, self.a, self.pre, self.act, self.d, self.e)
            )
            if self.last(n):
                self.h_first.copy_(self.first(self.of(self.h, n)))
            if n > 0:
                self.ask(n)
            if self.last(n):
                first_column.forward(x, W.bx, W.scalars, read, self.dropout("key", n), heads=self.heads)
            else:
                geometric.forward(x, W.bx, W.scalars, self.rooms[n], read, self.dropout("key", n))
            h = self.state(n)
            times(read, W.out, out=o)
            norm.forward(h, o, None, *W.norm_a, a, self.of(self.scale, n), self.dropout("out", n))
            ffn.forward(a, W.up, W.b_up, pre, act)
            times(act[..., self.data], W.down[..., self.data], out=d)
            times(act[..., self.shut], W.down[..., self.shut], out=e)
            new = torch.empty_like(h) if self.last(n) else self.of(self.h, n + 1)
            gate.forward(h, a, d, e, W.vectors, new, self.dropout("gate", n))
        return new
