"""Closes the named ranges that are open when a recording stops.

A range that begins in one recording of a process and ends in the next writes into memory that torch has freed in
between (torch 2.13 crashes). Closing a range twice is harmless.
"""

from __future__ import annotations

import threading
from typing import Any


class Ranges(threading.local):
    """The ranges of `record_function` that are open in this thread, the outermost first."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def entered(self, opened: Any) -> None:
        """Record that a range has begun."""
        self._open.append(opened)

    def left(self, closed: Any) -> None:
        """Record that a range has ended."""
        if self._open and self._open[-1] is closed:
            self._open.pop()
        elif closed in self._open:  # the ranges do not nest
            self._open.remove(closed)

    def close(self, torch: Any) -> None:
        """End all open ranges in the profiler; the program still sees them as open."""
        for opened in reversed(self._open):
            record = getattr(opened, "record", None)
            if record is not None:
                torch.ops.profiler._record_function_exit._RecordFunction(record)
        self._open.clear()
