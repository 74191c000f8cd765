"""All steps of an LSTM in one kernel: a program reads a block of examples from the first token to the last.

State and cell stay on the chip; of the gates one pass is read and one written. Shapes as in `ctlpp.kernels.cell`. The
recurrent weights U (2S, D, 4D) are loaded once (RESIDENT: D · 4D numbers of fast memory) or anew in every step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ctlpp.kernels.cell import _bias, _load, _store, _tanh


@triton.jit
def _block(u_ptr, gate: tl.constexpr, D: tl.constexpr):
    """The columns of U that belong to a gate, (D, D)."""
    return tl.load(u_ptr + tl.arange(0, D)[:, None] * (4 * D) + gate * D + tl.arange(0, D)[None, :])


@triton.jit(do_not_specialize=["T"])
def recurrence_forward(gates_ptr, u_ptr, b_in_ptr, b_rec_ptr, c_ptr, h_ptr, last_ptr, T, B, p_step, ROWS: tl.constexpr,
                       D: tl.constexpr, RESIDENT: tl.constexpr):  # fmt: skip
    """Grid (blocks of examples, 2S)."""
    batch = tl.program_id(1).to(tl.int64)
    seed, side = batch // 2, batch % 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, D)
    inside = (row < B)[:, None]
    at, at_h = row[:, None] * (4 * D) + column[None, :], row[:, None] * D + column[None, :]
    at_b = seed * p_step + side * (4 * D) + column
    U = u_ptr + batch * (4 * D * D)
    if RESIDENT:
        U_i, U_f, U_o, U_u = _block(U, 0, D), _block(U, 1, D), _block(U, 2, D), _block(U, 3, D)
    h = tl.zeros((ROWS, D), h_ptr.dtype.element_ty)
    c = tl.zeros((ROWS, D), tl.float32)
    for t in range(T):
        first = (batch * T + t) * B  # row of this step
        gates = gates_ptr + first * (4 * D)
        x_i, x_u = _load(gates, at, inside), _load(gates, at + 3 * D, inside)
        x_f, x_o = _load(gates, at + D, inside), _load(gates, at + 2 * D, inside)
        _store(h_ptr + first * D, at_h, h, inside)
        i = tl.dot(h, U_i if RESIDENT else _block(U, 0, D), x_i, input_precision="ieee")
        i = tl.sigmoid(i + _bias(b_in_ptr, b_rec_ptr, at_b))
        u = tl.dot(h, U_u if RESIDENT else _block(U, 3, D), x_u, input_precision="ieee")
        u = _tanh(u + _bias(b_in_ptr, b_rec_ptr, at_b + 3 * D))
        _store(gates, at, i, inside)
        _store(gates, at + 3 * D, u, inside)
        f = tl.dot(h, U_f if RESIDENT else _block(U, 1, D), x_f, input_precision="ieee")
        f = tl.sigmoid(f + _bias(b_in_ptr, b_rec_ptr, at_b + D))
        _store(gates, at + D, f, inside)
        c = f * c + i * u
        _store(c_ptr + first * D, at_h, c, inside)
        o = tl.dot(h, U_o if RESIDENT else _block(U, 2, D), x_o, input_precision="ieee")
        o = tl.sigmoid(o + _bias(b_in_ptr, b_rec_ptr, at_b + 2 * D))
        _store(gates, at + 2 * D, o, inside)
        h = (o * _tanh(c)).to(h_ptr.dtype.element_ty)
    _store(last_ptr + seed * B * (2 * D) + side * D, 2 * at_h - column[None, :], h, inside)


@triton.jit(do_not_specialize=["T"])
def recurrence_backward(gates_ptr, u_ptr, c_ptr, dlast_ptr, part_ptr, T, B, ROWS: tl.constexpr, D: tl.constexpr,
                        RESIDENT: tl.constexpr):  # fmt: skip
    """Grid (blocks of examples, 2S): gates -> their gradients; sums over rows go to `part`, (2S, T, blocks, 4D).

    Terms of dh are subtracted because the compiler would make one chain of products that are added, and would divide
    the warps of a chain among the rows alone: with more warps than rows / 16 they would compute the same twice.
    """
    batch = tl.program_id(1).to(tl.int64)
    seed, side = batch // 2, batch % 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, D)
    inside = (row < B)[:, None]
    U = u_ptr + batch * (4 * D * D)
    if RESIDENT:
        U_i, U_f, U_o, U_u = _block(U, 0, D), _block(U, 1, D), _block(U, 2, D), _block(U, 3, D)
    at, at_c = row[:, None] * (4 * D) + column[None, :], row[:, None] * D + column[None, :]
    dh = _load(dlast_ptr + seed * B * (2 * D) + side * D, 2 * at_c - column[None, :], inside)
    dc = tl.zeros((ROWS, D), tl.float32)
    c = _load(c_ptr + ((batch + 1) * T - 1) * B * D, at_c, inside)
    kind = gates_ptr.dtype.element_ty
    for n in range(T):
        t = T - 1 - n
        first = (batch * T + t) * B  # row of this step
        gates = gates_ptr + first * (4 * D)
        i, u = _load(gates, at, inside), _load(gates, at + 3 * D, inside)
        o = _load(gates, at + 2 * D, inside)
        before = _load(c_ptr + (first - B) * D, at_c, (row < tl.where(t > 0, B, 0))[:, None])
        part = part_ptr + ((batch * T + t) * tl.num_programs(0) + tl.program_id(0)) * (4 * D) + column
        bent = _tanh(c)
        do = dh * bent * o * (1 - o)
        dc += dh * o * (1 - bent * bent)
        tl.store(part + 2 * D, tl.sum(do, axis=0))
        _store(gates, at + 2 * D, do, inside)
        dh = tl.dot(do.to(kind), tl.trans(U_o if RESIDENT else _block(U, 2, D)), input_precision="ieee")
        f = _load(gates, at + D, inside)
        di = dc * u * i * (1 - i)
        tl.store(part, tl.sum(di, axis=0))
        _store(gates, at, di, inside)
        dh -= tl.dot((-di).to(kind), tl.trans(U_i if RESIDENT else _block(U, 0, D)), input_precision="ieee")
        du = dc * i * (1 - u * u)
        tl.store(part + 3 * D, tl.sum(du, axis=0))
        _store(gates, at + 3 * D, du, inside)
        dh -= tl.dot((-du).to(kind), tl.trans(U_u if RESIDENT else _block(U, 3, D)), input_precision="ieee")
        df = dc * before * f * (1 - f)
        tl.store(part + D, tl.sum(df, axis=0))
        _store(gates, at + D, df, inside)
        dh -= tl.dot((-df).to(kind), tl.trans(U_f if RESIDENT else _block(U, 1, D)), input_precision="ieee")
        dc, c = dc * f, before
