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

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.kernels import embedding, ffn, geometric, ndr_weights, norm
from ctlpp.kernels.dropout import Layers
from ctlpp.kernels.launch import Views, add_up, are_powers, blocks, times, together
from ctlpp.models.ndr import NDR

COLUMNS = 16  # that the attention kernels can hold, the start column included
NETS = ("ffn_data.up", "ffn_gate.up", "ffn_data.down", "ffn_gate.down")
MATRICES = tuple(f"{name}.weight" for name in ("attend.qkv", "attend.direction", "attend.out", *NETS))
B_UP = ("ffn_data.up.bias", "ffn_gate.up.bias")
UPDATE = ("norm_u.weight", "norm_u.bias", "ffn_data.down.bias", "ffn_gate.down.bias")
SCALARS = ("attend.scale", "attend.direction_scale", "attend.bias")


def supports(model: NDR, tokens: int) -> bool:
    """Whether the kernels fit the model's sizes and inputs of so many tokens."""
    width, hidden = model.classify.in_features, model.layer.ffn_data.up.out_features
    return tokens < COLUMNS and are_powers(width, hidden, width // model.layer.attend.heads)


def of_layer(views: Views, *names: str) -> list[Tensor]:
    """Some of the layer's parameters, or of their gradients."""
    return [views[f"layer.{name}"] for name in names]


class Pass:
    """A forward over a batch, and the backward.

    What attention needs has rows of all columns in the last layer, too, and V more at its end: the first
    layer's once a token.
    """

    def __init__(self, model: NDR, w: Views, keys: Tensor, tokens: Tensor, dtype: torch.dtype) -> None:
        """tokens: (B, T − 1) or (S, B, T − 1)."""
        self.ids, self.table = F.pad(tokens, (1, 0), value=model.start), w["embed.weight"]
        layer, attend, (B, T) = model.layer, model.layer.attend, self.ids.shape[-2:]
        self.V, self.heads = model.embed.num_embeddings, attend.heads
        self.S, self.N, self.depth = len(keys), B * T, model.depth
        self.D, self.hidden = model.classify.in_features, layer.ffn_data.up.out_features
        # of the hidden units
        self.data, self.shut = slice(0, self.hidden), slice(self.hidden, self.hidden + self.D)
        self.kv = slice(self.D, 3 * self.D)  # keys and values, of a row of x
        dropouts = {"key": (attend.dropout.p, self.N * self.D), "out": (layer.dropout.p, self.N * self.D)}
        dropouts |= {"gate": (layer.gate_dropout, self.N)}
        L = self.layers = Layers(keys, self.N, T, self.depth, dtype, dropouts)

        self.w_x, self.w_out, self.w_up, self.w_down = ndr_weights.matrices(of_layer(w, *MATRICES), dtype)
        self.b_x = torch.cat(of_layer(w, "attend.qkv.bias", "attend.direction.bias"), dim=1)
        self.b_up = torch.cat(of_layer(w, *B_UP), dim=1)
        self.scalars, self.update = together(*of_layer(w, *SCALARS)), together(*of_layer(w, *UPDATE))
        self.norm = norm.Vectors(*of_layer(w, "norm_a.weight", "norm_a.bias"))

        whole, width = self.N + self.V, 3 * self.D + 2 * self.heads
        self.h = L.room(self.D, last=whole)
        self.x = L.room(blocks(width, 64) * 64, last=whole)[..., :width]  # a row begins a line of memory
        self.rooms = [geometric.Room.of(L.of(self.x, n), B, self.heads) for n in range(self.depth - 1)]
        self.read, self.o, self.a = L.room(self.D), L.room(self.D), L.room(self.D)
        self.pre, self.act = L.room(self.hidden + self.D), L.room(self.hidden + self.D)
        self.de = L.room(self.D, 2)  # the outputs of both nets
        self.scale = L.room(1, dtype=torch.float32)  # 1 / deviation, of the norm
        self.h_first = self.h.new_empty(self.S, B, self.D)  # the state that the last layer updates

    def by_token(self, rows: Tensor) -> Tensor:
        """The first layer's rows once a token, (S, V, …)."""
        return rows[:, self.depth * self.N :]

    def state(self, n: int) -> Tensor:
        """The state that layer n updates: all columns, or column 0 in the last layer."""
        return self.h_first if self.layers.last(n) else self.layers.of(self.h, n)

    def begin(self) -> None:
        """The first state, and the first product."""
        h, x = (self.by_token(rows) for rows in (self.h, self.x))
        times(h.copy_(self.table), self.w_x, out=x)
        embedding.look_up(h, self.ids, self.layers.of(self.h, 0))
        embedding.look_up(x, self.ids, self.layers.of(self.x, 0))

    def ask(self, n: int) -> None:
        """The first product of a layer; of the last one queries and directions of column 0 alone."""
        h, x = self.layers.of(self.h, n), self.layers.of(self.x, n)
        if self.layers.last(n):
            times(h, self.w_x[:, self.kv], out=x[..., self.kv])
            times(self.h_first, self.w_x, out=self.layers.first(x))
        else:
            times(h, self.w_x, out=x)

    def forward(self) -> Tensor:
        """Column 0 after the last layer, (S, B, D)."""
        L = self.layers
        self.begin()
        for n in range(self.depth):
            x, read, o, a = (L.of(rows, n) for rows in (self.x, self.read, self.o, self.a))
            pre, act, (d, e) = (L.of(rows, n) for rows in (self.pre, self.act, self.de))
            if L.last(n):
                self.h_first.copy_(L.first(L.of(self.h, n)))
            if n > 0:
                self.ask(n)
            if L.last(n):
                geometric.read_first(x, self.b_x, self.scalars, read, L.dropout("key", n), heads=self.heads)
            else:
                geometric.forward(x, self.b_x, self.scalars, self.rooms[n], read, L.dropout("key", n))
            h = self.state(n)
            times(read, self.w_out, out=o)
            norm.forward(h, o, self.norm, a, L.of(self.scale, n), L.dropout("out", n))
            ffn.forward(a, self.w_up, self.b_up, pre, act)
            times(act[..., self.data], self.w_down[..., self.data], out=d)
            times(act[..., self.shut], self.w_down[..., self.shut], out=e)
            new = torch.empty_like(h) if L.last(n) else L.of(self.h, n + 1)
            norm.update(h, a, d, e, self.update, new, L.dropout("gate", n))
        return new

    def backward(self, dread_out: Tensor, g: Views) -> None:
        """From the gradient of column 0 after the last layer, (S, B, D), to all others.

        The gradients of x, o, pre, d and e take their places.
        """
        L = self.layers
        self.make_parts()
        dh, more = dread_out, None  # what dh lacks
        for n in reversed(range(self.depth)):
            x, o, a, pre, de = (L.of(rows, n) for rows in (self.x, self.o, self.a, self.pre, self.de))
            key_dropout = L.dropout("key", n)
            of_gate = self.update, self.update_parts[n], L.dropout("gate", n)
            norm.update_backward((dh, more), self.state(n), a, de, *of_gate)
            ffn.backward(de, self.w_down, pre, self.b_up, self.up_parts[n])
            da, of_norm = torch.bmm(pre, self.w_up), (self.norm, dh, self.norm_parts[n], L.dropout("out", n))
            norm.backward((de[0], da), o, L.of(self.scale, n), *of_norm, add=True)
            dread, of_match = torch.bmm(o, self.w_out), (self.b_x, self.scalars)
            if L.last(n):
                self.last = geometric.read_first_backward(dread, x, *of_match, key_dropout, heads=self.heads)
            else:
                geometric.backward(dread, x, *of_match, self.rooms[n], self.attend.at(n), key_dropout)
            if n > 0 and L.last(n):  # queries of column 0 alone, keys and values of the others alone
                before = torch.bmm(x[..., self.kv], self.w_x[:, self.kv])
                torch.baddbmm(dh, L.first(x), self.w_x, out=L.first(before))
                dh = before
            elif n > 0:
                more = torch.bmm(x, self.w_x)
        self.embedding_gradient(dh, g["embed.weight"])
        self.matrix_gradients(g)
        self.bias_gradients(g)

    def make_parts(self) -> None:
        """Room for the sums over rows that kernels leave per block, one layer's after the other."""
        rows = [self.N] * (self.depth - 1) + [self.h_first.shape[1]]  # of each layer
        self.norm_part, self.norm_parts = self.part([norm.BACK.parts(n) for n in rows], 2 * self.D)
        self.update_part, self.update_parts = self.part([norm.UPDATE_BACK.parts(n) for n in rows], 4 * self.D)
        of_layers = [ffn.parts(self.layers.of(self.pre, n), self.D) for n in range(self.depth)]
        self.up_part, self.up_parts = self.part(of_layers, self.hidden + self.D)
        self.attend = geometric.Sums.of(self.layers, width=self.D, heads=self.heads)

    def part(self, of_layers: list[int], width: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Room for so many sums of each layer, whole and by layer."""
        part = torch.empty(self.S, sum(of_layers), width, device=self.h.device)
        return part, part.split(of_layers, dim=1)

    def embedding_gradient(self, dh: Tensor, table: Tensor) -> None:
        """From dh of the first state, and from the gradient of its product x, which is summed by token."""
        x = self.by_token(self.x)
        dx = torch.empty_like(x, dtype=torch.float32)
        embedding.gradient(self.ids, self.layers.of(self.x, 0), None, out=dx)
        embedding.gradient(self.ids[..., :1] if self.layers.last(0) else self.ids, dh, None, out=table)
        table.add_(torch.bmm(x.copy_(dx), self.w_x))

    def matrix_gradients(self, g: Views) -> None:
        """One product over all layers for each matrix."""
        first = self.x[:, self.N :], self.h[:, self.N :]  # of all layers but the first one, and its tokens'
        rows = ndr_weights.Rows(*first, self.o, self.read, self.pre, self.a, self.de, self.act)
        ndr_weights.gradients(rows, of_layer(g, *MATRICES))

    def bias_gradients(self, g: Views) -> None:
        """The sums that the kernels left."""
        (qkv,) = of_layer(g, "attend.qkv.bias")
        add_up(self.last[0], [qkv])
        add_up(self.attend.qk.flatten(1, 2), [qkv[:, : 2 * self.D]], add=True)
        add_up(self.attend.v.flatten(1, 2), [qkv[:, 2 * self.D :]], add=True)
        add_up(self.up_part, of_layer(g, *B_UP))
        add_up(self.norm_part, of_layer(g, "norm_a.weight", "norm_a.bias"))
        add_up(self.update_part, of_layer(g, *UPDATE))
        places = of_layer(g, *SCALARS, "attend.direction.bias")
        geometric.match_gradients(self.attend.match.flatten(1, 2), self.last[1], self.scalars[1], places)
