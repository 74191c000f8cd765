"""Geometric attention, forward and backward: `pairs` has the products; here is the rest, a thread for a row.

A row of `x` holds q, k, v (H · K numbers each) and the direction preferences (H to the right, H to the
left), all without their biases `b`. With match m_ij = scale · q_i · dropout(k_j) + stretch · preference +
shift and P = σ(m): A_ij = P_ij · ∏_{n nearer to i than j} (1 − P_in). Of two columns at the same distance
the right one is nearer.

In (S, H, T, N) (see `pairs`) the column at distance d to the right of i is in place d, to the left in place
T − d. A thread first reads all that it needs, so that it waits once.

The last layer needs column 0 alone (`read_first`). All others lie to its right, column j at distance j, so
that A_j = P_j · ∏_{n<j} (1 − P_n), one column after the other. A program has a few examples of a head; it
keeps nothing for the backward, which does it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels import pairs
from ctlpp.kernels.dropout import Dropout, Layers, keep_tile, mask_words
from ctlpp.kernels.launch import at_seed, blocks, by_seed, from_last, offsets
from ctlpp.kernels.pairs import Shape

BLOCK, WARPS = 128, 4  # rows and warps of a program of the forward …
BACK, BACK_WARPS = 64, 1  # … and of the backward
SUMS, SUMS_WARPS = 64, 4  # sums that are added at a time for a match
EXAMPLES, FIRST_WARPS = 16, 4  # of a program of `read_first` and of its backward …
FIRST_REGISTERS: int | None = 128  # … whose threads have so many at most

Scalars = tuple[Any, ...]  # `together`, (S,) each: scale of the content, of the direction preference; bias


class Room(NamedTuple):
    """What a forward keeps for the backward."""

    content: Tensor  # q · k of the kept elements, (S, H, N, TJ) float32
    A: Tensor  # (S, H, T, N)
    bits: Tensor  # which elements of the keys were kept, (S, N, words)

    @staticmethod
    def of(x: Tensor, B: int, heads: int) -> Room:
        """Room for a batch of B examples whose rows are x: (S, B · T, …)."""
        (S, N), s = x.shape[:2], Shape.of(x, heads, x.shape[1] // B)
        return Room(
            content=x.new_empty(S, heads, N, s.TJ, dtype=torch.float32),
            A=x.new_empty(S, heads, s.T, N),
            bits=x.new_empty(S, N, mask_words(heads, s.K), dtype=torch.int32),
        )


class Sums(NamedTuple):
    """Sums over the rows of a program, for the biases of q and k, of v, and for what makes up a match.

    A match has four: of dmatch · content, dmatch · preference, dmatch to the right, to the left.
    """

    qk: Tensor  # (S, programs, 2D)
    v: Tensor  # (S, programs, D)
    match: Tensor  # (S, programs, H, 4)

    @staticmethod
    def of(rows: Layers, *, heads: int, width: int) -> Sums:
        """Room for all layers but the last one: (S, depth − 1, programs, …)."""
        qk, v = (pairs.parts(rows.N, rows.T, tiles) for tiles in (pairs.SCORE_BACK, pairs.READ_BACK))
        shapes = (qk, 2 * width), (v, width), (blocks(rows.N, BACK), heads, 4)
        lead = len(rows.keys), rows.depth - 1
        return Sums(*(torch.empty(*lead, *shape, device=rows.keys.device) for shape in shapes))

    def at(self, layer: int) -> Sums:
        """Those of a layer."""
        return Sums(*(sums[:, layer] for sums in self))


@triton.jit
def load_scalars(scalars, seed, factor):
    """The scale with dropout's factor, the stretch and the shift of a seed."""
    at = seed * scalars[3]
    scale, stretch = tl.load(scalars[0] + at) * factor, tl.load(scalars[1] + at)
    return scale, stretch, tl.load(scalars[2] + at)


@triton.jit
def prefer(x, b, row, start, N, WIDTH: constexpr):
    """The output of the direction map, (rows,)."""
    value = tl.load(x + row.to(tl.int64) * WIDTH + start, mask=row < N, other=0.0)
    return value.to(tl.float32) + tl.load(b + start)


@triton.jit
def sigmoids(match):
    """P and 1 − P, both to full relative precision."""
    e = tl.exp2(tl.abs(match) * -1.4426950408889634)
    large = 1.0 / (1.0 + e)
    return tl.where(match > 0, large, e * large), tl.where(match > 0, e * large, large)


@triton.jit
def _seen(i, d: constexpr, side: constexpr, T: constexpr):
    """Whether column i has a column at distance d to its right (side 0) or left (side 1)."""
    return i >= d if side else (i >= 0) & (i < T - d)


@triton.jit
def _both(ptr, i, d: constexpr, right, left, T: constexpr):
    """What there is of the columns at distance d to the right and to the left, which is so far from `ptr`."""
    there = tl.load(ptr + right, mask=_seen(i, d, 0, T), other=0.0)
    return there, tl.load(ptr + left, mask=_seen(i, d, 1, T), other=0.0)


@triton.jit
def geometric_forward(content, x, b, A, scalars, N, factor, s: constexpr, BLOCK: constexpr):
    """A from the content, nearest column first. Grid (heads, blocks of rows, seeds)."""
    T: constexpr = s.T
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = tl.where(row < N, row % T, -T)
    scale, stretch, shift = load_scalars(scalars, seed, factor)
    x, b = at_seed(x, seed), at_seed(b, seed)
    right = prefer(x, b, row, 3 * s.D + head, N, s.WIDTH) * stretch + shift
    left = prefer(x, b, row, 3 * s.D + s.H + head, N, s.WIDTH) * stretch + shift
    content_at = at_seed(content, seed) + (head * N + row) * s.TJ + i
    A_at = at_seed(A, seed) + head * T * N + row
    contents = _both(content_at, i, 1, 1, -1, T)
    for d in tl.static_range(2, T):
        contents += _both(content_at, i, d, d, -d, T)
    free = tl.full((BLOCK,), 1.0, tl.float32)  # the part of the attention that no nearer column took
    for d in tl.static_range(1, T):
        for side in tl.static_range(2):
            seen = _seen(i, d, side, T)
            match = contents[2 * (d - 1) + side] * scale + (left if side else right)
            P, miss = sigmoids(tl.where(seen, match, -1e30))
            tl.store(A_at + (T - d if side else d) * N, (free * P).to(A[0].dtype.element_ty), mask=seen)
            free *= miss


@triton.jit
def geometric_backward(dA, content, x, b, A, sums, scalars, N, factor, s: constexpr, BLOCK: constexpr):
    """The gradients of q · k in A's place and of the preferences in theirs; farthest column first.

    Sums over rows go to `sums`.
    """
    T: constexpr = s.T
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = tl.where(row < N, row % T, -T)
    scale, stretch, shift = load_scalars(scalars, seed, factor)
    x, b = at_seed(x, seed), at_seed(b, seed)
    right = prefer(x, b, row, 3 * s.D + head, N, s.WIDTH)
    left = prefer(x, b, row, 3 * s.D + s.H + head, N, s.WIDTH)
    at = seed * content[1] + (head * N + row) * s.TJ + i
    A_at = at_seed(A, seed) + head * T * N + row
    contents, dAs = _both(content[0] + at, i, 1, 1, -1, T), _both(dA + at, i, 1, 1, -1, T)
    As = _both(A_at, i, 1, N, (T - 1) * N, T)
    for d in tl.static_range(2, T):
        contents += _both(content[0] + at, i, d, d, -d, T)
        dAs += _both(dA + at, i, d, d, -d, T)
        As += _both(A_at, i, d, d * N, (T - d) * N, T)
    hidden, dscale = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    dright, dleft = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for d in tl.static_range(T - 1, 0, -1):
        for side in tl.static_range(1, -1, -1):
            seen, of_content = _seen(i, d, side, T), contents[2 * (d - 1) + side]
            match = of_content * scale + (left if side else right) * stretch + shift
            P, _ = sigmoids(tl.where(seen, match, -1e30))
            G = As[2 * (d - 1) + side].to(tl.float32) * dAs[2 * (d - 1) + side]  # of log A
            hidden += G  # of this column and all behind it
            dmatch = G - P * hidden
            to = A_at + (T - d if side else d) * N
            tl.store(to, (dmatch * scale).to(A[0].dtype.element_ty), mask=seen)
            dscale += dmatch * of_content
            if side:
                dleft += dmatch
            else:
                dright += dmatch
    to = x + row.to(tl.int64) * s.WIDTH + 3 * s.D + head
    tl.store(to, (dright * stretch).to(x.dtype.element_ty), mask=row < N)
    tl.store(to + s.H, (dleft * stretch).to(x.dtype.element_ty), mask=row < N)
    to = at_seed(sums, seed) + (tl.program_id(1) * s.H + head) * 4
    tl.store(to, tl.sum(dscale) * factor)
    tl.store(to + 1, tl.sum(dright * right + dleft * left))
    tl.store(to + 2, tl.sum(dright))
    tl.store(to + 3, tl.sum(dleft))


@triton.jit
def _add_rows(total, part, seed, R, H: constexpr, ROWS: constexpr):
    """total, (ROWS, 4H), and the rows of a seed's table of sums, (R, 4H), ROWS at a time."""
    row, column = tl.arange(0, ROWS), tl.arange(0, 4 * H)
    for first in range(0, R, ROWS):
        at = (first + row)[:, None] * (4 * H) + column[None, :]
        total += tl.load(at_seed(part, seed) + at, mask=(first + row < R)[:, None], other=0.0)
    return total


@triton.jit
def match_sums(part, last, stretch, g, to, R, LAST, H: constexpr, ROWS: constexpr):
    """Grid (seeds). to: how far behind the gradient of the content's scale the others lie."""
    seed = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, 4 * H)
    total = _add_rows(tl.zeros((ROWS, 4 * H), tl.float32), part, seed, R, H, ROWS)
    total = _add_rows(total, last, seed, LAST, H, ROWS)
    sums, head, which = tl.sum(total, axis=0), column // 4, column % 4
    g = at_seed(g, seed)
    tl.store(g, tl.sum(tl.where(which == 0, sums, 0.0)))
    tl.store(g + to[0], tl.sum(tl.where(which == 1, sums, 0.0)))
    tl.store(g + to[1], tl.sum(tl.where(which >= 2, sums, 0.0)))
    sides = sums * tl.load(at_seed(stretch, seed))
    tl.store(g + to[2] + (which - 2) * H + head, sides, mask=which >= 2)


def match_gradients(part: Tensor, last: Tensor, stretch: Tensor, places: Sequence[Tensor]) -> None:
    """From two tables of sums, (S, …, H, 4): gradients of the scalars and the direction's bias, (S, 2H)."""
    tensors = *by_seed(part, last, stretch, places[0]), tuple(offsets(places)[1:])
    meta = {"H": part.shape[2], "ROWS": SUMS, "num_warps": SUMS_WARPS}
    match_sums[len(part),](*tensors, part.shape[1], last.shape[1], **meta)


def forward(x: Tensor, bias: Tensor, scalars: Scalars, room: Room, read: Tensor, dropout: Dropout) -> None:
    """What each column reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H), read: (S, B · T, D)."""
    s, N, tensors = Shape.of(x, *room.A.shape[1:3]), x.shape[1], by_seed(room.content, x, bias, room.A)
    pairs.score(x, bias, room.content, room.bits, s, dropout)
    grid = s.H, blocks(N, BLOCK), len(x)
    geometric_forward[grid](*tensors, scalars, N, dropout.factor, s, BLOCK=BLOCK, num_warps=WARPS)
    pairs.read(room.A, x, bias, read, s)


def backward(
    dread: Tensor, x: Tensor, bias: Tensor, scalars: Scalars, room: Room, sums: Sums, dropout: Dropout
) -> None:
    """The gradient of x, in its place; what it leaves for the biases and scalars goes to `sums`."""
    s, N, dA = Shape.of(x, *room.A.shape[1:3]), x.shape[1], torch.empty_like(room.content)
    pairs.read_backward(dread, room.A, x, bias, dA, sums.v, s)
    tensors = dA, *by_seed(room.content, x, bias, room.A, sums.match), scalars
    grid = s.H, blocks(N, BACK), len(x)
    geometric_backward[grid](*tensors, N, dropout.factor, s, BLOCK=BACK, num_warps=BACK_WARPS)
    pairs.score_backward(room.A, x, bias, sums.qk, room.bits if dropout.some else None, s)


@triton.jit
def _keys_and_values(x, inside, j, D: constexpr, WIDTH: constexpr):
    """k and v of column j, without their biases. (examples, K) each"""
    k = tl.load(x + (j * WIDTH + D), mask=inside, other=0.0)
    return k, tl.load(x + (j * WIDTH + 2 * D), mask=inside, other=0.0)


@triton.jit
def first_forward(x, b, out, scalars, dropout, factor, B, s: constexpr, EXAMPLES: constexpr):
    """What column 0 reads, Σ_j A_j v_j. Grid (heads, blocks of examples, seeds)."""
    K: constexpr = s.K
    T: constexpr = s.T
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    example, column = tl.program_id(1) * EXAMPLES + tl.arange(0, EXAMPLES), head * K + tl.arange(0, K)
    inside = (example < B)[:, None]
    x, b = at_seed(x, seed), at_seed(b, seed)
    x_at = x + (example[:, None] * (T * s.WIDTH) + column[None, :])
    found = _keys_and_values(x_at, inside, 1, s.D, s.WIDTH)
    for j in tl.static_range(2, T):
        found += _keys_and_values(x_at, inside, j, s.D, s.WIDTH)
    b_q, b_k = tl.load(b + column).to(dtype)[None, :], tl.load(b + s.D + column).to(dtype)[None, :]
    b_v = tl.load(b + 2 * s.D + column).to(dtype)[None, :]
    q = (tl.load(x_at, mask=inside, other=0.0) + b_q).to(tl.float32)
    scale, stretch, shift = load_scalars(scalars, seed, factor)
    right = prefer(x, b, example * T, 3 * s.D + head, B * T, s.WIDTH) * stretch + shift
    free, read = tl.full((EXAMPLES,), 1.0, tl.float32), tl.zeros((EXAMPLES, K), tl.float32)
    for j in tl.static_range(1, T):
        k, v = (found[2 * j - 2] + b_k).to(tl.float32), (found[2 * j - 1] + b_v).to(tl.float32)
        if dropout is not None:
            word = dropout[1] + example.to(tl.int64) * (T * s.D // 4) + head * (K // 4) + j * (s.D // 4)
            k = tl.where(keep_tile(tl.load(dropout[0] + seed), word, dropout[3], EXAMPLES, K), k, 0.0)
        P, miss = sigmoids(tl.sum(q * k, axis=1) * scale + right)
        read += (free * P)[:, None] * v
        free *= miss
    to = at_seed(out, seed) + (example[:, None] * s.D + column[None, :])
    tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def _column(q, k, dread, v, dropout, key, word, scale, right, free):
    """Of a column: k, what of it is kept, content, P, A, the gradient of log A, and what it leaves."""
    keep = tl.full(k.shape, True, tl.int1)
    if dropout is not None:
        keep = keep_tile(key, word, dropout[3], k.shape[0], k.shape[1])
        k = tl.where(keep, k, 0.0)
    content = tl.sum(q * k.to(tl.float32), axis=1)
    P, miss = sigmoids(content * scale + right)
    return k, keep, content, P, free * P, free * P * tl.sum(dread * v.to(tl.float32), axis=1), free * miss


@triton.jit
def first_backward(dread, x, b, part, sums, scalars, dropout, factor, B, s: constexpr, EXAMPLES: constexpr):
    """The gradient of x in its place; sums over rows go to `part` (q, k, v) and `sums` (of a match)."""
    K: constexpr = s.K
    T: constexpr = s.T
    dtype = x[0].dtype.element_ty
    head, seed = tl.program_id(0), from_last(2).to(tl.int64)
    example, column = tl.program_id(1) * EXAMPLES + tl.arange(0, EXAMPLES), head * K + tl.arange(0, K)
    inside = (example < B)[:, None]
    x, b = at_seed(x, seed), at_seed(b, seed)
    x_at = x + (example[:, None] * (T * s.WIDTH) + column[None, :])
    found = _keys_and_values(x_at, inside, 1, s.D, s.WIDTH)
    for j in tl.static_range(2, T):
        found += _keys_and_values(x_at, inside, j, s.D, s.WIDTH)
    q = (tl.load(x_at, mask=inside, other=0.0) + tl.load(b + column).to(dtype)[None, :]).to(tl.float32)
    b_k, b_v = tl.load(b + s.D + column).to(dtype)[None, :], tl.load(b + 2 * s.D + column).to(dtype)[None, :]
    at = at_seed(dread, seed) + (example[:, None] * s.D + column[None, :])
    dy = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    key, word = 0, example.to(tl.int64)
    if dropout is not None:
        key, word = tl.load(dropout[0] + seed), dropout[1] + word * (T * s.D // 4) + head * (K // 4)
    scale, stretch, shift = load_scalars(scalars, seed, factor)
    preference = prefer(x, b, example * T, 3 * s.D + head, B * T, s.WIDTH)
    right = preference * stretch + shift
    free = tl.full((EXAMPLES,), 1.0, tl.float32)
    k, v = found[0] + b_k, found[1] + b_v
    of = _column(q, k, dy, v, dropout, key, word + s.D // 4, scale, right, free)
    for j in tl.static_range(2, T):
        k, v = found[2 * j - 2] + b_k, found[2 * j - 1] + b_v
        of += _column(q, k, dy, v, dropout, key, word + j * (s.D // 4), scale, right, of[7 * j - 8])

    hidden, dscale, dright = free * 0.0, free * 0.0, free * 0.0
    dq, sum_k, sum_v = q * 0.0, q * 0.0, q * 0.0
    nothing = tl.zeros((EXAMPLES, K), dtype)
    side = tl.arange(0, 2 * s.H)[None, :]
    side_at, of_head = x + (example[:, None] * (T * s.WIDTH) + 3 * s.D + side), inside & (side % s.H == head)
    for j in tl.static_range(T - 1, 0, -1):
        hidden += of[7 * j - 2]
        dmatch = of[7 * j - 2] - of[7 * j - 4] * hidden
        dright += dmatch
        dscale += dmatch * of[7 * j - 5]
        dcontent = (dmatch * scale)[:, None]
        dq += dcontent * of[7 * j - 7].to(tl.float32)
        dk, dv = tl.where(of[7 * j - 6], dcontent * q, 0.0), of[7 * j - 3][:, None] * dy
        sum_k += dk
        sum_v += dv
        tl.store(x_at + j * s.WIDTH, nothing, mask=inside)
        tl.store(x_at + (j * s.WIDTH + s.D), dk.to(dtype), mask=inside)
        tl.store(x_at + (j * s.WIDTH + 2 * s.D), dv.to(dtype), mask=inside)
        tl.store(side_at + j * s.WIDTH, tl.zeros((EXAMPLES, 2 * s.H), dtype), mask=of_head)
    tl.store(x_at, dq.to(dtype), mask=inside)
    tl.store(x_at + s.D, nothing, mask=inside)
    tl.store(x_at + 2 * s.D, nothing, mask=inside)
    of_sides = tl.where(side == head, (dright * stretch)[:, None], 0.0)
    tl.store(side_at, of_sides.to(dtype), mask=of_head)
    to = at_seed(part, seed) + tl.program_id(1) * (3 * s.D) + column
    tl.store(to, tl.sum(dq, axis=0))
    tl.store(to + s.D, tl.sum(sum_k, axis=0))
    tl.store(to + 2 * s.D, tl.sum(sum_v, axis=0))
    to = at_seed(sums, seed) + (tl.program_id(1) * s.H + head) * 4
    tl.store(to, tl.sum(dscale) * factor)
    tl.store(to + 1, tl.sum(dright * preference))
    tl.store(to + 2, tl.sum(dright))
    tl.store(to + 3, 0.0)


def read_first(
    x: Tensor, bias: Tensor, scalars: Scalars, read: Tensor, dropout: Dropout, *, heads: int
) -> None:
    """What column 0 reads. x: (S, B · T, 3D + 2H), bias: (S, 3D + 2H) -> read: (S, B, D)."""
    B = read.shape[1]
    s, grid = Shape.of(x, heads, x.shape[1] // B), (heads, blocks(B, EXAMPLES), len(x))
    inputs = *by_seed(x, bias, read), scalars, dropout.stream, dropout.factor
    first_forward[grid](*inputs, B, s, EXAMPLES=EXAMPLES, num_warps=FIRST_WARPS)


def read_first_backward(
    dread: Tensor, x: Tensor, bias: Tensor, scalars: Scalars, dropout: Dropout, *, heads: int
) -> tuple[Tensor, Tensor]:
    """The gradient of x, in its place, from that of what column 0 reads, (S, B, D).

    Gives sums over the rows of a block: for q, k and v, (S, blocks, 3D), and for a match, (S, blocks, H, 4).
    """
    S, B, D = dread.shape
    s, grid = Shape.of(x, heads, x.shape[1] // B), (heads, blocks(B, EXAMPLES), S)
    qkv, match = (torch.empty(*grid[:0:-1], *shape, device=x.device) for shape in ((3 * D,), (heads, 4)))
    inputs = *by_seed(dread, x, bias, qkv, match), scalars, dropout.stream, dropout.factor
    meta = {"EXAMPLES": EXAMPLES, "num_warps": FIRST_WARPS, "maxnreg": FIRST_REGISTERS}
    first_backward[grid](*inputs, B, s, **meta)
    return qkv, match
