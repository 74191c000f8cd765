"""Memory that is freed stays with the process."""

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


@cache
def keep_freed_memory() -> None:
    """Ask the C library to reuse what is freed: the same megabytes are needed again in the next layer.

    Given back to the system, they would come back page by page, which takes some percent of an analysis on a CPU.
    It holds for the whole process from then on. Elsewhere than on Linux with glibc nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 25)  # larger blocks still come from the system
        mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
