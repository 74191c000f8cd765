"""Products between the columns of an example, for attention over at most 16 columns: tiles for the tensor cores.

A row of `x` holds q, k, v (H · K numbers each) and 2H more, all without their biases `b`. A tile is as many whole
examples as fit into TP rows. What there is for each pair of different columns (i, j) of an example lies in a buffer of
pairs, (S, B, H, T, T): first (j − i) mod T, then i, so that a kernel with a thread for each row i reads it in order.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.dropout import Dropout, word
from ctlpp.kernels.products import blocks
from ctlpp.kernels.relative import GOLDEN, _by_bit, _halves

TILE = 16  # rows of a tile
FORWARD, BACKWARD = 4, 16  # tiles a program works on
LAUNCH = {"num_warps": 1, "num_stages": 1}
REGISTERS = 168  # at most, a thread of the backward: more of them run at once


@triton.jit
def _places(i, j, T: tl.constexpr, H: tl.constexpr):
    """Where in the buffer of pairs, from a tile's first pair on, (i, j) is, and whether it is such a pair."""
    around = j - i + tl.where(j < i, T, 0)
    return (i // T) * (H * T * T) + around * T + i % T, (i // T == j // T) & (i != j)


@triton.jit
def _tiles(N, FULL: tl.constexpr, TILES: tl.constexpr):
    """How many tiles this program works on."""
    return tl.minimum(TILES, tl.cdiv(N, FULL) - tl.program_id(1) * TILES)


@triton.jit
def pairs_mask(bits_ptr, keys_ptr, position, size, bits_step, drop, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Which elements of a dropout are kept, BITS to a word, the lowest first. Grid (blocks of words, seeds)."""
    seed, first = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64) * BLOCK
    at, least = tl.arange(0, BLOCK), (drop - 0x8000) * 0x10000  # of a number in the upper half of a signed word
    start = tl.load(keys_ptr + seed) + (position + first * (BITS // 4)) * GOLDEN
    bits = tl.zeros((BLOCK,), tl.int32)
    for n in tl.static_range(BITS // 4):
        random = word(start, (at * (BITS // 4) + n).to(tl.int64))  # of four elements
        for half in tl.static_range(2):
            two = (random >> (32 * half)).to(tl.int32)
            bits |= ((two << 16) >= least).to(tl.int32) << (4 * n + 2 * half)
            bits |= (two >= least).to(tl.int32) << (4 * n + 2 * half + 1)
    tl.store(bits_ptr + seed * bits_step + first + at, bits, mask=first + at < size)


@triton.jit
def pairs_score(x_ptr, b_ptr, score_ptr, bits_ptr, N, x_step, b_step, score_step, bits_step, TILES: tl.constexpr,
                T: tl.constexpr, TP: tl.constexpr, H: tl.constexpr, K: tl.constexpr,
                DROP: tl.constexpr):  # fmt: skip
    """q_i · k_j with dropped elements of k as 0. Grid (heads, blocks of TILES tiles, seeds)."""
    FULL: tl.constexpr = TP // T * T  # rows of a tile that are used
    WIDTH: tl.constexpr = 3 * H * K + 2 * H
    BITS: tl.constexpr = K if K < 32 else 32  # of a word of the mask
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    i, column = tl.arange(0, TP), head * K + tl.arange(0, K)
    word_at = head * (K // BITS) + tl.arange(0, K // BITS)
    place, pair = _places(i[:, None], i[None, :], T, H)
    b_q = tl.load(b_ptr + seed * b_step + column).to(dtype)[None, :]
    b_k = tl.load(b_ptr + seed * b_step + H * K + column).to(dtype)[None, :]
    for n in range(_tiles(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * FULL  # row
        rows = tl.minimum(N - first, FULL).to(tl.int32)
        inside = i[:, None] < rows
        x_at = x_ptr + seed * x_step + first * WIDTH + (i[:, None] * WIDTH + column[None, :])
        q = tl.load(x_at, mask=inside, other=0.0) + b_q
        k = tl.load(x_at + H * K, mask=inside, other=0.0) + b_k
        if DROP:
            bits_at = first * (H * K // BITS) + (i[:, None] * (H * K // BITS) + word_at[None, :])
            k = tl.where(_by_bit(tl.load(bits_ptr + seed * bits_step + bits_at, mask=inside, other=0), K, BITS), k, 0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee")
        to = score_ptr + seed * score_step + (first * H + head * T) * T + place
        tl.store(to, score, mask=pair & inside & (i[None, :] < rows))


@triton.jit
def pairs_read(A_ptr, x_ptr, b_ptr, out_ptr, N, A_step, x_step, b_step, out_step, TILES: tl.constexpr,
               T: tl.constexpr, TP: tl.constexpr, H: tl.constexpr, K: tl.constexpr):  # fmt: skip
    """What column i reads, Σ_j A_ij v_j."""
    FULL: tl.constexpr = TP // T * T
    WIDTH: tl.constexpr = 3 * H * K + 2 * H
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    i, column = tl.arange(0, TP), head * K + tl.arange(0, K)
    place, pair = _places(i[:, None], i[None, :], T, H)
    b_v = tl.load(b_ptr + seed * b_step + 2 * H * K + column).to(dtype)[None, :]
    for n in range(_tiles(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * FULL
        rows = tl.minimum(N - first, FULL).to(tl.int32)
        inside = i[:, None] < rows
        x_at = x_ptr + seed * x_step + first * WIDTH + (i[:, None] * WIDTH + column[None, :])
        v = tl.load(x_at + 2 * H * K, mask=inside, other=0.0) + b_v
        A_at = A_ptr + seed * A_step + (first * H + head * T) * T + place
        A = tl.load(A_at, mask=pair & inside & (i[None, :] < rows), other=0.0)
        read = tl.dot(A, v, input_precision="ieee")
        to = out_ptr + seed * out_step + first * (H * K) + (i[:, None] * (H * K) + column[None, :])
        tl.store(to, read.to(dtype), mask=inside)


@triton.jit
def pairs_read_backward(dread_ptr, A_ptr, x_ptr, b_ptr, dA_ptr, part_ptr, N, dread_step, A_step, x_step, b_step,
                        dA_step, part_step, TILES: tl.constexpr, T: tl.constexpr, TP: tl.constexpr, H: tl.constexpr,
                        K: tl.constexpr):  # fmt: skip
    """The gradients of A, and of v in v's place; its sums over rows go to `part`."""
    FULL: tl.constexpr = TP // T * T
    WIDTH: tl.constexpr = 3 * H * K + 2 * H
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    i, column = tl.arange(0, TP), head * K + tl.arange(0, K)
    place, pair = _places(i[:, None], i[None, :], T, H)
    place_T, pair_T = _places(i[None, :], i[:, None], T, H)
    b_v = tl.load(b_ptr + seed * b_step + 2 * H * K + column).to(dtype)[None, :]
    total = tl.zeros((TP // 2, K), tl.float32)
    for n in range(_tiles(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * FULL
        rows = tl.minimum(N - first, FULL).to(tl.int32)
        inside, across = i[:, None] < rows, i[None, :] < rows
        x_at = x_ptr + seed * x_step + first * WIDTH + (i[:, None] * WIDTH + column[None, :])
        v = tl.load(x_at + 2 * H * K, mask=inside, other=0.0) + b_v
        dread_at = dread_ptr + seed * dread_step + first * (H * K) + (i[:, None] * (H * K) + column[None, :])
        dread = tl.load(dread_at, mask=inside, other=0.0).to(dtype)
        start = (first * H + head * T) * T
        A_T = tl.load(A_ptr + seed * A_step + start + place_T, mask=pair_T & inside & across, other=0.0)
        dA = tl.dot(dread, tl.trans(v), input_precision="ieee")
        tl.store(dA_ptr + seed * dA_step + start + place, dA, mask=pair & inside & across)
        dv = tl.dot(A_T, dread, input_precision="ieee")
        total += _halves(dv, TP, K)
        tl.store(x_at + 2 * H * K, dv.to(dtype), mask=inside)
    part = part_ptr + seed * part_step + tl.program_id(1) * (3 * H * K) + column
    tl.store(part + 2 * H * K, tl.sum(total, axis=0))


@triton.jit
def pairs_score_backward(dscore_ptr, x_ptr, b_ptr, part_ptr, bits_ptr, N, dscore_step, x_step, b_step, part_step,
                         bits_step, TILES: tl.constexpr, T: tl.constexpr, TP: tl.constexpr, H: tl.constexpr,
                         K: tl.constexpr, DROP: tl.constexpr):  # fmt: skip
    """The gradients of q and k in their places; their sums over rows go to `part`."""
    FULL: tl.constexpr = TP // T * T
    WIDTH: tl.constexpr = 3 * H * K + 2 * H
    BITS: tl.constexpr = K if K < 32 else 32
    dtype = x_ptr.dtype.element_ty
    head, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    i, column = tl.arange(0, TP), head * K + tl.arange(0, K)
    word_at = head * (K // BITS) + tl.arange(0, K // BITS)
    place, pair = _places(i[:, None], i[None, :], T, H)
    b_q = tl.load(b_ptr + seed * b_step + column).to(dtype)[None, :]
    b_k = tl.load(b_ptr + seed * b_step + H * K + column).to(dtype)[None, :]
    total_q, total_k = tl.zeros((TP // 2, K), tl.float32), tl.zeros((TP // 2, K), tl.float32)
    for n in range(_tiles(N, FULL, TILES)):
        first = (tl.program_id(1) * TILES + n).to(tl.int64) * FULL
        rows = tl.minimum(N - first, FULL).to(tl.int32)
        inside = i[:, None] < rows
        x_at = x_ptr + seed * x_step + first * WIDTH + (i[:, None] * WIDTH + column[None, :])
        q = tl.load(x_at, mask=inside, other=0.0) + b_q
        k = tl.load(x_at + H * K, mask=inside, other=0.0) + b_k
        at = dscore_ptr + seed * dscore_step + (first * H + head * T) * T + place
        dscore = tl.load(at, mask=pair & inside & (i[None, :] < rows), other=0.0)
        dk = tl.dot(tl.trans(dscore), q, input_precision="ieee")
        if DROP:
            bits_at = first * (H * K // BITS) + (i[:, None] * (H * K // BITS) + word_at[None, :])
            keep = _by_bit(tl.load(bits_ptr + seed * bits_step + bits_at, mask=inside, other=0), K, BITS)
            k, dk = tl.where(keep, k, 0.0), tl.where(keep, dk, 0.0)
        total_k += _halves(dk, TP, K)
        tl.store(x_at + H * K, dk.to(dtype), mask=inside)
        dq = tl.dot(dscore, k, input_precision="ieee")
        total_q += _halves(dq, TP, K)
        tl.store(x_at, dq.to(dtype), mask=inside)
    part = part_ptr + seed * part_step + tl.program_id(1) * (3 * H * K) + column
    tl.store(part, tl.sum(total_q, axis=0))
    tl.store(part + H * K, tl.sum(total_k, axis=0))


def words(heads: int, head_width: int) -> int:
    """How many int32 words the mask of a row's keys takes."""
    return heads * blocks(head_width, 32)


def parts(N: int, T: int) -> int:
    """How many partial sums a backward over N rows, T an example, leaves."""
    return blocks(N, TILE // T * T * BACKWARD)


def score(x: Tensor, b: Tensor, scores: Tensor, bits: Tensor, dropout: Dropout) -> None:
    """x: (S, N, 3D + 2H), b: (S, 3D + 2H) -> scores: (S, B, H, T, T), and which keys were kept: (S, N, words(H, K))."""
    shape = _shape(x, scores)
    if dropout.some:
        size = bits[0].numel()
        pairs_mask[blocks(size, 128), len(bits)](
            bits, dropout.keys, dropout.position, size, bits.stride(0), dropout.drop, BITS=min(shape["K"], 32),
            BLOCK=128, num_warps=4,
        )  # fmt: skip
    pairs_score[_grid(x, shape, FORWARD)](
        x, b, scores, bits, x.shape[1], x.stride(0), b.stride(0), scores.stride(0), bits.stride(0), TILES=FORWARD,
        **shape, DROP=dropout.some, **LAUNCH,
    )  # fmt: skip


def read(A: Tensor, x: Tensor, b: Tensor, out: Tensor) -> None:
    """A: (S, B, H, T, T) -> out: (S, N, D)."""
    shape = _shape(x, A)
    pairs_read[_grid(x, shape, FORWARD)](
        A, x, b, out, x.shape[1], A.stride(0), x.stride(0), b.stride(0), out.stride(0), TILES=FORWARD, **shape, **LAUNCH
    )


def read_backward(dread: Tensor, A: Tensor, x: Tensor, b: Tensor, dA: Tensor, part: Tensor) -> None:
    """dA: (S, B, H, T, T); the gradient of v, in its place; part: (S, parts, 3D), the last third."""
    shape = _shape(x, A)
    pairs_read_backward[_grid(x, shape, BACKWARD)](
        dread, A, x, b, dA, part, x.shape[1], dread.stride(0), A.stride(0), x.stride(0), b.stride(0), dA.stride(0),
        part.stride(0), TILES=BACKWARD, **shape, maxnreg=REGISTERS, **LAUNCH,
    )  # fmt: skip


def score_backward(dscores: Tensor, x: Tensor, b: Tensor, part: Tensor, bits: Tensor, dropout: Dropout) -> None:
    """The gradients of q and k, in their places; part: (S, parts, 3D), the first two thirds."""
    shape = _shape(x, dscores)
    pairs_score_backward[_grid(x, shape, BACKWARD)](
        dscores, x, b, part, bits, x.shape[1], dscores.stride(0), x.stride(0), b.stride(0), part.stride(0),
        bits.stride(0), TILES=BACKWARD, **shape, DROP=dropout.some, maxnreg=REGISTERS, **LAUNCH,
    )  # fmt: skip


def _shape(x: Tensor, of_pairs: Tensor) -> dict[str, int]:
    H, T = of_pairs.shape[2:4]
    return {"T": T, "TP": TILE, "H": H, "K": (x.shape[2] // H - 2) // 3}


def _grid(x: Tensor, shape: dict[str, int], tiles: int) -> tuple[int, int, int]:
    return shape["H"], blocks(x.shape[1], TILE // shape["T"] * shape["T"] * tiles), x.shape[0]
