"""Adding up what kernels left per block, in a fixed order, straight into the places of the gradients.

Shapes: S seeds, R partial sums, W columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.products import blocks

NUMBERS, WARPS = 2048, 4  # that a program reads at a time


@triton.jit
def add_up_parts(
    part_ptr,
    out_ptr,
    R,
    W,
    end_1,
    end_2,
    end_3,
    shift_1,
    shift_2,
    shift_3,
    part_step,
    out_step,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ADD: tl.constexpr,
):
    """Grid (column blocks, seeds). Columns from end_n on go `shift_n` elements farther than their number says."""
    seed = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < W
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, R, ROWS):
        row = first + tl.arange(0, ROWS)
        at = part_ptr + seed * part_step + (row[:, None] * W + column[None, :])
        total += tl.load(at, mask=(row < R)[:, None] & inside[None, :], other=0.0)
    shift = tl.where(column >= end_1, shift_1, 0)
    shift = tl.where(column >= end_2, shift_2, shift)
    shift = tl.where(column >= end_3, shift_3, shift)
    to = out_ptr + seed * out_step + (column + shift)
    whole = tl.sum(total, axis=0)
    if ADD:
        whole += tl.load(to, mask=inside, other=0.0)
    tl.store(to, whole, mask=inside)


def add_up(part: Tensor, places: Sequence[Tensor], *, add: bool = False) -> None:
    """Σ over R of part, (S, R, …), divided over at most four places, (S, …) each; added to what is there if `add`.

    The places are views of one matrix of gradients, (S, P).
    """
    part, flat = part.flatten(2), [place.flatten(1) for place in places]
    assert part.is_contiguous()
    S, R, W = part.shape
    ends = [sum(place.shape[1] for place in flat[:n]) for n in range(1, len(flat))]
    start = flat[0].storage_offset()
    shifts = [place.storage_offset() - start - end for place, end in zip(flat[1:], ends, strict=True)]
    none = [0] * (4 - len(flat))
    rows = min(triton.next_power_of_2(max(R, 1)), 64)
    add_up_parts[blocks(W, NUMBERS // rows), S](
        part,
        flat[0],
        R,
        W,
        *ends,
        *(W + n for n in none),
        *shifts,
        *none,
        part.stride(0),
        flat[0].stride(0),
        ROWS=rows,
        COLUMNS=NUMBERS // rows,
        ADD=add,
        num_warps=WARPS,
    )
