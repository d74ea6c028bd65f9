"""Measures how long the program prepares batches itself, and how much of that time needs a core."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

_QUEUED = "/proc/thread-self/schedstat"
"""Times of a thread in ns: on a core, and waiting for one (Documentation/scheduler/sched-stats.rst of Linux)."""


class Fetching:
    """What it took to prepare batches: sums over them."""

    def __init__(self, batches: int = 0, ns: int = 0, cpu_ns: int = 0, queued_ns: int | None = 0) -> None:
        self.batches, self.ns, self.cpu_ns, self.queued_ns = batches, ns, cpu_ns, queued_ns

    def add(self, other: Fetching) -> None:
        """Add the batches of another sum."""
        self.batches += other.batches
        self.ns += other.ns
        self.cpu_ns += other.cpu_ns
        if self.queued_ns is not None:
            self.queued_ns = None if other.queued_ns is None else self.queued_ns + other.queued_ns

    def facts(self) -> dict[str, Any]:
        """The sums in the form that the trace contains."""
        return {"batches": self.batches, "ns": self.ns, "cpu_ns": self.cpu_ns, "queued_ns": self.queued_ns}


class _Nesting(threading.local):
    """Whether this thread is fetching a batch, so that a loader within a loader does not count twice."""

    def __init__(self) -> None:
        self.is_inside = False


class FetchClock:
    """Measures fetches of this process; a fetch that ends with an exception, as the end of an epoch, does not count."""

    def __init__(self) -> None:
        self._nesting = _Nesting()

    def measure(self, fetch: Callable[[Any], Any], iterator: Any, then: Callable[[Any, Fetching], None]) -> Any:
        """Fetch a batch, tell what it took, and return it.

        The CPU time is that of all threads, so work that the loader hands to other threads is no waiting.

        Args:
            fetch: Returns the next batch of an iterator.
            iterator: The iterator.
            then: Told the iterator and the sums of this batch.
        """
        if self._nesting.is_inside:
            return fetch(iterator)
        self._nesting.is_inside = True
        try:
            queued, cpu, start = _queued_ns(), time.process_time_ns(), time.perf_counter_ns()
            batch = fetch(iterator)
            end, cpu_end, queued_end = time.perf_counter_ns(), time.process_time_ns(), _queued_ns()
        finally:
            self._nesting.is_inside = False
        waited = None if queued is None or queued_end is None else queued_end - queued
        then(iterator, Fetching(1, end - start, cpu_end - cpu, waited))
        return batch


def _queued_ns() -> int | None:
    """Time in ns in which this thread was ready to run, but had no core; None where the system does not count it."""
    try:
        opened = os.open(_QUEUED, os.O_RDONLY)
        try:
            on_core, queued, _ = os.read(opened, 100).split()
        finally:
            os.close(opened)
    except (OSError, ValueError):
        return None
    return int(queued) if int(on_core) else None  # a kernel that does not count shows only zeros
