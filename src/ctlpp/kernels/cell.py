"""What lies between the products of a bi-directional LSTM: embedding and dropout, and the cell.

A row of `gates` holds the 4D columns input, forget, output, candidate: first what the input adds to them (without
biases), then their values, in the end their gradients. Everything is in the order of reading, so that both directions
of all seeds are one batch: x (S, 2, T, B, E), gates (S, 2, T, B, 4D), h and c (S, 2, T, B, D), with h the state
*before* each step and c the cell after it. The last states lie side by side, (S, B, 2D).
"""

from __future__ import annotations

import triton
import triton.language as tl

from ctlpp.kernels.dropout import keep_tile


@triton.jit(do_not_specialize=["T"])
def embed_forward(
    tokens_ptr,
    table_ptr,
    x_ptr,
    keys_ptr,
    T,
    B,
    tokens_step,
    tokens_row,
    tokens_column,
    p_step,
    drop,
    factor,
    ROWS: tl.constexpr,
    E: tl.constexpr,
    DROP: tl.constexpr,
):
    """Grid (blocks of B · T rows, seeds): dropout(table[token]), for both directions."""
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, E)
    b, t = row // T, row % T
    inside = row < B * T
    token = tl.load(
        tokens_ptr + seed * tokens_step + b * tokens_row + t * tokens_column, mask=inside, other=0
    )
    y = tl.load(
        table_ptr + seed * p_step + token[:, None] * E + column[None, :], mask=inside[:, None], other=0.0
    )
    if DROP:
        keep = keep_tile(tl.load(keys_ptr + seed), row.to(tl.int64) * (E // 4), drop, ROWS, E)
        y = tl.where(keep, y * factor, 0.0)
    y = y.to(x_ptr.dtype.element_ty)
    ahead = ((2 * seed * T + t) * B + b)[:, None] * E + column[None, :]
    back = (((2 * seed + 1) * T + T - 1 - t) * B + b)[:, None] * E + column[None, :]
    tl.store(x_ptr + ahead, y, mask=inside[:, None])
    tl.store(x_ptr + back, y, mask=inside[:, None])


@triton.jit(do_not_specialize=["T"])
def embed_backward(
    dx_ptr,
    tokens_ptr,
    part_ptr,
    keys_ptr,
    T,
    B,
    V,
    tokens_step,
    tokens_row,
    tokens_column,
    drop,
    factor,
    LOOP: tl.constexpr,
    ROWS: tl.constexpr,
    VP: tl.constexpr,
    E: tl.constexpr,
    BE: tl.constexpr,
    DROP: tl.constexpr,
):
    """Grid (blocks of LOOP · ROWS rows, blocks of BE columns, seeds): the table's gradient, a part a block of rows."""
    seed = tl.program_id(2).to(tl.int64)
    entry = tl.arange(0, VP)
    column = tl.program_id(1) * BE + tl.arange(0, BE)
    key = tl.load(keys_ptr + seed)
    total = tl.zeros((VP, BE), tl.float32)
    for n in range(LOOP):
        row = (tl.program_id(0) * LOOP + n) * ROWS + tl.arange(0, ROWS)
        b, t = row // T, row % T
        inside = row < B * T
        token = tl.load(
            tokens_ptr + seed * tokens_step + b * tokens_row + t * tokens_column, mask=inside, other=0
        )
        ahead = ((2 * seed * T + t) * B + b)[:, None] * E + column[None, :]
        back = (((2 * seed + 1) * T + T - 1 - t) * B + b)[:, None] * E + column[None, :]
        dy = tl.load(dx_ptr + ahead, mask=inside[:, None], other=0.0).to(tl.float32)
        dy += tl.load(dx_ptr + back, mask=inside[:, None], other=0.0).to(tl.float32)
        if DROP:
            first = row.to(tl.int64) * (E // 4) + tl.program_id(1) * (BE // 4)
            dy = tl.where(keep_tile(key, first, drop, ROWS, BE), dy * factor, 0.0)
        hot = (entry[:, None] == token[None, :]).to(dx_ptr.dtype.element_ty)
        total = tl.dot(hot, dy.to(dx_ptr.dtype.element_ty), total, input_precision="ieee")
    part = part_ptr + (seed * tl.num_programs(0) + tl.program_id(0)) * V * E
    tl.store(part + entry[:, None] * E + column[None, :], total, mask=(entry < V)[:, None])


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _load(ptr, at, inside):
    return tl.load(ptr + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(ptr, at, value, inside):
    tl.store(ptr + at, value.to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def _bias(b_in_ptr, b_rec_ptr, at):
    return (tl.load(b_in_ptr + at) + tl.load(b_rec_ptr + at))[None, :]


@triton.jit(do_not_specialize=["t", "T"])
def cell_forward(
    gates_ptr,
    b_in_ptr,
    b_rec_ptr,
    c_ptr,
    h_ptr,
    t,
    T,
    B,
    p_step,
    h_step,
    h_side,
    h_row,
    ROWS: tl.constexpr,
    D: tl.constexpr,
):
    """Grid (blocks of examples, 2S): step t, whose gates lack only their biases. The new state goes to `h`."""
    batch = tl.program_id(1).to(tl.int64)
    seed, side = batch // 2, batch % 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, D)
    inside = (row < B)[:, None]
    first = (batch * T + t) * B  # row of this step
    gates, at = gates_ptr + first * (4 * D), row[:, None] * (4 * D) + column[None, :]
    at_c = row[:, None] * D + column[None, :]
    at_b = seed * p_step + side * (4 * D) + column
    i = tl.sigmoid(_load(gates, at, inside) + _bias(b_in_ptr, b_rec_ptr, at_b))
    f = tl.sigmoid(_load(gates, at + D, inside) + _bias(b_in_ptr, b_rec_ptr, at_b + D))
    o = tl.sigmoid(_load(gates, at + 2 * D, inside) + _bias(b_in_ptr, b_rec_ptr, at_b + 2 * D))
    u = _tanh(_load(gates, at + 3 * D, inside) + _bias(b_in_ptr, b_rec_ptr, at_b + 3 * D))
    c = i * u + f * _load(c_ptr + (first - B) * D, at_c, (row < tl.where(t > 0, B, 0))[:, None])
    _store(gates, at, i, inside)
    _store(gates, at + D, f, inside)
    _store(gates, at + 2 * D, o, inside)
    _store(gates, at + 3 * D, u, inside)
    _store(c_ptr + first * D, at_c, c, inside)
    new = h_ptr + seed * h_step + side * h_side
    _store(new, row[:, None] * h_row + column[None, :], o * _tanh(c), inside)


@triton.jit(do_not_specialize=["t", "T"])
def cell_backward(
    gates_ptr,
    c_ptr,
    dh_ptr,
    dc_ptr,
    part_ptr,
    t,
    T,
    B,
    dh_step,
    dh_side,
    dh_row,
    LOOP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
):
    """Grid (blocks of LOOP · ROWS examples, 2S): gates of step t -> their gradients; sums over rows go to `part`."""
    batch = tl.program_id(1).to(tl.int64)
    first = (batch * T + t) * B  # row of this step
    gates, dcs = gates_ptr + first * (4 * D), dc_ptr + batch * B * D
    dhs = dh_ptr + (batch // 2) * dh_step + (batch % 2) * dh_side
    column = tl.arange(0, D)
    sum_i, sum_f = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    sum_o, sum_u = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    for n in range(LOOP):
        row = (tl.program_id(0) * LOOP + n) * ROWS + tl.arange(0, ROWS)
        inside = (row < B)[:, None]
        at, at_c = row[:, None] * (4 * D) + column[None, :], row[:, None] * D + column[None, :]
        dh = _load(dhs, row[:, None] * dh_row + column[None, :], inside)
        dc = _load(dcs, at_c, (row < tl.where(t < T - 1, B, 0))[:, None])
        i, f = _load(gates, at, inside), _load(gates, at + D, inside)
        o, u = _load(gates, at + 2 * D, inside), _load(gates, at + 3 * D, inside)
        bent = _tanh(_load(c_ptr + first * D, at_c, inside))
        dc += dh * o * (1 - bent * bent)
        di, df = (
            dc * u * i * (1 - i),
            dc * _load(c_ptr + (first - B) * D, at_c, (row < tl.where(t > 0, B, 0))[:, None]) * f * (1 - f),
        )
        do, du = dh * bent * o * (1 - o), dc * i * (1 - u * u)
        _store(gates, at, di, inside)
        _store(gates, at + D, df, inside)
        _store(gates, at + 2 * D, do, inside)
        _store(gates, at + 3 * D, du, inside)
        _store(dcs, at_c, dc * f, inside)
        sum_i += tl.sum(di, axis=0)
        sum_f += tl.sum(df, axis=0)
        sum_o += tl.sum(do, axis=0)
        sum_u += tl.sum(du, axis=0)
    part = part_ptr + ((batch * T + t) * tl.num_programs(0) + tl.program_id(0)) * (4 * D) + column
    tl.store(part, sum_i)
    tl.store(part + D, sum_f)
    tl.store(part + 2 * D, sum_o)
    tl.store(part + 3 * D, sum_u)
