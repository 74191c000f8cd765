"""In which order a kernel takes the seeds.

What was written last is still in the card's cache. Matrix products take the first seed first; a kernel between two of
them that takes the last seed first begins with what the one left in the cache, and leaves there what the other begins
with. Of two kernels in a row, one goes each way.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def from_last(axis: tl.constexpr):
    """The seed of a program, if the last seed comes first; seeds are the outermost axis of the grid."""
    return tl.num_programs(axis) - 1 - tl.program_id(axis)
