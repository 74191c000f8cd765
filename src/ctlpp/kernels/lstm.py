"""Loss and gradient of a crowd of Bi-LSTMs, written out: products by cuBLAS, the rest in a few kernels.

It computes what `vmap` and autograd make of `ctlpp.models.recurrent.BiLSTM`. Both directions of all seeds
are one batch of 2S, everything in the order of reading: x (2S, T, B, E), gates (2S, T, B, 4D), h and c (2S,
T, B, D), with h the state *before* each step and c the memory after it. The last states lie side by side,
(S, B, 2D). A row of `gates` holds the 4D columns input, forget, output, candidate: first what the input
adds to them (without biases), then their values, in the end their gradients. Each weight's gradient is one
product over the rows of all steps.

Shapes: S seeds, B batch, T tokens, V vocabulary, E embedding width, D units a direction.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.dropout import Dropout, keep_tile
from ctlpp.kernels.launch import (
    Block,
    Views,
    are_powers,
    at_seed,
    blocks,
    load_rows,
    of_transposed,
    store_rows,
)
from ctlpp.models.recurrent import BiLSTM

EMBED_ROWS, EMBED_BACK = 8, Block(rows=32, loops=16)  # of a program of the embedding and of its backward …
EMBED_COLUMNS = 128  # … which has so many at most
STEP_ROWS, STEP_BACK = 4, Block(rows=4, loops=4)  # of a program of a step and of its backward


@triton.jit
def _both_ways(seed, b, t, column, T, B, E: constexpr):
    """Where the numbers of token t of example b are in x, read ahead and read back."""
    ahead = ((2 * seed * T + t) * B + b)[:, None] * E + column[None, :]
    return ahead, (((2 * seed + 1) * T + T - 1 - t) * B + b)[:, None] * E + column[None, :]


@triton.jit(do_not_specialize=["T"])
def embed_forward(tokens, table, x, dropout, T, B, ROWS: constexpr, E: constexpr):
    """Grid (blocks of B · T rows, seeds): dropout(table[token]), for both directions.

    tokens: with the elements from one seed, one example and one token to the next.
    """
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, E)
    b, t = row // T, row % T
    inside = row < B * T
    token = tl.load(at_seed(tokens, seed) + b * tokens[2] + t * tokens[3], mask=inside, other=0)
    entry = at_seed(table, seed) + token[:, None] * E + column[None, :]
    y = tl.load(entry, mask=inside[:, None], other=0.0)
    if dropout is not None:
        keep = keep_tile(tl.load(dropout[0] + seed), row.to(tl.int64) * (E // 4), dropout[3], ROWS, E)
        y = tl.where(keep, y * dropout[4], 0.0)
    y = y.to(x.dtype.element_ty)
    ahead, back = _both_ways(seed, b, t, column, T, B, E)
    tl.store(x + ahead, y, mask=inside[:, None])
    tl.store(x + back, y, mask=inside[:, None])


@triton.jit(do_not_specialize=["T"])
def embed_backward(
    dx, tokens, part, dropout, T, B, V, s: constexpr, VP: constexpr, E: constexpr, BE: constexpr
):
    """Grid (blocks of rows, blocks of BE columns, seeds): parts of the table's gradient."""
    seed = tl.program_id(2).to(tl.int64)
    entry = tl.arange(0, VP)
    column = tl.program_id(1) * BE + tl.arange(0, BE)
    key = 0 if dropout is None else tl.load(dropout[0] + seed)
    total = tl.zeros((VP, BE), tl.float32)
    for n in range(s.loops):
        row = (tl.program_id(0) * s.loops + n) * s.rows + tl.arange(0, s.rows)
        b, t = row // T, row % T
        inside = row < B * T
        token = tl.load(at_seed(tokens, seed) + b * tokens[2] + t * tokens[3], mask=inside, other=0)
        ahead, back = _both_ways(seed, b, t, column, T, B, E)
        dy = tl.load(dx + ahead, mask=inside[:, None], other=0.0).to(tl.float32)
        dy += tl.load(dx + back, mask=inside[:, None], other=0.0).to(tl.float32)
        if dropout is not None:
            first = row.to(tl.int64) * (E // 4) + tl.program_id(1) * (BE // 4)
            dy = tl.where(keep_tile(key, first, dropout[3], s.rows, BE), dy * dropout[4], 0.0)
        hot = (entry[:, None] == token[None, :]).to(dx.dtype.element_ty)
        total = tl.dot(hot, dy.to(dx.dtype.element_ty), total, input_precision="ieee")
    to = part + (seed * tl.num_programs(0) + tl.program_id(0)) * V * E
    tl.store(to + entry[:, None] * E + column[None, :], total, mask=(entry < V)[:, None])


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _store_gates(gates, at, i, f, o, u, inside, D: constexpr):
    store_rows(gates, at, i, inside)
    store_rows(gates, at + D, f, inside)
    store_rows(gates, at + 2 * D, o, inside)
    store_rows(gates, at + 3 * D, u, inside)


@triton.jit
def _bias(biases, at):
    return (tl.load(biases[0] + at) + tl.load(biases[1] + at))[None, :]


@triton.jit(do_not_specialize=["t", "T"])
def step_forward(gates, biases, c, h, t, T, B, ROWS: constexpr, D: constexpr):
    """Grid (blocks of examples, 2S): step t, whose gates lack only their biases. The new state goes to `h`.

    biases: of the input and of the state, and from one seed to the next; h: from one seed, direction, row to
    the next.
    """
    batch = tl.program_id(1).to(tl.int64)
    seed, side = batch // 2, batch % 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, D)
    inside = row < B
    first = (batch * T + t) * B  # row of this step
    gates, at = gates + first * (4 * D), row[:, None] * (4 * D) + column[None, :]
    at_c = row[:, None] * D + column[None, :]
    at_b = seed * biases[2] + side * (4 * D) + column
    i = tl.sigmoid(load_rows(gates, at, inside) + _bias(biases, at_b))
    f = tl.sigmoid(load_rows(gates, at + D, inside) + _bias(biases, at_b + D))
    o = tl.sigmoid(load_rows(gates, at + 2 * D, inside) + _bias(biases, at_b + 2 * D))
    u = _tanh(load_rows(gates, at + 3 * D, inside) + _bias(biases, at_b + 3 * D))
    new = i * u + f * load_rows(c + (first - B) * D, at_c, row < tl.where(t > 0, B, 0))
    _store_gates(gates, at, i, f, o, u, inside, D)
    store_rows(c + first * D, at_c, new, inside)
    to = at_seed(h, seed) + side * h[2]
    store_rows(to, row[:, None] * h[3] + column[None, :], o * _tanh(new), inside)


@triton.jit(do_not_specialize=["t", "T"])
def step_backward(gates, c, dh, dc, part, t, T, B, s: constexpr, D: constexpr):
    """Grid (blocks of examples, 2S): gates of step t -> their gradients; sums to `part`."""
    batch = tl.program_id(1).to(tl.int64)
    first = (batch * T + t) * B  # row of this step
    gates, dcs = gates + first * (4 * D), dc + batch * B * D
    dhs = at_seed(dh, batch // 2) + (batch % 2) * dh[2]
    column = tl.arange(0, D)
    sum_i, sum_f = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    sum_o, sum_u = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    for n in range(s.loops):
        row = (tl.program_id(0) * s.loops + n) * s.rows + tl.arange(0, s.rows)
        inside = row < B
        at, at_c = row[:, None] * (4 * D) + column[None, :], row[:, None] * D + column[None, :]
        g = load_rows(dhs, row[:, None] * dh[3] + column[None, :], inside)
        of_c = load_rows(dcs, at_c, row < tl.where(t < T - 1, B, 0))
        i, f = load_rows(gates, at, inside), load_rows(gates, at + D, inside)
        o, u = load_rows(gates, at + 2 * D, inside), load_rows(gates, at + 3 * D, inside)
        bent = _tanh(load_rows(c + first * D, at_c, inside))
        of_c += g * o * (1 - bent * bent)
        di = of_c * u * i * (1 - i)
        before = load_rows(c + (first - B) * D, at_c, row < tl.where(t > 0, B, 0))
        df = of_c * before * f * (1 - f)
        do, du = g * bent * o * (1 - o), of_c * i * (1 - u * u)
        _store_gates(gates, at, di, df, do, du, inside, D)
        store_rows(dcs, at_c, of_c * f, inside)
        sum_i += tl.sum(di, axis=0)
        sum_f += tl.sum(df, axis=0)
        sum_o += tl.sum(do, axis=0)
        sum_u += tl.sum(du, axis=0)
    to = part + ((batch * T + t) * tl.num_programs(0) + tl.program_id(0)) * (4 * D) + column
    tl.store(to, sum_i)
    tl.store(to + D, sum_f)
    tl.store(to + 2 * D, sum_o)
    tl.store(to + 3 * D, sum_u)


def supports(model: BiLSTM, tokens: int) -> bool:
    """Whether kernels can cut the model's widths; inputs may have any number of tokens."""
    return are_powers(model.embed.embedding_dim, model.cell.width) and model.dropout.p < 1


def rows_of(x: Tensor) -> Tensor:
    """All steps' rows together. (2S, T, B, W) -> (2S, T · B, W)"""
    return x.flatten(1, 2)


class Pass:
    """One forward and backward over a batch."""

    def __init__(self, model: BiLSTM, w: Views, keys: Tensor, tokens: Tensor, dtype: torch.dtype) -> None:
        """tokens: (B, T) or (S, B, T)."""
        self.w, self.keys, self.dtype = w, keys, dtype
        self.S, (self.B, self.T) = len(keys), tokens.shape[-2:]
        self.E, self.D, self.V = model.embed.embedding_dim, model.cell.width, model.embed.num_embeddings
        self.p_step, self.dropout = w["classify.bias"].stride(0), Dropout(keys, 0, model.dropout.p).stream
        own = tokens.stride(0) if tokens.ndim == 3 else 0  # from one seed's tokens to the next
        self.tokens = tokens, own, tokens.stride(-2), tokens.stride(-1)
        # (2S, E, 4D), (2S, D, 4D)
        self.W, self.U = (w[f"cell.{name}"].to(dtype).flatten(0, 1) for name in "WU")
        self.x, self.h, self.gates = map(self.room, (self.E, self.D, 4 * self.D))
        self.c = self.room(self.D, torch.float32)  # it goes from step to step through memory
        self.last = torch.empty(self.S, self.B, 2 * self.D, dtype=dtype, device=keys.device)

    def room(self, width: int, dtype: torch.dtype | None = None) -> Tensor:
        shape = 2 * self.S, self.T, self.B, width
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.keys.device)

    def forward(self) -> Tensor:
        """The last states of both directions, (S, B, 2D)."""
        self.embed()
        self.steps()
        return self.last

    def embed(self) -> None:
        """The input of both directions, and what it adds to the gates."""
        tensors = self.tokens, (self.w["embed.weight"], self.p_step), self.x, self.dropout
        grid = blocks(self.B * self.T, EMBED_ROWS), self.S
        embed_forward[grid](*tensors, self.T, self.B, ROWS=EMBED_ROWS, E=self.E, num_warps=2)
        torch.bmm(rows_of(self.x), self.W, out=rows_of(self.gates))

    def steps(self) -> None:
        """All steps of both directions, a product and a kernel each; leaves the last states in `last`."""
        self.h[:, 0] = 0
        biases = self.w["cell.b_in"], self.w["cell.b_rec"], self.p_step
        side, end = self.T * self.B * self.D, (self.last, 2 * self.B * self.D, self.D, 2 * self.D)
        grid = blocks(self.B, STEP_ROWS), 2 * self.S
        for t in range(self.T):
            if t > 0:
                self.gates[:, t].baddbmm_(self.h[:, t], self.U)
            new = end if t == self.T - 1 else (self.h[:, t + 1], 2 * side, side, self.D)
            tensors = self.gates, biases, self.c, new
            step_forward[grid](*tensors, t, self.T, self.B, ROWS=STEP_ROWS, D=self.D, num_warps=1)

    def backward(self, dlast: Tensor, g: Views) -> None:
        """From the gradient of the last states to all others."""
        self.put_gradients(g, self.steps_backward(dlast))

    def steps_backward(self, dlast: Tensor) -> Tensor:
        """From the gradient of the last states, (S, B, 2D), to the gates'; parts of the bias's."""
        n = STEP_BACK.parts(self.B)
        part = torch.empty(2 * self.S, self.T, n, 4 * self.D, device=dlast.device)
        dc = torch.empty(2 * self.S, self.B, self.D, device=dlast.device)
        dh, side = torch.empty_like(dc, dtype=self.dtype), self.B * self.D
        for t in reversed(range(self.T)):
            end = t == self.T - 1
            given = (dlast, 2 * side, self.D, 2 * self.D) if end else (dh, 2 * side, side, self.D)
            tensors = self.gates, self.c, given, dc, part
            step_backward[n, 2 * self.S](*tensors, t, self.T, self.B, s=STEP_BACK, D=self.D, num_warps=1)
            if t > 0:
                torch.bmm(self.gates[:, t], self.U.mT, out=dh)
        return rows_of(part)

    def put_gradients(self, g: Views, bias_part: Tensor) -> None:
        """From the gradients of the gates to those of the weights."""
        dgates = rows_of(self.gates)
        for name, rows in (("cell.W", self.x), ("cell.U", self.h)):
            g[name].copy_(of_transposed(rows_of(rows), dgates).view(g[name].shape))
        torch.sum(bias_part.view(self.S, 2, 1, -1, 4 * self.D), dim=3, out=g["cell.b_in"])
        g["cell.b_rec"].copy_(g["cell.b_in"])
        dx = torch.bmm(dgates, self.W.mT, out=rows_of(self.x))
        columns = min(self.E, EMBED_COLUMNS)
        n = EMBED_BACK.parts(self.B * self.T)
        part = torch.empty(self.S, n, self.V, self.E, device=dx.device)
        tensors, sizes = (dx, self.tokens, part, self.dropout), (self.T, self.B, self.V)
        meta = {"s": EMBED_BACK, "VP": max(16, triton.next_power_of_2(self.V)), "E": self.E, "BE": columns}
        embed_backward[n, self.E // columns, self.S](*tensors, *sizes, **meta, num_warps=4)
        torch.sum(part, dim=1, out=g["embed.weight"])
