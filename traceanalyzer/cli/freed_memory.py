"""Keeps freed memory of arrays for the next arrays.

Analyses make many columns as long as a table, one after another. glibc returns freed memory to the system at once, and
the system clears each page that is requested again, which took more than a tenth of the time of a report. The kept
memory is less than the memory that was in use before.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
"""Environment variables by which the user decides, see mallopt(3)."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of the parameters, from malloc.h."""

_KEPT = 64 << 20
"""Most bytes at the end of the heap that stay (own choice: some columns of a trace of a gigabyte)."""
_OWN_MAPPING = 32 << 20
"""Bytes from which on an array is mapped alone and given back when it is freed: the most that glibc allows."""


def keep() -> None:
    """Keep freed memory in this process and those that it forks, where the C library is glibc."""
    if sys.platform != "linux" or any(name in os.environ for name in _SETTINGS):
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _OWN_MAPPING)
        mallopt(_TRIM_THRESHOLD, _KEPT)
