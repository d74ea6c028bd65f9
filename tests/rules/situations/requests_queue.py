"""A server's threads that wait for one accelerator."""

from __future__ import annotations

from tests.builders import TraceBuilder

DEVICE = 17


def serving(*, threads: int, requests: int = 20, task: int = 900, wait: int = 2000, call: bool = True) -> TraceBuilder:
    """A request each 1000 us on the next thread, which waits until its task of `task` us has run.

    Its mark lasts longer than the wait, so that several requests are in flight.
    """
    trace = TraceBuilder(devices=())
    for number in range(requests):
        start, tid = 1000 * number, 4201 + number % threads
        trace.annotation("Stage::processRequest", start, wait + 50, tid=tid)
        if call:
            trace.add("mtia_runtime", "synchronizeStream", (start + 20, wait), (4201, tid), {"correlation": 1 + number})
        trace.add("mtia_ccp_events", "merge", (start + 1000, task), ("card", DEVICE), {"stream": 1})
    return trace


def fires() -> TraceBuilder:
    """Two or three threads wait at the same time, and the device works nearly always."""
    return serving(threads=4)


def quiet() -> TraceBuilder:
    """The device is idle for half of the time: requests do not wait for each other."""
    return serving(threads=4, task=400, wait=450)


def trap_one_request_after_the_other() -> TraceBuilder:
    """One thread waits for its own work only."""
    return serving(threads=1, wait=940)
